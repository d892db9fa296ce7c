//! Which roles are reachable, and which run in which lanes.
//!
//! A *context* is the trunk or the lanes of one fan-out. The roles of a context are those reachable from its first
//! roles, up to the join; a fan-out within it continues at its own join, and its lanes are a separate context. `back`
//! leads to a role that is already in the context.

use std::collections::BTreeSet;

use super::indexed_graph::{EdgeTarget, Fan, IndexedGraph};

pub(super) struct Lanes {
    pub(super) reachable: BTreeSet<usize>,
    pub(super) trunk: BTreeSet<usize>,
    /// For each fan-out the edges of each branch that lead to its join.
    pub(super) arrivals: Vec<Vec<Vec<usize>>>,
    /// For each fan-out the fan-outs in whose lanes it opens directly.
    pub(super) around: Vec<Vec<usize>>,
    /// The fan-outs that open in the trunk.
    opens_in_trunk: BTreeSet<usize>,
    /// For each role the fan-outs in whose lanes it runs.
    pub(super) contexts: Vec<Vec<usize>>,
    /// For each role the roles with an edge that leads only to it: the targets of its `back`.
    pub(super) callers: Vec<Vec<usize>>,
}

impl Lanes {
    pub(super) fn new(indexed: &IndexedGraph<'_>) -> Self {
        let starts = || indexed.edges.iter().filter(|way| way.from.is_none()).map(|way| way.to);
        let targets = |to| indexed.targets(to, false);
        let reachable = walk(indexed, starts().flat_map(targets), targets);
        let trunk = walk(indexed, starts().filter_map(|to| entered(indexed, to)), |to| entered(indexed, to));
        let mut contexts = vec![Vec::new(); indexed.roles.len()];
        let mut arrivals = Vec::with_capacity(indexed.fans.len());
        for (number, fan) in indexed.fans.iter().enumerate() {
            let from = indexed.edges.get(fan.way).and_then(|way| way.from);
            if from.is_some_and(|(role, _)| !reachable.contains(&role)) {
                arrivals.push(vec![Vec::new(); fan.branches.len()]);
                continue;
            }
            let mut members = BTreeSet::new();
            let mut arriving = Vec::new();
            for (first, _) in &fan.branches {
                // A branch that is the join itself is refused, and opens no lane.
                let first = Some(*first).filter(|first| *first != fan.join);
                let end = EdgeTarget::Role(fan.join);
                let lane = walk(indexed, first, |to| entered(indexed, to).filter(|_| to != end));
                let edges = lane.iter().flat_map(|role| indexed.edges_of(*role));
                let last = edges.filter(|(_, way)| way.to == end);
                arriving.push(last.map(|(number, _)| number).collect());
                members.extend(lane);
            }
            for (_, contexts) in contexts.iter_mut().enumerate().filter(|(role, _)| members.contains(role)) {
                contexts.push(number);
            }
            arrivals.push(arriving);
        }
        let around = indexed.fans.iter().map(|fan| {
            let from = indexed.edges.get(fan.way).and_then(|way| way.from);
            from.and_then(|(role, _)| contexts.get(role)).cloned().unwrap_or_default()
        });
        let around = around.collect();
        let is_in_trunk = |fan: &Fan| {
            let from = indexed.edges.get(fan.way).and_then(|way| way.from);
            from.is_none_or(|(role, _)| trunk.contains(&role))
        };
        let fans = indexed.fans.iter().enumerate();
        let opens_in_trunk = fans.filter(|(_, fan)| is_in_trunk(fan)).map(|(number, _)| number).collect();
        Self { around, callers: callers(indexed, &reachable), reachable, trunk, arrivals, contexts, opens_in_trunk }
    }

    /// The nesting depth of a fan-out, including itself; `None` = unbounded, because it opens again in its own lanes.
    pub(super) fn nesting(&self, fan: usize) -> Option<usize> {
        // Level by level from the inside out: as many rounds as there are fan-outs find every finite depth.
        let mut depth = 0;
        let mut outer = BTreeSet::from([fan]);
        while !outer.is_empty() {
            depth += 1;
            if depth > self.around.len() {
                return None;
            }
            outer = outer.iter().filter_map(|fan| self.around.get(*fan)).flatten().copied().collect();
        }
        Some(depth)
    }

    /// All fan-outs in whose lanes a fan-out opens, directly or indirectly.
    pub(super) fn enclosing(&self, fan: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.around.get(fan).cloned().unwrap_or_default();
        while let Some(fan) = open.pop() {
            if found.insert(fan) {
                open.extend(self.around.get(fan).into_iter().flatten());
            }
        }
        found
    }

    /// In how many lanes a role runs, one within the other; 0 in the trunk.
    pub(super) fn depths(&self, role: usize) -> BTreeSet<usize> {
        let mut depths: BTreeSet<usize> = self.trunk.iter().filter(|known| **known == role).map(|_| 0).collect();
        let mut fans: BTreeSet<usize> = self.contexts_of(role).iter().copied().collect();
        // Level by level from the inside out, as in `nesting`.
        for depth in 1..=self.around.len() {
            depths.extend(fans.iter().any(|fan| self.opens_in_trunk.contains(fan)).then_some(depth));
            fans = fans.iter().filter_map(|fan| self.around.get(*fan)).flatten().copied().collect();
        }
        depths
    }

    pub(super) fn contexts_of(&self, role: usize) -> &[usize] {
        self.contexts.get(role).map_or(&[], Vec::as_slice)
    }
}

/// The role that an edge enters within its own context.
fn entered(indexed: &IndexedGraph<'_>, to: EdgeTarget) -> Option<usize> {
    match to {
        EdgeTarget::Role(role) => Some(role),
        EdgeTarget::Fan(fan) => indexed.fans.get(fan).map(|fan| fan.join),
        EdgeTarget::End | EdgeTarget::Fail | EdgeTarget::Back | EdgeTarget::Unknown => None,
    }
}

fn walk<N: IntoIterator<Item = usize>>(
    indexed: &IndexedGraph<'_>,
    first: impl IntoIterator<Item = usize>,
    next: impl Fn(EdgeTarget) -> N,
) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<usize> = first.into_iter().collect();
    while let Some(role) = open.pop() {
        if found.insert(role) {
            open.extend(indexed.edges_of(role).flat_map(|(_, way)| next(way.to)));
        }
    }
    found
}

fn callers(indexed: &IndexedGraph<'_>, reachable: &BTreeSet<usize>) -> Vec<Vec<usize>> {
    let mut callers = vec![Vec::new(); indexed.roles.len()];
    for (from, edge) in reachable.iter().flat_map(|from| indexed.edges_of(*from).map(|(_, way)| (*from, way))) {
        if let EdgeTarget::Role(to) = edge.to
            && let Some(callers) = callers.get_mut(to)
            && callers.last() != Some(&from)
        {
            callers.push(from);
        }
    }
    callers
}
