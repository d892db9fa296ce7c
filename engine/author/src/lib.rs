//! The tools of a workflow's author: tests with recorded or scripted answers ([`scenario`]), a search of every way
//! through a graph ([`simulate`]), the effect of provider caches ([`prefix`]), two threads side by side
//! ([`thread_diff`]), and warnings ([`lint`]).
//!
//! Everything here returns values. It must never know terminals: `cli` prints what it returns.

pub mod lint;
pub mod prefix;
pub mod scenario;
pub mod simulate;
// What tests of what stands above a store name of it.
#[cfg(test)]
#[expect(dead_code, reason = "shared with the store, which uses more of it")]
#[path = "../../core/src/store/tests/steps.rs"]
mod steps;
pub mod thread_diff;

use rondo_protocol::id::Status;
use rondo_protocol::workflow::{Edge, Outgoing, Workflow};

/// Every edge of a workflow, its `on_max` edges too, with what it leaves: a role with a status, or `start`.
fn edges(workflow: &Workflow) -> impl Iterator<Item = (&str, Option<&Status>, &Edge)> {
    workflow.graph.iter().flat_map(|(from, outgoing)| {
        let edges: Vec<(Option<&Status>, &Vec<Edge>)> = match outgoing {
            Outgoing::Start(edges) => vec![(None, edges)],
            Outgoing::Role(statuses) => statuses.iter().map(|(status, edges)| (Some(status), edges)).collect(),
        };
        let edges = edges.into_iter().flat_map(|(status, edges)| edges.iter().map(move |edge| (status, edge)));
        edges.flat_map(move |(status, edge)| edge.with_on_max().map(move |edge| (from.as_str(), status, edge)))
    })
}

/// The role in `role`, or in `role[2]` or `a[0]/role[2]` with a lane.
pub fn role_of(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split_once('[').map_or(last, |(role, _)| role)
}
