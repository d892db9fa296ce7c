//! Finds unbounded cycles, and roles from which no end can be reached. The only file that uses petgraph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::Direction;
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, EdgeRef, Reversed, VisitMap, Visitable};

use super::indexed_graph::{EdgeTarget, IndexedGraph};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    None,
    Thread,
    Per(usize),
}

pub(super) struct Cycle {
    /// Its roles, starting with the one that comes first in the file.
    pub(super) roles: Vec<usize>,
    /// The first of its edges, by number.
    pub(super) way: usize,
}

type Graph = DiGraph<usize, (usize, Bound)>;

/// The unbounded cycles, one for each remaining strongly connected component.
///
/// First removes every edge with `max` and without `per`. Then repeatedly removes every `per` edge whose role is not in
/// the strongly connected component of the edge: that role takes no step while the cycle runs, so that its count is not
/// reset. The rest must have no cycle.
pub(super) fn unbounded(indexed: &IndexedGraph<'_>, callers: &[Vec<usize>]) -> Vec<Cycle> {
    let mut graph = build(indexed, callers);
    graph.retain_edges(|graph, edge| graph.edge_weight(edge).is_some_and(|(_, bound)| *bound != Bound::Thread));
    loop {
        let component = components(&graph);
        let of = |node: usize| component.get(node).copied();
        let before = graph.edge_count();
        graph.retain_edges(|graph, edge| {
            let (Some((from, to)), Some((_, bound))) = (graph.edge_endpoints(edge), graph.edge_weight(edge)) else {
                return false;
            };
            let own = of(from.index());
            // An edge between two components lies on no cycle.
            own == of(to.index()) && !matches!(bound, Bound::Per(role) if of(*role) != own)
        });
        if graph.edge_count() == before {
            break;
        }
    }
    cycles(&graph)
}

fn components(graph: &Graph) -> Vec<usize> {
    let found = tarjan_scc(graph).into_iter().enumerate();
    let by_node: BTreeMap<NodeIndex, usize> =
        found.flat_map(|(number, nodes)| nodes.into_iter().map(move |node| (node, number))).collect();
    by_node.into_values().collect()
}

/// Finds a shortest cycle in each component; every remaining edge is on a cycle.
fn cycles(graph: &Graph) -> Vec<Cycle> {
    let component = components(graph);
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    let mut edges: Vec<_> = graph.edge_references().collect();
    edges.sort_by_key(|edge| edge.weight().0);
    for edge in edges {
        if done.insert(component.get(edge.source().index()).copied()) {
            let roles = way_back(graph, edge.target(), edge.source());
            found.push(Cycle { roles, way: edge.weight().0 });
        }
    }
    found
}

/// The nodes of a shortest cycle with the edge from `from` to `to`; `to` comes first.
fn way_back(graph: &Graph, from: NodeIndex, to: NodeIndex) -> Vec<usize> {
    let mut before: BTreeMap<NodeIndex, NodeIndex> = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(node) = open.pop_front() {
        if node == to {
            break;
        }
        let next: BTreeSet<NodeIndex> = graph.neighbors_directed(node, Direction::Outgoing).collect();
        for next in next {
            if next != from && !before.contains_key(&next) {
                before.insert(next, node);
                open.push_back(next);
            }
        }
    }
    let mut roles: Vec<usize> =
        std::iter::successors(Some(to), |node| before.get(node).copied()).map(NodeIndex::index).collect();
    roles.reverse();
    roles.rotate_right(1);
    roles
}

pub(super) fn dead_ends(indexed: &IndexedGraph<'_>, callers: &[Vec<usize>], reachable: &BTreeSet<usize>) -> Vec<usize> {
    let graph = build(indexed, callers);
    let ends =
        indexed.edges.iter().filter(|way| matches!(way.to, EdgeTarget::End | EdgeTarget::Fail | EdgeTarget::Unknown));
    let ends = ends.filter_map(|way| way.from.map(|(role, _)| NodeIndex::new(role))).collect();
    let mut live = Dfs::from_parts(ends, graph.visit_map());
    while live.next(Reversed(&graph)).is_some() {}
    reachable.iter().copied().filter(|role| !live.discovered.is_visited(role)).collect()
}

/// The graph of roles. A fan-out leads to each of its branches, and directly to its join if that may continue without
/// any arrived lane; otherwise the last edge of a lane leads there.
fn build(indexed: &IndexedGraph<'_>, callers: &[Vec<usize>]) -> Graph {
    let mut graph = Graph::with_capacity(indexed.roles.len(), indexed.edges.len());
    for role in 0..indexed.roles.len() {
        graph.add_node(role);
    }
    for (number, way) in indexed.edges.iter().enumerate() {
        let Some((from, _)) = way.from else { continue };
        let bound = match (way.edge.max, &way.edge.per) {
            (None, _) => Bound::None,
            (Some(_), None) => Bound::Thread,
            (Some(_), Some(per)) => indexed.number(per.as_str()).map_or(Bound::Thread, Bound::Per),
        };
        let targets: Vec<usize> = match way.to {
            EdgeTarget::Role(to) => vec![to],
            EdgeTarget::Back => callers.get(from).cloned().unwrap_or_default(),
            EdgeTarget::Fan(fan) => indexed.fans.get(fan).map_or_else(Vec::new, |fan| {
                let join = fan.may_be_empty.then_some(fan.join);
                fan.branches.iter().map(|(role, _)| *role).chain(join).collect()
            }),
            EdgeTarget::End | EdgeTarget::Fail | EdgeTarget::Unknown => Vec::new(),
        };
        for to in targets {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), (number, bound));
        }
    }
    graph
}
