//! `rondo test --from`: any thread gives a scenario that runs and passes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rondo_protocol::source;
use serde_json::{Value, json};

use crate::binary::{Finished, Place, Running};

/// The tool of `fix-failing-test`, in place of `cargo test`: prints what the scenario says, call by call.
const RUN_TESTS: &str = r"n=$(cat target/n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > target/n
cat target/out-$n; exit $(cat target/exit-$n)
";

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("workflows").join(name)
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A file as JSON, whether it is YAML or JSON.
fn read(file: &Path) -> Value {
    let root = source::yaml(&std::fs::read_to_string(file).unwrap()).unwrap();
    serde_json::from_str(&root.to_value().to_text()).unwrap()
}

/// Runs `words` in `folder` of the place.
fn run_in(place: &Place, folder: &Path, words: &[&str]) -> Finished {
    let mut command = place.command(words);
    command.current_dir(folder);
    Running::of(command).finish()
}

/// Runs a shipped workflow as each of its scenarios does, but for real: with a store, and with tools that really work.
/// Makes a scenario of each thread, and holds all of them to pass.
fn every_thread_gives_a_scenario(name: &str) {
    let place = Place::new();
    let tests = shipped(name).join("tests");
    let workflow = place.path().join(name);
    copied(&shipped(name), &workflow);
    std::fs::remove_dir_all(workflow.join("tests")).unwrap();
    let store = place.path().join("store");
    let store = store.to_str().unwrap();
    let mut made = BTreeMap::new();
    for entry in std::fs::read_dir(&tests).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let scenario = read(&file);
        let called = file.file_stem().unwrap().to_str().unwrap();
        let folder = place.path().join(called);
        match scenario["workspace"].as_str() {
            Some(workspace) => copied(&tests.join(workspace), &folder),
            None => std::fs::create_dir(&folder).unwrap(),
        }
        canned_tests(&folder, &scenario["tools"]["run_tests"]);
        let mut input = scenario["input_file"].as_str().map_or_else(|| json!({}), |file| read(&tests.join(file)));
        input.as_object_mut().unwrap().extend(scenario["input"].as_object().cloned().unwrap_or_default());
        let input = place.file(&format!("{called}.json"), input.to_string());
        let script = match &scenario["script"] {
            Value::Null => workflow.join("script.yaml").to_str().unwrap().to_owned(),
            script => place.file(&format!("{called}-script.json"), script.to_string()),
        };
        let path = workflow.to_str().unwrap();
        let words = ["run", path, "--script", &script, "--input-file", &input, "--trust", "--json", "--store", store];
        let run = run_in(&place, &folder, &words);
        let outcome = match run.code {
            Some(0) => "done",
            Some(1) => "failed",
            Some(75) => "waiting",
            _ => "stopped",
        };
        let from = run_in(&place, &folder, &["test", "--from", "last", "--name", called, "--store", store]).exits(0);
        assert!(from.stderr.contains("accept its snapshots"), "{called}: {}", from.stderr);
        let expected = read(&workflow.join("tests").join(format!("{called}.yaml")))["expect"].clone();
        assert_eq!(expected["outcome"], outcome, "{called}");
        made.insert(called.to_owned(), expected["route"].as_array().unwrap().len());
    }
    assert!(made.len() >= 3 && made.values().any(|steps| *steps > 1), "{made:?}");
    let tested = place.run(["test", name, "--accept", "--json"]).exits(0);
    let passed = tested.events("scenario").into_iter().filter(|line| line["outcome"] == "passed");
    assert_eq!(passed.count(), made.len());
}

/// Makes the project's tool answer as a scenario says.
fn canned_tests(folder: &Path, results: &Value) {
    let settings = folder.join("rondo.toml");
    let Ok(text) = std::fs::read_to_string(&settings) else { return };
    let argv = r#"["cargo", "test", "--offline", "--locked", "--no-fail-fast"]"#;
    assert!(text.contains(argv), "{text}");
    std::fs::write(settings, text.replace(argv, r#"["sh", "run_tests.sh"]"#)).unwrap();
    std::fs::write(folder.join("run_tests.sh"), RUN_TESTS).unwrap();
    let target = folder.join("target");
    std::fs::create_dir_all(&target).unwrap();
    for (result, number) in results.as_array().unwrap().iter().zip(1..) {
        let text = result.as_str().or(result["text"].as_str()).unwrap();
        std::fs::write(target.join(format!("out-{number}")), text).unwrap();
        let exit = if result["failed"] == true { "1" } else { "0" };
        std::fs::write(target.join(format!("exit-{number}")), exit).unwrap();
    }
}

/// One test for each workflow that ships.
macro_rules! shipped_workflows {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                every_thread_gives_a_scenario($name);
            }
        )*

        #[test]
        fn every_shipped_workflow_is_tried() {
            let folders = std::fs::read_dir(shipped("")).unwrap().map(|entry| entry.unwrap().path());
            let files = folders.filter(|folder| folder.join("workflow.yaml").is_file());
            let mut names: Vec<String> =
                files.map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned()).collect();
            names.sort();
            assert_eq!(names, [$($name),*]);
        }
    };
}

shipped_workflows! {
    threads_of_approve_release "approve-release"
    threads_of_debate "debate"
    threads_of_describe_image "describe-image"
    threads_of_fix_failing_test "fix-failing-test"
    threads_of_interview "interview"
    threads_of_map_files "map-files"
    threads_of_panel "panel"
    threads_of_repo_report "repo-report"
    threads_of_research_report "research-report"
    threads_of_review_diff "review-diff"
    threads_of_review_loop "review-loop"
    threads_of_triage "triage"
}

/// Makes a scenario `name` of the thread that `word` means, and holds it to pass. Gives what it expects.
#[track_caller]
fn repeated(place: &Place, workflow: &str, word: &str, name: &str) -> Value {
    let made = place.run(["test", "--from", word, "--name", name]).exits(0);
    assert!(made.stderr.contains("accept its snapshots"), "{}", made.stderr);
    let file = format!("{workflow}/tests/{name}.yaml");
    let tested = place.run(["test", &file, "--accept", "--json"]).exits(0);
    assert_eq!(tested.event("scenario")["outcome"], "passed");
    read(&place.path().join(file))["expect"].clone()
}

const ASK: &str = r#"rondo: 1
name: ask
input: { topic: string }
roles:
  writer:
    { system: You write., output: { drafted: { title: string } }, retry: { attempts: 2, backoff: 1ms } }
  chief: { kind: human, output: { good: {}, again: { why: string } } }
graph:
  start: { to: writer, prompt: "{{ input.topic }}" }
  writer: { drafted: { to: chief, prompt: "{{ output.title }}" }, on_error: { to: fail, reason: "{{ output.message }}" } }
  chief:
    good: { to: end }
    again: { to: writer, prompt: "{{ output.why }}", max: 2, on_max: { to: end } }
result: { title: "{{ steps.writer.output.title }}" }
"#;

#[test]
fn a_person_who_answered_a_thread_that_waits_and_one_that_was_cancelled() {
    let place = Place::new();
    place.file("ask/workflow.yaml", ASK);
    let draft = |title: &str| format!("  - {{ status: drafted, fields: {{ title: {title} }} }}\n");
    place.file("ask/script.yaml", format!("writer:\n{}{}", draft("Tides"), draft("Seas")));
    place.run(["run", "ask", "--offline", "-i", "topic=tides"]).exits(75);
    assert_eq!(repeated(&place, "ask", "last", "waits")["outcome"], "waiting");
    place.run(["answer", "last", "--status", "again", "--field", "why=shorter", "--offline"]).exits(75);
    assert_eq!(repeated(&place, "ask", "last", "waits-again")["route"].as_array().unwrap().len(), 3);
    place.run(["answer", "last", "--status", "good", "--body", "Well done.", "--offline"]).exits(0);
    let expected = repeated(&place, "ask", "last", "answered");
    assert_eq!((&expected["outcome"], &expected["result"]["title"]), (&json!("done"), &json!("Seas")));
    let script = std::fs::read_to_string(place.path().join("ask/tests/answered.yaml")).unwrap();
    assert!(script.contains("Well done."), "{script}");
    place.run(["run", "ask", "--offline", "-i", "topic=tides"]).exits(75);
    place.run(["cancel", "last"]);
    assert_eq!(repeated(&place, "ask", "last", "cancelled")["outcome"], "waiting");
}

#[test]
fn a_thread_that_stopped_and_went_on_one_that_was_forked_and_one_that_failed_after_retries() {
    let place = Place::new();
    place.file("ask/workflow.yaml", ASK);
    let first = "writer:\n  - { error: { http: 429 } }\n  - { status: drafted, fields: { title: Tides } }\n";
    let chief = "chief: [ { status: again, fields: { why: x } }, { status: good } ]\n";
    place.file("ask/script.yaml", format!("{first}{chief}"));
    place.run(["run", "ask", "--offline", "-i", "topic=tides"]).exits(5);
    assert_eq!(repeated(&place, "ask", "last", "stopped")["outcome"], "stopped");
    let more = "  - { raw: no form }\n  - { status: drafted, fields: { title: Seas } }\n";
    place.file("ask/script.yaml", format!("{first}{more}{chief}"));
    place.run(["resume", "last"]).exits(0);
    assert_eq!(repeated(&place, "ask", "last", "resumed")["result"]["title"], "Seas");

    place.file("good.json", r#"{"status": "good"}"#);
    place.run(["fork", "last", "--at", "2", "--answer", "good.json", "--offline"]).exits(0);
    assert_eq!(repeated(&place, "ask", "last", "forked")["route"], json!(["writer.drafted", "chief.good"]));

    let busy = "  - { error: { http: 503 } }\n".repeat(2);
    place.file("ask/script.yaml", format!("writer:\n{busy}"));
    place.run(["run", "ask", "--offline", "-i", "topic=tides"]).exits(1);
    let expected = repeated(&place, "ask", "last", "failed");
    assert_eq!((&expected["outcome"], &expected["route"]), (&json!("failed"), &json!(["writer.error"])));
    assert_eq!(expected["reason"], "the provider answered 503: so says the script");
}

/// Lanes within lanes, in which roles of one index say different things, and a lane that ends early.
#[test]
fn lanes_of_lanes_that_were_told_different_things() {
    let place = Place::new();
    place.file(
        "nested/workflow.yaml",
        r#"rondo: 1
name: nested
roles:
  lead: { system: You lead., output: { plan: {} } }
  maker: { system: You make., output: { made: { text: string } } }
  helper: { system: You help., output: { told: { text: string } } }
  sum: { system: You sum up., output: { part: { text: string } } }
  judge: { system: You judge., output: { good: {} } }
graph:
  start: { to: lead, prompt: Go. }
  lead: { plan: { each: "['a', 'b']", to: maker, prompt: "{{ item }}", join: judge } }
  maker: { made: { each: "['c', 'd']", to: helper, prompt: "{{ item }}", join: sum } }
  helper: { told: { to: sum } }
  sum: { part: { to: judge } }
  judge: { good: { to: end } }
"#,
    );
    place.run(["validate", "nested"]).exits(0);
    let said = |status: &str, text: &str| format!("[ {{ status: {status}, fields: {{ text: {text} }} }} ]\n");
    let script = [
        "lead: [ {} ]\n".replace("{}", "{ status: plan }"),
        format!("\"maker[0]\": {}", said("made", "A")),
        format!("\"maker[1]\": {}", said("made", "B")),
        format!("\"maker[0]/helper[0]\": {}", said("told", "AC")),
        format!("\"maker[0]/helper[1]\": {}", said("told", "AD")),
        format!("\"maker[1]/helper[0]\": {}", said("told", "BC")),
        format!("\"maker[1]/helper[1]\": {}", said("told", "BC")),
        format!("sum: {}", said("part", "S")),
        "judge: [ { status: good } ]\n".to_owned(),
    ];
    place.file("nested/script.yaml", script.concat());
    place.run(["run", "nested", "--offline", "--json"]).exits(0);
    let shown = place.run(["show", "last"]).exits(0).text();
    assert!(["AC", "AD", "BC"].iter().all(|text| shown.contains(text)), "{shown}");
    let expected = repeated(&place, "nested", "last", "nested");
    assert_eq!(expected["route"].as_array().unwrap().len(), 10, "{expected}");
    let made = read(&place.path().join("nested/tests/nested.yaml"));
    assert!(made["script"]["maker[0]/helper[1]"].is_array(), "{made}");
}
