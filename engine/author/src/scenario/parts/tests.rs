use rondo_protocol::workflow;

use super::*;

const TEXT: &str = r#"
rondo: 1
name: pair
input: { topic: string }
models: { default: { model: m, temperature: 0 } }
roles:
  writer: { system: You write., output: { drafted: { title: string } } }
  reader: { system: You read. }
graph:
  start: { to: writer, prompt: "{{ input.topic }}" }
  writer: { drafted: { to: reader, prompt: "{{ body }}", max: 2, on_max: { to: end } } }
  reader: { done: { to: end } }
"#;

fn definition(text: &str) -> Definition {
    Definition::of("w.yaml", workflow::read("w.yaml", text, &BTreeMap::new()).unwrap()).unwrap()
}

fn parts_of(text: &str) -> PartDigests {
    of(&definition(text))
}

fn changes(old: &str, new: &str) -> Vec<String> {
    let text = TEXT.replacen(old, new, 1);
    assert_ne!(text, TEXT);
    changed(&parts_of(TEXT), &parts_of(&text)).into_iter().collect()
}

#[test]
fn an_edit_changes_the_part_that_it_is_in_and_no_other() {
    assert_eq!(changes("You write.", "You write well."), ["roles.writer.system"]);
    assert_eq!(changes("title: string", "title: integer"), ["roles.writer.output.drafted"]);
    assert_eq!(changes("{{ body }}", "{{ body }}!"), ["graph.writer.drafted[0].prompt"]);
    assert_eq!(changes("max: 2", "max: 3"), ["graph.writer.drafted[0].max"]);
    assert_eq!(changes("on_max: { to: end }", "on_max: { to: fail }"), ["graph.writer.drafted[0].on_max.to"]);
    assert_eq!(changes("temperature: 0", "temperature: 1"), ["models.default.temperature"]);
    assert_eq!(changes("temperature: 0", "seed: 0"), ["models.default.seed", "models.default.temperature"]);
    assert_eq!(changes("topic: string", "topic: { type: string, default: a }"), ["input.topic"]);
    assert_eq!(
        changes("reader: { system: You read. }", "reader: { system: You read., context: none }"),
        ["roles.reader.context"]
    );
    assert_eq!(changes("You write.", "\"You write.\""), Vec::<String>::new());
}

#[test]
fn only_what_a_run_reached_is_told_of() {
    let all = parts_of(TEXT);
    let workflow = definition(TEXT).checked.workflow;
    let visited = [RoleName::new("writer").unwrap()].into();
    let left = ["graph.start".to_owned()].into();
    let reached = reached(&all, &visited, &left, &workflow);
    assert!(reached.contains_key("graph.start[0].prompt") && reached.contains_key("roles.writer.system"));
    assert!(!reached.keys().any(|path| path.contains("reader") || path.starts_with("graph.writer")), "{reached:?}");
    let text =
        TEXT.replace("You read.", "You look.").replace("{{ body }}", "x").replace("start: { to", "start: { say: s, to");
    assert_eq!(changed(&reached, &parts_of(&text)).into_iter().collect::<Vec<_>>(), ["graph.start[0].say"]);
}
