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
use rondo_protocol::workflow::source_map::{item, key};
use rondo_protocol::workflow::{Edge, Outgoing, Workflow};

/// An edge of a workflow, and what it leaves: a role with a status, or `start`.
struct LocatedEdge<'w> {
    path: String,
    from: &'w str,
    status: Option<&'w Status>,
    edge: &'w Edge,
}

/// Every edge of a workflow, its `on_max` edges too.
fn edges(workflow: &Workflow) -> Vec<LocatedEdge<'_>> {
    let mut found = Vec::new();
    for (from, outgoing) in &workflow.graph {
        let place = key("graph", from);
        let lists = match outgoing {
            Outgoing::Start(edges) => vec![(place, None, edges)],
            Outgoing::Role(statuses) => {
                let lists = statuses.iter();
                lists.map(|(status, edges)| (key(&place, status.as_str()), Some(status), edges)).collect()
            }
        };
        for (place, status, edges) in lists {
            for (position, edge) in edges.iter().enumerate() {
                let mut path = item(&place, position);
                for edge in edge.with_on_max() {
                    found.push(LocatedEdge { path: path.clone(), from, status, edge });
                    path = key(&path, "on_max");
                }
            }
        }
    }
    found
}

/// The role in `role`, or in `role[2]` or `a[0]/role[2]` with a lane.
pub fn role_of(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split_once('[').map_or(last, |(role, _)| role)
}

/// A text of at most `max_chars` characters; `mark` stands for what is left out.
fn cut(text: &str, max_chars: usize, mark: &str) -> String {
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}{mark}", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
