//! What a workflow may do is what the operator grants, seen from outside: what is missing is named before anything is
//! paid for, and what was agreed to ends when the workflow changes.

use std::path::PathBuf;

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
            place.file("rondo.toml", settings);
        }
        Self(place)
    }

    fn run(&self, words: &[&str]) -> Finished {
        self.run_with(words, &[])
    }

    fn run_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Finished {
        let mut command = self.0.command(words);
        command.env("HOME", self.0.path().join("home")).envs(variables.iter().copied());
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
    assert!(refused.stderr.contains("RN1701") && refused.stderr.contains("write_file (for clerk)"), "{refused:?}");
    assert!(!refused.stderr.contains("read_file (for"), "reading below the workspace is granted: {refused:?}");
    assert!(!office.0.store().exists(), "no thread was begun");
}

#[test]
fn with_a_script_a_missing_grant_is_missed_when_the_tool_is_called() {
    let office = Office::new("[grant]\ntools = [\"read_file\"]\n");
    let stopped = office.run(&["run", "clerk", "--offline", "--json"]).exits(3);
    assert_eq!(stopped.event("error")["code"], "RN1701");
    assert_eq!(office.note(), None);
    office.0.file("rondo.toml", "[grant]\ntools = [\"read_file\", \"write_file\"]\n");
    office.run(&["resume", "--json"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));
}

#[test]
fn trust_holds_until_the_workflow_changes() {
    let office = Office::new("");
    let shown = office.run(&["trust", "clerk"]).exits(3);
    assert!(shown.text().contains("write_file") && shown.text().contains("not granted"), "{shown:?}");
    office.run(&["trust", "clerk", "--yes"]).exits(0);
    office.run(&["run", "clerk", "--offline"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));

    office.0.file("clerk/workflow.yaml", WORKFLOW.replace("You file notes.", "You file other notes."));
    let refused = office.run(&["run", "clerk", "--offline"]).exits(3);
    assert!(refused.stderr.contains("RN1703") && refused.stderr.contains("rondo trust clerk"), "{refused:?}");

    // A comment is no change.
    office.0.file("clerk/workflow.yaml", format!("# a comment\n{WORKFLOW}"));
    office.run(&["run", "clerk", "--offline"]).exits(0);
    office.run(&["trust", "clerk", "--revoke"]).exits(0);
    office.run(&["run", "clerk", "--offline"]).exits(3);
}

#[test]
fn a_thread_goes_on_with_the_definition_that_was_agreed_to_when_it_was_begun() {
    let office = Office::new("");
    office.run(&["trust", "clerk", "--yes"]).exits(0);
    office.0.file("clerk/script.yaml", "clerk:\n  - { error: { http: 401 } }\n");
    office.run(&["run", "clerk", "--offline"]).exits(5);
    office.0.file("clerk/workflow.yaml", WORKFLOW.replace("You file notes.", "You file other notes."));
    office.run(&["trust", "clerk", "--yes"]).exits(0);
    office.0.file(
        "clerk/script.yaml",
        format!("clerk:\n  - {{ error: {{ http: 401 }} }}\n{}", SCRIPT.replace("\nclerk:\n", "")),
    );
    office.run(&["resume"]).exits(0);
    assert_eq!(office.note().as_deref(), Some("a note"));
}

#[test]
fn a_thread_is_not_resumed_in_another_folder_than_its_tools_work_in() {
    let office = Office::new("[grant]\ntools = [\"*\"]\n");
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
        let office = Office::new(&format!("[grant]\napprove = [\"{pattern}\"]\n"));
        let refused = office.run(&["run", "clerk", "--offline"]).exits(2);
        assert!(refused.stderr.contains("RN0803"), "{pattern}: {refused:?}");
    }
}

#[test]
fn a_change_voids_what_the_settings_grant_too() {
    let office = Office::new("[grant]\ntools = [\"*\"]\n");
    office.run(&["run", "clerk", "--offline"]).exits(0);
    office.run(&["trust", "clerk", "--yes"]).exits(0);
    office.0.file("clerk/workflow.yaml", WORKFLOW.replace("File it.", "File it twice."));
    office.run(&["run", "clerk", "--offline"]).exits(3);
}

#[test]
fn trust_records_belong_to_the_user_and_a_damaged_file_grants_nothing() {
    let office = Office::new("");
    office.run(&["trust", "clerk", "--yes", "--json"]).exits(0);
    let records: PathBuf = office.0.path().join("home/.local/share/rondo/trust.json");
    let text = std::fs::read_to_string(&records).unwrap();
    assert!(text.contains("write_file"), "{text}");
    std::fs::write(&records, text.replace("write_file\"", "write_")).unwrap();
    let refused = office.run(&["run", "clerk", "--offline"]).exits(3);
    assert!(refused.stderr.contains("trust.json"), "{refused:?}");
    office.0.file("clerk/workflow.yaml", WORKFLOW.replace(", tools: [read_file, write_file]", ""));
    office.0.file("clerk/script.yaml", "clerk: [ { body: nothing filed } ]\n");
    office.run(&["run", "clerk", "--offline"]).exits(0);
}

#[test]
fn an_unattended_approval_ends_the_run_with_the_name_of_the_tool() {
    let office = Office::new("[grant]\ntools = [\"*\"]\napprove = [\"write_file\"]\n");
    let stopped = office.run(&["run", "clerk", "--offline", "--json"]).exits(3);
    let error = stopped.event("error");
    assert_eq!(error["code"], "RN1704");
    assert!(error["message"].as_str().unwrap().contains("write_file"), "{error}");
    assert_eq!(office.note(), None);
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
    assert!(of("write_file")["why"].as_str().unwrap().contains("[grant]"));
    let all = office.run(&["tools", "--json"]).exits(0).json();
    assert!(all.iter().any(|line| line["tool"] == "count" && line["origin"] == "[tool.count]"), "{all:?}");
}

#[test]
fn what_says_what_tools_may_do_is_out_of_their_reach() {
    let office = Office::new("[grant]\ntools = [\"*\"]\n");
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
