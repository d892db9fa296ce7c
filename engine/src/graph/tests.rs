use std::collections::BTreeMap;

use super::view::{Format, draw};
use super::*;

fn graph(text: &str) -> Graph {
    let checked = rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new()).unwrap();
    Graph::new(&checked.workflow, &checked.policy, crate::registry().nodes(&checked.workflow, &checked.policy, &[]))
        .unwrap()
}

const LOOP: &str = r#"
rondo: 1
name: a-loop
roles:
  writer: { system: You write., output: { drafted: { score: integer }, unsure: {} } }
  editor: { system: You edit., output: { approved: {}, revise: {} } }
graph:
  start: { to: writer, prompt: Write. }
  writer:
    drafted:
      - { when: 'output.score < 3 and "x" == "x"', to: writer, prompt: Again., max: 2, on_max: { to: fail } }
      - else: { to: editor, prompt: "{{ body }}" }
    unsure: { to: editor, prompt: Help. }
    on_error: { to: fail, reason: "{{ output.message }}" }
  editor:
    approved: { to: end }
    revise: { to: back, prompt: Revise., max: 3, per: writer, on_max: { to: end } }
"#;

#[test]
fn a_graph_is_drawn_in_three_ways() {
    // Without `per` the cycle is bounded across all visits of the editor.
    let graph = graph(&LOOP.replace(", per: writer", ""));
    insta::assert_snapshot!("mermaid", draw(&graph, &[], Format::Mermaid));
    insta::assert_snapshot!("dot", draw(&graph, &[], Format::Dot));
    insta::assert_snapshot!("json", draw(&graph, &[], Format::Json));
}

#[test]
fn hooks_are_drawn_where_calls_pass_them() {
    let hooked = "hooks:\n  - { use: log, roles: [writer] }\n  - { use: log, at: turn }\ngraph:";
    let graph = graph(&LOOP.replace(", per: writer", "").replace("graph:", hooked));
    insta::assert_snapshot!("hooks", draw(&graph, &[], Format::Mermaid));
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
    insta::assert_snapshot!("fan_out", draw(&graph, &[], Format::Mermaid));
    insta::assert_snapshot!("fan_out_dot", draw(&graph, &[], Format::Dot));
    assert_eq!(graph.start().len(), 1, "a fan-out is one edge");
}

#[test]
fn edges_are_tried_in_declared_order_and_number_with_what_stands_behind_them() {
    let graph = graph(&LOOP.replace(", per: writer", ""));
    let (role, status) = (RoleName::new("writer").unwrap(), Status::new("drafted").unwrap());
    let routes = graph.routes(&role, &status).unwrap();
    let numbers: Vec<u32> = routes.iter().map(|edge| edge.id.0).collect();
    assert_eq!(numbers, [1, 3]);
    assert_eq!(routes[0].bound.as_ref().unwrap().on_max.id.0, 2);
    assert_eq!(graph.start().len(), 1);
}

#[test]
fn roles_whose_every_visit_is_asked_for_are_known_beforehand() {
    let told = |prompt: &str| {
        let text = LOOP.replace(", per: writer", "").replace("\"{{ body }}\"", prompt);
        graph(&text).roles_told_whole().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told("\"{{ steps.writer.visits }}\""), Vec::<String>::new());
    assert_eq!(told("\"{% for s in steps.writer.all %}{{ s.body }}{% endfor %}\""), ["writer"]);
}

#[test]
fn an_edge_that_replaces_a_spent_one_is_not_tried_before() {
    let listed = "start:\n    - { when: 'true', to: writer, prompt: Write., max: 1, on_max: { to: fail } }\n    - else: { to: writer, prompt: Rewrite. }";
    let graph = graph(&LOOP.replace(", per: writer", "").replace("start: { to: writer, prompt: Write. }", listed));
    let targets: Vec<_> = graph.start().iter().flat_map(|edge| edge.to.roles()).map(RoleName::as_str).collect();
    assert_eq!((graph.start().len(), targets), (2, vec!["writer", "writer"]));
}
