//! Frames around the nodes of a child workflow, and around roles that run in lanes.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::id::RoleName;

use super::{Graph, Link, To, conditions, shape};

/// A part of the picture with a border. Frames lie within each other or apart.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub id: String,
    /// The id of the frame around it.
    pub within: Option<String>,
    pub label: String,
    /// The roles that run in its lanes, if that is what it stands for.
    pub roles: BTreeSet<RoleName>,
}

/// The frames around the lanes of a graph. Roles of one frame run in the lanes of the same fan-outs; those of fan-outs
/// that share only some of their roles have one frame together.
pub(super) fn of_lanes(graph: &Graph) -> Vec<Frame> {
    let mut fans = BTreeMap::new();
    for (from, link, _) in graph.links() {
        if let Link::Route { way, edge } = link
            && let To::Fan(fan) = &edge.to
        {
            let source = shape(graph, from).label;
            let status = way.status.as_ref().map_or_else(String::new, |status| format!(" ({status})"));
            let label = format!("lanes of {source}{status}, joined at {}{}", fan.join.to, conditions(&fan.join));
            fans.insert(edge.id, (label, graph.lane_roles(fan)));
        }
    }
    let mut found: Vec<(Vec<String>, BTreeSet<&RoleName>)> = Vec::new();
    for (label, roles) in fans.into_values() {
        let mut next = (vec![label], roles);
        // What grows may overlap with a frame that was apart before.
        while let Some(at) = found.iter().position(|(_, roles)| overlap(roles, &next.1)) {
            let (mut labels, roles) = found.remove(at);
            labels.append(&mut next.0);
            next = (labels, &roles | &next.1);
        }
        found.push(next);
    }
    // Larger ones first: each stands after the one around it.
    found.sort_by_key(|(_, roles)| std::cmp::Reverse(roles.len()));
    let mut frames: Vec<Frame> = Vec::new();
    for (number, (labels, roles)) in found.into_iter().enumerate() {
        let within = roles.first().and_then(|role| innermost(&frames, role)).map(|frame| frame.id.clone());
        let roles = roles.into_iter().cloned().collect();
        frames.push(Frame { id: format!("lanes:{number}"), within, label: labels.join("; "), roles });
    }
    frames
}

/// The innermost frame of lanes that a role runs in.
pub(super) fn innermost<'a>(frames: &'a [Frame], role: &RoleName) -> Option<&'a Frame> {
    frames.iter().filter(|frame| frame.roles.contains(role)).min_by_key(|frame| frame.roles.len())
}

/// Whether two sets of roles cannot have frames of their own: they are equal, or share some of their roles.
fn overlap(one: &BTreeSet<&RoleName>, other: &BTreeSet<&RoleName>) -> bool {
    one == other || !(one.is_disjoint(other) || one.is_subset(other) || one.is_superset(other))
}
