//! Which lines of a picture lead back, so that everything else goes down from `start`.

use std::collections::BTreeMap;

use petgraph::algo::{dijkstra, dominators, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef as _;

use super::Line;

/// For each line whether it leads back: to a node that every way from `start` to its source passes, or, within the
/// cycles that remain, to one nearer to `start`.
pub(super) fn leads_back(lines: &[Line]) -> Vec<bool> {
    let mut graph = DiGraph::<(), usize>::new();
    let mut nodes: BTreeMap<&str, NodeIndex> = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let from = *nodes.entry(&line.from).or_insert_with(|| graph.add_node(()));
        let to = *nodes.entry(&line.to).or_insert_with(|| graph.add_node(()));
        graph.add_edge(from, to, number);
    }
    let mut is_back = vec![false; lines.len()];
    let Some(start) = nodes.get("start").copied() else { return is_back };
    let dominators = dominators::simple_fast(&graph, start);
    let mut mark = |number: usize| is_back.get_mut(number).into_iter().for_each(|is_back| *is_back = true);
    graph.retain_edges(|graph, edge| {
        let Some((from, to)) = graph.edge_endpoints(edge) else { return true };
        let leads_back = dominators.dominators(from).is_some_and(|mut above| above.any(|node| node == to));
        graph.edge_weight(edge).filter(|_| leads_back).copied().into_iter().for_each(&mut mark);
        !leads_back
    });
    let distances = dijkstra(&graph, start, None, |_| 1_usize);
    let distance = |node: NodeIndex| distances.get(&node).copied().unwrap_or(usize::MAX);
    for cycle in tarjan_scc(&graph).into_iter().filter(|cycle| cycle.len() > 1) {
        let edges = cycle.iter().flat_map(|node| graph.edges(*node)).filter(|edge| cycle.contains(&edge.target()));
        let nearer = edges.filter(|edge| distance(edge.target()) < distance(edge.source()));
        nearer.map(|edge| *edge.weight()).for_each(&mut mark);
    }
    is_back
}
