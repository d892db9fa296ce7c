//! Routes through a space: the shortest ones, the longest one, and what the longest may visit.
//!
//! Bounded edges make a space without cycles, so that what lies ahead of a spot is settled once, from the ends back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use rondo_protocol::id::RoleName;

use super::space::{End, Goal, Space, SpotId, Way};

/// The most beginnings of routes that are looked at.
const MAX_BEGINNINGS: usize = 100_000;
/// The most steps of all routes that are found.
const MAX_STEPS: usize = 200_000;

/// One way through a space.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Which input it begins with.
    pub place: usize,
    /// Its ways: the spot that each leaves and its place among that spot's.
    pub ways: Vec<(SpotId, usize)>,
    /// How it ends.
    pub end: End,
}

/// What lies ahead of each spot.
#[derive(Debug)]
pub struct Ahead {
    spots: Vec<Reach>,
    /// Whether the space has no cycle, so that every figure is exact for it.
    pub is_exact: bool,
}

/// What lies ahead of one spot.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// The fewest steps to an end; `None` where no end was found.
    pub fewest: Option<u64>,
    /// The most steps.
    pub most: u64,
    /// In how many ways it goes to an end.
    pub ways: u64,
    /// The most visits of each role, not all on the same route.
    pub visits: BTreeMap<RoleName, u64>,
}

impl Ahead {
    /// Settles every spot of `space`.
    pub fn of(space: &Space) -> Self {
        let mut ahead = Self { spots: vec![Reach::default(); space.spots.len()], is_exact: true };
        let mut settled = vec![false; space.spots.len()];
        let mut open = vec![false; space.spots.len()];
        for root in 0..space.spots.len() {
            let mut stack = vec![(root, 0_usize)];
            while let Some((spot, way)) = stack.pop() {
                if settled.get(spot) != Some(&false) {
                    continue;
                }
                if let Some(mark) = open.get_mut(spot) {
                    *mark = true;
                }
                let Some(goal) = space.ways(spot).get(way).map(|way| way.goal) else {
                    let reach = ahead.settle(space, spot);
                    if let (Some(place), Some(done)) = (ahead.spots.get_mut(spot), settled.get_mut(spot)) {
                        *place = reach;
                        *done = true;
                    }
                    continue;
                };
                stack.push((spot, way + 1));
                match goal {
                    Goal::Spot(next) if settled.get(next) == Some(&false) => {
                        if open.get(next) == Some(&true) {
                            // A cycle: what lies ahead of it has no end of its own.
                            ahead.is_exact = false;
                        } else {
                            stack.push((next, 0));
                        }
                    }
                    Goal::Spot(_) | Goal::End(_) => {}
                }
            }
        }
        ahead
    }

    /// What lies ahead of a spot.
    pub fn at(&self, spot: SpotId) -> Option<&Reach> {
        self.spots.get(spot)
    }

    fn settle(&self, space: &Space, spot: SpotId) -> Reach {
        let mut reach = Reach::default();
        let nothing = Reach { fewest: Some(0), ways: 1, ..Reach::default() };
        for way in space.ways(spot) {
            let made = way.made();
            let next = match way.goal {
                Goal::Spot(next) => self.at(next).unwrap_or(&nothing),
                Goal::End(_) => &nothing,
            };
            let fewest = next.fewest.map(|fewest| fewest + made);
            reach.fewest = reach.fewest.into_iter().chain(fewest).min();
            reach.most = reach.most.max(next.most + made);
            reach.ways = reach.ways.saturating_add(next.ways);
            for (role, visits) in &next.visits {
                let most = reach.visits.entry(role.clone()).or_default();
                *most = (*most).max(*visits);
            }
            let Some(spot) = space.spots.get(spot) else { continue };
            let given = way.step.iter().flat_map(|step| &step.given).map(|given| &given.role);
            for role in given.chain(way.step.is_some().then_some(&spot.role)) {
                let own = next.visits.get(role).copied().unwrap_or(0) + way.visits(&spot.role, role);
                let most = reach.visits.entry(role.clone()).or_default();
                *most = (*most).max(own);
            }
        }
        reach
    }
}

/// The words of a path's steps, as `role.status`, in a lane `role[0].status`.
pub fn steps(space: &Space, path: &Path) -> Vec<String> {
    let step = |(spot, way): &(SpotId, usize)| {
        let spot = space.spots.get(*spot)?;
        let step = spot.ways.get(*way)?.step.as_ref()?;
        let given = step.given.iter().map(|given| format!("{}.{}", given.lane.seat(&given.role), given.status));
        let own = format!("{}.{}", spot.lane.seat(&spot.role), step.status);
        Some(std::iter::once(own).chain(given).collect::<Vec<_>>())
    };
    path.ways.iter().filter_map(step).flatten().collect()
}

/// The shortest paths of a space.
#[derive(Debug, Default)]
pub struct Shortest {
    /// In order. Their steps or ends differ.
    pub paths: Vec<Path>,
    /// Whether these are all.
    pub is_all: bool,
    /// The ceiling that was reached before there were as many as wanted.
    pub cut: Option<String>,
}

/// The shortest paths whose steps or ends differ, at most `count`.
///
/// Of equally long ones those go first that are nearer to their end, so that one is done before the next is begun:
/// otherwise all of them would grow side by side, and the ceiling would be reached before any was done.
pub fn shortest(space: &Space, ahead: &Ahead, roots: &[(usize, SpotId)], count: usize) -> Shortest {
    let mut beginnings: Vec<Beginning> = Vec::new();
    let mut queue = BinaryHeap::new();
    let mut found = Shortest::default();
    let mut told = BTreeSet::new();
    let mut step_count = 0;
    for (place, spot) in roots {
        if let Some(fewest) = ahead.at(*spot).and_then(|reach| reach.fewest) {
            queue.push((Reverse(fewest), 0, Reverse(beginnings.len())));
            beginnings.push(Beginning { place: *place, before: None, made: 0, at: Goal::Spot(*spot) });
        }
    }
    while let Some((_, _, Reverse(number))) = queue.pop() {
        let Some(beginning) = beginnings.get(number).copied() else { break };
        let spot = match beginning.at {
            Goal::Spot(spot) => spot,
            Goal::End(end) => {
                let path = Path { place: beginning.place, ways: behind(&beginnings, number), end };
                step_count += path.ways.len();
                if told.insert((steps(space, &path), end)) {
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
        for (index, way) in space.ways(spot).iter().enumerate() {
            // Ways that differ only in the entry of a list are the same steps to the same place.
            if !led.insert((way.step.as_ref().map(|step| &step.status), way.goal)) {
                continue;
            }
            if beginnings.len() >= MAX_BEGINNINGS {
                found.cut = Some(format!("{MAX_BEGINNINGS} beginnings of routes"));
                return found;
            }
            let made = beginning.made + way.made();
            let rest = match way.goal {
                Goal::Spot(next) => ahead.at(next).and_then(|reach| reach.fewest),
                Goal::End(_) => Some(0),
            };
            if let Some(rest) = rest {
                queue.push((Reverse(made + rest), made, Reverse(beginnings.len())));
                let before = Some((number, spot, index));
                beginnings.push(Beginning { place: beginning.place, before, made, at: way.goal });
            }
        }
    }
    found.is_all = true;
    found
}

/// The path on which `worth` of what lies ahead is the most at each fork.
pub fn greatest(
    space: &Space,
    ahead: &Ahead,
    (place, root): (usize, SpotId),
    worth: impl Fn(&RoleName, &Way, &Reach) -> u64,
) -> Option<Path> {
    let nothing = Reach::default();
    let mut ways = Vec::new();
    let mut at = root;
    // Each spot of a path is another one, unless the space has a cycle.
    for _ in 0..=space.spots.len() {
        let spot = space.spots.get(at)?;
        let value = |way: &Way| match way.goal {
            Goal::Spot(next) => worth(&spot.role, way, ahead.at(next).unwrap_or(&nothing)),
            Goal::End(_) => worth(&spot.role, way, &nothing),
        };
        // Of equals the first in the order of the file.
        let (index, way) = spot.ways.iter().enumerate().rev().max_by_key(|(_, way)| value(way))?;
        ways.push((at, index));
        match way.goal {
            Goal::Spot(next) => at = next,
            Goal::End(end) => return Some(Path { place, ways, end }),
        }
    }
    None
}

/// A path that has not ended yet.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    place: usize,
    /// The beginning that it goes on from, by which way.
    before: Option<(usize, SpotId, usize)>,
    made: u64,
    at: Goal,
}

fn behind(beginnings: &[Beginning], number: usize) -> Vec<(SpotId, usize)> {
    let mut ways = Vec::new();
    let mut at = beginnings.get(number);
    while let Some((before, spot, way)) = at.and_then(|beginning| beginning.before) {
        ways.push((spot, way));
        at = beginnings.get(before);
    }
    ways.reverse();
    ways
}
