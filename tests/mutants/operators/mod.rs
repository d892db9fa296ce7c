//! Operators: what an author can change, each applied at every place that a workflow has for it.
//!
//! What cannot be seen by any scenario is not made, by rule:
//! - what no request, route or result holds: descriptions of the workflow and of roles, `retry`, `timeout`, transparent
//!   hooks, bounds of an input that every scenario keeps, and limits that guard against what no script does (of the whole
//!   workflow, and of tool calls);
//! - what a role is told of steps that the graph cannot take before it, and `history` of a role that the graph cannot
//!   come back to ([`reach`]).

mod contracts;
mod graph;
mod reach;
mod roles;
mod settings;
mod texts;

use crate::mutant::Mutant;
use crate::subject::Subject;

/// Every mutant of a workflow.
pub fn all(subject: &Subject) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    texts::mutants(subject, &mut mutants);
    contracts::mutants(subject, &mut mutants);
    roles::mutants(subject, &mut mutants);
    graph::mutants(subject, &mut mutants);
    settings::mutants(subject, &mut mutants);
    mutants
}
