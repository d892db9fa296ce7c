//! Programs as tools, seen from outside: a kill between an effect and its record, and the workflows that work on real
//! files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::binary::{PATIENCE, Place, Running, binary};

/// A role that pushes once. The program notes the key of each call before it waits.
fn pushing(in_doubt: &str) -> Place {
    let place = Place::new();
    place.file(
        "push/workflow.yaml",
        "rondo: 1\nname: push\nroles: { a: { system: x, tools: [push] } }\ngraph:\n  start: { to: a, prompt: go }\n  a: { done: { to: end } }\n",
    );
    place.file("push/script.yaml", "a:\n  - tools: [ { name: push } ]\n    then: { body: pushed }\n");
    place.file(
        "rondo.toml",
        format!("[tool.push]\nargv = [\"sh\", \"push.sh\"]\n{in_doubt}\n[grant]\ntools = [\"push\"]\n"),
    );
    place.file("push.sh", "echo \"$RONDO_IDEMPOTENCY_KEY\" >> keys\n[ -e quick ] || sleep 30\necho done\n");
    place
}

fn keys(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("keys")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn with_path(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(words);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

/// Kills a run once the program has had its effect, and before that is on record.
fn killed_in_between(place: &Place) {
    let run = Running::of(with_path(place, &["run", "push", "--offline", "--json", "--trust"]));
    let begun = Instant::now();
    while keys(place).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "the program was never started");
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill();
    // From here on the program ends at once.
    place.file("quick", "");
}

#[test]
fn a_kill_between_effect_and_record_repeats_nothing_unless_that_is_wanted() {
    let place = pushing("");
    killed_in_between(&place);
    let asked = Running::of(with_path(&place, &["resume", "--json", "--trust"])).finish().exits(8);
    assert_eq!(asked.event("error")["code"], "RN1605");
    assert_eq!(keys(&place).len(), 1);
    let skipped =
        Running::of(with_path(&place, &["resume", "--json", "--in-doubt", "skip", "--trust"])).finish().exits(0);
    assert_eq!(skipped.event("thread_finished")["outcome"], "done");
    assert_eq!(keys(&place).len(), 1);

    let place = pushing("in_doubt = \"skip\"");
    killed_in_between(&place);
    Running::of(with_path(&place, &["resume", "--json", "--trust"])).finish().exits(0);
    assert_eq!(keys(&place).len(), 1);

    for (in_doubt, words) in
        [("in_doubt = \"retry\"", vec!["resume", "--trust"]), ("", vec!["resume", "--in-doubt", "retry", "--trust"])]
    {
        let place = pushing(in_doubt);
        killed_in_between(&place);
        Running::of(with_path(&place, &words)).finish().exits(0);
        let keys = keys(&place);
        assert_eq!(keys.len(), 2);
        assert_eq!(keys[0], keys[1]);
        assert!(!keys[0].is_empty());
    }
}

#[test]
fn a_killed_run_leaves_no_program_behind() {
    let place = pushing("");
    // The descendant holds the lock of a file for as long as it lives.
    place.file("push.sh", "(setsid sh -c 'exec 9>held; flock 9; echo started >> keys; sleep 600') &\nsleep 600\n");
    killed_in_between(&place);
    let held = std::fs::File::open(place.path().join("held")).unwrap();
    let killed = Instant::now();
    while held.try_lock().is_err() {
        assert!(killed.elapsed() < PATIENCE, "a descendant is still alive");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn workflow(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Copies a folder of plain files.
pub fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            if entry.file_name() != "target" {
                copied(&from, &to);
            }
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

pub fn cargo_test(folder: &Path) -> bool {
    let cargo = Command::new("cargo")
        .args(["test", "--offline", "--quiet"])
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .output();
    cargo.unwrap().status.success()
}

#[test]
fn a_failing_test_is_fixed_and_the_tests_really_pass_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("wrap");
    copied(&PathBuf::from(workflow("fix-failing-test")).join("fixture"), &project);
    assert!(!cargo_test(&project), "the fixture's tests must fail before");
    let mut command = Command::new(binary());
    command.args(["run", "--trust", &workflow("fix-failing-test"), "--offline", "--json"]).current_dir(&project);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    for name in ["OPENAI_API_KEY", "RONDO_STORE", "CARGO_TARGET_DIR"] {
        command.env_remove(name);
    }
    let run = Running::of(command).finish().exits(0);
    let committed: Vec<String> = run
        .events("step_committed")
        .iter()
        .map(|event| format!("{}.{}", event["role"], event["status"]).replace('"', ""))
        .collect();
    let expected =
        ["tests.failed", "developer.edited", "tests.failed", "developer.edited", "tests.ok", "reviewer.approved"];
    assert_eq!(committed, expected);
    assert!(cargo_test(&project), "the tests must pass now");
}

#[test]
fn a_repository_is_read_and_reported_on() {
    let place = Place::new();
    let store = place.store();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(binary());
    command.args(["run", "repo-report", "--offline", "--json", "--store"]).arg(&store).current_dir(&repository);
    command
        .env_clear()
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let run = Running::of(command).finish().exits(0);
    let report = run.event("thread_finished")["result"]["report"].as_str().unwrap().to_owned();
    assert!(report.contains("agent-kit/src/tool/mod.rs:1"), "{report}");
    let calls = run.events("tool_finished");
    assert!(calls.len() >= 10, "{calls:?}");
    let failed: Vec<_> = calls.iter().filter(|event| event["failed"] == true).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(calls.iter().all(|event| event["bytes"].as_u64().unwrap() > 0 && event["effect"] == "reads"), "{calls:?}");
}
