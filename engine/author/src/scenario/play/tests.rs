use rondo_protocol::source::Source;
use rondo_protocol::workflow;

use super::super::read;
use super::*;

const PARENT: &str = r#"
rondo: 1
name: report
roles:
  section: { kind: workflow, workflow: section.yaml }
  editor: { system: You edit. }
graph:
  start:
    to: [ section, section, section ]
    join: { to: editor, prompt: "{% for b in branches %}{{ b.part }} {% endfor %}" }
  section:
    done: { to: editor, prompt: "{{ output.text }}" }
    failed: { to: fail, reason: "{{ output.reason }}" }
  editor: { done: { to: end, result: { text: "{{ body }}" } } }
"#;

const SECTION: &str = r#"
rondo: 1
name: section
roles: { part: { kind: workflow, workflow: part.yaml } }
graph:
  start: { to: part }
  part:
    done: { to: end, result: { text: "{{ output.text }}" } }
    failed: { to: fail, reason: "{{ output.reason }}" }
"#;

const PART: &str = r#"
rondo: 1
name: part
roles: { writer: { system: You write. }, checker: { kind: human, output: { fine: {} } } }
graph:
  start: { to: writer, prompt: Write. }
  writer: { done: { to: checker, prompt: Check. } }
  checker: { fine: { to: end, result: { text: "{{ steps.writer.body }}{{ body }}" } } }
"#;

/// Plays a script, and returns the prompt of the editor.
fn played(script: &str) -> Result<String, String> {
    let files = [("section.yaml", SECTION), ("part.yaml", PART)].map(|(name, text)| (name.to_owned(), text.to_owned()));
    let files: BTreeMap<String, String> = files.into();
    let checked = workflow::read("workflow.yaml", PARENT, &files).unwrap();
    let definition = Definition::of("workflow.yaml", checked).unwrap();
    let scenario = Source::new("tests/lanes.yaml", format!("script:\n{script}expect: {{ outcome: done }}\n"));
    let (scenario, faults) = read::read(&scenario, &definition, &BTreeMap::<String, String>::new(), "");
    if let Some(fault) = faults.first() {
        return Err(fault.to_string());
    }
    let folder = std::env::temp_dir();
    let run = RunSetup::new(&definition, &scenario, &folder).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = runtime.block_on(run.play(&definition, &scenario)).unwrap();
    if let Some(fault) = run.fault {
        return Err(fault.message);
    }
    Ok(run.steps.last().map(|step| step.committed.edge.prompt.clone()).unwrap_or_default())
}

/// Children of one role in several lanes are told apart by their lane, at any depth.
#[test]
fn the_children_of_lanes_have_lists_of_their_own() {
    let script = r#"
  "section/part/writer": [ { body: any } ]
  "section[1]/part/writer": [ { body: one } ]
  "section[2]/part/writer": [ { body: two } ]
  "section/part/checker": [ { body: "." } ]
  "section[2]/part/checker": [ { body: "!" } ]
  editor: [ { body: Whole. } ]
"#;
    assert_eq!(played(script), Ok("any. one. two! ".to_owned()));
    let ended = script.replace(r#""section[1]/part/writer": [ { body: one } ]"#, r#""section[1]/part/writer": []"#);
    let failed = played(&ended).unwrap_err();
    assert!(failed.contains("no entry left for role `section[1]/part/writer`, visit 1"), "{failed}");
}

#[test]
fn a_key_that_answers_for_nobody_is_a_fault() {
    let said = |key: &str| played(&format!("  \"{key}\": []\n")).unwrap_err();
    for key in ["editor[2]", "section/part[1]/writer", "section/part/writer[0]", "section[0]/section[1]/part/writer"] {
        assert!(said(key).contains(&format!("`{key}` answers for nobody")), "{}", said(key));
    }
    assert!(said("section[1]/writer").contains("no role `writer`"), "{}", said("section[1]/writer"));
}
