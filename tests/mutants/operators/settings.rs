//! What belongs to the whole workflow: models, input, results.

use rondo_protocol::source::{Kind, Node};

use super::{graph, texts};
use crate::mutant::Mutant;
use crate::subject::Subject;
use crate::tree::{self, Step, then};

/// Mutants of models, input and results.
pub fn mutants(subject: &Subject, mutants: &mut Vec<Mutant>) {
    models(subject, mutants);
    inputs(subject, mutants);
    if let Some(result) = tree::at(&subject.root, "result") {
        results(subject, result, &["result".into()], "result", "result", mutants);
    }
    for edge in graph::edges(&subject.root) {
        if let Some(result) = tree::at(edge.node, "result") {
            let part = format!("{}.result", edge.part);
            results(subject, result, &then(&edge.steps, "result"), &part, &part, mutants);
        }
    }
}

fn models(subject: &Subject, mutants: &mut Vec<Mutant>) {
    for (name, model) in tree::at(&subject.root, "models").map(tree::members).unwrap_or_default() {
        let steps = ["models".into(), name.name.as_str().into()];
        let whole = format!("models.{}", name.name);
        for (key, node) in tree::members(model) {
            let place = format!("{whole}.{}", key.name);
            let steps = then(&steps, key.name.as_str());
            let (operator, value, causes): (_, _, &'static [&'static str]) = match &node.kind {
                Kind::Str(id) => ("model id changed", Kind::Str(format!("{id}-2")), &["model changed"]),
                Kind::Int(number) => ("parameter changed", Kind::Int(number + 1), PARAMETERS),
                Kind::Float(number) => ("parameter changed", Kind::Float(number + 0.1), PARAMETERS),
                _ => continue,
            };
            let root = tree::with(&subject.root, &steps, tree::node(value));
            let mutant = Mutant::of_tree(operator, place.clone(), "", &root, causes);
            mutants.push(mutant.in_parts([place.clone(), whole.clone()]));
            let root = tree::without(&subject.root, &steps);
            let operator = if key.name == "model" { "model id removed" } else { "parameter removed" };
            let mutant = Mutant::of_tree(operator, place.clone(), "", &root, causes);
            mutants.push(mutant.in_parts([place, whole.clone()]));
        }
    }
}

const PARAMETERS: &[&str] = &["parameters changed"];

fn inputs(subject: &Subject, mutants: &mut Vec<Mutant>) {
    for (name, input) in tree::at(&subject.root, "input").map(tree::members).unwrap_or_default() {
        let Some(default) = tree::at(input, "default") else { continue };
        let value = match (&default.kind, tree::at(input, "enum").map(tree::items)) {
            (Kind::Str(was), Some(values)) => {
                values.iter().find(|value| tree::text(value) != Some(was)).map(|value| value.kind.clone()).unwrap()
            }
            (Kind::Str(was), None) => Kind::Str(format!("{was} elsewhere")),
            (Kind::Int(was), _) => Kind::Int(was + 1),
            _ => continue,
        };
        let steps = [Step::from("input"), name.name.as_str().into(), "default".into()];
        let root = tree::with(&subject.root, &steps, tree::node(value));
        let whole = format!("input.{}", name.name.trim_end_matches('?'));
        let mutant = Mutant::of_tree("default changed", format!("{whole}.default"), "", &root, &["input changed"]);
        mutants.push(mutant.in_parts([format!("{whole}.default"), whole]));
    }
}

/// Each leaf of a result says something else.
fn results(subject: &Subject, node: &Node, steps: &[Step], place: &str, part: &str, mutants: &mut Vec<Mutant>) {
    let value = match &node.kind {
        Kind::Map(members) => {
            for (key, node) in members {
                let place = format!("{place}.{}", key.name);
                results(subject, node, &then(steps, key.name.as_str()), &place, part, mutants);
            }
            return;
        }
        Kind::Str(text) => Kind::Str(texts::touched(text, &format!("{}/{place}", subject.name))),
        Kind::Bool(value) => Kind::Bool(!value),
        Kind::Int(number) => Kind::Int(number + 1),
        Kind::List(_) => Kind::Str("none".to_owned()),
        _ => return,
    };
    let root = tree::with(&subject.root, steps, tree::node(value));
    mutants.push(Mutant::of_tree("result changed", place, "", &root, graph::RESULT).in_parts([part.to_owned()]));
}
