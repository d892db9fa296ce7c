//! What a role is besides its texts and its contract: its tools, its history, what it is told of others, its form of
//! answers, its model.

use std::collections::BTreeSet;

use rondo_protocol::source::{Kind, Node};

use super::reach;
use crate::chance;
use crate::mutant::Mutant;
use crate::subject::Subject;
use crate::tree::{self, Step, then};

/// The tools that are added.
const TOOLS: [&str; 4] = ["list_files", "read_file", "search_files", "write_file"];

/// A role as the file writes it.
struct Written<'s> {
    subject: &'s Subject,
    name: &'s str,
    node: &'s Node,
    steps: Vec<Step>,
    /// The roles that can come before it.
    before: BTreeSet<String>,
}

impl Written<'_> {
    fn part(&self, key: &str) -> String {
        format!("roles.{}.{key}", self.name)
    }

    fn with(&self, key: &str, value: Node) -> Node {
        tree::with(&self.subject.root, &then(&self.steps, key), value)
    }

    fn mutant(
        &self,
        operator: &'static str,
        key: &str,
        what: impl Into<String>,
        root: &Node,
        causes: &'static [&'static str],
    ) -> Mutant {
        Mutant::of_tree(operator, self.part(key), what, root, causes)
    }
}

/// Mutants of every role.
pub fn mutants(subject: &Subject, mutants: &mut Vec<Mutant>) {
    let before = reach::before(&subject.root);
    for (name, node) in tree::at(&subject.root, "roles").map(tree::members).unwrap_or_default() {
        let steps = vec!["roles".into(), name.name.as_str().into()];
        let before = before.get(&name.name).cloned().unwrap_or_default();
        let role = Written { subject, name: &name.name, node, steps, before };
        if tree::at(node, "kind").and_then(tree::text) == Some("tool") {
            called(&role, mutants);
            continue;
        }
        tools(&role, mutants);
        context(&role, mutants);
        history(&role, mutants);
        format(&role, mutants);
        model(&role, mutants);
        fallback(&role, mutants);
        limits(&role, mutants);
    }
}

/// The tool of a tool role, and what it is given.
fn called(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    // What the tool says is the prompt of whoever comes next.
    const CAUSES: &[&str] = &["tool changed", "prompt changed", "edge moved"];
    let tool = tree::at(role.node, "tool").and_then(tree::text).unwrap_or_default();
    let other = if tool == "list_files" { "read_file" } else { "list_files" };
    let root = role.with("tool", tree::string(other));
    mutants.push(role.mutant("tool of a role changed", "tool", format!("{tool} -> {other}"), &root, CAUSES));
    for (key, node) in tree::at(role.node, "args").map(tree::members).unwrap_or_default() {
        let (value, what) = match &node.kind {
            Kind::Int(number) => (tree::node(Kind::Int(number + 1)), format!("{number} -> {}", number + 1)),
            Kind::Str(text) => (tree::string(format!("{text}/tests")), format!("{text}/tests")),
            _ => continue,
        };
        let steps = then(&then(&role.steps, "args"), key.name.as_str());
        let root = tree::with(&role.subject.root, &steps, value);
        let mutant = role.mutant("argument changed", &format!("args.{}", key.name), what, &root, CAUSES);
        mutants.push(mutant.in_parts([role.part("args")]));
    }
}

fn tools(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    let has: Vec<&str> =
        tree::at(role.node, "tools").map(tree::items).unwrap_or_default().iter().filter_map(tree::text).collect();
    let lacks: Vec<&str> = TOOLS.into_iter().filter(|tool| !has.contains(tool)).collect();
    let at = format!("{}/{}", role.subject.name, role.name);
    if let Some(new) = chance::one_of(&lacks, "tool", &at) {
        let root = role.with("tools", tree::strings(has.iter().copied().chain([*new])));
        mutants.push(role.mutant("tool added", "tools", *new, &root, &["tool added"]));
    }
    for old in &has {
        let root = role.with("tools", tree::strings(has.iter().copied().filter(|tool| tool != old)));
        mutants.push(role.mutant("tool removed", "tools", *old, &root, &["tool removed"]));
    }
}

fn context(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    const CAUSES: &[&str] = &["summary changed", "summary cut changed"];
    let others: Vec<&str> = role.before.iter().map(String::as_str).filter(|other| *other != role.name).collect();
    if others.is_empty() {
        return;
    }
    let written = tree::at(role.node, "context");
    let is_map = written.is_some_and(|node| !tree::members(node).is_empty());
    let what = match written {
        Some(node) if is_map => tree::at(node, "what").and_then(tree::text).unwrap_or("outputs"),
        Some(node) => tree::text(node).unwrap_or("outputs"),
        None => "outputs",
    };
    let key = |key: &str| if is_map { format!("context.{key}") } else { "context".to_owned() };
    let set = |key: &str, value: Node| {
        let steps = then(&role.steps, "context");
        if is_map {
            tree::with(&role.subject.root, &then(&steps, key), value)
        } else {
            let whole = tree::map([("what", tree::string(what))]);
            let root = tree::with(&role.subject.root, &steps, whole);
            tree::with(&root, &then(&steps, key), value)
        }
    };
    let mut made = |operator, place: String, told: String, root: &Node| {
        mutants.push(role.mutant(operator, &place, told, root, CAUSES).in_parts([role.part("context")]));
    };
    for other in ["none", "outputs", "bodies"].into_iter().filter(|other| *other != what) {
        made("context: what", key("what"), format!("{what} -> {other}"), &set("what", tree::string(other)));
    }
    if what == "none" {
        return;
    }
    let from: Vec<&str> = written
        .and_then(|node| tree::at(node, "from"))
        .map(tree::items)
        .unwrap_or_default()
        .iter()
        .filter_map(tree::text)
        .collect();
    let told: Vec<&str> = if from.is_empty() { others.clone() } else { from.clone() };
    for left in told.iter().filter(|_| told.len() > 1) {
        let root = set("from", tree::strings(told.iter().copied().filter(|role| role != left)));
        made("context: from", key("from"), format!("without {left}"), &root);
    }
    for new in others.iter().filter(|_| !from.is_empty()).filter(|other| !from.contains(other)) {
        let root = set("from", tree::strings(from.iter().copied().chain([*new])));
        made("context: from", key("from"), format!("with {new}"), &root);
    }
    let ceiling = written.and_then(|node| tree::at(node, "max_bytes"));
    let half = match ceiling.map(|node| &node.kind) {
        Some(Kind::Int(bytes)) => bytes / 2,
        Some(Kind::Str(text)) => i128::from(text.strip_suffix("KiB").and_then(|n| n.parse::<i64>().ok()).unwrap()) << 9,
        _ => 64,
    };
    let root = set("max_bytes", tree::node(Kind::Int(half)));
    made("context: max_bytes", key("max_bytes"), format!("-> {half}"), &root);
}

fn history(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    const CAUSES: &[&str] = &["history: none", "history shortened", "history changed"];
    if !role.before.contains(role.name) {
        return;
    }
    let was = tree::at(role.node, "history").and_then(tree::text).unwrap_or("condensed");
    for other in ["condensed", "exact", "none"].into_iter().filter(|other| *other != was) {
        let root = role.with("history", tree::string(other));
        mutants.push(role.mutant("history changed", "history", format!("{was} -> {other}"), &root, CAUSES));
    }
}

fn format(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    let was = tree::at(role.node, "format").and_then(tree::text).unwrap_or("frontmatter");
    let other = if was == "json" { "frontmatter" } else { "json" };
    let root = role.with("format", tree::string(other));
    let mutant =
        role.mutant("format changed", "format", format!("{was} -> {other}"), &root, &["answer format changed"]);
    mutants.push(mutant);
}

fn model(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    // Two logical models may be one of the provider's, with other parameters.
    const CAUSES: &[&str] = &["model changed", "parameters changed"];
    let was = tree::at(role.node, "model").and_then(tree::text).unwrap_or("default");
    let models = tree::at(&role.subject.root, "models").map(tree::members).unwrap_or_default();
    for (other, _) in models.iter().filter(|(key, _)| key.name != was) {
        let root = role.with("model", tree::string(other.name.as_str()));
        mutants.push(role.mutant("model of a role", "model", format!("{was} -> {}", other.name), &root, CAUSES));
    }
}

/// The models that are asked in place of one that cannot be had.
fn fallback(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    if tree::at(role.node, "fallback").is_some() {
        let root = tree::without(&role.subject.root, &then(&role.steps, "fallback"));
        mutants.push(role.mutant("fallback removed", "fallback", "", &root, &["fallback changed"]));
    }
}

/// Limits that a scenario reaches: how often a role is visited, and how often it may answer in a visit.
fn limits(role: &Written<'_>, mutants: &mut Vec<Mutant>) {
    for key in ["visits", "model_calls"] {
        let steps: Vec<Step> = [role.steps.clone(), vec!["limits".into(), key.into()]].concat();
        if let Some(Node { kind: Kind::Int(most), .. }) = tree::get(&role.subject.root, &steps) {
            for new in [most - 1, most + 1] {
                let root = tree::with(&role.subject.root, &steps, tree::node(Kind::Int(new)));
                let what = format!("{key}: {most} -> {new}");
                mutants.push(role.mutant("limit changed", "limits", what, &root, &["limit changed"]));
            }
        }
    }
}
