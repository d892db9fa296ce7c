use rondo_agent_kit::model::script::ScriptRoles;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow;

use super::*;

const WORKFLOW: &str = r#"
rondo: 1
name: pair
input: { topic: string, words: { type: integer, default: 3 } }
roles:
  writer: { system: You write., output: { drafted: { title: string } }, tools: [read_file, run_tests] }
  reader: { system: You read., output: { good: {}, bad: {} } }
graph:
  start: { to: writer, prompt: "{{ input.topic }}" }
  writer: { drafted: { to: reader, prompt: "{{ body }}" }, on_error: { to: fail } }
  reader: { good: { to: end }, bad: { to: fail } }
"#;

const SCRIPT: &str = "writer: [ { status: drafted, fields: { title: Tides } } ]\nreader: [ { status: good } ]\n";

fn definition() -> Definition {
    let file = "pair/workflow.yaml";
    Definition::of(file, workflow::read(file, WORKFLOW, &BTreeMap::new()).unwrap()).unwrap()
}

fn read_text(text: &str) -> (Scenario, Vec<Diagnostic>) {
    let files: BTreeMap<String, String> = [
        ("script.yaml".to_owned(), SCRIPT.to_owned()),
        ("tests/input.json".to_owned(), r#"{"topic": "tides"}"#.to_owned()),
        ("tests/broken.jsonl".to_owned(), "{\"rondo_cassette\": 9}\n".to_owned()),
    ]
    .into();
    read(&Source::new("pair/tests/a.yaml", text), &definition(), &files, "pair/")
}

/// The faults of a scenario, one per line.
fn faults(text: &str) -> String {
    read_text(text).1.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_scenario_without_faults_is_read_whole() {
    let (scenario, faults) = read_text(
        "description: Reads.\n\
         input_file: input.json\n\
         workspace: ../fixture\n\
         tools: { run_tests: [ { text: \"1 failed\", failed: true }, { args: { a: 1 }, text: ok }, plain ] }\n\
         expect:\n\
         \x20 route: [writer.drafted, reader.good]\n\
         \x20 outcome: done\n\
         \x20 exit: 0\n\
         \x20 result: { status: good }\n\
         \x20 assert:\n\
         \x20   - { path: \"$.steps.writer.output.title\", equals: Tides }\n\
         \x20   - { path: \"$.route\", contains: writer.drafted }\n\
         \x20   - { role: writer, visit: 1, request_contains: tides }\n\
         \x20   - { calls: { writer: 1 } }\n\
         \x20   - { tool_calls: { run_tests: 3 } }\n\
         \x20   - { cost_usd_under: 0.05 }\n\
         \x20   - { prompt_tokens_under: 4000 }\n\
         \x20   - { said: done }\n",
    );
    assert_eq!(faults, Vec::new());
    assert_eq!(scenario.input.to_text(), r#"{"topic":"tides","words":3}"#);
    assert_eq!(scenario.workspace.as_deref(), Some("fixture"));
    assert_eq!(scenario.tools["run_tests"].results.len(), 3);
    assert_eq!(scenario.expect.len(), 12);
    assert!(
        matches!(&scenario.answers, AnswerSource::Script(script) if script.speaks_for(&ScriptRoles::default(), &[(RoleName::new("writer").unwrap(), LanePath::trunk())]))
    );
}

#[test]
fn every_fault_is_told_with_its_place_and_what_to_do() {
    insta::assert_snapshot!(faults(
        "descripton: Reads.\n\
         input: { topics: tides, words: many }\n\
         workspace: ../../elsewhere\n\
         tools:\n\
         \x20 run_test: []\n\
         \x20 run_tests: [ { txt: x }, 3 ]\n\
         script:\n\
         \x20 wrter: [ { status: drafted } ]\n\
         \x20 reader: [ { status: fine } ]\n\
         expect:\n\
         \x20 route: [writer.draft, readr.good, writer, 3]\n\
         \x20 outcome: finished\n\
         \x20 exit: 300\n\
         \x20 asserts: []\n\
         \x20 assert:\n\
         \x20   - { path: \"$.steps.writer[*]\", equals: 1 }\n\
         \x20   - { path: $.step, equals: 1 }\n\
         \x20   - { path: $.steps.wrter, equals: 1, contains: x }\n\
         \x20   - { role: reder, answer_contains: x, said: y }\n\
         \x20   - { calls: { writer: -1 } }\n\
         \x20   - { cost_usd_under: cheap }\n\
         \x20   - {}\n\
         \x20   - { visit: 1 }\n"
    ));
}

#[test]
fn what_is_named_must_be_there_and_stay_in_the_folder_of_the_workflow() {
    insta::assert_snapshot!(faults("input: { topic: a }\nscript: ../scripts/none.yaml\n"), @"pair/tests/a.yaml:2:9: RN1855: `scripts/none.yaml` cannot be read: there is no such file (hint: the path counts from the folder of the scenario)");
    insta::assert_snapshot!(faults("input: { topic: a }\nscript: /etc/passwd\n"), @"pair/tests/a.yaml:2:9: RN1855: `/etc/passwd` is not a path within the folder of the workflow (hint: write a path that counts from the folder of the scenario)");
    insta::assert_snapshot!(faults("input: { topic: a }\nscript: {}\nrecorded: x\n"), @"pair/tests/a.yaml:3:1: RN1851: `recorded` and `script` exclude each other");
    assert!(faults("input: { topic: a }\nrecorded: broken.jsonl\n").contains("pair/tests/broken.jsonl:1:"));
}

#[test]
fn a_file_that_is_no_scenario_is_told_once() {
    for text in ["", "[]", "3", "{", "a: &a [*a]", "expect: 3", "tools: []", "\u{0}"] {
        let (_, faults) = read_text(text);
        assert!(!faults.is_empty(), "{text:?}");
    }
}

#[test]
fn a_path_counts_from_the_folder_of_scenarios() {
    for (path, wanted) in [
        ("a.yaml", Some("tests/a.yaml")),
        ("./b/../a", Some("tests/a")),
        ("../script.yaml", Some("script.yaml")),
        ("..", None),
        ("../..", None),
        ("../../x", None),
        ("/x", None),
        ("a\\b", None),
        ("", None),
    ] {
        assert_eq!(within("tests", path).as_deref(), wanted, "{path}");
    }
}

/// The names in the first cells of the table of `page` whose title is `title`.
fn rows<'p>(page: &'p str, title: &str) -> Vec<&'p str> {
    let (_, table) = page.split_once(&format!("\n| {title} | ")).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}

#[test]
fn the_reference_has_a_row_for_each_key_and_for_nothing_else() {
    let page = include_str!("../../../../docs/scenarios.md");
    for (title, keys) in [
        ("key", KEYS.as_slice()),
        ("key of `expect`", EXPECT_KEYS.as_slice()),
        ("key of a tool", TOOL_KEYS.as_slice()),
        ("key of a result", RESULT_KEYS.as_slice()),
        ("key of an assertion", assertion::KEYS.as_slice()),
    ] {
        let (mut told, mut known) = (rows(page, title), keys.to_vec());
        told.sort_unstable();
        known.sort_unstable();
        assert_eq!(told, known, "{title}");
    }
    let paths: Vec<&str> = page.lines().filter(|line| line.starts_with("| `$")).collect();
    for fact in assertion::FACTS {
        assert!(paths.iter().any(|row| row.contains(&format!("`$.{fact}"))), "{fact}");
    }
}
