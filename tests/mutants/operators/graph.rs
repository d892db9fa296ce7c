//! Edges: where they lead, how often, when, and what they say.

use rondo_protocol::source::{Kind, Node};

use crate::chance;
use crate::mutant::Mutant;
use crate::subject::Subject;
use crate::tree::{self, Step, then};

/// What a changed prompt is called.
pub const PROMPT: &[&str] = &["prompt changed"];
/// What a changed line for the user is called.
pub const SAID: &[&str] = &["line for the user changed"];
/// What a changed reason is called.
pub const REASON: &[&str] = &["reason changed"];
/// What a changed result is called.
pub const RESULT: &[&str] = &["result changed"];
/// What a changed route is called.
const MOVED: &[&str] = &["edge moved"];

/// An edge as the file writes it.
#[derive(Debug, Clone)]
pub struct Edge<'n> {
    /// As a workflow's parts are called: `graph.writer.drafted[0].on_max`.
    pub part: String,
    /// Where it stands in the file.
    pub steps: Vec<Step>,
    /// Whose it is, or `start`.
    pub from: String,
    /// It.
    pub node: &'n Node,
}

/// Every edge of a workflow, those under `on_max` behind their own.
pub fn edges(root: &Node) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    for (role, node) in tree::at(root, "graph").map(tree::members).unwrap_or_default() {
        let steps = vec![Step::from("graph"), role.name.as_str().into()];
        let part = format!("graph.{}", role.name);
        if role.name == "start" {
            ways(&mut edges, node, &part, &steps, "start");
            continue;
        }
        for (status, node) in tree::members(node) {
            let called = status.name.strip_prefix("on_").unwrap_or(&status.name);
            ways(&mut edges, node, &format!("{part}.{called}"), &then(&steps, status.name.as_str()), &role.name);
        }
    }
    edges
}

fn ways<'n>(edges: &mut Vec<Edge<'n>>, node: &'n Node, part: &str, steps: &[Step], from: &str) {
    if tree::items(node).is_empty() {
        edge(edges, node, &format!("{part}[0]"), steps, from);
        return;
    }
    for (position, item) in tree::items(node).iter().enumerate() {
        let (part, steps) = (format!("{part}[{position}]"), then(steps, position));
        match tree::at(item, "else") {
            Some(last) => edge(edges, last, &part, &then(&steps, "else"), from),
            None => edge(edges, item, &part, &steps, from),
        }
    }
}

fn edge<'n>(edges: &mut Vec<Edge<'n>>, node: &'n Node, part: &str, steps: &[Step], from: &str) {
    edges.push(Edge { part: part.to_owned(), steps: steps.to_vec(), from: from.to_owned(), node });
    if let Some(next) = tree::at(node, "on_max") {
        edge(edges, next, &format!("{part}.on_max"), &then(steps, "on_max"), from);
    }
}

/// Mutants of every edge.
pub fn mutants(subject: &Subject, mutants: &mut Vec<Mutant>) {
    for edge in edges(&subject.root) {
        moved(subject, &edge, mutants);
        bounded(subject, &edge, mutants);
        conditioned(subject, &edge, mutants);
        unsaid(subject, &edge, mutants);
    }
    removed(subject, mutants);
}

/// What may be left out whole: the way of a fault, and an edge with a condition.
fn removed(subject: &Subject, mutants: &mut Vec<Mutant>) {
    for (role, node) in tree::at(&subject.root, "graph").map(tree::members).unwrap_or_default() {
        for (status, node) in tree::members(node).iter().filter(|_| role.name != "start") {
            let steps = vec![Step::from("graph"), role.name.as_str().into(), status.name.as_str().into()];
            let called = status.name.strip_prefix("on_");
            let part = format!("graph.{}.{}", role.name, called.unwrap_or(&status.name));
            if called.is_some() {
                let root = tree::without(&subject.root, &steps);
                mutants.push(Mutant::of_tree("way of a fault removed", part, "", &root, MOVED));
                continue;
            }
            let last = tree::items(node).len().saturating_sub(1);
            for position in 0..last {
                let root = tree::without(&subject.root, &then(&steps, position));
                let mutant = Mutant::of_tree("edge removed", format!("{part}[{position}]"), "", &root, MOVED);
                // Those behind it move up.
                mutants.push(mutant.in_parts([part.clone()]));
            }
        }
    }
}

/// The edge leads to another role, and to the end.
fn moved(subject: &Subject, edge: &Edge<'_>, mutants: &mut Vec<Mutant>) {
    let Some(to) = tree::at(edge.node, "to").and_then(tree::text) else { return };
    let roles = tree::at(&subject.root, "roles").map(tree::members).unwrap_or_default();
    let mut others: Vec<&str> = roles.iter().map(|(key, _)| key.name.as_str()).filter(|role| *role != to).collect();
    if to == "back" {
        // Where one role alone leads here, `back` and its name mean the same.
        let entered: Vec<&str> = sources(subject, &edge.from);
        others.retain(|role| entered.as_slice() != [*role]);
    }
    let first = chance::below(others.len(), "to", &edge.part);
    others.rotate_left(first);
    let made = |to: &str| {
        let what = format!("-> {to}");
        let (operator, root) = if matches!(to, "end" | "fail") {
            ("edge ended", ended(&subject.root, edge, to))
        } else {
            ("edge moved", led(&subject.root, edge, to))
        };
        let parts = [format!("{}.to", edge.part), edge.part.clone()];
        Mutant::of_tree(operator, format!("{}.to", edge.part), what, &root, MOVED).in_parts(parts)
    };
    // The first that still checks: most roles cannot be entered from everywhere.
    let candidates: Vec<Mutant> = others.into_iter().map(made).collect();
    let sound = candidates.iter().find(|mutant| subject.checks(&mutant.files));
    mutants.extend(sound.or(candidates.first()).cloned());
    mutants.push(made(if to == "end" { "fail" } else { "end" }));
}

/// The roles with an edge to `role`.
fn sources<'s>(subject: &'s Subject, role: &str) -> Vec<&'s str> {
    let edges = edges(&subject.root);
    let to = |edge: &Edge<'_>| tree::at(edge.node, "to").and_then(tree::text) == Some(role);
    let from: std::collections::BTreeSet<String> =
        edges.iter().filter(|edge| to(edge)).map(|edge| edge.from.clone()).collect();
    let roles = tree::at(&subject.root, "roles").map(tree::members).unwrap_or_default();
    roles.iter().map(|(key, _)| key.name.as_str()).filter(|name| from.contains(*name)).collect()
}

/// The tree with the edge leading to a role: what only an end has is left out.
fn led(root: &Node, edge: &Edge<'_>, to: &str) -> Node {
    let mut root = tree::with(root, &then(&edge.steps, "to"), tree::string(to));
    for key in ["result", "reason"] {
        root = tree::without(&root, &then(&edge.steps, key));
    }
    if tree::at(edge.node, "prompt").is_none() {
        root = tree::with(&root, &then(&edge.steps, "prompt"), tree::string("Go on with it."));
    }
    root
}

/// The tree with the edge leading to an end: what only a role is given is left out, and a bound with it.
fn ended(root: &Node, edge: &Edge<'_>, to: &str) -> Node {
    let mut root = tree::with(root, &then(&edge.steps, "to"), tree::string(to));
    for key in ["prompt", "max", "per", "on_max", "result", "reason"] {
        root = tree::without(&root, &then(&edge.steps, key));
    }
    root
}

fn bounded(subject: &Subject, edge: &Edge<'_>, mutants: &mut Vec<Mutant>) {
    let place = |key: &str| format!("{}.{key}", edge.part);
    if let Some(Node { kind: Kind::Int(max), .. }) = tree::at(edge.node, "max") {
        for new in [max - 1, max + 1].into_iter().filter(|new| *new > 0) {
            let root = tree::with(&subject.root, &then(&edge.steps, "max"), tree::node(Kind::Int(new)));
            mutants.push(Mutant::of_tree("max changed", place("max"), format!("{max} -> {new}"), &root, MOVED));
        }
    }
    if tree::at(edge.node, "per").is_some() {
        let root = tree::without(&subject.root, &then(&edge.steps, "per"));
        let parts = [place("per"), place("max"), edge.part.clone()];
        mutants.push(Mutant::of_tree("per removed", place("per"), "", &root, MOVED).in_parts(parts));
    }
}

fn conditioned(subject: &Subject, edge: &Edge<'_>, mutants: &mut Vec<Mutant>) {
    let Some(when) = tree::at(edge.node, "when").and_then(tree::text) else { return };
    let place = format!("{}.when", edge.part);
    let mut others = vec![format!("not ({when})")];
    others.extend(
        [(" == ", " != "), (" or ", " and "), (" and ", " or ")]
            .into_iter()
            .filter(|(old, _)| when.contains(old))
            .map(|(old, new)| when.replacen(old, new, 1)),
    );
    for other in others {
        let root = tree::with(&subject.root, &then(&edge.steps, "when"), tree::string(other.as_str()));
        mutants.push(Mutant::of_tree("when changed", place.clone(), other, &root, MOVED));
    }
}

/// The prompt or the line for the user is left out.
fn unsaid(subject: &Subject, edge: &Edge<'_>, mutants: &mut Vec<Mutant>) {
    for (key, operator, causes) in [("prompt", "prompt removed", PROMPT), ("say", "line removed", SAID)] {
        if tree::at(edge.node, key).is_some() {
            let root = tree::without(&subject.root, &then(&edge.steps, key));
            mutants.push(Mutant::of_tree(operator, format!("{}.{key}", edge.part), "", &root, causes));
        }
    }
}
