use std::collections::BTreeMap;

use super::*;
use crate::hook::Registry;

fn graph(text: &str) -> Graph {
    let checked = rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new()).unwrap();
    let hooks = Registry::default().nodes(&checked.workflow, &checked.policy, &[]);
    Graph::new(&checked.workflow, &checked.policy, hooks).unwrap()
}

const LOOP: &str = include_str!("tests/loop.yaml");

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
