//! The checker: the rules for a whole file, beyond the shape of its parts.
//!
//! It reports all findings in source order, each with the affected part and a remedy. Parts that are incomplete because
//! of a fault of an earlier stage are not reported again.
//!
//! `indexed_graph.rs` numbers the parts of the graph, `lanes.rs` computes which roles run in which lanes, `flow.rs` which
//! statuses are possible where, `rules.rs` and `cycles.rs` contain the rules of the graph, `templates.rs`, `typing` and
//! `types.rs` those of the templates in it. Nothing here recurses on the depth of a graph.

mod cycles;
mod flow;
mod indexed_graph;
mod lanes;
mod rules;
mod templates;
mod types;
mod typing;

use std::collections::{BTreeMap, BTreeSet};

use self::indexed_graph::IndexedGraph;
use self::lanes::Lanes;
use super::source_map::{SourceMap, key};
use super::{Policy, Workflow};
use crate::diagnostic::{Code, Diagnostic};
use crate::id::RoleName;

/// Returns all faults and warnings of a workflow, in source order.
pub fn check(workflow: &Workflow, policy: &Policy, places: &SourceMap) -> Vec<Diagnostic> {
    let indexed = &IndexedGraph::new(workflow, places);
    let lanes = &Lanes::new(indexed);
    let misnamed = places.members("roles").filter(|name| RoleName::new(name).is_err()).collect();
    let (found, missing_roles) = (Vec::new(), BTreeSet::new());
    let mut findings = Findings { places, indexed, lanes, found, misnamed, missing_roles, is_whole: true };
    findings.names(policy);
    findings.entries();
    findings.edges();
    findings.graph();
    templates::check(&mut findings);
    let mut found = findings.found;
    places.sort(&mut found);
    found.dedup();
    found
}

/// In how many lanes each role of a checked workflow runs, one within the other: 0 in the trunk. A role that puts
/// together what another said does so in the lanes of that one. Roles that never run are left out.
pub fn lane_depths(workflow: &Workflow) -> BTreeMap<RoleName, BTreeSet<usize>> {
    let indexed = IndexedGraph::new(workflow, &SourceMap::default());
    let lanes = Lanes::new(&indexed);
    let mut found: BTreeMap<RoleName, BTreeSet<usize>> = BTreeMap::new();
    for (number, (name, role)) in workflow.roles.iter().enumerate() {
        let depths = lanes.depths(number);
        let by = role.kind.model().and_then(|model| model.compact.as_ref()).map(|compact| &compact.by);
        for name in by.into_iter().chain([name]).filter(|_| !depths.is_empty()) {
            found.entry(name.clone()).or_default().extend(&depths);
        }
    }
    found
}

struct Findings<'f, 'w> {
    places: &'f SourceMap,
    indexed: &'f IndexedGraph<'w>,
    lanes: &'f Lanes,
    found: Vec<Diagnostic>,
    /// The roles of the file whose names are no names of roles.
    misnamed: Vec<&'f str>,
    /// Names that no role resembles, each reported once.
    missing_roles: BTreeSet<String>,
    /// Whether each entry of the graph belongs to a role and to one of its statuses.
    is_whole: bool,
}

impl Findings<'_, '_> {
    /// Checks the graph as a whole. If a part of it is missing, only the rest is checked.
    fn graph(&mut self) {
        let (indexed, lanes) = (self.indexed, self.lanes);
        let unbounded = cycles::unbounded(indexed, &lanes.callers);
        for cycle in &unbounded {
            let mut names: Vec<&str> = cycle.roles.iter().map(|role| indexed.name(*role)).collect();
            names.extend(names.first().copied());
            let path = indexed.edges.get(cycle.way).map_or("graph", |way| way.path.as_str());
            let message = format!("the cycle {} has no bound", names.join(" -> "));
            let hint =
                "give one of its edges `max: n` with an `on_max`; a `per: ROLE` counts when ROLE is outside the cycle";
            self.at(Code::UnboundedCycle, path, message, hint);
        }
        let is_whole = self.is_whole
            && !self.places.is_incomplete("graph")
            && indexed.edges.iter().all(|way| way.to != indexed_graph::EdgeTarget::Unknown)
            && indexed.edges.iter().any(|way| way.from.is_none());
        if !is_whole {
            return;
        }
        for (number, role) in indexed.roles.iter().enumerate() {
            if role.in_graph && !lanes.reachable.contains(&number) {
                let message = format!("no path leads from `start` to `{}`", role.name);
                let hint = "lead an edge to it, or remove it";
                self.at_key(Code::UnreachableRole, &key("graph", role.name), message, hint);
            }
        }
        if !unbounded.is_empty() {
            // A bound leads out of the cycle, which may be the path to an end that is missing.
            return;
        }
        let dead_ends = cycles::dead_ends(indexed, &lanes.callers, &lanes.reachable).into_iter();
        // A role without edges was already reported.
        for role in dead_ends.filter_map(|role| indexed.roles.get(role)).filter(|role| !role.edges.is_empty()) {
            let message = format!("no path leads from `{}` to `end` or `fail`", role.name);
            let hint = "lead one of its edges, or of the roles after it, to an end";
            self.at_key(Code::DeadEnd, &key("graph", role.name), message, hint);
        }
    }

    fn at(&mut self, code: Code, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push(self.places.fault(code, path, None, message).with_hint(hint));
    }

    fn at_key(&mut self, code: Code, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push(self.places.key_fault(code, path, message).with_hint(hint));
    }

    /// Reports a role that is not declared; if it resembles none that is, only once.
    fn unknown_role(&mut self, name: &str, fault: Diagnostic, near: Option<String>) {
        self.is_whole = false;
        if near.is_none() && !self.missing_roles.insert(name.to_owned()) {
            return;
        }
        self.found.push(fault.with_hint(near.unwrap_or_else(|| "declare it under `roles`".to_owned())));
    }

    /// Whether the file declares a role of that name, including unreadable ones.
    fn is_declared(&self, role: &str) -> bool {
        self.places.has(&key("roles", role)) || self.misnamed.iter().any(|misnamed| misnamed.contains(role))
    }
}

#[cfg(test)]
mod tests;
