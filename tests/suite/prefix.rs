//! `rondo prefix`: seeded breakers are named with cause and block, what a history leaves out on purpose is no break,
//! and the figures add up.

use std::process::Command;

use rondo_agent_kit::prefix::Cause;
use rondo_agent_kit::prefix::volatile::Volatile;
use serde_json::Value;

use crate::binary::{Finished, Place, Running, fixture};

const CAUSES: [Cause; 24] = [
    Cause::ModelChanged,
    Cause::ToolAdded,
    Cause::ToolRemoved,
    Cause::ToolChanged,
    Cause::SchemaChanged,
    Cause::SystemTextChanged,
    Cause::VolatileInSystem(Volatile::Clock),
    Cause::VolatileInSystem(Volatile::Id),
    Cause::VolatileInSystem(Volatile::Path),
    Cause::VolatileInSystem(Volatile::Environment),
    Cause::VolatileInPrompt(Volatile::Clock),
    Cause::VolatileInPrompt(Volatile::Id),
    Cause::VolatileInPrompt(Volatile::Path),
    Cause::VolatileInPrompt(Volatile::Environment),
    Cause::PromptChanged,
    Cause::SummaryChanged,
    Cause::SummaryOrderChanged,
    Cause::SummaryCutChanged,
    Cause::AnswerRewritten,
    Cause::ToolResultChanged,
    Cause::ToolCallsChanged,
    Cause::HistoryShortened,
    Cause::HistoryNone,
    Cause::Compacted,
];

/// A writer, an editor and a critic go round three times.
const WORKFLOW: &str = r"
rondo: 1
name: round
roles:
  writer:
    system: You write short notes.
    output: { drafted: { title: string } }
    history: condensed
    context: outputs
  editor:
    system: You edit.
    format: json
    output: { revise: { comment: string } }
    context: none
  critic:
    system: You doubt.
    output: { doubted: { doubt: string } }
    context: none
graph:
  start: { to: writer, prompt: Write about tides. }
  writer: { drafted: { to: editor, prompt: Review it. } }
  editor: { revise: { to: critic, prompt: Doubt it. } }
  critic:
    doubted: { to: writer, prompt: Revise it., max: 2, on_max: { to: end } }
";

const SCRIPT: &str = r#"
writer:
  - { status: drafted, fields: { title: Tides }, body: "They come." }
  - { status: drafted, fields: { title: Ebb }, body: "They go." }
  - { status: drafted, fields: { title: Flood }, body: "They come again." }
editor:
  - { status: revise, fields: { comment: "Shorter, please" } }
  - { status: revise, fields: { comment: "Shorter still" } }
  - { status: revise, fields: { comment: "Enough" } }
critic:
  - { status: doubted, fields: { doubt: "Is it so?" } }
  - { status: doubted, fields: { doubt: "Really?" } }
  - { status: doubted, fields: { doubt: "Truly?" } }
"#;

/// A writer that reads a file in each of three visits, and answers wrongly once.
const READER: &str = r"
rondo: 1
name: reader
roles:
  writer:
    system: You write short notes.
    tools: [read_file]
    output: { drafted: { title: string } }
    history: condensed
graph:
  start: { to: writer, prompt: Write about tides. }
  writer:
    drafted: { to: writer, prompt: Revise it., max: 2, on_max: { to: end } }
";

const READER_SCRIPT: &str = r#"
writer:
  - { tools: [ { name: read_file, args: { path: notes.txt } } ], then: { status: drafted, fields: { title: Tides } } }
  - { raw: "no front matter" }
  - { status: drafted, fields: { title: Ebb } }
  - { tools: [ { name: read_file, args: { path: notes.txt } } ], then: { status: drafted, fields: { title: Flood } } }
"#;

fn place(workflow: &str, script: &str) -> Place {
    let place = Place::new();
    place.file("round/workflow.yaml", workflow);
    place.file("round/script.yaml", script);
    place.file("notes.txt", "a note");
    place.file("rondo.toml", "[grant]\ntools = [\"read_file\"]\n");
    place
}

fn command(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(words);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

fn run(place: &Place) -> Finished {
    Running::of(command(place, &["run", "round", "--offline", "--json", "--trust"])).finish().exits(0)
}

fn thread(ran: &Finished) -> String {
    ran.event("thread_started")["thread"].as_str().unwrap().to_owned()
}

fn prefix(place: &Place, words: &[&str]) -> Finished {
    let words = [&["prefix", "--json"], words].concat();
    Running::of(command(place, &words)).finish().exits(0)
}

/// The breaks of a report, as `role visit: block: cause`.
fn broken(report: &Finished) -> Vec<String> {
    let visits = report.events("visit").into_iter();
    let told = visits.filter(|visit| !visit["broke"].is_null()).map(|visit| {
        let (role, broke) = (visit["role"].as_str().unwrap(), &visit["broke"]);
        let (block, cause) = (broke["block"].as_str().unwrap(), broke["cause"].as_str().unwrap());
        assert!(CAUSES.iter().any(|known| known.phrase() == cause), "{cause}");
        assert!(broke["byte"].as_u64().unwrap() <= visit["request_bytes"].as_u64().unwrap());
        format!("{role} {}: {block}: {cause}", visit["visit"])
    });
    told.collect()
}

/// Runs a workflow with a program that rewrites the requests of `role` in that way, and gives what broke first.
fn broken_by(way: &str, role: &str, workflow: &str, script: &str) -> String {
    let hooked = format!("{workflow}hooks:\n  - {{ use: command, name: breaker, at: model, roles: [{role}] }}\n");
    let place = place(&hooked, script);
    place.file("breaker.py", std::fs::read_to_string(fixture("hooks/breaker.py")).unwrap());
    let settings = "[grant]\ntools = [\"read_file\"]\n[hook.breaker]\nargv = [\"python3\", \"breaker.py\",";
    place.file("rondo.toml", format!("{settings} \"{way}\"]\ntimeout = \"30s\"\n"));
    run(&place);
    broken(&prefix(&place, &[])).into_iter().next().unwrap_or_else(|| format!("{way} broke nothing"))
}

#[test]
fn breakers_in_the_system_text_are_named() {
    for (way, told) in [
        ("clock_in_system", "writer 2: system: clock in the system text"),
        ("clock_before_system", "writer 2: system: clock in the system text"),
        ("id_in_system", "writer 2: system: id in the system text"),
        ("path_in_system", "writer 2: system: path in the system text"),
        ("environment_in_system", "writer 2: system: environment in the system text"),
        ("system", "writer 2: system: system text changed"),
        ("contract", "writer 2: system: schema changed"),
    ] {
        assert_eq!(broken_by(way, "writer", WORKFLOW, SCRIPT), told, "{way}");
    }
}

#[test]
fn breakers_in_prompts_are_named() {
    for (way, told) in [
        ("clock_in_prompt", "writer 2: message 1: clock in the prompt"),
        ("id_in_prompt", "writer 2: message 1: id in the prompt"),
        ("path_in_prompt", "writer 2: message 1: path in the prompt"),
        ("environment_in_prompt", "writer 2: message 1: environment in the prompt"),
        ("prompt", "writer 2: message 1: prompt changed"),
        ("flatten", "writer 2: message 1: prompt changed"),
    ] {
        assert_eq!(broken_by(way, "writer", WORKFLOW, SCRIPT), told, "{way}");
    }
}

#[test]
fn breakers_in_what_happened_before_are_named() {
    for (way, told) in [
        ("drop", "writer 3: message 1: history shortened"),
        ("answer", "writer 2: message 2: answer rewritten"),
        ("reorder", "writer 3: message 3: summary order changed"),
        ("cut", "writer 3: message 3: summary cut changed"),
        ("summary", "writer 3: message 3: summary changed"),
    ] {
        assert_eq!(broken_by(way, "writer", WORKFLOW, SCRIPT), told, "{way}");
    }
    assert_eq!(broken_by("json", "editor", WORKFLOW, SCRIPT), "editor 2: message 2: answer rewritten");
}

#[test]
fn breakers_in_tool_traffic_are_named() {
    let exact = READER.replace("history: condensed", "history: exact");
    for (way, told) in [
        ("tool_result", "writer 2: message 3: tool result changed"),
        ("tool_call", "writer 2: message 2: tool calls changed"),
    ] {
        assert_eq!(broken_by(way, "writer", &exact, READER_SCRIPT), told, "{way}");
    }
}

#[test]
fn a_hook_that_only_adds_to_the_newest_message_breaks_nothing_before_it() {
    assert_eq!(broken_by("later_only", "writer", WORKFLOW, SCRIPT), "later_only broke nothing");
}

#[test]
fn a_fresh_conversation_is_named_as_the_choice_that_it_is() {
    let none = WORKFLOW.replace("history: condensed", "history: none");
    let fresh = place(&none, SCRIPT);
    run(&fresh);
    let told = broken(&prefix(&fresh, &[]));
    assert_eq!(told, ["writer 2: message 1: history: none", "writer 3: message 1: history: none"]);
    assert_eq!(broken_by("clock_in_prompt", "writer", &none, SCRIPT), "writer 2: message 1: clock in the prompt");
}

/// Runs the first round with `first` in force, then the others with `second`: settings, and the model.
fn resumed(workflow: &str, first: (&str, &str), second: (&str, &str)) -> Vec<String> {
    let rest: String =
        SCRIPT.lines().filter(|line| !line.contains("Ebb") && !line.contains("Flood")).collect::<Vec<_>>().join("\n");
    let place = place(workflow, &rest);
    let with_model = |words: &[&str], (settings, model): (&str, &str)| {
        place.file("rondo.toml", settings);
        let mut command = command(&place, words);
        command.env("RONDO_MODEL", model);
        Running::of(command).finish()
    };
    with_model(&["run", "round", "--offline", "--json", "--trust"], first).exits(5);
    place.file("round/script.yaml", SCRIPT);
    with_model(&["resume", "last", "--script", "round/script.yaml", "--json", "--trust"], second).exits(0);
    broken(&prefix(&place, &[])).into_iter().filter(|told| told.starts_with("writer")).collect()
}

#[test]
fn another_model_or_tool_set_on_resume_is_named() {
    let grant = "[grant]\ntools = [\"read_file\", \"note\"]\n";
    let tool = |schema: &str| format!("{grant}[tool.note]\nargv = [\"true\"]\n{schema}\n");
    let of = |types: &str| {
        tool(&format!("schema = {{ type = \"object\", properties = {{ text = {{ type = \"{types}\" }} }} }}"))
    };
    let (text, number) = (of("string"), of("integer"));
    let told = resumed(WORKFLOW, (grant, "small"), (grant, "large"));
    assert_eq!(told, ["writer 2: model: model changed"]);
    let equipped = WORKFLOW.replace("notes.\n", "notes.\n    tools: [read_file, note]\n");
    assert_eq!(resumed(&equipped, (grant, "m"), (&text, "m")), ["writer 2: tools.note: tool added"]);
    assert_eq!(resumed(&equipped, (&text, "m"), (grant, "m")), ["writer 2: tools.note: tool removed"]);
    assert_eq!(resumed(&equipped, (&text, "m"), (&number, "m")), ["writer 2: tools.note: tool changed"]);
}

/// What broke between a run of `before` and one of `after`, visit by visit.
fn edited(before: &str, after: &str) -> Vec<String> {
    let place = place(before, SCRIPT);
    let old = thread(&run(&place));
    place.file("round/workflow.yaml", after);
    let new = thread(&run(&place));
    broken(&prefix(&place, &[&new, "--against", &old]))
}

#[test]
fn an_edit_of_the_workflow_is_named_against_the_run_before_it() {
    for (old, new, told) in [
        ("You write short notes.", "You write long notes.", "writer 1: system: system text changed"),
        (
            "drafted: { title: string }",
            "drafted: { title: string, \"note?\": string }",
            "writer 1: system: schema changed",
        ),
        (
            "revise: { comment: string }",
            "revise: { comment: string, \"why?\": string }",
            "editor 1: response_format: schema changed",
        ),
        ("    history: condensed", "    tools: [read_file]", "writer 1: tools.read_file: tool added"),
        ("Write about tides.", "Write about dunes.", "writer 1: message 1: prompt changed"),
        ("Revise it.", "Rewrite it.", "writer 2: message 3: prompt changed"),
        ("    context: outputs", "    context: none", "writer 2: message 3: summary changed"),
        (
            "    context: outputs",
            "    context: { what: outputs, max_bytes: 24 }",
            "writer 2: message 3: summary cut changed",
        ),
    ] {
        let after = WORKFLOW.replace(old, new);
        assert_ne!(after, WORKFLOW);
        assert_eq!(edited(WORKFLOW, &after).first().map(String::as_str), Some(told), "{new}");
    }
    assert_eq!(edited(WORKFLOW, WORKFLOW), [""; 0]);
}

#[test]
fn threads_without_a_common_visit_are_not_compared() {
    let place = place(WORKFLOW, SCRIPT);
    let old = thread(&run(&place));
    place.file("round/workflow.yaml", READER.replace("writer", "reader"));
    place.file("round/script.yaml", READER_SCRIPT.replace("writer", "reader"));
    run(&place);
    let words = ["prefix", "last", "--against", &old];
    let refused = Running::of(command(&place, &words)).finish().exits(2);
    assert!(refused.stderr.contains("RN1901"), "{}", refused.stderr);
}

#[test]
fn what_a_history_leaves_out_on_purpose_is_no_break() {
    for history in ["condensed", "exact"] {
        let place = place(&READER.replace("history: condensed", &format!("history: {history}")), READER_SCRIPT);
        run(&place);
        let report = prefix(&place, &["--histories"]);
        assert_eq!(broken(&report), [""; 0], "{history}");
        let requests: Vec<Value> = report.events("visit").iter().map(|visit| visit["requests"].clone()).collect();
        assert_eq!(requests, [2, 2, 2], "{history}");
        assert_sums(&report);
    }
}

/// The visits of each role come to its line, and that to the strategy it has chosen; figures of other strategies differ.
fn assert_sums(report: &Finished) {
    for role in report.events("role") {
        for figure in ["requests", "request_bytes", "shared_bytes"] {
            let visits = report.events("visit").into_iter().filter(|visit| visit["role"] == role["role"]);
            let sum: u64 = visits.map(|visit| visit[figure].as_u64().unwrap()).sum();
            assert_eq!(role[figure], sum, "{figure} of {role}");
            let strategies = report.events("strategy").into_iter().filter(|strategy| strategy["role"] == role["role"]);
            let chosen: Vec<Value> = strategies.filter(|strategy| strategy["is_chosen"] == true).collect();
            assert_eq!(chosen.len(), 1);
            assert_eq!((&chosen[0]["history"], &chosen[0][figure]), (&role["history"], &role[figure]), "{figure}");
        }
    }
}

#[test]
fn the_bytes_can_be_counted_again_from_what_was_sent() {
    let place = place(WORKFLOW, SCRIPT);
    run(&place);
    let report = prefix(&place, &["--histories"]);
    assert_sums(&report);
    let mut before = String::new();
    for visit in report.events("visit").iter().filter(|visit| visit["role"] == "writer") {
        let number = visit["visit"].to_string();
        let words = ["messages", "last", "--role", "writer", "--visit", &number, "--json"];
        let sent = place.run(words).exits(0).json().remove(0);
        let mut text = serde_json::json!({ "role": "system", "text": sent["head"]["system"] }).to_string();
        for message in sent["messages"].as_array().unwrap() {
            text += &message.to_string();
        }
        assert_eq!(visit["request_bytes"], text.len());
        let shared = before.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        assert_eq!(visit["shared_bytes"], shared);
        before = text;
    }
}

#[test]
fn tokens_and_money_stand_where_they_are_known() {
    let place = place(WORKFLOW, SCRIPT);
    run(&place);
    let first = prefix(&place, &[]).events("visit").remove(0);
    for member in ["prompt_tokens", "cached_tokens", "cost_usd", "broke"] {
        assert_eq!(first[member], Value::Null, "{member}");
    }
    place.file("rondo.toml", "[model.default]\nprice = { input = 4, cached_input = 1, output = 8 }\n");
    let strategies = prefix(&place, &["--histories"]).events("strategy");
    let cost = |strategy: &Value| {
        let figure = |name: &str| strategy[name].as_f64().unwrap();
        let (sent, served) = (figure("prompt_tokens_estimated"), figure("served_tokens_estimated"));
        ((sent - served) * 4.0 + served) / 1e6
    };
    assert_eq!(strategies.len(), 9);
    assert!(strategies.iter().all(|strategy| (strategy["cost_usd"].as_f64().unwrap() - cost(strategy)).abs() < 1e-12));
}

#[test]
fn shipped_workflows_break_no_prefix_but_by_choice() {
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    for name in ["debate", "map-files", "panel", "repo-report", "review-diff", "review-loop", "triage"] {
        let place = Place::new();
        let folder = shipped.join(name);
        let (workflow, input) = (folder.to_str().unwrap(), folder.join("input.json"));
        let store = place.store();
        let words = ["run", "--trust", workflow, "--offline", "--json", "--input-file", input.to_str().unwrap()];
        let mut ran = place.command(words);
        // Tools work in the folder that the workflow is started from.
        ran.arg("--store").arg(&store).current_dir(shipped.join(".."));
        Running::of(ran).finish().exits(0);
        let mut told = broken(&prefix(&place, &["--store", store.to_str().unwrap()]));
        told.retain(|told| !told.ends_with(": history: none"));
        assert_eq!(told, [""; 0], "{name}");
    }
}

#[test]
fn the_report_reads_well() {
    let workflow = format!("{WORKFLOW}hooks:\n  - {{ use: command, name: breaker, at: model, roles: [writer] }}\n");
    let place = place(&workflow, SCRIPT);
    place.file("breaker.py", std::fs::read_to_string(fixture("hooks/breaker.py")).unwrap());
    let settings = "[hook.breaker]\nargv = [\"python3\", \"breaker.py\", \"clock_in_system\"]\ntimeout = \"30s\"\n\
                    [model.default]\nprice = { input = 400, cached_input = 100, output = 800 }\n";
    place.file("rondo.toml", settings);
    let id = thread(&run(&place));
    let report = place.run(["prefix"]).exits(0).text();
    assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
    insta::assert_snapshot!(report.replace(&id, "[thread]"));
}

#[test]
fn a_role_has_a_conversation_in_each_lane() {
    for history in ["condensed", "exact", "none"] {
        let place = Place::new();
        let text = std::fs::read_to_string(format!("{}/workflow.yaml", fixture("lanes"))).unwrap();
        place.file("lanes/workflow.yaml", text.replace("history: exact", &format!("history: {history}")));
        let script = std::fs::read_to_string(format!("{}/script.yaml", fixture("lanes"))).unwrap();
        place.file("lanes/script.yaml", script);
        place.run(["run", "lanes", "--offline", "-i", "topic=tides", "--json"]).exits(0);
        let report = prefix(&place, &["--histories"]);
        let by_choice = |broke: &String| broke.ends_with("history: none");
        assert!(
            broken(&report).iter().all(by_choice) && (history == "none") != broken(&report).is_empty(),
            "{report:?}"
        );
        assert_sums(&report);
    }
}
