//! `rondo test` as a person and a CI job use it: what is accepted, what is pending, what is refused, and what is written.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::binary::{Finished, Place};

const WORKFLOW: &str = r#"rondo: 1
name: pair
input: { topic: { type: string, default: tides } }
roles:
  writer:
    system: { file: writer.md }
    output: { drafted: { title: string } }
  reader:
    system: You read.
    context: none
    output: { good: {}, again: { why: string } }
graph:
  start: { to: writer, prompt: "Write about {{ input.topic }}." }
  writer:
    drafted: { to: reader, prompt: "Read this: {{ body }}" }
  reader:
    good: { to: end, say: "read" }
    again: { to: writer, prompt: "Again: {{ output.why }}", max: 3, on_max: { to: fail, reason: "too often" } }
result: { title: "{{ steps.writer.output.title }}" }
"#;

const SCENARIO: &str = r#"description: One round more, then good.
script:
  writer:
    - { status: drafted, fields: { title: Tides }, body: The sea comes. }
    - { status: drafted, fields: { title: Tides }, body: The sea comes and goes. }
  reader:
    - { status: again, fields: { why: It also goes. } }
    - { status: good }
expect:
  route: [writer.drafted, reader.again, writer.drafted, reader.good]
  outcome: done
  exit: 0
  result: { title: Tides }
  assert:
    - { path: "$.steps.writer.visits", equals: 2 }
    - { role: writer, visit: 2, request_contains: "Again: It also goes." }
    - { calls: { writer: 2, reader: 2 } }
    - { model_calls: 4 }
    - { prompt_tokens_under: 4000 }
    - { said: read }
"#;

const SNAPSHOTS: [&str; 3] = ["round.snap", "round__reader.snap", "round__writer.snap"];

fn place() -> Place {
    let place = Place::new();
    place.file("pair/workflow.yaml", WORKFLOW);
    place.file("pair/writer.md", "You write.\n");
    place.file("pair/tests/round.yaml", SCENARIO);
    place
}

/// A place whose snapshots are accepted.
fn accepted() -> Place {
    let place = place();
    place.start(["test", "pair", "--accept"]).finish().exits(0);
    place
}

fn snapshots(place: &Place) -> PathBuf {
    place.path().join("pair/tests/snapshots")
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn replaced(place: &Place, file: &str, old: &str, new: &str) {
    let path = place.path().join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{file} has no {old:?}");
    std::fs::write(path, text.replacen(old, new, 1)).unwrap();
}

/// The one scenario's line of a run that writes nothing.
fn checked(place: &Place, exit: i32) -> Value {
    let before = names(&snapshots(place));
    let finished = place.start(["test", "pair", "--check", "--json"]).finish().exits(exit);
    assert_eq!(names(&snapshots(place)), before, "--check wrote something");
    finished.json().swap_remove(0)
}

/// Cause and part of each change, as `snapshot: cause by part`.
fn causes(line: &Value) -> Vec<String> {
    let changes = line["changes"].as_array().unwrap();
    let told = changes.iter().map(|change| {
        let part = change["part"].as_str().unwrap_or("nothing");
        format!("{}: {} by {part}", change["snapshot"].as_str().unwrap(), change["cause"].as_str().unwrap())
    });
    told.collect()
}

fn text(finished: &Finished) -> String {
    finished.lines.join("\n") + &finished.stderr
}

#[test]
fn a_new_scenario_is_pending_until_it_is_accepted() {
    let place = place();
    let line = checked(&place, 1);
    assert_eq!(line["outcome"], "pending");
    assert_eq!(line["missing"], serde_json::json!(SNAPSHOTS));
    place.start(["test", "pair"]).finish().exits(1);
    assert_eq!(names(&snapshots(&place)), SNAPSHOTS.map(|name| format!("{name}.new")));
    place.start(["test", "pair", "--accept"]).finish().exits(0);
    assert_eq!(names(&snapshots(&place)), SNAPSHOTS);
    assert_eq!(checked(&place, 0)["outcome"], "passed");
    insta::assert_snapshot!(std::fs::read_to_string(snapshots(&place).join("round__writer.snap")).unwrap());
    insta::assert_snapshot!(std::fs::read_to_string(snapshots(&place).join("round.snap")).unwrap());
}

#[test]
fn what_insta_accepts_passes_unchanged() {
    let place = place();
    place.start(["test", "pair"]).finish().exits(1);
    for name in SNAPSHOTS {
        let file = snapshots(&place).join(name);
        let pending = file.with_extension("snap.new");
        // As `cargo insta accept` does it: read, written in insta's own spelling, the pending one removed.
        let snapshot = insta::Snapshot::from_file(&pending).unwrap();
        assert_eq!(snapshot.metadata().source(), Some("tests/round.yaml"));
        assert!(snapshot.metadata().expression().is_some());
        snapshot.save(&file).unwrap();
        std::fs::remove_file(pending).unwrap();
    }
    assert_eq!(checked(&place, 0)["outcome"], "passed");
}

#[test]
fn each_edit_is_named_with_its_part() {
    for (file, old, new, wanted) in [
        (
            "writer.md",
            "You write.",
            "You write well.",
            "round__writer.snap: system text changed by roles.writer.system",
        ),
        (
            "writer.md",
            "You write.",
            "You write. Today is 2026-11-22.",
            "round__writer.snap: clock in the system text by roles.writer.system",
        ),
        (
            "workflow.yaml",
            "Write about",
            "Please write about",
            "round__writer.snap: prompt changed by graph.start[0].prompt",
        ),
        (
            "workflow.yaml",
            "Read this:",
            "Look at this:",
            "round__reader.snap: prompt changed by graph.writer.drafted[0].prompt",
        ),
        (
            "workflow.yaml",
            "context: none",
            "context: outputs",
            "round__reader.snap: summary changed by roles.reader.context",
        ),
        (
            "workflow.yaml",
            "context: none",
            "context: none\n    format: json",
            "round__reader.snap: answer format changed by roles.reader.format",
        ),
        (
            "workflow.yaml",
            "context: none",
            "context: none\n    history: none",
            "round__reader.snap: history: none by roles.reader.history",
        ),
        ("workflow.yaml", "default: tides", "default: seas", "round__writer.snap: input changed by input.topic"),
        (
            "workflow.yaml",
            "say: \"read\"",
            "say: \"all read\"",
            "round.snap: line for the user changed by graph.reader.good[0].say",
        ),
        (
            "workflow.yaml",
            "{{ steps.writer.output.title }}",
            "{{ steps.writer.body }}",
            "round.snap: result changed by result",
        ),
        ("workflow.yaml", "good: { to: end", "good: { to: fail", "round.snap: edge moved by graph.reader.good[0].to"),
        (
            "tests/round.yaml",
            "The sea comes. }",
            "The sea comes! }",
            "round__reader.snap: script changed by scenario.script",
        ),
    ] {
        let place = accepted();
        replaced(&place, &format!("pair/{file}"), old, new);
        let line = checked(&place, 1);
        let causes = causes(&line);
        assert!(causes.iter().any(|cause| cause == wanted), "{old} -> {new}: {causes:?}");
        let part = line["changes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|change| wanted.starts_with(change["snapshot"].as_str().unwrap()));
        assert!(part.unwrap()["line"].as_u64().unwrap() >= 1, "{line}");
    }
}

#[test]
fn a_renamed_field_names_the_contract_although_the_script_no_longer_fits() {
    let place = accepted();
    replaced(&place, "pair/workflow.yaml", "drafted: { title: string }", "drafted: { heading: string }");
    replaced(&place, "pair/workflow.yaml", "steps.writer.output.title", "steps.writer.output.heading");
    let line = checked(&place, 2);
    assert!(
        causes(&line).contains(&"round__writer.snap: schema changed by roles.writer.output.drafted".to_owned()),
        "{line}"
    );
    assert_eq!(line["faults"][0]["code"], "RN0704");
    assert_eq!(line["faults"][0]["file"], "pair/tests/round.yaml");
}

#[test]
fn an_expectation_that_fails_is_not_healed_by_accepting() {
    let place = place();
    replaced(&place, "pair/tests/round.yaml", "outcome: done", "outcome: failed");
    let finished = place.start(["test", "pair", "--accept", "--json"]).finish().exits(1);
    assert_eq!(finished.json()[0]["outcome"], "failed");
    assert_eq!(finished.json()[0]["faults"][0]["expected"], "failed");
    assert_eq!(finished.json()[0]["faults"][0]["actual"], "done");
    assert_eq!(finished.json()[0]["faults"][0]["line"], 11);
    let told = place.start(["test", "pair", "--accept"]).finish().exits(1).text();
    assert!(told.contains("nothing is accepted of a scenario that is not as expected"), "{told}");
    assert_eq!(names(&snapshots(&place)), Vec::<String>::new());
}

#[test]
fn every_difference_of_a_result_is_told() {
    let place = place();
    replaced(
        &place,
        "pair/tests/round.yaml",
        "result: { title: Tides }",
        "result: { title: Seas, words: 3, \"by whom\": [a] }",
    );
    let finished = place.start(["test", "pair", "--check", "--json"]).finish().exits(1);
    let faults = finished.json()[0]["faults"].as_array().unwrap().clone();
    let told = |fault: &Value| {
        assert_eq!((&fault["code"], &fault["line"]), (&Value::from("RN1858"), &Value::from(13)));
        ["message", "expected", "actual"].map(|key| fault[key].as_str().unwrap().to_owned())
    };
    assert_eq!(
        faults.iter().map(told).collect::<Vec<_>>(),
        [
            ["$.result['by whom']", "[\"a\"]", "it is missing"],
            ["$.result.title", "\"Seas\"", "\"Tides\""],
            ["$.result.words", "3", "it is missing"],
        ]
    );
}

#[test]
fn a_snapshot_that_was_edited_is_refused_and_stays_until_it_is_accepted() {
    let place = accepted();
    let file = snapshots(&place).join("round__writer.snap");
    replaced(&place, "pair/tests/snapshots/round__writer.snap", "Write about tides.", "Write about seas.");
    let edited = std::fs::read_to_string(&file).unwrap();
    let line = checked(&place, 2);
    assert_eq!(line["faults"][0]["code"], "RN1862");
    assert_eq!(line["faults"][0]["file"], "pair/tests/snapshots/round__writer.snap");
    assert!(line["faults"][0]["line"].as_u64().unwrap() > 8);
    place.start(["test", "pair"]).finish().exits(2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), edited);
    place.start(["test", "pair", "--accept"]).finish().exits(0);
    assert_eq!(checked(&place, 0)["outcome"], "passed");
}

#[test]
fn snapshots_of_nothing_are_told_and_removed_by_accepting() {
    let place = accepted();
    place.file("pair/tests/snapshots/gone__writer.snap", "---\n---\n");
    let finished = place.start(["test", "pair", "--check", "--json"]).finish().exits(1);
    assert_eq!(finished.json()[1]["event"], "stale");
    assert_eq!(finished.json()[1]["snapshot"], "gone__writer.snap");
    place.start(["test", "pair", "--accept"]).finish().exits(0);
    assert_eq!(names(&snapshots(&place)), SNAPSHOTS);
}

#[test]
fn no_snapshot_that_waits_to_be_looked_at_outlives_its_reason() {
    let place = accepted();
    let all = |place: &Place| names(&snapshots(place));
    // An edit that was taken back.
    replaced(&place, "pair/writer.md", "You write.", "You write well.");
    place.start(["test", "pair"]).finish().exits(1);
    assert!(all(&place).contains(&"round__writer.snap.new".to_owned()));
    replaced(&place, "pair/writer.md", "You write well.", "You write.");
    place.start(["test", "pair/tests/round.yaml"]).finish().exits(0);
    assert_eq!(all(&place), SNAPSHOTS);
    place.file("pair/tests/other.yaml", SCENARIO);
    place.start(["test", "pair", "--accept"]).finish().exits(0);
    // A scenario that was renamed before anybody looked, and one of a role that is not asked any more.
    for left in ["gone.snap.new", "gone__writer.snap.new", "round__editor.snap.new"] {
        place.file(&format!("pair/tests/snapshots/{left}"), "");
    }
    place.start(["test", "pair", "--check"]).finish().exits(0);
    assert_eq!(all(&place).len(), 9, "--check removes nothing");
    place.start(["test", "pair/tests/round.yaml"]).finish().exits(0);
    assert_eq!(all(&place).len(), 8, "a run of one scenario removes only what is its own");
    place.start(["test", "pair"]).finish().exits(0);
    assert_eq!(all(&place).len(), 6);
    // A scenario that fails may still write what waits.
    place.file("pair/tests/snapshots/round__editor.snap.new", "");
    replaced(&place, "pair/tests/round.yaml", "outcome: done", "outcome: failed");
    place.start(["test", "pair"]).finish().exits(1);
    assert!(all(&place).contains(&"round__editor.snap.new".to_owned()));
}

#[test]
fn a_person_reviews_line_by_line() {
    let place = place();
    let mut command = place.command(["test", "pair", "--review"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a\nwhat\nr\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("1 accepted, 1 rejected, 1 skipped"), "{told}");
    assert_eq!(names(&snapshots(&place)), ["round.snap", "round__writer.snap.new"]);
}

#[test]
fn a_scenario_ends_in_which_a_join_is_entered_while_a_lane_works() {
    let place = Place::new();
    place.file(
        "flow/workflow.yaml",
        "rondo: 1\nname: flow\ninput: { list: { type: array, default: [1, 2, 3] } }\n\
         roles: { a: { system: x }, b: { system: x } }\ngraph:\n  \
         start: { each: input.list, to: a, prompt: go, join: { to: b, need: 2 } }\n  \
         a: { done: { to: b } }\n  b: { done: { to: end } }\n",
    );
    place.file(
        "flow/tests/a.yaml",
        "script: { a: [ { body: x } ], b: [ { body: y } ] }\nexpect: { route: [\"a[0].done\", \"a[1].done\", b.done] }\n",
    );
    place.start(["test", "flow", "--accept"]).finish().exits(0);
}

#[test]
fn a_tool_is_never_really_run() {
    let place = Place::new();
    place.file(
        "flow/workflow.yaml",
        "rondo: 1\nname: flow\nroles:\n  worker: { system: You work., tools: [shell, read_file, run_tests] }\n\
         graph:\n  start: { to: worker, prompt: Go on. }\n  worker: { done: { to: end } }\n",
    );
    place.file("flow/fixture/note", "a note\n");
    place.file(
        "flow/fixture/rondo.toml",
        "[tool.run_tests]\nargv = [\"touch\", \"/tmp/never\"]\neffect = \"external\"\n",
    );
    let scenario = |canned: &str| {
        format!(
            "workspace: ../fixture\nscript:\n  worker:\n    - tools:\n        - {{ name: shell, args: {{ script: \"touch ran\" }} }}\n\
             \x20       - {{ name: read_file, args: {{ path: note }} }}\n        - {{ name: run_tests }}\n      then: {{ status: done }}\n\
             {canned}expect:\n  outcome: done\n  assert:\n    - {{ role: worker, request_contains: a note }}\n    - {{ tool_calls: {{ run_tests: 1 }} }}\n"
        )
    };
    place.file("flow/tests/a.yaml", scenario("tools: { shell: [ran], run_tests: [ { args: {}, text: 3 passed } ] }\n"));
    place.start(["test", "flow", "--accept"]).finish().exits(0);
    let sent = std::fs::read_to_string(place.path().join("flow/tests/snapshots/a__worker.snap")).unwrap();
    assert!(sent.contains("tool run_tests\n    Runs `touch /tmp/never`.") && sent.contains("    3 passed"), "{sent}");
    place.file("flow/tests/a.yaml", scenario(""));
    let finished = place.start(["test", "flow", "--check", "--json"]).finish().exits(1);
    assert_eq!(finished.json()[0]["outcome"], "failed");
    assert!(text(&finished).contains("shell is not run in a test"), "{}", text(&finished));
    assert!(!place.path().join("flow/fixture/ran").exists());
}

#[test]
fn a_stored_thread_becomes_a_scenario() {
    let place = place();
    place.file(
        "pair/script.yaml",
        SCENARIO.split("script:\n").nth(1).unwrap().split("expect:").next().unwrap().replace("\n  ", "\n").trim_start(),
    );
    place.start(["run", "pair", "--offline"]).finish().exits(0);
    place.start(["test", "--from", "last", "--name", "kept"]).finish().exits(0);
    place.start(["test", "pair/tests/kept.yaml", "--accept"]).finish().exits(0);
    let made = place.start(["test", "pair/tests/kept.yaml", "--check", "--json"]).finish().exits(0);
    assert_eq!(made.json()[0]["scenario"], "kept");
    place.start(["test", "--from", "last", "--name", "kept"]).finish().exits(2);
    place.start(["test", "--from", "last", "--name", "a__b"]).finish().exits(2);
}

#[test]
fn what_is_not_there_is_refused() {
    let place = place();
    place.file("bare/workflow.yaml", WORKFLOW.replace("{ file: writer.md }", "You write."));
    for words in [
        vec!["test", "none"],
        vec!["test", "bare"],
        vec!["test", "pair", "--filter", "nothing"],
        vec!["test", "pair/writer.md"],
        vec!["test", "pair", "--accept", "--check"],
    ] {
        place.start(words.iter()).finish().exits(2);
    }
    place.file("pair/tests/bad__name.yaml", SCENARIO);
    let finished = place.start(["test", "pair", "--check", "--json"]).finish().exits(2);
    assert_eq!(finished.json()[0]["faults"][0]["code"], "RN1856");
}

#[test]
fn a_report_for_ci_says_the_same() {
    let place = accepted();
    replaced(&place, "pair/writer.md", "You write.", "You write <b>\u{1b}[1m & well.");
    place.start(["test", ".", "--check", "--junit", "out/report.xml"]).finish().exits(1);
    let report = std::fs::read_to_string(place.path().join("out/report.xml")).unwrap();
    assert!(report.contains("tests=\"1\" failures=\"1\" errors=\"0\""), "{report}");
    assert!(report.contains("<failure type=\"RN1864\"") && report.contains("&lt;b&gt;"), "{report}");
    assert!(!report.contains('\u{1b}'));
}

/// However a workflow raises its own limit, a test of it ends.
#[test]
fn a_scenario_ends_after_its_most_steps() {
    let place = Place::new();
    place.file(
        "endless/workflow.yaml",
        "rondo: 1\nname: endless\nlimits: { steps: 1000000 }\nroles:\n  turn: { kind: rule, output: { taken: null } }\n\
         graph:\n  start: { to: turn }\n  turn: { taken: { to: turn, max: 900000, on_max: { to: end } } }\n",
    );
    place.file("endless/tests/ends.yaml", "script: {}\nexpect: { outcome: failed }\n");
    let told = text(&place.start(["test", "endless", "--check"]).finish().exits(1));
    assert!(told.contains("more than 10000 steps"), "{told}");
}
