//! The workflows that ship, run by the binary without a model, each on its real input.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Text that stands in no shipped file.
const MARK: &str = "wombat-4711";

/// For each workflow a text of its input and where it comes to light. `fix-failing-test` changes files, and is run on a
/// copy of its fixture by the end-to-end suite.
const SHIPPED: [(&str, &str, &str); 7] = [
    ("debate", "background", "minutes"),
    ("map-files", "diff", "report"),
    ("panel", "document", "report"),
    ("repo-report", "question", "question"),
    ("review-diff", "diff", "report"),
    ("review-loop", "topic", "topic"),
    ("triage", "report", "reply"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The result of a run that is expected to end with exit code 0.
fn result(workflow: &str, words: &[&str]) -> Value {
    let store = tempfile::tempdir().expect("a temporary folder can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_rondo"))
        .args(["run", workflow, "--offline", "--json", "--store"])
        .arg(store.path().join("store"))
        .args(words)
        .current_dir(root())
        .env_clear()
        .output()
        .expect("the binary starts");
    let told = String::from_utf8(output.stdout).expect("events are text");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{workflow}: {complaint}");
    let last = told.lines().last().unwrap_or_else(|| panic!("{workflow} told nothing"));
    let last: Value = serde_json::from_str(last).expect("an event is JSON");
    assert_eq!(last["event"], "thread_finished", "{last}");
    assert_eq!(last["outcome"], "done", "{last}");
    last["result"].clone()
}

fn input(workflow: &str) -> Value {
    let path = root().join("workflows").join(workflow).join("input.json");
    let text = std::fs::read_to_string(&path).expect("the input is there");
    serde_json::from_str(&text).expect("an input is JSON")
}

fn result_of(workflow: &str, input: &Value) -> Value {
    let mut file = tempfile::Builder::new().suffix(".json").tempfile().expect("a temporary file can be made");
    serde_json::to_writer(&mut file, input).expect("an input can be written");
    let path = file.path().to_str().expect("the path is text");
    result(workflow, &["--input-file", path])
}

#[test]
fn a_first_run_needs_no_input() {
    assert_eq!(result("review-loop", &[])["topic"], "tide pools");
}

#[test]
fn a_result_holds_text_of_the_real_input() {
    for (workflow, key, place) in SHIPPED {
        let input = input(workflow);
        let given = input[key].as_str().expect("it is a text");
        let line = given.lines().find(|line| line.len() > 40).unwrap_or(given);
        let result = result_of(workflow, &input);
        let shown = result[place].as_str().expect("it is a text");
        assert!(shown.contains(line), "{workflow}: {place} does not hold {line:?}: {shown}");
    }
}

#[test]
fn a_result_changes_with_the_input() {
    for (workflow, key, place) in SHIPPED {
        let mut input = input(workflow);
        input[key] = MARK.into();
        let result = result_of(workflow, &input);
        assert!(result[place].as_str().is_some_and(|shown| shown.contains(MARK)), "{workflow}: {result}");
    }
}

#[test]
fn equal_runs_give_equal_results() {
    for (workflow, _, _) in SHIPPED {
        let input = input(workflow);
        assert_eq!(result_of(workflow, &input), result_of(workflow, &input), "{workflow}");
    }
}
