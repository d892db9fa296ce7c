use std::collections::BTreeMap;

use super::*;

fn graph(text: &str) -> Graph {
    let checked = rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new()).unwrap();
    Graph::new(&checked.workflow, &checked.policy, crate::registry().nodes(&checked.workflow, &checked.policy, &[]))
        .unwrap()
}

fn drawn(graph: &Graph, format: Format) -> String {
    with_children(graph, &[], format, Hooks::Badges)
}

fn with_children(graph: &Graph, children: &[Child], format: Format, hooks: Hooks) -> String {
    String::from_utf8(draw(graph, children, format, hooks).unwrap()).unwrap()
}

const LOOP: &str = include_str!("../../core/src/graph/tests/loop.yaml");

#[test]
fn a_graph_is_drawn_in_three_ways() {
    // Without `per` the cycle is bounded across all visits of the editor.
    let graph = graph(&LOOP.replace(", per: writer", ""));
    insta::assert_snapshot!("mermaid", drawn(&graph, Format::Mermaid));
    insta::assert_snapshot!("dot", drawn(&graph, Format::Dot));
    insta::assert_snapshot!("json", drawn(&graph, Format::Json));
}

#[test]
fn hooks_are_drawn_where_calls_pass_them() {
    let hooked = "hooks:\n  - { use: log, roles: [writer] }\n  - { use: log, at: turn }\ngraph:";
    let graph = graph(&LOOP.replace(", per: writer", "").replace("graph:", hooked));
    insta::assert_snapshot!("hooks", with_children(&graph, &[], Format::Mermaid, Hooks::Full));
    insta::assert_snapshot!("badges", drawn(&graph, Format::Mermaid));
    insta::assert_snapshot!("badges_dot", drawn(&graph, Format::Dot));
    assert_eq!(
        drawn(&graph, Format::Json),
        with_children(&graph, &[], Format::Json, Hooks::Full),
        "programs get every hook"
    );
}

#[test]
fn an_edge_behind_else_is_named_and_every_way_back_is_drawn() {
    let text = r"
rondo: 1
name: a-choice
roles:
  writer: { system: You write., output: { done: { score: integer } } }
  chooser: { kind: selector, by: model, system: You choose. }
  editor: { system: You edit., output: { done: {} } }
graph:
  start: { to: writer, prompt: Write. }
  writer:
    done:
      - { when: output.score > 2, to: end }
      - else: { to: chooser, prompt: Choose., max: 2, on_max: { to: fail } }
  chooser:
    editor: { to: editor, prompt: Go. }
    stop: { to: end }
    else: { to: back, prompt: Again., max: 5, on_max: { to: fail } }
  editor:
    done: { to: end, max: 1, on_max: { to: back, prompt: Once., max: 1, on_max: { to: back, prompt: Twice., max: 1, on_max: { to: end } } } }
";
    let graph = graph(text);
    insta::assert_snapshot!("else", drawn(&graph, Format::Mermaid));
    assert!(drawn(&graph, Format::Dot).contains(r#"[label="chooser\nselector", shape=box]"#));
    for format in [Format::Dot, Format::Json] {
        let text = drawn(&graph, format);
        for label in ["done else max 2", "done else after 2 times", "else max 5", "else after 5 times"] {
            assert!(text.contains(&format!("\"{label}\"")), "{label} in {text}");
        }
    }
}

const FANNED: &str = r#"
rondo: 1
name: fanned
input: { topics: "string[]" }
roles:
  critic: { system: You criticise., output: { liked: {}, disliked: {} } }
  checker: { system: You check., output: { fine: {} } }
  judge: { system: You judge., output: { again: {}, good: {} } }
graph:
  start:
    to: [ critic, { to: checker, when: "input.topics | length > 0" }, critic ]
    prompt: Look.
    join: { to: judge, need: any, failed: collect }
  critic:
    liked: { to: judge }
    disliked: { to: checker, prompt: Is it so? }
  checker:
    fine: { to: judge }
  judge:
    again:
      each: input.topics
      as: topic
      parallel: 2
      to: critic
      prompt: "{{ topic }}"
      join: judge
      max: 1
      on_max: { to: fail, reason: enough }
    good: { to: end }
"#;

#[test]
fn a_fan_out_is_drawn_with_its_branches_and_its_join() {
    let graph = graph(FANNED);
    insta::assert_snapshot!("fan_out", drawn(&graph, Format::Mermaid));
    insta::assert_snapshot!("fan_out_dot", drawn(&graph, Format::Dot));
    assert_eq!(graph.start().len(), 1, "a fan-out is one edge");
}

#[test]
fn frames_lie_within_each_other_or_apart() {
    let text = r"
rondo: 1
name: framed
roles:
  outer: { system: x, output: { split: {}, alone: {} } }
  inner: { system: x }
  other: { system: x }
  gather: { system: x }
  shared: { system: x }
  last: { system: x }
graph:
  start: { to: [outer, other], prompt: Go., join: { to: last } }
  outer:
    split: { to: [inner, shared], prompt: Go., join: { to: gather } }
    alone: { to: gather, prompt: Go. }
  inner: { done: { to: gather } }
  shared: { done: { to: gather } }
  gather: { done: { to: last } }
  other: { done: { to: last } }
  last: { done: { to: end } }
";
    insta::assert_snapshot!("nested_frames", drawn(&graph(text), Format::Mermaid));
    let child = [Child { path: "shared".to_owned(), graph: graph(FANNED) }];
    insta::assert_snapshot!("frames_of_a_child", with_children(&graph(text), &child, Format::Dot, Hooks::Badges));
}
