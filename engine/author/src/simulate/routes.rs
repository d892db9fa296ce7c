//! Routes through a space: the shortest ones, the longest one, and the most visits.
//!
//! Bounded edges leave no cycles, so each state is computed once, from the ends backwards.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use rondo_protocol::id::RoleName;

use super::space::{End, StateId, StateSpace, Target, Transition};

const MAX_PARTIAL_PATHS: usize = 100_000;
/// The most steps of all routes that are found.
const MAX_STEPS: usize = 200_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// The place of its input.
    pub place: usize,
    /// Its transitions: the source state of each and its index there.
    pub ways: Vec<(StateId, usize)>,
    pub end: End,
}

/// What can be reached from each state.
#[derive(Debug)]
pub struct Reachability {
    states: Vec<Reach>,
    /// Whether the space has no cycle, so that every figure is exact for it.
    pub is_exact: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// The fewest steps to an end; `None` if no end was found.
    pub fewest: Option<u64>,
    pub most: u64,
    pub ways: u64,
    /// The most visits of each role, not all on the same route.
    pub visits: BTreeMap<RoleName, u64>,
}

impl Reachability {
    pub fn of(space: &StateSpace) -> Self {
        let mut ahead = Self { states: vec![Reach::default(); space.states.len()], is_exact: true };
        let (mut settled, mut open) = (BTreeSet::new(), BTreeSet::new());
        for root in 0..space.states.len() {
            let mut stack = vec![(root, 0_usize)];
            while let Some((state, way)) = stack.pop() {
                if settled.contains(&state) {
                    continue;
                }
                open.insert(state);
                let Some(target) = space.ways(state).get(way).map(|way| way.target) else {
                    let reach = ahead.settle(space, state);
                    if let Some(place) = ahead.states.get_mut(state) {
                        *place = reach;
                    }
                    settled.insert(state);
                    continue;
                };
                stack.push((state, way + 1));
                let Target::State(next) = target else { continue };
                // An open state is on a cycle, whose paths do not end.
                ahead.is_exact &= settled.contains(&next) || !open.contains(&next);
                if !open.contains(&next) {
                    stack.push((next, 0));
                }
            }
        }
        ahead
    }

    pub fn at(&self, state: StateId) -> Option<&Reach> {
        self.states.get(state)
    }

    fn settle(&self, space: &StateSpace, state: StateId) -> Reach {
        let mut reach = Reach::default();
        let nothing = Reach { fewest: Some(0), ways: 1, ..Reach::default() };
        for way in space.ways(state) {
            let made = way.made();
            let next = match way.target {
                Target::State(next) => self.at(next).unwrap_or(&nothing),
                Target::End(_) => &nothing,
            };
            let fewest = next.fewest.map(|fewest| fewest + made);
            reach.fewest = reach.fewest.into_iter().chain(fewest).min();
            reach.most = reach.most.max(next.most + made);
            reach.ways = reach.ways.saturating_add(next.ways);
            for (role, visits) in &next.visits {
                let most = reach.visits.entry(role.clone()).or_default();
                *most = (*most).max(*visits);
            }
            let Some(state) = space.states.get(state) else { continue };
            let given = way.step.iter().flat_map(|step| &step.given).map(|given| &given.role);
            for role in given.chain(way.step.is_some().then_some(&state.role)) {
                let own = next.visits.get(role).copied().unwrap_or(0) + way.visits(&state.role, role);
                let most = reach.visits.entry(role.clone()).or_default();
                *most = (*most).max(own);
            }
        }
        reach
    }
}

/// The steps of a path as `role.status`, or `role[0].status` in a lane.
pub fn steps(space: &StateSpace, path: &Path) -> Vec<String> {
    let step = |(state, way): &(StateId, usize)| {
        let state = space.states.get(*state)?;
        let step = state.ways.get(*way)?.step.as_ref()?;
        let given = step.given.iter().map(|given| format!("{}.{}", given.lane.role_in_lane(&given.role), given.status));
        let own = format!("{}.{}", state.lane.role_in_lane(&state.role), step.status);
        Some(std::iter::once(own).chain(given).collect::<Vec<_>>())
    };
    path.ways.iter().filter_map(step).flatten().collect()
}

#[derive(Debug, Default)]
pub struct Shortest {
    /// In order. Their steps or ends differ.
    pub paths: Vec<Path>,
    pub is_all: bool,
    /// The ceiling that was reached before the wanted number.
    pub cut: Option<String>,
}

/// The shortest paths whose steps or ends differ, at most `count`.
///
/// Of equally long paths those nearer to their end are extended first, so that one is finished before the next starts:
/// otherwise all would grow together, and the ceiling would be reached before any was finished.
pub fn shortest(space: &StateSpace, ahead: &Reachability, roots: &[(usize, StateId)], count: usize) -> Shortest {
    let mut partial_paths: Vec<PartialPath> = Vec::new();
    let mut queue = BinaryHeap::new();
    let mut found = Shortest::default();
    let mut seen = BTreeSet::new();
    let mut step_count = 0;
    for (place, state) in roots {
        if let Some(fewest) = ahead.at(*state).and_then(|reach| reach.fewest) {
            queue.push((Reverse(fewest), 0, Reverse(partial_paths.len())));
            partial_paths.push(PartialPath { place: *place, before: None, made: 0, at: Target::State(*state) });
        }
    }
    while let Some((_, _, Reverse(number))) = queue.pop() {
        let Some(partial) = partial_paths.get(number).copied() else { break };
        let state = match partial.at {
            Target::State(state) => state,
            Target::End(end) => {
                let path = Path { place: partial.place, ways: behind(&partial_paths, number), end };
                step_count += path.ways.len();
                if seen.insert((steps(space, &path), end)) {
                    if found.paths.len() == count {
                        return found;
                    }
                    found.paths.push(path);
                }
                if step_count >= MAX_STEPS {
                    found.cut = Some(format!("{MAX_STEPS} steps of routes"));
                    return found;
                }
                continue;
            }
        };
        let mut led = BTreeSet::new();
        for (index, way) in space.ways(state).iter().enumerate() {
            // Ways that differ only in the entry of a list are the same steps to the same place.
            if !led.insert((way.step.as_ref().map(|step| (&step.status, &step.given)), way.target)) {
                continue;
            }
            if partial_paths.len() >= MAX_PARTIAL_PATHS {
                found.cut = Some(format!("{MAX_PARTIAL_PATHS} partial routes"));
                return found;
            }
            let made = partial.made + way.made();
            let rest = match way.target {
                Target::State(next) => ahead.at(next).and_then(|reach| reach.fewest),
                Target::End(_) => Some(0),
            };
            if let Some(rest) = rest {
                queue.push((Reverse(made + rest), made, Reverse(partial_paths.len())));
                let before = Some((number, state, index));
                partial_paths.push(PartialPath { place: partial.place, before, made, at: way.target });
            }
        }
    }
    found.is_all = true;
    found
}

/// The path that maximizes `worth` of the reach ahead at each fork.
pub fn greatest(
    space: &StateSpace,
    ahead: &Reachability,
    (place, root): (usize, StateId),
    worth: impl Fn(&RoleName, &Transition, &Reach) -> u64,
) -> Option<Path> {
    let nothing = Reach::default();
    let mut ways = Vec::new();
    let mut at = root;
    // The states of a path are distinct, unless the space has a cycle.
    for _ in 0..=space.states.len() {
        let state = space.states.get(at)?;
        let value = |way: &Transition| match way.target {
            Target::State(next) => worth(&state.role, way, ahead.at(next).unwrap_or(&nothing)),
            Target::End(_) => worth(&state.role, way, &nothing),
        };
        // Of equals, the first in file order.
        let (index, way) = state.ways.iter().enumerate().rev().max_by_key(|(_, way)| value(way))?;
        ways.push((at, index));
        match way.target {
            Target::State(next) => at = next,
            Target::End(end) => return Some(Path { place, ways, end }),
        }
    }
    None
}

#[derive(Debug, Clone, Copy)]
struct PartialPath {
    place: usize,
    /// The path that it extends: its number, the source state and the index of the transition.
    before: Option<(usize, StateId, usize)>,
    made: u64,
    at: Target,
}

fn behind(partial_paths: &[PartialPath], number: usize) -> Vec<(StateId, usize)> {
    let mut ways = Vec::new();
    let mut at = partial_paths.get(number);
    while let Some((before, state, way)) = at.and_then(|partial| partial.before) {
        ways.push((state, way));
        at = partial_paths.get(before);
    }
    ways.reverse();
    ways
}
