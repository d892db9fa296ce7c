//! Walks over the states of a workflow: every possible answer of each role at every reachable state.
//!
//! One walk has one input and one *variant*. At every visit it tries **all** answers on the edges of the visit, then
//! continues with the answer of index *variant*, or with the next one that leads another way. So the effect of an edge
//! on the answer before it is covered in full, and its effect on earlier answers once per variant.
//!
//! Lanes open at the same time run one after the other in declared order; where a join does not need all of them,
//! other walks run another lane first.
//!
//! Walks are breadth-first, so the first route to a place is the shortest. A walk that is cut off is followed by a
//! depth-first one, which reaches the ends and the exhausted bounds of a space that is too large to explore in full.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use rondo_core::graph::{Edge, EdgeId, Graph};
use rondo_core::thread::{self, Lane, Machine, Undecided};
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::template::Cause;

use super::answers::{Answer, AnswerSet};
use super::reads::Reads;
use super::run::{Next, Run};
use super::space::{End, ImpliedStep, StateId, StateKey, StateSpace, Taken, Target, Transition};

/// The most states of all walks. A breadth-first walk leaves half of them to a depth-first one.
const MAX_STATES: usize = 20_000;
/// The most marks of all states. A state's key takes a mark for each role and each bounded edge, so fewer states of a
/// large workflow are kept.
const MAX_MARKS: usize = 2_000_000;
const MAX_TRIED: usize = 400_000;
/// The most bytes of steps that the states of a walk hold.
const MAX_HELD_BYTES: usize = 96 << 20;
/// Approximate bytes that a state holds for each role that has run in a lane.
const VISITED_BYTES: usize = 128;
/// How many such roles a lane is counted as.
const LANE_VISITS: usize = 4;
/// The mark of a lane that reached its join, by any edge.
const ARRIVED: u64 = 8;
/// A state with this many lanes counts as one more tried answer, because it costs as much to continue from.
pub(super) const LANES_AN_ANSWER: usize = 16;
const MAX_FAULTS: usize = 200;

pub struct Explorer<'a> {
    graph: &'a Arc<Graph>,
    answer_set: &'a AnswerSet,
    reads: &'a Reads,
    roles: Vec<&'a RoleName>,
    bounded: Vec<&'a Arc<Edge>>,
    on_progress: &'a mut dyn FnMut(Progress),
    /// Whether a join continues before all of its lanes have ended, so that the number of ended lanes matters.
    counts_lanes: bool,
    /// Tried answers; those in states of many lanes count more than once.
    work: usize,
    exploration: Exploration,
}

#[derive(Debug, Default)]
pub struct Exploration {
    pub space: StateSpace,
    /// Where walks start: the first state, and the place of the first input that leads there.
    pub roots: Vec<(usize, StateId)>,
    /// The ends that `start` leads to directly.
    pub empty: BTreeMap<usize, End>,
    pub taken: BTreeSet<EdgeId>,
    /// Failures, each place once, with the shortest route to it.
    pub faults: BTreeMap<(String, usize, usize), Failure>,
    /// Which ceilings were reached.
    pub cut: BTreeSet<String>,
    /// The limits that ended a route, as text, each with its role; `None` for a limit of the thread.
    pub limits: BTreeMap<String, Option<RoleName>>,
    pub progress: Progress,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub states: usize,
    pub tried: usize,
}

/// A template or condition that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub part: String,
    pub range: Range<usize>,
    pub why: FailureCause,
    /// The steps that lead there, as `role.status`, each with its answered fields.
    pub route: Vec<(Arc<str>, Value)>,
    pub input: Arc<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FailureCause {
    /// A template or a condition without a value.
    Template(Cause),
    /// The value of an `each` is of this type and not a list.
    NotAList(&'static str),
    /// A rule or a selector gives no usable answer, in these words.
    NoChoice(String),
}

/// A pending visit.
struct Frontier {
    state: StateId,
    run: Run,
    path: usize,
    /// The approximate bytes of its texts: its own, and a share of those before it, which other fronts hold too.
    bytes: usize,
    latest: Latest,
}

/// For roles whose answers conditions read: which one was the latest in each lane.
type Latest = BTreeMap<(LanePath, RoleName), usize>;

/// The steps before a front, each with its predecessor.
struct Paths {
    input: Arc<Value>,
    steps: Vec<(usize, Arc<str>, Arc<Answer>)>,
}

impl Paths {
    fn route(&self, mut at: usize, last: Option<(&Arc<str>, &Answer)>) -> Vec<(Arc<str>, Value)> {
        let mut route: Vec<_> =
            last.into_iter().map(|(step, answer)| (Arc::clone(step), answer.output.clone())).collect();
        while let Some((before, step, answer)) = at.checked_sub(1).and_then(|index| self.steps.get(index)) {
            route.push((Arc::clone(step), answer.output.clone()));
            at = *before;
        }
        route.reverse();
        route
    }

    fn add(&mut self, before: usize, step: &Arc<str>, answer: &Arc<Answer>) -> usize {
        self.steps.push((before, Arc::clone(step), Arc::clone(answer)));
        self.steps.len()
    }
}

struct Walk {
    place: usize,
    variant: usize,
    /// Which of several open lanes goes first.
    order: usize,
    in_depth: bool,
    paths: Paths,
    seen: BTreeSet<StateId>,
    fronts: VecDeque<Frontier>,
    /// Bytes of the texts that its states hold.
    held_bytes: usize,
}

impl Walk {
    fn next(&mut self) -> Option<Frontier> {
        if self.in_depth { self.fronts.pop_back() } else { self.fronts.pop_front() }
    }
}

impl<'a> Explorer<'a> {
    pub fn new(
        graph: &'a Arc<Graph>,
        answer_set: &'a AnswerSet,
        reads: &'a Reads,
        on_progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        let bounded = graph.edges().into_values().filter(|edge| edge.bound.is_some());
        Self {
            graph,
            answer_set,
            reads,
            roles: graph.roles().map(|(name, _)| name).collect(),
            bounded: bounded.collect(),
            on_progress,
            counts_lanes: super::orders(graph) > 1,
            work: 0,
            exploration: Exploration::default(),
        }
    }

    pub fn found(self) -> Exploration {
        let progress = Progress { states: self.exploration.space.states.len(), ..self.exploration.progress };
        Exploration { progress, ..self.exploration }
    }

    /// Walks from `start` with the input at `place`. `variant` chooses among equal answers, and `order` among lanes
    /// that are open at the same time: 0 lets each reach its end before the next.
    pub fn walk(&mut self, place: usize, input: &Arc<Value>, variant: usize, order: usize) {
        if !self.walk_on((place, input), (variant, order), false) {
            self.walk_on((place, input), (variant, order), true);
        }
    }

    fn walk_on(
        &mut self,
        (place, input): (usize, &Arc<Value>),
        (variant, order): (usize, usize),
        in_depth: bool,
    ) -> bool {
        // A walk leaves half of the remaining budget to later ones.
        let allowance = (MAX_TRIED.saturating_sub(self.work) / 2).max(1);
        let until = self.work + allowance;
        let paths = Paths { input: Arc::clone(input), steps: Vec::new() };
        let (run, next) = Run::new(self.graph, input);
        if !self.follows(&next, &paths, Vec::new) {
            return true;
        }
        if let Some(ending) = run.machine.ending() {
            self.exploration.empty.insert(place, End::of(ending.outcome));
            return true;
        }
        let latest = Latest::new();
        let Some(state) = self.state((place, order), &run, &latest) else { return true };
        // Inputs that routing does not read start at the same state, whose routes count once.
        if !self.exploration.roots.iter().any(|(_, known)| *known == state) {
            self.exploration.roots.push((place, state));
        }
        let first = Frontier { state, run, path: 0, bytes: 0, latest };
        let mut walk = Walk {
            place,
            variant,
            order,
            in_depth,
            paths,
            seen: BTreeSet::from([state]),
            fronts: VecDeque::from([first]),
            held_bytes: 0,
        };
        while let Some(front) = walk.next() {
            if self.is_cut(until, &walk) {
                return false;
            }
            walk.held_bytes = walk.held_bytes.saturating_sub(front.bytes);
            self.visit(front, &mut walk);
        }
        true
    }

    fn is_cut(&mut self, until: usize, walk: &Walk) -> bool {
        let marks = self.bounded.len() + self.roles.len() + 1;
        let all_states = MAX_STATES.min(MAX_MARKS / marks);
        let most_states = if walk.in_depth { all_states } else { all_states / 2 };
        let reached = [
            (self.exploration.space.states.len() >= most_states, format!("{all_states} states")),
            (self.work >= until, format!("{MAX_TRIED} answers")),
            (walk.held_bytes > MAX_HELD_BYTES, format!("{} MiB of texts", MAX_HELD_BYTES >> 20)),
        ];
        let is_cut = reached.iter().any(|(reached, _)| *reached);
        self.exploration.cut.extend(reached.into_iter().filter(|(reached, _)| *reached).map(|(_, what)| what));
        is_cut
    }

    /// Tries every answer of a visit and continues with those that lead to new states.
    fn visit(&mut self, front: Frontier, walk: &mut Walk) {
        let Frontier { state, run, path, bytes, latest } = front;
        let answer_set = self.answer_set;
        let Some((lane, dispatch)) = run.visiting(walk.order) else { return };
        let role = &dispatch.role;
        let seat = lane.role_in_lane(role);
        let lanes = run.machine.lanes().len();
        let mut only = None;
        if let Some(fault) = run.broken(&lane) {
            only = thread::routed(self.graph, role, &fault);
            if only.is_none() {
                self.exploration.limits.insert(fault.message, (fault.code == Code::VisitLimit).then(|| role.clone()));
                self.exploration.space.add(state, Transition { step: None, target: Target::End(End::Limit) });
                return;
            }
        }
        let is_told_apart = self.reads.answers.contains(role);
        for (status, answers) in answer_set.of(role) {
            if only.as_ref().is_some_and(|only| only != status) {
                continue;
            }
            let count = answers.len();
            // Rules and rotations decide in the same breath, so an answer leads along several edges.
            let mut led: BTreeSet<(Vec<EdgeId>, Option<usize>, bool)> = BTreeSet::new();
            let name: Arc<str> = format!("{seat}.{status}").into();
            for at in (0..count).map(|offset| (walk.variant + offset) % count) {
                let Some(answer) = answers.get(at) else { continue };
                self.work += lanes / LANES_AN_ANSWER;
                let (after, next) = run.answered(&lane, answer);
                let route = || walk.paths.route(path, Some((&name, answer)));
                let is_stopped = !self.follows(&next, &walk.paths, route);
                let edge = next.edge.unwrap_or(UNROUTED);
                if !led.insert((next.edges.clone(), is_told_apart.then_some(at), is_stopped)) {
                    continue;
                }
                let target = if is_stopped {
                    Target::End(End::Stop)
                } else if let Some(ending) = after.machine.ending() {
                    Target::End(End::of(ending.outcome))
                } else {
                    let mut latest = latest.clone();
                    if is_told_apart {
                        latest.insert((lane.clone(), role.clone()), at);
                    }
                    let Some(state) = self.state((walk.place, walk.order), &after, &latest) else { continue };
                    if walk.seen.insert(state) {
                        // A text contains the fields and the body, and both are stored a second time separately.
                        let opened = after.visiting(0).map_or(0, |(_, dispatch)| dispatch.edge.prompt.len());
                        let texts = opened + 2 * answer.text_bytes;
                        let added = texts + held_bytes(&after.machine);
                        let bytes = bytes / 2 + added;
                        walk.held_bytes += bytes;
                        let path = walk.paths.add(path, &name, answer);
                        walk.fronts.push_back(Frontier { state, run: after, path, bytes, latest });
                    }
                    Target::State(state)
                };
                let given = next.steps.iter().skip(1).map(|step| ImpliedStep {
                    role: step.role.clone(),
                    lane: step.lane.clone(),
                    status: step.status.clone(),
                });
                let step = Some(Taken { status: status.clone(), answer: at, edge, given: given.collect() });
                self.exploration.space.add(state, Transition { step, target });
            }
        }
    }

    /// Whether the walk can continue. Keeps a failure with its `route`.
    fn follows(&mut self, next: &Next, paths: &Paths, route: impl FnOnce() -> Vec<(Arc<str>, Value)>) -> bool {
        self.exploration.progress.tried += 1;
        self.work += 1;
        if self.exploration.progress.tried.is_multiple_of(1_000) {
            (self.on_progress)(Progress { states: self.exploration.space.states.len(), ..self.exploration.progress });
        }
        self.exploration.taken.extend(&next.edges);
        let Some(fault) = &next.fault else { return true };
        match fault {
            Undecided::Unrendered { part, error, .. } => {
                let why = FailureCause::Template(error.cause.clone());
                self.fault((part.clone(), error.range.clone(), why), &paths.input, route);
            }
            Undecided::NotAList { part, found } => {
                self.fault((key(part, "each"), 0..0, FailureCause::NotAList(found)), &paths.input, route);
            }
            Undecided::NoChoice { role, fault } => {
                let why = FailureCause::NoChoice(fault.message.clone());
                self.fault((key("roles", role.as_str()), 0..0, why), &paths.input, route);
            }
            Undecided::NoEdge { .. } | Undecided::Fault(_) => {}
        }
        false
    }

    fn fault(
        &mut self,
        (part, range, why): (String, Range<usize>, FailureCause),
        input: &Arc<Value>,
        route: impl FnOnce() -> Vec<(Arc<str>, Value)>,
    ) {
        let key = (part.clone(), range.start, range.end);
        let known = self.exploration.faults.get(&key);
        if known.is_none() && self.exploration.faults.len() >= MAX_FAULTS {
            self.exploration.cut.insert(format!("{MAX_FAULTS} faults"));
            return;
        }
        let route = route();
        if known.is_none_or(|known| known.route.len() > route.len()) {
            self.exploration.faults.insert(key, Failure { part, range, why, route, input: Arc::clone(input) });
        }
    }

    fn state(&mut self, (place, order): (usize, usize), run: &Run, latest: &Latest) -> Option<StateId> {
        let (lane, dispatch) = run.visiting(order)?;
        let mut key = self.key(place, run, latest);
        // Which of the open lanes is next.
        key.extend(lane.parts().map(|(_, index)| u64::from(index)));
        Some(self.exploration.space.state(key, &dispatch.role, lane))
    }

    fn key(&self, place: usize, run: &Run, latest: &Latest) -> StateKey {
        let mut key = vec![if self.reads.input { number(place) } else { 0 }];
        let lanes = run.machine.lanes();
        let (open, ended): (Vec<&Lane>, Vec<&Lane>) = lanes.into_iter().partition(|lane| lane.is_open());
        for lane in open {
            self.lane(lane, run, &mut key);
        }
        self.ended(&ended, run, &mut key);
        for ((lane, name), at) in latest {
            let role = self.roles.iter().position(|role| *role == name).map_or(0, number);
            key.extend([role, lane.last_index().map_or(0, |index| u64::from(index) + 1), number(*at)]);
        }
        key
    }

    /// Adds what ended lanes mean for the steps after their join: which roles answered, regardless of the lane.
    fn ended(&self, lanes: &[&Lane], run: &Run, key: &mut StateKey) {
        if lanes.is_empty() {
            return;
        }
        if self.counts_lanes {
            let mut kinds: BTreeMap<u64, usize> = BTreeMap::new();
            for lane in lanes {
                *kinds.entry(lane.phase.number().min(ARRIVED)).or_default() += 1;
            }
            key.extend(kinds.into_iter().flat_map(|(kind, count)| [kind, number(count)]));
        }
        for name in &self.roles {
            let seen = || lanes.iter().filter_map(|lane| lane.seen.get(*name));
            let visits: u64 = seen().map(|seen| seen.visits).sum();
            key.push(visits.min(self.told_apart(name)));
            if self.reads.steps.contains(*name) {
                key.push(self.status(name, seen().next_back().map(|seen| seen.latest), run));
            }
        }
    }

    /// Up to how many visits of a role are distinguished.
    fn told_apart(&self, name: &RoleName) -> u64 {
        let limit = self.graph.role(name).and_then(|(_, policy)| policy.limits.visits);
        let limit = limit.into_iter().chain(self.graph.policy().limits.visits).min();
        if self.reads.visits.contains(name) { u64::MAX } else { limit.unwrap_or(1).max(1) }
    }

    /// The index of a step's status among the role's statuses, from 1; 0 if there is no step.
    fn status(&self, name: &RoleName, seq: Option<u64>, run: &Run) -> u64 {
        let latest = seq.and_then(|seq| run.episode(seq));
        let statuses = self.answer_set.of(name);
        let at = latest.and_then(|latest| statuses.iter().position(|(known, _)| *known == latest.status));
        at.map_or(0, |at| number(at) + 1)
    }

    /// Adds what distinguishes a lane from others in the same place.
    fn lane(&self, lane: &Lane, run: &Run, key: &mut StateKey) {
        let role = |name: &str| number(self.roles.iter().position(|role| role.as_str() == name).map_or(0, |at| at + 1));
        // Lanes are distinguished by their places, which depth and position identify.
        key.push(number(lane.path.parts().count()) << 32 | u64::from(lane.path.last_index().unwrap_or(0)));
        key.push(lane.phase.number());
        key.push(lane.lanes().map_or(0, |fan| number(fan.to_open.len())));
        let next = lane.visiting();
        key.push(next.map_or(0, |dispatch| role(dispatch.role.as_str())));
        if self.reads.back {
            key.push(next.map_or(0, |dispatch| role(&dispatch.edge.from)));
        }
        for edge in &self.bounded {
            let Some(bound) = &edge.bound else { continue };
            key.push(lane.times_taken(edge.id, bound.per.as_ref()).min(bound.max.into()));
        }
        for name in &self.roles {
            let seen = lane.view(name.as_str());
            key.push(seen.as_ref().map_or(0, |seen| seen.visits).min(self.told_apart(name)));
            if self.reads.steps.contains(*name) {
                key.push(self.status(name, seen.map(|seen| seen.latest), run));
            }
        }
    }
}

/// Approximate bytes that a machine holds besides texts.
fn held_bytes(machine: &Machine) -> usize {
    let lanes = machine.lanes();
    let beside_trunk = lanes.len().saturating_sub(1);
    (lanes.iter().map(|lane| lane.own.len()).sum::<usize>() + beside_trunk * LANE_VISITS) * VISITED_BYTES
}

/// The edge of a step that ends its lane with a fault.
pub(super) const UNROUTED: EdgeId = EdgeId(u32::MAX);

fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
