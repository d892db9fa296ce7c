//! Which roles the graph can take before which: what lies outside it, nobody is told of.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::source::Node;

use super::graph;
use crate::tree;

/// For each role the roles that can come before it, itself too where the graph comes back to it.
pub fn before(root: &Node) -> BTreeMap<String, BTreeSet<String>> {
    let edges = graph::edges(root);
    let targets: Vec<(&str, &str)> = edges
        .iter()
        .filter_map(|edge| Some((edge.from.as_str(), tree::at(edge.node, "to").and_then(tree::text)?)))
        .collect();
    let mut before: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in &targets {
        // `back` leads to whoever has an edge to this role.
        let led: Vec<&str> = match *to {
            "back" => targets.iter().filter(|(_, to)| to == from).map(|(from, _)| *from).collect(),
            role => vec![role],
        };
        for role in led {
            before.entry(role.to_owned()).or_default().insert((*from).to_owned());
        }
    }
    loop {
        let known = before.clone();
        for earlier in before.values_mut() {
            let more: Vec<String> = earlier.iter().filter_map(|role| known.get(role)).flatten().cloned().collect();
            earlier.extend(more);
            earlier.remove("start");
        }
        if before == known {
            return before;
        }
    }
}
