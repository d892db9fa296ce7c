//! The picture as data for programs.

use rondo_protocol::canonical;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Error, Picture};

/// A graph, its members in the order of their names.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Graph<'p> {
    edges: Vec<Edge<'p>>,
    name: &'p str,
    nodes: Vec<Node<'p>>,
}

/// A way from one node to another.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "GraphEdge")]
struct Edge<'p> {
    from: &'p str,
    /// `edge`, `branch`, `join`, `call` or `child`.
    kind: &'p str,
    label: &'p str,
    /// How often it is taken at most.
    max: Option<u32>,
    to: &'p str,
}

/// A role, a hook, a port, or the graph's start and ends.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "GraphNode")]
struct Node<'p> {
    /// Of a node of a child: after the path of its role and `/`.
    id: &'p str,
    kind: &'p str,
    label: &'p str,
}

impl<'p> Graph<'p> {
    pub(super) fn of(picture: &'p Picture) -> Self {
        let nodes = picture.shapes.iter().map(|shape| Node { id: &shape.id, kind: shape.kind, label: &shape.label });
        let edges = picture.lines.iter().map(|line| Edge {
            from: &line.from,
            kind: line.kind,
            label: &line.label,
            max: line.max,
            to: &line.to,
        });
        Self { edges: edges.collect(), name: &picture.name, nodes: nodes.collect() }
    }

    /// The canonical JSON, on one line.
    pub(super) fn text(&self) -> Result<Vec<u8>, Error> {
        let mut text = canonical::to_bytes(self)?;
        text.push(b'\n');
        Ok(text)
    }
}
