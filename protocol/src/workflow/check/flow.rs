//! Computes for each edge and each role which statuses every role's latest step may have there, and whether it may not
//! have run.
//!
//! A forward may-analysis. A role's state is the union over the edges that lead to it; an edge's state is its role's
//! with that role's step replaced. States only grow, so the analysis terminates. A join waits until each of its
//! branches has an exit, because a role that has not run in one lane may have run in another.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;

use super::indexed_graph::{EdgeTarget, Fan, IndexedGraph};
use super::lanes::Lanes;

/// For each role one bit for *has not run* and one for each status.
pub(super) type State = FixedBitSet;

pub(super) struct Flow<'p, 'w> {
    indexed: &'p IndexedGraph<'w>,
    lanes: &'p Lanes,
    /// The first bit of each role.
    offsets: Vec<usize>,
    bits: usize,
    /// The state before each role; `None` if it cannot be reached.
    states: Vec<Option<State>>,
    /// For each role the fan-outs whose lanes it may end.
    arrives: BTreeMap<usize, BTreeSet<usize>>,
    /// For each role the edges that lead only to it.
    calls: BTreeMap<usize, Vec<usize>>,
}

impl<'p, 'w> Flow<'p, 'w> {
    pub(super) fn new(indexed: &'p IndexedGraph<'w>, lanes: &'p Lanes) -> Self {
        let mut bits = 0;
        let mut offsets = Vec::with_capacity(indexed.roles.len());
        for role in &indexed.roles {
            offsets.push(bits);
            bits += 1 + role.statuses.len();
        }
        let states = vec![None; indexed.roles.len()];
        let (arrives, calls) = (BTreeMap::new(), BTreeMap::new());
        let mut flow = Self { indexed, lanes, offsets, bits, states, arrives, calls };
        for (number, branches) in lanes.arrivals.iter().enumerate() {
            for (role, _) in branches.iter().flatten().filter_map(|way| indexed.edges.get(*way)?.from) {
                flow.arrives.entry(role).or_default().insert(number);
            }
        }
        for (number, way) in indexed.edges.iter().enumerate() {
            if let (Some(_), EdgeTarget::Role(to)) = (way.from, way.to) {
                flow.calls.entry(to).or_default().push(number);
            }
        }
        flow.run();
        flow
    }

    pub(super) fn before(&self, role: usize) -> Option<&State> {
        self.states.get(role)?.as_ref()
    }

    pub(super) fn on(&self, way: usize) -> Option<State> {
        let edge = self.indexed.edges.get(way)?;
        let mut state = match edge.from {
            None => self.nothing_has_run(),
            Some((role, status)) => {
                let mut state = self.before(role)?.clone();
                self.ran(&mut state, role, status);
                state
            }
        };
        // A used-up edge was taken before, so the targets that it leads to unconditionally have run.
        let mut spent = edge.spent;
        while let Some(before) = spent.and_then(|number| self.indexed.edges.get(number)) {
            for role in self.indexed.targets(before.to, true) {
                state.set(self.not_run_bit(role), false);
            }
            spent = before.spent;
        }
        Some(state)
    }

    /// The state after the lanes of a fan-out have joined.
    pub(super) fn joined(&self, number: usize) -> Option<State> {
        let fan = self.indexed.fans.get(number)?;
        let lanes = fan.branches.iter().zip(self.lanes.arrivals.get(number)?);
        let exits = lanes.filter(|(_, arrivals)| !arrivals.is_empty()).map(|((_, is_sure), arrivals)| {
            Some((Self::union(arrivals.iter().filter_map(|way| self.on(*way)))?, *is_sure))
        });
        self.meet(fan, &exits.collect::<Option<Vec<_>>>()?)
    }

    /// The possible statuses of a role's latest step.
    pub(super) fn statuses(&self, state: &State, role: usize) -> Vec<usize> {
        let count = self.indexed.roles.get(role).map_or(0, |role| role.statuses.len());
        (0..count).filter(|status| state.contains(self.not_run_bit(role) + 1 + status)).collect()
    }

    pub(super) fn union(states: impl Iterator<Item = State>) -> Option<State> {
        states.reduce(|mut union, state| {
            union.union_with(&state);
            union
        })
    }

    fn meet(&self, fan: &Fan, exits: &[(State, bool)]) -> Option<State> {
        let mut met = Self::union(exits.iter().map(|(exit, _)| exit.clone()));
        if fan.waits_for_all
            && let Some(met) = &mut met
        {
            for role in 0..self.indexed.roles.len() {
                let bit = self.not_run_bit(role);
                if exits.iter().any(|(exit, is_sure)| *is_sure && !exit.contains(bit)) {
                    met.set(bit, false);
                }
            }
        }
        if fan.may_be_empty { Self::union(std::iter::once(self.on(fan.way)?).chain(met)) } else { met }
    }

    /// The bit of *has not run*.
    pub(super) fn not_run_bit(&self, role: usize) -> usize {
        self.offsets.get(role).copied().unwrap_or(self.bits)
    }

    fn nothing_has_run(&self) -> State {
        let mut state = State::with_capacity(self.bits + 1);
        for role in 0..self.indexed.roles.len() {
            state.set(self.not_run_bit(role), true);
        }
        state
    }

    fn ran(&self, state: &mut State, role: usize, status: usize) {
        let first = self.not_run_bit(role);
        let count = self.indexed.roles.get(role).map_or(0, |role| role.statuses.len());
        for bit in first..=first + count {
            state.set(bit, bit == first + 1 + status);
        }
    }

    fn run(&mut self) {
        // Sweeps over the roles in file order: the target of a backward edge waits for the next sweep, so that it
        // receives everything that the rest of this one contributes.
        let mut next = 0;
        let mut open: BTreeSet<usize> = BTreeSet::new();
        let mut fans: BTreeSet<usize> = BTreeSet::new();
        for (number, _) in self.indexed.edges.iter().enumerate().filter(|(_, way)| way.from.is_none()) {
            self.follow(number, &mut open, &mut fans);
        }
        loop {
            if let Some(role) = open.range(next..).next().or(open.first()).copied() {
                open.remove(&role);
                next = role + 1;
                for (way, _) in self.indexed.edges_of(role) {
                    self.follow(way, &mut open, &mut fans);
                }
                fans.extend(self.arrives.get(&role).into_iter().flatten());
            } else if let Some(fan) = fans.pop_first() {
                if let Some(opened) = self.indexed.fans.get(fan) {
                    self.enter(opened.join, self.joined(fan), &mut open);
                }
            } else {
                return;
            }
        }
    }

    /// Propagates the state along an edge.
    fn follow(&mut self, way: usize, open: &mut BTreeSet<usize>, fans: &mut BTreeSet<usize>) {
        let Some(edge) = self.indexed.edges.get(way) else { return };
        match edge.to {
            EdgeTarget::Role(role) if self.leads_on(way, role) => {
                self.enter(role, self.on(way), open);
                // The caller's state flows back to it with the callee's `back`.
                if self.indexed.edges_of(role).any(|(_, way)| way.to == EdgeTarget::Back) && self.before(role).is_some()
                {
                    self.return_to(way, role, open);
                }
            }
            EdgeTarget::Fan(number) => {
                let Some(state) = self.on(way) else { return };
                for (role, _) in self.indexed.fans.get(number).into_iter().flat_map(|fan| &fan.branches) {
                    self.enter(*role, Some(state.clone()), open);
                }
                fans.insert(number);
            }
            EdgeTarget::Back => {
                let Some((role, _)) = edge.from else { return };
                for call in self.calls.get(&role).cloned().unwrap_or_default() {
                    self.return_to(call, role, open);
                }
            }
            EdgeTarget::Role(_) | EdgeTarget::End | EdgeTarget::Fail | EdgeTarget::Unknown => {}
        }
    }

    /// Passes the state of the edge `call` back to its source, with each step after which `role` leads back.
    fn return_to(&mut self, call: usize, role: usize, open: &mut BTreeSet<usize>) {
        let Some((caller, _)) = self.indexed.edges.get(call).and_then(|way| way.from) else { return };
        let back = self.indexed.edges_of(role).filter(|(_, way)| way.to == EdgeTarget::Back);
        let statuses: BTreeSet<usize> = back.filter_map(|(_, way)| Some(way.from?.1)).collect();
        for status in statuses {
            let mut state = self.on(call);
            if let Some(state) = &mut state {
                self.ran(state, role, status);
            }
            self.enter(caller, state, open);
        }
    }

    /// Whether an edge to `role` enters it within its own context. If the role is the join of every context of the
    /// edge, the edge only ends a lane.
    pub(super) fn leads_on(&self, way: usize, role: usize) -> bool {
        let Some((from, _)) = self.indexed.edges.get(way).and_then(|way| way.from) else { return true };
        let joins = |fan: &usize| self.indexed.fans.get(*fan).is_some_and(|fan| fan.join == role);
        self.lanes.trunk.contains(&from) || !self.lanes.contexts_of(from).iter().all(joins)
    }

    /// Adds a state to that before a role, which is open if it grows.
    fn enter(&mut self, role: usize, state: Option<State>, open: &mut BTreeSet<usize>) {
        let (Some(known), Some(state)) = (self.states.get_mut(role), state) else { return };
        if known.as_ref().is_none_or(|known| !state.is_subset(known)) {
            *known = Self::union(known.take().into_iter().chain([state]));
            open.insert(role);
        }
    }
}
