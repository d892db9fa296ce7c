//! The thread machine: everything that decides, as one pure type.
//!
//! [`Machine::on`] takes an input and gives actions; a driver carries them out and decides nothing. The machine knows no
//! clock, no store, no provider and no task: times come in with inputs, and earlier steps through [`Recall`].
//!
//! Laws. *durable first*: what follows from a step leaves the machine only after the input that its commit was synced.
//! *order free*: with `need: all` and no failed lane the steps do not depend on the order in which visits end. Fault
//! routing, limits and money, and what a join has, are decided here and nowhere else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rondo_agent_kit::conversation::Episode;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{self, LaneEnd, Outcome, Target};
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::object::{
    BoundedEdge, CancelledLane, EdgeTaken, FaultKind, Followed, Note, Observation, Step, StepKind, Usage,
};
use rondo_protocol::workflow::{FailedLanes, Limits, RoleLimits};
use rondo_protocol::{Digest, Value};

use super::budget::{Budget, Reserved, Wanted};
use super::clock::Clock;
use super::fan::{self, Fan, MAX_LANES, Then};
use super::lane::{Doing, Item, Lane, LaneError};
use super::origin::Ending;
use super::recall::Recall;
use super::route::{self, Dispatch, Joins, Speaking, Undecided};
use super::scope::{LaneScope, World};
use crate::graph::{Edge, EdgeId, FanOut, Graph, To};

/// Kind, digest, canonical bytes.
pub type Object = (Kind, Digest, Vec<u8>);

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The workflow.
    pub graph: Arc<Graph>,
    /// The digest of the thread's beginning.
    pub start: Digest,
    /// The input, an object.
    pub input: Arc<Value>,
    /// The limits in force: the lower of workflow and operator.
    pub limits: Limits,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The driver is ready: a new thread begins, or one goes on.
    Begin,
    /// A visit of a lane ended.
    Ended {
        /// Which lane.
        lane: LanePath,
        /// What it came to.
        end: Box<VisitEnd>,
    },
    /// A commit was made as durable as it was wanted; commits come back in the order in which they were asked for.
    Synced {
        /// The row's version after it.
        version: u64,
    },
    /// The thread is to end for good. No visit is under way any more.
    Cancel {
        /// Unix milliseconds.
        at_ms: u64,
    },
}

/// What is to be done.
#[derive(Debug, Clone)]
pub enum Action {
    /// Store this.
    Commit(Box<Commit>),
    /// Visit a role.
    Visit(Box<Visit>),
    /// A lane is not needed any more: its visit is to stop and to end.
    CancelLane(LanePath),
    /// Tell whoever watches.
    Tell(Told),
    /// The thread has ended, and that is stored.
    Finish(Ending),
    /// The thread stops and can be resumed.
    Stop(Fault),
}

/// A visit to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// In which lane.
    pub lane: LanePath,
    /// For each part of the lane's path the step that opened this round.
    pub opened_by: Vec<u64>,
    /// The same of the first round.
    pub first_opened_by: Vec<u64>,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    /// Whose visit.
    pub role: RoleName,
    /// Which one in this lane, from 1.
    pub visit: u64,
    /// Attempts that the role made in this lane before.
    pub attempts: u64,
    /// What it is given.
    pub prompt: String,
    /// Of a tool role: what its tool is given, an object.
    pub args: Option<Value>,
    /// Milliseconds of wall time that are left to the thread.
    pub wall_time_left_ms: Option<u64>,
    /// The limit that they are left of.
    pub wall_time_limit_ms: Option<u64>,
}

/// What a visit came to.
#[derive(Debug)]
pub struct VisitEnd {
    /// The answer, or why there is none.
    pub outcome: Result<Answered, Fault>,
    /// What is known of it and not hashed.
    pub note: Note,
    /// Objects that its step names and that are not stored yet.
    pub objects: Vec<Object>,
    /// Milliseconds in which it only waited for a person.
    pub waited_ms: u64,
    /// The tool that had begun to change something when the visit was told to stop, and did not end in time.
    pub effect_unknown: Option<String>,
}

/// The answer of a visit.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The status that it chose.
    pub status: Status,
    /// The declared fields.
    pub output: Value,
    /// The answer exactly as it entered the thread.
    pub answer: String,
    /// What it says beside its fields.
    pub body: String,
    /// What was said within it.
    pub transcript: Option<Digest>,
    /// What happened on the way that decides what follows.
    pub observations: Vec<Observation>,
}

/// What is stored at once.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The row's version after it.
    pub version: u64,
    /// The step, if this commit adds one.
    pub step: Option<NewStep>,
    /// The number of the last step.
    pub seq: u64,
    /// The digest of the trunk's last step.
    pub head: Option<Digest>,
    /// The trunk's fold and what the thread used.
    pub checkpoint: Vec<u8>,
    /// The lane that the step belongs to, unless that is the trunk.
    pub lane: Option<(LanePath, LaneState)>,
    /// Lanes whose rows go.
    pub closed: Vec<LanePath>,
    /// The list of an `each` that is opened by this step, by that step.
    pub list: Option<(u64, Arc<Value>)>,
    /// The list that is not needed any more, by the step that opened it.
    pub closed_list: Option<u64>,
    /// Objects that the step names.
    pub objects: Vec<Object>,
    /// Lanes whose journal is cleared.
    pub clear_journal: Vec<LanePath>,
    /// The thread's end, if this is it.
    pub ending: Option<Ending>,
}

/// A step to be stored.
#[derive(Debug, Clone)]
pub struct NewStep {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// The step.
    pub step: Step,
    /// The role's visit in its lane, from 1.
    pub visit: u64,
    /// What is known of it and not hashed.
    pub note: Note,
    /// As templates see it.
    pub episode: Arc<Episode>,
}

/// A lane as its row keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneState {
    /// Its last step.
    pub frontier: Option<Digest>,
    /// Its part of the fold.
    pub fold: Vec<u8>,
    /// The step that opened this round of it.
    pub opened_by: u64,
    /// Its position.
    pub index: u32,
}

/// What whoever watches is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A step has been synced.
    Committed {
        /// Whose.
        visit: event::Visit,
        /// Its number.
        seq: u64,
        /// Its digest.
        step: Digest,
        /// The steps it follows.
        prev: Vec<Digest>,
        /// The status it chose.
        status: Status,
        /// When it ended, in Unix milliseconds.
        at_ms: u64,
    },
    /// What followed from it, or from the beginning.
    After {
        /// The visit that it follows from; `None` = the beginning.
        visit: Option<event::Visit>,
        /// The status that it chose.
        status: Option<Status>,
        /// What followed.
        followed: Followed,
    },
}

/// One thread.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(super) definition: Definition,
    pub(super) keep_all: Arc<[RoleName]>,
    pub(super) seq: u64,
    pub(super) version: u64,
    pub(super) trunk: Lane,
    pub(super) budget: Budget,
    pub(super) clock: Clock,
    /// Lists of open fan-outs that were read from the store, by the step that opened them.
    pub(super) lists: BTreeMap<u64, Arc<Value>>,
    /// What an earlier process left of visits in flight.
    pub(super) left: BTreeMap<LanePath, Left>,
    /// Commits that are not synced yet, each with what follows from it.
    unsynced: VecDeque<(u64, Vec<Action>)>,
    /// Lanes whose visit needs nobody: its step is due.
    given: VecDeque<LanePath>,
    /// What the next commit carries beside its step.
    pending: Pending,
    ending: Option<Ending>,
    end: Option<Arc<str>>,
    is_replaying: bool,
    /// What follows from its last step has been told before.
    is_resumed: bool,
    /// Whether limits are for somebody else to look at, who asks with [`broken`](Self::broken).
    ignores_limits: bool,
    /// The edges that were chosen by the last input.
    chosen: Vec<EdgeId>,
    /// What could not be decided last.
    undecided: Option<Undecided>,
}

/// What an earlier process left of a visit in flight.
#[derive(Debug, Clone, Default)]
pub struct Left {
    /// Tokens of the replies that it had got.
    pub usage: Option<Usage>,
    /// What these cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// How many they are.
    pub model_calls: u64,
    /// That nobody knows whether a tool call of it had its effect, and somebody has to say.
    pub in_doubt: Option<Fault>,
}

#[derive(Debug, Clone, Default)]
struct Pending {
    ending: Option<Ending>,
    /// What happened since the last step and has to be told with the next.
    told: Vec<Followed>,
    list: Option<(u64, Arc<Value>)>,
}

/// A step that was committed before, for a machine that follows it.
#[derive(Debug, Clone)]
pub struct PastStep {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// What it says beside its fields.
    pub body: String,
    /// What is known of it and not hashed.
    pub note: Note,
}

/// How a machine came to a step that it followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    /// Which part of the workflow led there.
    pub part: Arc<str>,
    /// For each part of the step's lane the step that opened this round.
    pub opened_by: Vec<u64>,
    /// The same of the first round.
    pub first_opened_by: Vec<u64>,
}

impl Machine {
    /// The machine of a new thread, whose row has `version`.
    pub fn new(definition: Definition, version: u64) -> Self {
        Self {
            keep_all: definition.graph.roles_told_whole(),
            definition,
            seq: 0,
            version,
            trunk: Lane::trunk(),
            budget: Budget::default(),
            clock: Clock::default(),
            lists: BTreeMap::new(),
            left: BTreeMap::new(),
            unsynced: VecDeque::new(),
            given: VecDeque::new(),
            pending: Pending::default(),
            ending: None,
            end: None,
            is_replaying: false,
            is_resumed: false,
            ignores_limits: false,
            chosen: Vec::new(),
            undecided: None,
        }
    }

    /// What follows from an input at `now_ms` of a clock that never goes back.
    pub fn on(&mut self, input: Input, now_ms: u64, recall: &dyn Recall) -> Vec<Action> {
        self.clock.tick(now_ms);
        self.chosen.clear();
        let mut out = Vec::new();
        let done = match input {
            Input::Begin => self.begin(recall, &mut out),
            Input::Ended { lane, end } => self.ended(&lane, *end, recall, &mut out),
            Input::Synced { version } => {
                self.synced(version, &mut out);
                Ok(())
            }
            Input::Cancel { at_ms } => {
                self.cancel(at_ms, &mut out);
                Ok(())
            }
        };
        let done = done.and_then(|()| self.settle(recall, &mut out));
        out.extend(done.err().map(|halt| Action::Stop(self.halted(halt))));
        out
    }

    /// Reserves what a model call of a lane may use.
    ///
    /// # Errors
    /// The limit that it could pass.
    pub fn admit(&mut self, lane: &LanePath, role: &RoleName, wanted: &Wanted) -> Result<Reserved, Fault> {
        let own = self.limits_of(role);
        self.budget.admit(lane, role, wanted, &self.definition.limits, &own)
    }

    /// The account, for what was settled.
    pub fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// The number of the last step.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The row's version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The digest of the trunk's last step.
    pub fn head(&self) -> Option<Digest> {
        self.trunk.last.as_ref().map(|last| last.digest)
    }

    /// The status of that step.
    pub fn status(&self) -> Option<&Status> {
        self.trunk.last.as_ref().map(|last| &last.status)
    }

    /// The part of the workflow that ended the thread.
    pub fn end(&self) -> Option<&Arc<str>> {
        self.end.as_ref()
    }

    /// How the thread ended.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// The edges that were chosen by the last input, in order.
    pub fn chosen(&self) -> &[EdgeId] {
        &self.chosen
    }

    /// What could not be decided last.
    pub fn undecided(&self) -> Option<&Undecided> {
        self.undecided.as_ref()
    }

    /// Leaves limits to whoever drives it, as long as [`broken`](Self::broken) is asked.
    #[must_use]
    pub fn ignoring_limits(self) -> Self {
        Self { ignores_limits: true, ..self }
    }

    /// The trunk.
    pub fn trunk(&self) -> &Lane {
        &self.trunk
    }

    /// The visits that are under way, in the order of their lanes.
    pub fn visiting(&self) -> Vec<(LanePath, &Dispatch)> {
        let mut found = Vec::new();
        visiting(&self.trunk, &mut found);
        found
    }

    /// Every lane of the thread, each before those that it has opened.
    pub fn lanes(&self) -> Vec<&Lane> {
        let mut found = Vec::new();
        lanes(&self.trunk, &mut found);
        found
    }

    fn limits_of(&self, role: &RoleName) -> RoleLimits {
        self.definition.graph.role(role).map(|(_, policy)| policy.limits.clone()).unwrap_or_default()
    }

    /// The lane at a path.
    pub fn lane(&self, path: &LanePath) -> Option<&Lane> {
        let mut lane = &self.trunk;
        for (_, index) in path.parts() {
            lane = lane.lanes()?.lanes.get(&index)?;
        }
        (lane.path == *path).then_some(lane)
    }

    fn lane_mut(&mut self, path: &LanePath) -> Result<&mut Lane, Halt> {
        let mut lane = &mut self.trunk;
        for (_, index) in path.parts() {
            let fan = lane.lanes_mut().ok_or_else(|| no_lane(path))?;
            lane = fan.lanes.get_mut(&index).ok_or_else(|| no_lane(path))?;
        }
        if lane.path == *path { Ok(lane) } else { Err(no_lane(path).into()) }
    }

    fn fan_mut(&mut self, path: &LanePath) -> Result<&mut Fan, Halt> {
        match &mut self.lane_mut(path)?.doing {
            Doing::Fanned(fan) => Ok(fan),
            _ => Err(no_lane(path).into()),
        }
    }

    fn fan(&self, path: &LanePath) -> Option<&Fan> {
        match &self.lane(path)?.doing {
            Doing::Fanned(fan) => Some(fan),
            _ => None,
        }
    }

    fn begin(&mut self, recall: &dyn Recall, out: &mut Vec<Action>) -> Result<(), Halt> {
        // What happened to lanes before this process happened in the order of their last steps.
        let mut lanes = Vec::new();
        every_lane(&self.trunk, &mut lanes);
        lanes.sort_unstable();
        let mut after = Following::default();
        for (_, path) in lanes {
            let Some(lane) = self.lane(&path) else { continue };
            match &lane.doing {
                Doing::Deciding => self.decide(&path, None, recall, &mut after)?,
                Doing::Visiting(dispatch) => {
                    let dispatch = Dispatch::clone(dispatch);
                    self.dispatch(&path, dispatch, &mut after)?;
                }
                Doing::Arrived(_) | Doing::Failed(_) => {
                    if let Some(parent) = path.parent() {
                        self.look_at_fan_after(&parent, &path, None, recall, &mut after)?;
                    }
                }
                Doing::Fanned(_) => self.look_at_fan(&path, recall, &mut after)?,
                Doing::Leaving(_) | Doing::Cancelled | Doing::Over => {}
            }
        }
        let is_new = !self.is_resumed;
        let told = after.told.into_iter().filter(|_| is_new);
        let told = told.map(|followed| Action::Tell(Told::After { visit: None, status: None, followed }));
        let actions = told.chain(after.actions).collect();
        self.emit(actions, out);
        Ok(())
    }

    /// Why it cannot go on, kept for whoever asks where.
    fn halted(&mut self, halt: Halt) -> Fault {
        match halt {
            Halt::Fault(fault) => fault,
            Halt::Undecided(undecided) => {
                self.undecided = Some(undecided.clone());
                undecided.into()
            }
        }
    }

    /// Takes care of everything that is due without an input.
    fn settle(&mut self, recall: &dyn Recall, out: &mut Vec<Action>) -> Result<(), Halt> {
        while let Some(path) = self.given.pop_front() {
            if self.is_replaying {
                continue;
            }
            let Doing::Visiting(dispatch) = &mut self.lane_mut(&path)?.doing else { continue };
            let Some(answered) = dispatch.given.take() else { continue };
            let end = VisitEnd {
                outcome: Ok(*answered),
                note: Note::default(),
                objects: Vec::new(),
                waited_ms: 0,
                effect_unknown: None,
            };
            self.commit_visit(&path, end, recall, out)?;
        }
        if let Some(ending) = self.pending.ending.take() {
            self.commit_row(Some(ending), out)?;
        }
        Ok(())
    }

    fn ended(
        &mut self,
        path: &LanePath,
        end: VisitEnd,
        recall: &dyn Recall,
        out: &mut Vec<Action>,
    ) -> Result<(), Halt> {
        self.clock.leave(end.waited_ms);
        let lane = self.lane_mut(path)?;
        match std::mem::replace(&mut lane.doing, Doing::Deciding) {
            Doing::Leaving(dispatch) => {
                lane.doing = Doing::Cancelled;
                let lost = lost(path, &dispatch.role, &end);
                let mut after = Following::default();
                self.lane_left(path, lost, recall, &mut after)?;
                self.pending.told.extend(after.told);
                self.emit(after.actions, out);
                Ok(())
            }
            Doing::Visiting(dispatch) => {
                lane.doing = Doing::Visiting(dispatch);
                self.commit_visit(path, end, recall, out)
            }
            other => {
                lane.doing = other;
                Err(no_lane(path).into())
            }
        }
    }

    /// Commits the step that a visit came to.
    fn commit_visit(
        &mut self,
        path: &LanePath,
        end: VisitEnd,
        recall: &dyn Recall,
        out: &mut Vec<Action>,
    ) -> Result<(), Halt> {
        let VisitEnd { outcome, note, objects, .. } = end;
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let Doing::Visiting(dispatch) = &lane.doing else { return Err(no_lane(path).into()) };
        let answered = match outcome {
            Ok(answered) => answered,
            Err(fault) => self.reserved(path, &dispatch.role, fault)?,
        };
        let mut step = Step {
            answer: answered.answer,
            edge: dispatch.edge.clone(),
            kind: StepKind::Step,
            lane: path.clone(),
            observations: dispatch.observations.clone(),
            output: answered.output,
            prev: dispatch.prev.clone(),
            role: dispatch.role.clone(),
            start: self.definition.start,
            status: answered.status,
            transcript: answered.transcript,
        };
        step.observations.extend(answered.observations);
        let (digest, bytes) = Digest::of(Kind::Step, &step).map_err(|error| no_form(&error))?;
        let mut note = note;
        let added = self.add(path, digest, &step, answered.body, &mut note)?;
        let visit = event::Visit { role: step.role.clone(), visit: added.visit, lane: path.clone() };
        let mut after = Following { told: std::mem::take(&mut self.pending.told), actions: Vec::new() };
        if let Some(joins) = &added.joins {
            after.told.extend(joins.cancelled.iter().map(|visit| {
                let visit = visit.clone();
                Followed::LaneEnded { visit, how: LaneEnd::Cancelled }
            }));
        }
        let decided = self.decide(path, Some(&added.episode), recall, &mut after);
        let mut actions = vec![Action::Tell(Told::Committed {
            visit: visit.clone(),
            seq: self.seq,
            step: digest,
            prev: step.prev.clone(),
            status: step.status.clone(),
            at_ms: note.ended_at_ms,
        })];
        actions.extend(after.told.iter().map(|followed| {
            let (visit, status) = (Some(visit.clone()), Some(step.status.clone()));
            Action::Tell(Told::After { visit, status, followed: followed.clone() })
        }));
        actions.extend(after.actions);
        note.after = after.told;
        note.left_by = self.left_by(path);
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let row = lane.opened_by.last().map(|opened_by| -> Result<_, Fault> {
            let state = LaneState {
                frontier: lane.last.as_ref().map(|last| last.digest),
                fold: lane.to_bytes()?,
                opened_by: *opened_by,
                index: path.last_index().unwrap_or(0),
            };
            Ok((path.clone(), state))
        });
        let row = row.transpose()?;
        let (closed, closed_list) =
            added.joins.map_or((Vec::new(), None), |joins| (joins.lanes, Some(joins.opened_by)));
        let mut clear_journal = vec![path.clone()];
        clear_journal.extend(closed.iter().cloned());
        self.version += 1;
        let ending = self.pending.ending.take();
        self.ending.clone_from(&ending);
        let commit = Commit {
            version: self.version,
            seq: self.seq,
            head: self.head(),
            checkpoint: self.checkpoint()?,
            lane: row,
            closed,
            list: self.pending.list.take(),
            closed_list,
            objects,
            clear_journal,
            ending: ending.clone(),
            step: Some(NewStep {
                seq: self.seq,
                digest,
                bytes,
                step,
                visit: added.visit,
                note,
                episode: added.episode,
            }),
        };
        match decided {
            Ok(()) => actions.extend(ending.map(Action::Finish)),
            // The step stands; what follows from it cannot be said.
            Err(halt) => actions.push(Action::Stop(self.halted(halt))),
        }
        self.unsynced.push_back((self.version, actions));
        out.push(Action::Commit(Box::new(commit)));
        Ok(())
    }

    /// Adds a step to the fold.
    fn add(
        &mut self,
        path: &LanePath,
        digest: Digest,
        step: &Step,
        body: String,
        note: &mut Note,
    ) -> Result<Added, Halt> {
        let seq = self.seq + 1;
        let keeps = self.keep_all.contains(&step.role);
        self.left.remove(path);
        let lane = self.lane_mut(path)?;
        let Doing::Visiting(dispatch) = std::mem::replace(&mut lane.doing, Doing::Deciding) else {
            return Err(no_lane(path).into());
        };
        if let Some((edge, per)) = &dispatch.bounded {
            lane.take(*edge, per.as_ref());
        }
        lane.joined = lane.joined.take().filter(|_| dispatch.joins.is_some());
        if let Some(mut fan) = lane.joined.take() {
            note.cancelled = std::mem::take(&mut fan.lost);
            lane.see_lanes(&fan);
            lane.joined = Some(fan);
        }
        lane.add(seq, digest, step, note.attempts, keeps);
        note.opened_by.clone_from(&lane.opened_by);
        if lane.first_opened_by != lane.opened_by {
            note.first_opened_by.clone_from(&lane.first_opened_by);
        }
        let visit = lane.visits(&step.role);
        self.seq = seq;
        self.budget.commit(path, &step.role, note);
        if self.is_replaying {
            self.clock.follow(note);
        }
        let episode = Arc::new(episode(seq, step, body, note.opened_by.clone()));
        Ok(Added { visit, episode, joins: dispatch.joins })
    }

    /// The count of the bounded edge by which a lane's last step is left, once that is decided.
    fn left_by(&self, path: &LanePath) -> Option<BoundedEdge> {
        let lane = self.lane(path)?;
        let (edge, per) = match &lane.doing {
            Doing::Visiting(dispatch) => dispatch.bounded.clone()?,
            Doing::Fanned(fan) => route::bounded(&fan.edge)?,
            Doing::Arrived(edge) => route::bounded(edge)?,
            _ => return None,
        };
        let mut lane = lane.clone();
        let taken = lane.take(edge, per.as_ref());
        Some(BoundedEdge { edge: edge.0, count: taken.count, mark: taken.mark })
    }

    /// The step that a fault comes to where the graph routes it, or where the lane's fan-out goes on without the lane.
    fn reserved(&self, path: &LanePath, role: &RoleName, fault: Fault) -> Result<Answered, Halt> {
        let Some(kind) = fault.routed_by() else { return Err(fault.into()) };
        let routed = route::routed(&self.definition.graph, role, &fault);
        let absorbed = || Status::new(kind.status()).ok().filter(|_| self.absorbs(path));
        let Some(status) = routed.or_else(absorbed) else { return Err(fault.into()) };
        let code = fault.code.to_string();
        let observation = match kind {
            FaultKind::Error => Observation::Error { code: code.clone() },
            FaultKind::Limit => Observation::Limit { code: code.clone() },
            FaultKind::Timeout => Observation::Timeout { code: code.clone() },
        };
        Ok(Answered {
            status,
            output: LaneError { code, message: fault.message }.to_value(),
            answer: String::new(),
            body: String::new(),
            transcript: None,
            observations: vec![observation],
        })
    }

    /// Whether the fan-outs around a lane go on when it fails by a fault that nothing routes.
    fn absorbs(&self, path: &LanePath) -> bool {
        let Some(parent) = path.parent() else { return false };
        let Some(fan) = self.fan(&parent) else { return false };
        if fan.out.join.failed != FailedLanes::Fail {
            return true;
        }
        self.error_route(fan).is_some() || self.absorbs(&parent)
    }

    /// The status by which a failed fan-out is routed, if its source has an edge for it.
    fn error_route(&self, fan: &Fan) -> Option<Status> {
        let status = Status::new(FaultKind::Error.status()).ok()?;
        let source = fan.source.as_ref()?;
        self.definition.graph.routes(&source.role, &status).map(|_| status)
    }

    /// Decides what follows a lane's last step.
    fn decide(
        &mut self,
        path: &LanePath,
        fresh: Option<&Arc<Episode>>,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        let graph = Arc::clone(&self.definition.graph);
        let input = Arc::clone(&self.definition.input);
        let world = World { input: &input, recall, fresh };
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let chosen = route::choose(&graph, lane, &self.scope(lane, world)?)?;
        let Some(edge) = chosen else { return self.unrouted(path, recall, fresh, after) };
        self.chosen.push(edge.id);
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let next = self.take(lane, &edge, &self.scope(lane, world)?)?;
        let Taken { say, next } = next;
        let target = |role: &RoleName, lane: &LanePath| Target { role: role.clone(), lane: lane.clone() };
        let said = say.map(|text| Followed::Said { text });
        match next {
            Next::Visit(dispatch) => {
                after.edge(vec![target(&dispatch.role, path)], said);
                self.dispatch(path, *dispatch, after)
            }
            Next::Arrive(join) => {
                let parent = path.parent().ok_or_else(|| no_lane(path))?;
                after.edge(vec![target(&join, &parent)], said);
                self.end_lane(path, Doing::Arrived(edge), after)?;
                self.look_at_fan_after(&parent, path, fresh, recall, after)
            }
            Next::End { result } => {
                after.edge(Vec::new(), said);
                self.over(&edge.part, Outcome::Done, None, result);
                Ok(())
            }
            Next::Fail { reason, result } => {
                after.edge(Vec::new(), said);
                let Some(parent) = path.parent() else {
                    self.over(&edge.part, Outcome::Failed, reason, result);
                    return Ok(());
                };
                let error = LaneError { code: "fail".to_owned(), message: reason.unwrap_or_default() };
                self.end_lane(path, Doing::Failed(error), after)?;
                self.look_at_fan_after(&parent, path, fresh, recall, after)
            }
            Next::Fan { out, list, open } => {
                let source = lane.last.clone();
                let fan = Fan {
                    edge: Arc::clone(&edge),
                    out: Arc::clone(&out),
                    source,
                    list: Arc::clone(&list),
                    base: lane.views(),
                    to_open: open,
                    lanes: BTreeMap::new(),
                    then: None,
                    lost: Vec::new(),
                };
                let to = fan.to_open.iter();
                let to = to.filter_map(|index| {
                    let role = fan.first_role(*index)?;
                    Some(target(role, &path.child(role, *index)))
                });
                after.edge(to.collect(), said);
                if out.each.is_some() {
                    self.pending.list = Some((fan.opened_by(), list));
                }
                self.lane_mut(path)?.doing = Doing::Fanned(Box::new(fan));
                self.open_lanes(path, fresh, recall, after)?;
                self.look_at_fan(path, recall, after)
            }
            Next::TooManyLanes(fault) => {
                let source = lane.last.as_ref().ok_or_else(|| fault.clone())?;
                if route::routed(&graph, &source.role, &fault).is_none() && !self.absorbs(path) {
                    return Err(fault.into());
                }
                let answered = self.reserved(path, &source.role, fault)?;
                let dispatch = Dispatch {
                    role: source.role.clone(),
                    edge: EdgeTaken {
                        from: source.role.to_string(),
                        prompt: String::new(),
                        status: Some(source.status.clone()),
                    },
                    part: Arc::clone(&edge.part),
                    args: None,
                    prev: vec![source.digest],
                    bounded: None,
                    observations: Vec::new(),
                    joins: None,
                    given: Some(Box::new(answered)),
                };
                self.dispatch(path, dispatch, after)
            }
        }
    }

    fn scope<'a>(&self, lane: &'a Lane, world: World<'a>) -> Result<LaneScope<'a>, Undecided> {
        let scope = LaneScope::new(world, lane, lane.last.as_ref().map(|last| last.seq))?;
        Ok(scope.with_branches(lane.joined.as_deref().map(Fan::branches)))
    }

    /// What follows when `edge` is taken.
    fn take(&self, lane: &Lane, edge: &Edge, scope: &LaneScope<'_>) -> Result<Taken, Undecided> {
        let graph = &self.definition.graph;
        let from = lane.last.as_ref().map_or("start", |last| last.role.as_str());
        let speaking = Speaking { scope, from, part: &edge.part };
        let say = edge.say.as_ref().map(|say| speaking.text("say", say)).transpose()?;
        let in_part = |name: &str| rondo_protocol::workflow::places::key(&edge.part, name);
        let role = match &edge.to {
            To::Role(role) => role.clone(),
            To::Back => route::back(lane)?,
            To::End if !lane.path.is_trunk() => {
                return Err(Undecided::NoEdge { place: format!("a lane that reaches `end` from {from}") });
            }
            To::End => {
                let result = match (&edge.result, graph.result()) {
                    (Some(own), _) => speaking.value(in_part("result"), own)?,
                    (None, Some(of_workflow)) => speaking.value("result".to_owned(), of_workflow)?,
                    (None, None) => last_said(scope),
                };
                return Ok(Taken { say, next: Next::End { result } });
            }
            To::Fail => {
                let reason = edge.reason.as_ref().map(|reason| speaking.text("reason", reason)).transpose()?;
                let result = edge.result.as_ref();
                let result = result.map_or(Ok(Value::Null), |own| speaking.value(in_part("result"), own))?;
                return Ok(Taken { say, next: Next::Fail { reason, result } });
            }
            To::Fan(out) => return Ok(Taken { say, next: self.fan_out(lane, edge, out, scope)? }),
        };
        if let Some(parent) = lane.path.parent()
            && self.fan(&parent).is_some_and(|fan| fan.out.join.to == role)
        {
            // The part is rendered when it is asked for, and now, so that what it cannot say stops the thread here.
            if !edge.prompt.is_empty() {
                speaking.text("prompt", &edge.prompt)?;
            }
            return Ok(Taken { say, next: Next::Arrive(role) });
        }
        let taken = EdgeTaken {
            from: from.to_owned(),
            prompt: speaking.text("prompt", &edge.prompt)?,
            status: lane.last.as_ref().map(|last| last.status.clone()),
        };
        let args = speaking.args(graph, &role)?;
        let dispatch = Dispatch {
            role,
            edge: taken,
            part: Arc::clone(&edge.part),
            args,
            prev: lane.last.iter().map(|last| last.digest).collect(),
            bounded: route::bounded(edge),
            observations: Vec::new(),
            joins: None,
            given: None,
        };
        Ok(Taken { say, next: Next::Visit(Box::new(dispatch)) })
    }

    /// The lanes that a fan-out has.
    fn fan_out(&self, lane: &Lane, edge: &Edge, out: &Arc<FanOut>, scope: &LaneScope<'_>) -> Result<Next, Undecided> {
        let from = lane.last.as_ref().map_or("start", |last| last.role.as_str());
        let opened_by = lane.last.as_ref().map_or(0, |last| last.seq);
        let (list, count) = match (&out.each, self.lists.get(&opened_by)) {
            (None, _) => (Arc::default(), out.branches.len()),
            (Some(_), Some(stored)) => (Arc::clone(stored), length(stored)),
            (Some(each), None) => {
                let speaking = Speaking { scope, from, part: &edge.part };
                let value = speaking.list(&each.over)?;
                let count = length(&value);
                (Arc::new(value), count)
            }
        };
        if count > MAX_LANES {
            let message = format!("the fan-out from {from} would have {count} lanes, and may have {MAX_LANES}");
            return Ok(Next::TooManyLanes(Fault::new(Code::ThreadLimit, FaultClass::Limit, message)));
        }
        let all = 0..u32::try_from(count).unwrap_or(u32::MAX);
        let mut open = BTreeSet::new();
        for index in all {
            let branch = if out.each.is_some() { None } else { out.branches.get(open_at(index)) };
            let speaking = Speaking { scope, from, part: branch.map_or(&*edge.part, |branch| &*branch.part) };
            if speaking.holds(branch.and_then(|branch| branch.when.as_ref()))? {
                open.insert(index);
            }
        }
        Ok(Next::Fan { out: Arc::clone(out), list, open })
    }

    /// Opens as many lanes as may be open at once.
    fn open_lanes(
        &mut self,
        path: &LanePath,
        fresh: Option<&Arc<Episode>>,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        loop {
            let fan = self.fan_mut(path)?;
            if fan.then.is_some() || fan.open() >= fan.parallel() {
                return Ok(());
            }
            let Some(index) = fan.to_open.pop_first() else { return Ok(()) };
            self.open_lane(path, index, fresh, recall, after)?;
        }
    }

    fn open_lane(
        &mut self,
        parent: &LanePath,
        index: u32,
        fresh: Option<&Arc<Episode>>,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        let graph = Arc::clone(&self.definition.graph);
        let input = Arc::clone(&self.definition.input);
        let world = World { input: &input, recall, fresh };
        let around = self.lane(parent).ok_or_else(|| no_lane(parent))?;
        let Doing::Fanned(fan) = &around.doing else { return Err(no_lane(parent).into()) };
        let role = fan.first_role(index).cloned().ok_or_else(|| no_lane(parent))?;
        let path = parent.child(&role, index);
        let past = if around.fanned.contains(&role) { recall.past(&path)? } else { None };
        let past = past.unwrap_or_default();
        let opened_by: Vec<u64> = around.opened_by.iter().copied().chain([fan.opened_by()]).collect();
        let first_opened_by = if past.first_opened_by.is_empty() {
            around.first_opened_by.iter().copied().chain([fan.opened_by()]).collect()
        } else {
            past.first_opened_by
        };
        let item = Item {
            name: fan.out.each.as_ref().map(|each| each.name.clone()),
            list: Arc::clone(&fan.list),
            index,
            outer: around.item.clone(),
        };
        let lane = Lane {
            path: path.clone(),
            opened_by,
            first_opened_by,
            own: past.own,
            taken: past.taken,
            base: Arc::clone(&fan.base),
            item: Some(Arc::new(item)),
            ..Lane::trunk()
        };
        let branch = fan.branch(index).ok_or_else(|| no_lane(parent))?;
        let source = fan.source.as_ref();
        let scope = LaneScope::new(world, &lane, source.map(|last| last.seq))?;
        let scope = scope.with_branches(around.joined.as_deref().map(Fan::branches));
        let speaking = Speaking { scope: &scope, from: fan.from(), part: &branch.part };
        let dispatch = Dispatch {
            edge: EdgeTaken {
                from: fan.from().to_owned(),
                prompt: speaking.text("prompt", &branch.prompt)?,
                status: fan.status(),
            },
            part: Arc::clone(&branch.part),
            args: speaking.args(&graph, &role)?,
            prev: source.iter().map(|last| last.digest).collect(),
            bounded: None,
            observations: Vec::new(),
            joins: None,
            given: None,
            role: role.clone(),
        };
        drop(scope);
        self.lane_mut(parent)?.fanned.insert(role);
        self.fan_mut(parent)?.lanes.insert(index, lane);
        self.dispatch(&path, dispatch, after)
    }

    /// Sends a role on its visit, unless a limit is reached.
    fn dispatch(&mut self, path: &LanePath, mut dispatch: Dispatch, after: &mut Following) -> Result<(), Halt> {
        if dispatch.given.is_none()
            && !self.is_replaying
            && !self.ignores_limits
            && let Some(fault) = self.broken(path, &dispatch.role)
        {
            if let Some(in_doubt) = self.left.get(path).and_then(|left| left.in_doubt.clone()) {
                // A step that is committed now would forget the call.
                return Err(in_doubt.into());
            }
            dispatch.given = Some(Box::new(self.reserved(path, &dispatch.role, fault)?));
        }
        let is_given = dispatch.given.is_some();
        let visit = Action::Visit(Box::new(self.visit(path, &dispatch)?));
        self.lane_mut(path)?.doing = Doing::Visiting(Box::new(dispatch));
        if is_given {
            self.given.push_back(path.clone());
        } else if !self.is_replaying {
            if !self.ignores_limits {
                self.clock.enter();
            }
            after.actions.push(visit);
        }
        Ok(())
    }

    fn visit(&self, path: &LanePath, dispatch: &Dispatch) -> Result<Visit, Halt> {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let own = lane.own.get(&dispatch.role).copied().unwrap_or_default();
        let limit = self.definition.limits.wall_time_ms;
        Ok(Visit {
            lane: path.clone(),
            opened_by: lane.opened_by.clone(),
            first_opened_by: lane.first_opened_by.clone(),
            prev: dispatch.prev.clone(),
            role: dispatch.role.clone(),
            visit: own.visits + 1,
            attempts: own.attempts,
            prompt: dispatch.edge.prompt.clone(),
            args: dispatch.args.clone(),
            wall_time_left_ms: limit.map(|most| most.saturating_sub(self.clock.active_ms)),
            wall_time_limit_ms: limit,
        })
    }

    /// The limit that a visit would break.
    pub fn broken(&self, path: &LanePath, role: &RoleName) -> Option<Fault> {
        let limits = &self.definition.limits;
        let own = self.limits_of(role);
        let thread = |what: &str, most: String| {
            let message = format!("the thread reached its limit of {most} {what}");
            Some(Fault::new(Code::ThreadLimit, FaultClass::Limit, message))
        };
        if self.seq.saturating_add(self.clock.working) >= limits.steps {
            return thread("steps", limits.steps.to_string());
        }
        let visits = limits.visits.into_iter().chain(own.visits).min();
        if let Some(most) = visits.filter(|most| self.lane(path).is_some_and(|lane| lane.visits(role) >= *most)) {
            let message = format!("the role {role} reached its limit of {most} visits");
            return Some(Fault::new(Code::VisitLimit, FaultClass::Limit, message));
        }
        if let Some(most) = limits.wall_time_ms.filter(|most| self.clock.active_ms >= *most) {
            return thread("wall time", format!("{most} ms"));
        }
        self.budget.broken(role, None, limits, &own)
    }

    /// A lane's last step has a status that leads nowhere: a fault that its fan-out goes on with.
    fn unrouted(
        &mut self,
        path: &LanePath,
        recall: &dyn Recall,
        fresh: Option<&Arc<Episode>>,
        after: &mut Following,
    ) -> Result<(), Halt> {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let Some(last) = lane.last.clone() else { return Err(no_lane(path).into()) };
        let is_reserved = [FaultKind::Error, FaultKind::Limit, FaultKind::Timeout]
            .iter()
            .any(|kind| kind.status() == last.status.as_str());
        let (Some(parent), true) = (path.parent(), is_reserved) else {
            return Err(Undecided::NoEdge { place: format!("{}.{}", last.role, last.status) }.into());
        };
        let world = World { input: &Value::Null, recall, fresh };
        let output = world.episode(last.seq)?.output.clone();
        let text = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let error = LaneError { code: text("code"), message: text("message") };
        self.end_lane(path, Doing::Failed(error), after)?;
        self.look_at_fan_after(&parent, path, fresh, recall, after)
    }

    /// Ends a lane.
    fn end_lane(&mut self, path: &LanePath, how: Doing, after: &mut Following) -> Result<(), Halt> {
        let lane = self.lane_mut(path)?;
        lane.end(how);
        after.told.extend(lane_ended(lane));
        Ok(())
    }

    /// A lane that was told to stop has.
    fn lane_left(
        &mut self,
        path: &LanePath,
        lost: CancelledLane,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        // A fan-out that is itself within a cancelled lane ends with it; what was used counts where a join follows.
        let mut parent = path.parent().ok_or_else(|| no_lane(path))?;
        loop {
            let fan = self.fan_mut(&parent)?;
            if fan.then != Some(Then::Cancel) {
                fan.lost.push(lost);
                return self.complete_if_ended(&parent, None, recall, after);
            }
            if fan.have_all_ended() {
                self.lane_mut(&parent)?.doing = Doing::Cancelled;
            }
            parent = parent.parent().ok_or_else(|| no_lane(path))?;
        }
    }

    fn look_at_fan_after(
        &mut self,
        parent: &LanePath,
        ended: &LanePath,
        fresh: Option<&Arc<Episode>>,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        let fan = self.fan_mut(parent)?;
        if fan.then.is_none() {
            fan.then = fan.follows(ended.last_index().unwrap_or(0));
            if fan.then.is_some() {
                self.cancel_lanes(parent, after)?;
            }
        }
        self.open_lanes(parent, fresh, recall, after)?;
        self.complete_if_ended(parent, fresh, recall, after)
    }

    /// Looks whether a fan-out is at its end without a lane having ended just now: it may have none.
    fn look_at_fan(&mut self, path: &LanePath, recall: &dyn Recall, after: &mut Following) -> Result<(), Halt> {
        let Some(fan) = self.fan(path) else { return Ok(()) };
        if fan.then.is_none() && !fan.have_all_ended() {
            return self.open_lanes(path, None, recall, after);
        }
        if fan.then.is_none() {
            self.fan_mut(path)?.then = Some(Then::Join);
        }
        self.complete_if_ended(path, None, recall, after)
    }

    /// Cancels every lane of a fan-out that is still open.
    fn cancel_lanes(&mut self, parent: &LanePath, after: &mut Following) -> Result<(), Halt> {
        let left = std::mem::take(&mut self.left);
        let fan = self.fan_mut(parent)?;
        fan.to_open.clear();
        let mut lost = Vec::new();
        let mut given = Vec::new();
        for lane in fan.lanes.values_mut() {
            cancel(lane, &left, &mut lost, &mut given, &mut after.actions);
        }
        fan.lost.extend(lost);
        self.left = left;
        self.given.retain(|path| !given.contains(path));
        Ok(())
    }

    fn complete_if_ended(
        &mut self,
        path: &LanePath,
        fresh: Option<&Arc<Episode>>,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        let is_left = self.lane(path).is_some_and(|lane| matches!(lane.doing, Doing::Fanned(_)));
        let Some(fan) = self.fan(path).filter(|fan| is_left && fan.have_all_ended()) else { return Ok(()) };
        match fan.then.clone() {
            None | Some(Then::Cancel) => Ok(()),
            Some(Then::Join) => self.join(path, fresh, recall, after),
            Some(Then::Fail(index)) => self.fail_fan(path, index, fresh, recall, after),
        }
    }

    /// Every lane has ended: the join role is visited.
    fn join(
        &mut self,
        path: &LanePath,
        fresh: Option<&Arc<Episode>>,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        let graph = Arc::clone(&self.definition.graph);
        let input = Arc::clone(&self.definition.input);
        let world = World { input: &input, recall, fresh };
        let lane = self.lane_mut(path)?;
        let Doing::Fanned(fan) = std::mem::replace(&mut lane.doing, Doing::Deciding) else {
            return Err(no_lane(path).into());
        };
        lane.joined = Some(fan);
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let fan = lane.joined.as_deref().ok_or_else(|| no_lane(path))?;
        // The lane itself has seen its lanes' steps once the join role has taken its own.
        let mut joined = Lane { joined: None, ..lane.clone() };
        joined.see_lanes(fan);
        let scope = LaneScope::new(world, &joined, fan.source.as_ref().map(|last| last.seq))?;
        let scope = scope.with_branches(Some(fan.branches()));
        let join = &fan.out.join;
        let part = rondo_protocol::workflow::places::key(&fan.edge.part, "join");
        let speaking = Speaking { scope: &scope, from: fan.from(), part: &part };
        let prompt = match &join.prompt {
            Some(prompt) => speaking.text("prompt", prompt)?,
            None => fan.parts(world)?,
        };
        let (arrived, cancelled) = fan.arrived_and_cancelled();
        let dispatch = Dispatch {
            role: join.to.clone(),
            edge: EdgeTaken { from: fan.from().to_owned(), prompt, status: fan.status() },
            args: speaking.args(&graph, &join.to)?,
            part: Arc::from(part.as_str()),
            prev: fan.last_steps(),
            bounded: route::bounded(&fan.edge),
            observations: vec![Observation::Join { arrived, cancelled }],
            joins: Some(fan.joins()),
            given: None,
        };
        drop(scope);
        self.dispatch(path, dispatch, after)
    }

    /// A lane failed and the others have ended: the source role takes its `on_error`, or what stands around it fails.
    fn fail_fan(
        &mut self,
        path: &LanePath,
        index: u32,
        fresh: Option<&Arc<Episode>>,
        recall: &dyn Recall,
        after: &mut Following,
    ) -> Result<(), Halt> {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let Doing::Fanned(fan) = &lane.doing else { return Err(no_lane(path).into()) };
        let failed = fan.lanes.get(&index).ok_or_else(|| no_lane(path))?;
        let (Doing::Failed(error), Some(last)) = (&failed.doing, &failed.last) else {
            return Err(no_lane(path).into());
        };
        let error = error.clone();
        let (Some(status), Some(source)) = (self.error_route(fan), &fan.source) else {
            return match path.parent() {
                None => {
                    let part = Arc::clone(&fan.edge.part);
                    self.over(&part, Outcome::Failed, Some(error.message), Value::Null);
                    Ok(())
                }
                Some(parent) => {
                    self.end_lane(path, Doing::Failed(error), after)?;
                    self.look_at_fan_after(&parent, path, fresh, recall, after)
                }
            };
        };
        let (arrived, cancelled) = fan.arrived_and_cancelled();
        let dispatch = Dispatch {
            role: source.role.clone(),
            edge: EdgeTaken { from: last.role.to_string(), prompt: String::new(), status: Some(last.status.clone()) },
            part: Arc::from(rondo_protocol::workflow::places::key(&fan.edge.part, "join")),
            args: None,
            prev: fan.last_steps(),
            bounded: route::bounded(&fan.edge),
            observations: vec![Observation::Join { arrived, cancelled }],
            joins: Some(fan.joins()),
            given: Some(Box::new(Answered {
                status,
                output: error.to_value(),
                answer: String::new(),
                body: String::new(),
                transcript: None,
                observations: vec![Observation::Error { code: error.code.clone() }],
            })),
        };
        let lane = self.lane_mut(path)?;
        if let Doing::Fanned(fan) = std::mem::replace(&mut lane.doing, Doing::Deciding) {
            lane.joined = Some(fan);
        }
        self.dispatch(path, dispatch, after)
    }

    fn over(&mut self, part: &Arc<str>, outcome: Outcome, reason: Option<String>, result: Value) {
        self.trunk.end(Doing::Over);
        self.end = Some(Arc::clone(part));
        self.pending.ending = Some(Ending { outcome, reason, result, at_ms: 0 });
    }

    /// Commits an end, or what was listed, without a step.
    fn commit_row(&mut self, ending: Option<Ending>, out: &mut Vec<Action>) -> Result<(), Halt> {
        if self.is_replaying {
            self.ending = ending;
            return Ok(());
        }
        self.version += 1;
        self.ending.clone_from(&ending);
        let commit = Commit {
            version: self.version,
            step: None,
            seq: self.seq,
            head: self.head(),
            checkpoint: self.checkpoint()?,
            lane: None,
            closed: Vec::new(),
            list: None,
            closed_list: None,
            objects: Vec::new(),
            clear_journal: Vec::new(),
            ending: ending.clone(),
        };
        self.unsynced.push_back((self.version, ending.map(Action::Finish).into_iter().collect()));
        out.push(Action::Commit(Box::new(commit)));
        Ok(())
    }

    /// Gives actions out once everything that they may depend on has been synced.
    fn emit(&mut self, actions: Vec<Action>, out: &mut Vec<Action>) {
        match self.unsynced.back_mut() {
            Some((_, waiting)) => waiting.extend(actions),
            None => out.extend(actions),
        }
    }

    fn synced(&mut self, version: u64, out: &mut Vec<Action>) {
        while self.unsynced.front().is_some_and(|(waits_for, _)| *waits_for <= version) {
            let Some((_, actions)) = self.unsynced.pop_front() else { return };
            out.extend(actions);
        }
    }

    fn cancel(&mut self, at_ms: u64, out: &mut Vec<Action>) {
        if self.ending.is_some() {
            return;
        }
        let reason = Some("cancelled".to_owned());
        let ending = Ending { outcome: Outcome::Cancelled, reason, result: Value::Null, at_ms };
        let committed = self.commit_row(Some(ending), out);
        out.extend(committed.err().map(|halt| Action::Stop(self.halted(halt))));
    }

    /// Follows a step that was committed before; gives how the machine came to it, or `None` when it does not follow.
    ///
    /// # Errors
    /// When an earlier step cannot be recalled, or a template has no value.
    pub fn follow(&mut self, step: &Step, of: PastStep, recall: &dyn Recall) -> Result<Option<Came>, Fault> {
        self.is_replaying = true;
        if self.seq == 0 && self.trunk.last.is_none() && matches!(self.trunk.doing, Doing::Deciding) {
            if let Err(halt) = self.begin(recall, &mut Vec::new()) {
                return Err(self.halted(halt));
            }
        }
        let followed = self.follow_in(step, of, recall);
        self.given.clear();
        self.is_replaying = false;
        followed.map_err(|halt| self.halted(halt))
    }

    fn follow_in(&mut self, step: &Step, of: PastStep, recall: &dyn Recall) -> Result<Option<Came>, Halt> {
        if self.lane(&step.lane).is_some_and(|lane| matches!(&lane.doing, Doing::Fanned(fan) if fan.then.is_some())) {
            // What was being cancelled had ended when the join was committed.
            let fan = self.fan_mut(&step.lane)?;
            fan.lanes.values_mut().for_each(forget_leaving);
            self.complete_if_ended(&step.lane, None, recall, &mut Following::default())?;
        }
        let Some(lane) = self.lane(&step.lane) else { return Ok(None) };
        let Doing::Visiting(dispatch) = &lane.doing else { return Ok(None) };
        if dispatch.role != step.role || self.seq + 1 != of.seq {
            return Ok(None);
        }
        let came = Came {
            part: Arc::clone(&dispatch.part),
            opened_by: lane.opened_by.clone(),
            first_opened_by: lane.first_opened_by.clone(),
        };
        let mut note = of.note;
        let recorded = std::mem::take(&mut note.cancelled);
        if let Some(fan) = self.lane_mut(&step.lane)?.joined.as_deref_mut() {
            fan.lost = recorded;
        }
        let added = self.add(&step.lane, of.digest, step, of.body, &mut note)?;
        self.version += 1;
        match self.decide(&step.lane, Some(&added.episode), recall, &mut Following::default()) {
            Ok(()) => {}
            // Nothing followed it then either.
            Err(halt) => {
                let fault = self.halted(halt);
                if fault.class != FaultClass::Limit {
                    return Err(fault.into());
                }
            }
        }
        self.ending = self.pending.ending.take();
        self.pending.list = None;
        Ok(Some(came))
    }

    /// Follows no further step: limits hold again, and whoever began anew decides from here.
    #[must_use]
    pub fn resumed(mut self, version: u64) -> Self {
        self.version = version;
        self.is_resumed = true;
        forget_leaving(&mut self.trunk);
        self
    }
}

/// Why the machine cannot go on.
enum Halt {
    Undecided(Undecided),
    Fault(Fault),
}

impl From<Undecided> for Halt {
    fn from(undecided: Undecided) -> Self {
        Self::Undecided(undecided)
    }
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What was added to the fold.
struct Added {
    visit: u64,
    episode: Arc<Episode>,
    joins: Option<Joins>,
}

/// What follows from a step.
#[derive(Default)]
struct Following {
    told: Vec<Followed>,
    actions: Vec<Action>,
}

impl Following {
    fn edge(&mut self, to: Vec<Target>, said: Option<Followed>) {
        self.told.push(Followed::Edge { to });
        self.told.extend(said);
    }
}

struct Taken {
    say: Option<String>,
    next: Next,
}

enum Next {
    Visit(Box<Dispatch>),
    Arrive(RoleName),
    End { result: Value },
    Fail { reason: Option<String>, result: Value },
    Fan { out: Arc<FanOut>, list: Arc<Value>, open: BTreeSet<u32> },
    TooManyLanes(Fault),
}

fn open_at(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn length(list: &Value) -> usize {
    match list {
        Value::List(items) => items.len(),
        _ => 0,
    }
}

fn visiting<'l>(lane: &'l Lane, found: &mut Vec<(LanePath, &'l Dispatch)>) {
    match &lane.doing {
        Doing::Visiting(dispatch) => found.push((lane.path.clone(), dispatch)),
        Doing::Fanned(fan) => fan.lanes.values().for_each(|lane| visiting(lane, found)),
        _ => {}
    }
}

fn lanes<'l>(lane: &'l Lane, found: &mut Vec<&'l Lane>) {
    found.push(lane);
    if let Doing::Fanned(fan) = &lane.doing {
        fan.lanes.values().for_each(|lane| lanes(lane, found));
    }
}

/// Every lane with the number of its last step.
fn every_lane(lane: &Lane, found: &mut Vec<(u64, LanePath)>) {
    if let Doing::Fanned(fan) = &lane.doing {
        fan.lanes.values().for_each(|lane| every_lane(lane, found));
    }
    found.push((lane.last.as_ref().map_or(0, |last| last.seq), lane.path.clone()));
}

fn forget_leaving(lane: &mut Lane) {
    match &mut lane.doing {
        Doing::Leaving(_) => lane.doing = Doing::Cancelled,
        Doing::Fanned(fan) => fan.lanes.values_mut().for_each(forget_leaving),
        _ => {}
    }
}

/// Cancels a lane and all lanes within it.
fn cancel(
    lane: &mut Lane,
    left: &BTreeMap<LanePath, Left>,
    lost: &mut Vec<CancelledLane>,
    given: &mut Vec<LanePath>,
    actions: &mut Vec<Action>,
) {
    if !lane.is_open() {
        return;
    }
    if let (Doing::Deciding, Some(left), Some(visit)) = (&lane.doing, left.get(&lane.path), last_visit(lane)) {
        lost.push(CancelledLane {
            lane: visit.lane,
            role: visit.role,
            usage: left.usage,
            cost_usd: left.cost_usd,
            model_calls: left.model_calls,
            tool_calls: 0,
            effect_unknown: None,
        });
    }
    match std::mem::replace(&mut lane.doing, Doing::Cancelled) {
        Doing::Visiting(dispatch) if dispatch.given.is_some() => given.push(lane.path.clone()),
        Doing::Visiting(dispatch) => {
            actions.push(Action::CancelLane(lane.path.clone()));
            lane.doing = Doing::Leaving(dispatch);
            return;
        }
        Doing::Fanned(mut fan) => {
            fan.to_open.clear();
            lost.append(&mut fan.lost);
            fan.lanes.values_mut().for_each(|lane| cancel(lane, left, lost, given, actions));
            if fan.lanes.values().any(Lane::is_open) {
                fan.then = Some(Then::Cancel);
                lane.doing = Doing::Fanned(fan);
                return;
            }
        }
        Doing::Leaving(dispatch) => {
            lane.doing = Doing::Leaving(dispatch);
            return;
        }
        _ => {}
    }
}

fn lane_ended(lane: &Lane) -> Option<Followed> {
    let how = match lane.doing {
        Doing::Arrived(_) => LaneEnd::Arrived,
        Doing::Failed(_) => LaneEnd::Failed,
        _ => return None,
    };
    Some(Followed::LaneEnded { visit: last_visit(lane)?, how })
}

/// The last visit of a lane, or the one that it began with.
pub(super) fn last_visit(lane: &Lane) -> Option<event::Visit> {
    let last = lane.last.as_ref().map(|last| last.role.clone());
    let role = last.or_else(|| RoleName::new(lane.path.parts().last()?.0).ok())?;
    Some(event::Visit { visit: lane.visits(&role), role, lane: lane.path.clone() })
}

fn lost(path: &LanePath, role: &RoleName, end: &VisitEnd) -> CancelledLane {
    let note = &end.note;
    CancelledLane {
        lane: path.clone(),
        role: role.clone(),
        usage: note.usage,
        cost_usd: note.cost_usd,
        model_calls: note.model_calls,
        tool_calls: note.tool_calls,
        effect_unknown: end.effect_unknown.clone(),
    }
}

/// The result of a workflow that declares none.
fn last_said(scope: &LaneScope<'_>) -> Value {
    scope.last().map_or(Value::Null, |last| {
        Value::from_iter([
            ("status", Value::from(last.status.as_str())),
            ("output", last.output.clone()),
            ("body", Value::from(last.body.as_str())),
        ])
    })
}

/// A step as history and templates see it.
pub fn episode(seq: u64, step: &Step, body: String, opened_by: Vec<u64>) -> Episode {
    Episode {
        seq,
        opened_by,
        role: step.role.clone(),
        lane: step.lane.clone(),
        prompt: step.edge.prompt.clone(),
        answer: step.answer.clone(),
        status: step.status.clone(),
        output: step.output.clone(),
        body,
        // A role's own visits are told from its conversation or from the store, and no other needs it.
        transcript: None,
    }
}

fn no_form(error: &rondo_protocol::canonical::Error) -> Fault {
    let message = format!("the answer has no canonical form: {error}");
    Fault::new(Code::ContractBroken, FaultClass::Contract, message)
}

fn no_lane(path: &LanePath) -> Fault {
    let message =
        format!("the thread has no lane {path:?} that this could belong to; its workflow does not fit its steps");
    Fault::new(Code::NotYetRun, FaultClass::Denied, message)
}

/// Whether the edges of a fan-out's join role read `branches`.
pub(super) fn reads_branches(graph: &Graph, role: &RoleName) -> bool {
    graph.edges().values().filter(|edge| edge.part.starts_with(&format!("graph.{role}."))).any(|edge| {
        let mut uses: Vec<_> = edge.prompt.uses();
        uses.extend([edge.say.as_ref(), edge.reason.as_ref()].into_iter().flatten().flat_map(|text| text.uses()));
        uses.extend(edge.result.iter().flat_map(|value| value.leaves()).flat_map(|leaf| leaf.template.uses()));
        uses.extend(edge.when.iter().flat_map(|when| when.expr.uses()));
        if let Some(out) = fan::of_edge(edge) {
            uses.extend(out.each.iter().flat_map(|each| each.over.uses()));
            uses.extend(out.branches.iter().flat_map(|branch| branch.prompt.uses()));
            uses.extend(
                out.branches.iter().filter_map(|branch| branch.when.as_ref()).flat_map(|when| when.expr.uses()),
            );
        }
        uses.iter().any(|found| !found.path.is_local() && found.path.root() == "branches")
    })
}
