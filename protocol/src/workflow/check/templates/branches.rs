//! What `branches` is where lanes have joined: how many elements it has at least, and what is known of each.
//!
//! Whatever a lane can end with is counted, so that no workflow is refused that can work: a field is unknown only if
//! none of the last steps of lanes declares it.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::Templates;
use crate::workflow::check::indexed_graph::{EdgeTarget, GraphEdge};
use crate::workflow::check::types::{Known, Type};
use crate::workflow::check::typing::{Branches, branch, either};
use crate::workflow::{FailedLanes, FanOut, Need};

impl<'w> Templates<'_, '_, 'w, '_> {
    /// Determines for each join role what `branches` is on its edges, as far as the names of lanes are known.
    pub(super) fn join_lanes(&mut self) {
        let joins: BTreeSet<usize> = self.indexed.fans.iter().map(|fan| fan.join).collect();
        let joins = joins.into_iter().filter_map(|join| Some((join, self.branches_at(join)?)));
        self.joined = joins.collect();
    }

    /// The `branches` whenever a role runs; `None` unless only joins lead to it.
    fn branches_at(&self, role: usize) -> Option<Branches<'w>> {
        let enters = |(number, way): (usize, &GraphEdge<'_>)| {
            self.enters(way, role) && (!matches!(way.to, EdgeTarget::Role(_)) || self.flow.leads_on(number, role))
        };
        if self.indexed.edges.iter().enumerate().any(enters) {
            return None;
        }
        let fans = self.indexed.fans.iter().enumerate().filter(|(_, fan)| fan.join == role);
        self.branches_of(&fans.map(|(number, _)| number).collect::<Vec<_>>())
    }

    /// The `branches` after any of these fan-outs.
    pub(super) fn branches_of(&self, fans: &[usize]) -> Option<Branches<'w>> {
        let fan_out = |number: &usize| {
            let way = self.indexed.edges.get(self.indexed.fans.get(*number)?.way)?;
            Some((*number, self.indexed.fan_of(way)?.1))
        };
        let fans: Vec<(usize, &FanOut)> = fans.iter().filter_map(fan_out).collect();
        let least = fans.iter().map(|(_, fan)| least_branches(fan)).min()?;
        let item = fans.iter().map(|(number, fan)| self.item(*number, fan)).reduce(either)?;
        let steps = fans.iter().map(|(number, fan)| self.last_steps(*number, fan));
        let steps: Option<Vec<_>> = steps.collect();
        let steps = steps.map(|steps| steps.into_iter().flatten().collect());
        Some(Branches { least, element: Rc::new(branch(self.indexed, steps.as_ref(), item)) })
    }

    /// The element that a lane was created for.
    fn item(&self, number: usize, fan: &FanOut) -> Known<'w> {
        let names = self.given.get(&number).into_iter().flatten();
        let each = fan.each.as_ref().map(|each| each.name.as_str());
        names.filter(|(name, _)| Some(*name) == each).map(|(_, known)| known.clone()).next().unwrap_or(Type::Any.into())
    }

    /// The possible last steps of the lanes in `branches`, by role and status; `None` if they are not all known.
    fn last_steps(&self, number: usize, fan: &FanOut) -> Option<BTreeSet<(usize, usize)>> {
        let indexed = self.indexed;
        let places = self.findings.places;
        if !self.findings.is_whole || places.is_incomplete("graph") || places.is_incomplete("roles") {
            return None;
        }
        let arrivals = self.lanes.arrivals.get(number)?.iter().flatten();
        let mut last: BTreeSet<_> = arrivals.filter_map(|way| indexed.edges.get(*way)?.from).collect();
        let is_in_lane = |role: &usize| self.lanes.contexts_of(*role).binary_search(&number).is_ok();
        for role in (0..indexed.roles.len()).filter(is_in_lane) {
            let ways = || indexed.edges_of(role).map(|(_, way)| way);
            if ways().any(|way| matches!(way.to, EdgeTarget::Back | EdgeTarget::Unknown)) {
                return None;
            }
            if fan.join.failed == FailedLanes::Collect {
                last.extend(ways().filter(|way| way.to == EdgeTarget::Fail).filter_map(|way| way.from));
                last.extend(indexed.reserved(role).map(|status| (role, status)));
            }
        }
        (!last.is_empty()).then_some(last)
    }
}

/// The minimum number of branches that the join of a fan-out sees.
fn least_branches(fan: &FanOut) -> usize {
    let sure = if fan.each.is_some() { 0 } else { fan.branches.iter().filter(|branch| branch.when.is_none()).count() };
    match (fan.join.failed, fan.join.need) {
        (FailedLanes::Fail | FailedLanes::Collect, Need::All) => sure,
        // Failed lanes are left out.
        (FailedLanes::Skip, Need::All) => 0,
        // What is needed has arrived, or there is no join.
        (_, Need::Any) => 1,
        (_, Need::Count(count)) => usize::try_from(count).unwrap_or(usize::MAX),
    }
}
