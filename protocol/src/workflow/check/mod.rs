//! The checker: what a file demands of the whole, beyond the shape of its parts.
//!
//! Everything is collected and said in source order, and each finding names the thing and what to do. Whatever a fault
//! of an earlier stage has left incomplete is not complained about again.
//!
//! `plan.rs` gives the graph numbers for names, `lanes.rs` says what runs where, `flow.rs` what is known there,
//! `rules.rs` and `cycles.rs` hold the rules of the graph, `templates.rs`, `typing.rs` and `types.rs` those of the
//! templates in it. Nothing here recurses on the depth of a graph.
//!
//! This module knows nothing of files, threads, stores or models.

mod cycles;
mod flow;
mod lanes;
mod plan;
mod rules;
mod templates;
mod types;
mod typing;

use self::lanes::Lanes;
use self::plan::Plan;
use super::source_map::{SourceMap, key};
use super::{Policy, Workflow};
use crate::diagnostic::{Code, Diagnostic, nearest};

/// Everything that is wrong with a workflow, and what is odd about it, in source order.
pub fn check(workflow: &Workflow, policy: &Policy, places: &SourceMap) -> Vec<Diagnostic> {
    let plan = Plan::new(workflow);
    let lanes = Lanes::new(&plan);
    let mut findings = Findings { places, found: Vec::new() };
    rules::names(&plan, policy, &mut findings);
    rules::entries(&plan, &mut findings);
    rules::edges(&plan, &lanes, &mut findings);
    graph(&plan, &lanes, &mut findings);
    templates::check(&plan, &lanes, &mut findings);
    let mut found = findings.found;
    places.sort(&mut found);
    found.dedup();
    found
}

/// What concerns the graph as a whole. Where a part of it is missing, only what is there can be judged.
fn graph(plan: &Plan<'_>, lanes: &Lanes, findings: &mut Findings<'_>) {
    for cycle in cycles::unbounded(plan, &lanes.callers) {
        let mut names: Vec<&str> = cycle.roles.iter().map(|role| plan.name(*role)).collect();
        names.extend(names.first().copied());
        let path = plan.ways.get(cycle.way).map_or("graph", |way| way.path.as_str());
        let message = format!("the cycle {} has no bound", names.join(" -> "));
        let hint =
            "give one of its edges `max: n` with an `on_max`; a `per: ROLE` counts when ROLE is outside the cycle";
        findings.at(Code::UnboundedCycle, path, message, hint);
    }
    let is_whole = !findings.is_incomplete("graph")
        && plan.ways.iter().all(|way| way.to != plan::To::Nowhere)
        && plan.ways.iter().any(|way| way.from.is_none());
    if !is_whole {
        return;
    }
    for (number, role) in plan.roles.iter().enumerate() {
        if role.in_graph && !lanes.reachable.contains(&number) {
            let message = format!("no path leads from `start` to `{}`", role.name);
            let hint = "lead an edge to it, or remove it";
            findings.at_key(Code::UnreachableRole, &key("graph", role.name), message, hint);
        }
    }
    for role in cycles::dead_ends(plan, &lanes.callers, &lanes.reachable) {
        // A role without edges has been named for that.
        if plan.role(role).is_none_or(|role| role.ways.is_empty()) {
            continue;
        }
        let message = format!("no path leads from `{}` to `end` or `fail`", plan.name(role));
        let hint = "lead one of its edges, or of those behind it, to an end";
        findings.at_key(Code::DeadEnd, &key("graph", plan.name(role)), message, hint);
    }
}

struct Findings<'f> {
    places: &'f SourceMap,
    found: Vec<Diagnostic>,
}

impl Findings<'_> {
    fn at(&mut self, code: Code, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push(self.places.fault(code, path, None, message).with_hint(hint));
    }

    fn at_key(&mut self, code: Code, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push(self.places.key_fault(code, path, message).with_hint(hint));
    }

    fn is_incomplete(&self, path: &str) -> bool {
        self.places.is_incomplete(path)
    }

    fn has(&self, path: &str) -> bool {
        self.places.has(path)
    }

    /// Whether the file declares a role of that name, even one that could not be read.
    fn is_declared(&self, role: &str) -> bool {
        self.has(&key("roles", role))
    }
}

fn hint_near<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}

fn hint_role(word: &str, plan: &Plan<'_>) -> String {
    hint_near(word, plan.names()).unwrap_or_else(|| "declare it under `roles`".to_owned())
}

#[cfg(test)]
mod tests;
