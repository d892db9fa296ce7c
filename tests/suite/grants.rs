//! What a workflow may do is what the operator grants and agreed to, seen from outside: what is missing is named before
//! anything is paid for, and what was agreed to ends when the workflow changes.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::binary::{Finished, Place, Running};

const WORKFLOW: &str = r"
rondo: 1
name: clerk
roles:
  clerk: { system: You file notes., tools: [read_file, write_file] }
graph:
  start: { to: clerk, prompt: File it. }
  clerk: { done: { to: end } }
";

/// A role that reads, and one that runs a workflow.
const SECTION: &str = r#"
rondo: 1
name: section
roles:
  reader: { tools: [read_file] }
  part: { kind: workflow, workflow: section.yaml }
graph:
  start: { to: reader, prompt: Read it. }
  reader: { done: { to: part, prompt: "" } }
  part: { done: { to: end }, failed: { to: fail, reason: nothing } }
"#;

const SCRIPT: &str = r#"
clerk:
  - tools: [ { name: write_file, args: { path: note.txt, text: "a note" } } ]
    then: { body: filed }
"#;

/// A place with the workflow in a folder of its own and a home for the user.
struct Office(Place);

impl Office {
    fn new(settings: &str) -> Self {
        let place = Place::new();
        place.file("clerk/workflow.yaml", WORKFLOW);
        place.file("clerk/script.yaml", SCRIPT);
        if !settings.is_empty() {
            place.settings(settings);
        }
        Self(place)
    }

    /// With the settings and the workflow agreed to.
    fn trusted(settings: &str) -> Self {
        let office = Self::new(settings);
        office.0.trust(&["clerk"]);
        office
    }

    fn run(&self, words: &[&str]) -> Finished {
        self.run_with(words, &[])
    }

    fn run_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Finished {
        let mut command = self.0.command(words);
        command.envs(variables.iter().copied());
        Running::of(command).finish()
    }

    fn note(&self) -> Option<String> {
        std::fs::read_to_string(self.0.path().join("note.txt")).ok()
    }
}

#[test]
fn without_a_grant_a_run_ends_before_a_provider_is_asked() {
    let office = Office::new("");
    // Nobody listens there; whoever asked would end with exit code 5.
    let nowhere = [("OPENAI_BASE_URL", "http://127.0.0.1:9"), ("OPENAI_API_KEY", "k"), ("RONDO_MODEL", "m")];
    let refused = office.run_with(&["run", "clerk"], &nowhere).exits(3);
    assert!(refused.stderr.contains("RN1703") && refused.stderr.contains("write_file (for clerk)"), "{refused:?}");
    assert!(refused.stderr.contains("rondo trust clerk"), "it names the command to type: {refused:?}");
    assert!(!refused.stderr.contains("read_file (for"), "reading below the workspace needs no consent: {refused:?}");
    assert!(!office.0.store().exists(), "no thread was begun");
}

#[test]
fn consent_is_needed_with_a_script_too_whoever_grants_the_tools() {
    let office = Office::new("[grant]\ntools = [\"*\"]\n");
    let refused = office.run(&["run", "clerk", "--offline", "--json"]).exits(3);
    assert_eq!(refused.event("error")["code"], "RN1703");
    assert_eq!(office.note(), None);
    assert!(!office.0.store().exists(), "no thread was begun");
    office.run(&["run", "clerk", "--offline", "--trust"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));
    office.run(&["run", "clerk", "--offline"]).exits(3);
}

#[test]
fn trust_holds_until_the_workflow_changes() {
    let office = Office::new("");
    let shown = office.run(&["trust", "clerk"]).exits(3);
    assert!(shown.text().contains("write_file") && shown.text().contains("for clerk"), "{shown:?}");
    office.0.trust(&["clerk"]);
    office.run(&["run", "clerk", "--offline"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));

    office.0.file("clerk/workflow.yaml", WORKFLOW.replace("You file notes.", "You file other notes."));
    let refused = office.run(&["run", "clerk", "--offline"]).exits(3);
    assert!(refused.stderr.contains("RN1703") && refused.stderr.contains("has changed"), "{refused:?}");

    // A comment is no change.
    office.0.file("clerk/workflow.yaml", format!("# a comment\n{WORKFLOW}"));
    office.run(&["run", "clerk", "--offline"]).exits(0);
    office.run(&["trust", "clerk", "--revoke"]).exits(0);
    office.run(&["run", "clerk", "--offline"]).exits(3);
}

#[test]
fn a_change_of_limits_asks_again_unless_the_workflow_is_ones_own() {
    let limited = format!("{WORKFLOW}limits: {{ steps: 77 }}\n");
    let office = Office::trusted("");
    office.0.file("clerk/workflow.yaml", &limited);
    let shown = office.run(&["trust", "clerk", "--json"]).exits(3).event("trust");
    assert!(shown["changed"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("77")), "{shown}");
    office.run(&["run", "clerk", "--offline"]).exits(3);

    let digest = shown["digest"].as_str().unwrap();
    office.run(&["trust", "clerk", "--own", "--yes", digest]).exits(0);
    office.0.file("clerk/workflow.yaml", limited.replace("77", "78").replace("File it.", "File it well."));
    office.run(&["run", "clerk", "--offline"]).exits(0);
    office.0.file("clerk/workflow.yaml", WORKFLOW.replace("read_file, write_file", "read_file, write_file, shell"));
    let refused = office.run(&["run", "clerk", "--offline"]).exits(3);
    assert!(refused.stderr.contains("shell"), "{refused:?}");
}

#[test]
fn a_copy_elsewhere_asks_again() {
    let office = Office::trusted("");
    office.run(&["run", "clerk", "--offline"]).exits(0);
    office.0.file("copy/workflow.yaml", WORKFLOW);
    office.0.file("copy/script.yaml", SCRIPT);
    office.run(&["run", "copy", "--offline"]).exits(3);
}

#[test]
fn an_agreement_is_to_what_was_shown_and_to_nothing_else() {
    let office = Office::new("");
    let digest = office.run(&["trust", "clerk", "--json"]).exits(3).event("trust")["digest"].clone();
    office.0.file("clerk/workflow.yaml", WORKFLOW.replace("read_file, write_file", "shell"));
    let refused = office.run(&["trust", "clerk", "--yes", digest.as_str().unwrap()]).exits(3);
    assert!(refused.stderr.contains("another digest"), "{refused:?}");
    office.run(&["run", "clerk", "--offline"]).exits(3);
    office.run(&["trust", "clerk", "--yes", "abc"]).exits(2);
}

#[test]
fn a_thread_goes_on_with_the_definition_that_was_agreed_to_when_it_was_begun() {
    let office = Office::trusted("");
    office.0.file("clerk/script.yaml", "clerk:\n  - { error: { http: 401 } }\n");
    office.run(&["run", "clerk", "--offline"]).exits(5);
    office.0.file("clerk/workflow.yaml", WORKFLOW.replace("You file notes.", "You file other notes."));
    office.0.trust(&["clerk"]);
    office.0.file(
        "clerk/script.yaml",
        format!("clerk:\n  - {{ error: {{ http: 401 }} }}\n{}", SCRIPT.replace("\nclerk:\n", "")),
    );
    office.run(&["resume"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));
}

#[test]
fn a_thread_is_not_resumed_in_another_folder_than_its_tools_work_in() {
    let office = Office::trusted("[grant]\ntools = [\"*\"]\n");
    office.0.file("clerk/script.yaml", "clerk:\n  - { error: { http: 401 } }\n");
    office.run(&["run", "clerk", "--offline"]).exits(5);
    let elsewhere = office.0.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("rondo.toml"), "").unwrap();
    let mut command = office.0.command(["resume", "--store"]);
    command.arg(office.0.store()).current_dir(&elsewhere);
    let refused = Running::of(command).finish().exits(2);
    assert!(refused.stderr.contains("the thread's tools work in"), "{refused:?}");
}

#[test]
fn a_pattern_that_means_no_tool_is_a_fault_of_the_settings() {
    for pattern in ["docs*", "*.read", "", "a b"] {
        let office = Office::new("");
        office.0.file("rondo.toml", format!("[grant]\napprove = [\"{pattern}\"]\n"));
        let refused = office.run(&["run", "clerk", "--offline"]).exits(2);
        assert!(refused.stderr.contains("RN0803"), "{pattern}: {refused:?}");
    }
}

#[test]
fn trust_records_belong_to_the_user_and_a_damaged_file_grants_nothing() {
    let office = Office::trusted("");
    let records: PathBuf = office.0.home().join(".local/share/rondo/trust.json");
    let text = std::fs::read_to_string(&records).unwrap();
    assert!(text.contains("write_file"), "{text}");
    std::fs::write(&records, text.replace("\"write_file\"", "write_")).unwrap();
    let refused = office.run(&["run", "clerk", "--offline"]).exits(3);
    assert!(refused.stderr.contains("trust.json"), "{refused:?}");
    office.0.file("clerk/workflow.yaml", WORKFLOW.replace(", tools: [read_file, write_file]", ""));
    office.0.file("clerk/script.yaml", "clerk: [ { body: nothing filed } ]\n");
    office.run(&["run", "clerk", "--offline"]).exits(0);
}

#[test]
fn an_unattended_approval_waits_for_an_answer() {
    let office = Office::trusted("[grant]\ntools = [\"*\"]\napprove = [\"write_file\"]\n");
    let waiting = office.run(&["run", "clerk", "--offline", "--json"]).exits(75);
    let form = waiting.event("thread_waiting");
    assert_eq!((&form["role"], &form["form"]["approval"]["tool"]), (&"clerk".into(), &"write_file".into()));
    assert_eq!(office.note(), None);
    let calls = waiting.events("call_settled").len();
    assert!(office.run(&["show", "last"]).exits(0).text().contains("--approve` or `--refuse"));
    // Nothing has been decided since, and the model is not asked again.
    let again = office.run(&["resume", "last", "--json"]).exits(75);
    assert_eq!(again.events("call_settled")[0]["answered_by"], "journal");
    for (words, code) in
        [(&["--status", "done"][..], "RN1413"), (&["--approve", "--lane", "clerk[0]"], "RN1412"), (&[], "RN1413")]
    {
        let refused = office.run(&[&["answer", "last", "--json"], words].concat());
        assert_eq!(refused.event("error")["code"], code, "{words:?}: {refused:?}");
    }
    let done = office.run(&["answer", "last", "--approve", "--json"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));
    let asked = done.events("call_settled").iter().filter(|call| call["answered_by"] == "port").count();
    assert_eq!(asked + calls, 2, "each reply is paid for once");
    let steps = office.run(&["show", "last", "--json"]).exits(0).json();
    assert!(steps[1]["note"]["person"].is_string(), "{}", steps[1]);
    assert_eq!(office.run(&["answer", "last", "--approve", "--json"]).exits(7).event("error")["code"], "RN1412");
}

#[test]
fn a_refused_call_is_told_to_the_role_that_asked() {
    let office = Office::trusted("[grant]\ntools = [\"*\"]\napprove = [\"write_file\"]\n");
    office.run(&["run", "clerk", "--offline", "--json"]).exits(75);
    let done = office.run(&["answer", "last", "--refuse", "--why", "not on a Friday", "--json"]).exits(0);
    assert_eq!(done.event("tool_finished")["answered_by"], "loop");
    assert_eq!(office.note(), None);
    let shown = office.run(&["show", "last", "--json"]).exits(0).json();
    assert!(shown[1]["transcript"].to_string().contains("not on a Friday"), "{}", shown[1]);
    office.run(&["verify", "last"]).exits(0);
}

#[test]
fn tools_are_listed_with_who_grants_them() {
    let office = Office::new(
        "[tool.count]\nargv = [\"wc\", \"{file}\"]\nschema = { type = \"object\", properties = { file = { type = \"string\" } } }\n",
    );
    let listed = office.run(&["tools", "clerk", "--json"]).exits(0).json();
    let of = |tool: &str| listed.iter().find(|line| line["tool"] == tool).cloned().unwrap_or_default();
    assert_eq!((of("read_file")["granted"].as_bool(), of("read_file")["role"].as_str()), (Some(true), Some("clerk")));
    assert_eq!(of("write_file")["granted"].as_bool(), Some(false));
    assert!(of("write_file")["why"].as_str().unwrap().contains("rondo trust"), "{}", of("write_file"));
    let all = office.run(&["tools", "--json"]).exits(0).json();
    assert!(all.iter().any(|line| line["tool"] == "count" && line["origin"] == "[tool.count]"), "{all:?}");
}

#[test]
fn tools_are_listed_with_what_they_have_an_effect_on() {
    let office = Office::new("");
    office.0.file("section/workflow.yaml", SECTION);
    office
        .0
        .file("section/section.yaml", WORKFLOW.replace("read_file, write_file", "write_file, http_get, shell, count"));
    let settings = office.0.home().join(".config/rondo/config.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let listed = |grant: &str| {
        let text = format!(
            "[tool.count]\nargv = [\"wc\", \"{{file}}\"]\neffect = \"reads\"\npaths = [\"{{file}}\"]\n\
             schema = {{ type = \"object\", properties = {{ file = {{ type = \"string\" }} }} }}\n[grant]\n{grant}"
        );
        std::fs::write(&settings, text).unwrap();
        let lines = office.run(&["tools", "section", "--json"]).exits(0).json();
        let of = |line: &Value| {
            let members = ["role", "tool", "effect", "paths", "hosts"].map(|member| line[member].clone());
            (line["event"] == "tool").then_some(Value::from(members.to_vec()))
        };
        lines.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(
        listed("write = [\"notes\"]\nhosts = [\"docs.rs\", \"clerk/crates.io\", \"reader/example.org\"]\n"),
        [
            json!(["reader", "read_file", "reads", ["."], []]),
            json!(["part/clerk", "count", "reads", ["{file}"], []]),
            json!(["part/clerk", "http_get", "external", [], ["docs.rs", "crates.io"]]),
            json!(["part/clerk", "shell", "external", ["notes"], []]),
            json!(["part/clerk", "write_file", "writes", ["notes"], []]),
        ]
    );
    assert_eq!(listed("sandbox = \"off\"\n")[3], json!(["part/clerk", "shell", "external", null, null]));
    let text = office.run(&["tools", "section"]).exits(0).text();
    for part in [
        "part/clerk\n",
        "count       reads {file}  ",
        "http_get    external, nothing granted  ",
        "external, without a sandbox  ",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn consent_to_a_workflow_grants_what_roles_of_its_children_ask_for() {
    let office = Office::new("");
    office.0.file("section/workflow.yaml", SECTION);
    office.0.file("section/section.yaml", WORKFLOW);
    office.0.file(
        "section/script.yaml",
        format!("reader: [ {{ body: read }} ]\n{}", SCRIPT.replace("clerk:", "part/clerk:")),
    );
    let line = |lines: Vec<Value>| lines.into_iter().find(|line| line["tool"] == "write_file").unwrap();
    let refused = line(office.run(&["tools", "section", "--json"]).exits(0).json());
    assert_eq!((&refused["role"], &refused["granted"]), (&json!("part/clerk"), &json!(false)));
    office.0.trust(&["section"]);
    let granted = line(office.run(&["tools", "section", "--json"]).exits(0).json());
    assert_eq!((&granted["granted"], &granted["why"]), (&json!(true), &json!("granted by trust")));
    office.run(&["run", "section", "--offline"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));
}

#[test]
fn what_says_what_tools_may_do_is_out_of_their_reach() {
    let office = Office::trusted("[grant]\ntools = [\"*\"]\n");
    for path in ["rondo.toml", "./rondo.toml", ".rondo/x", "clerk/../rondo.toml", ".git/config"] {
        let script = format!(
            "clerk:\n  - tools: [ {{ name: write_file, args: {{ path: \"{path}\", text: x }} }} ]\n    then: {{ body: tried }}\n"
        );
        office.0.file("clerk/script.yaml", script);
        let run = office.run(&["run", "clerk", "--offline", "--json"]).exits(0);
        assert_eq!(run.event("tool_finished")["failed"], true, "{path}");
    }
    let settings = std::fs::read_to_string(office.0.path().join("rondo.toml")).unwrap();
    assert_eq!(settings, "[grant]\ntools = [\"*\"]\n");
}
