//! The thread machine: all decisions, in one pure type.
//!
//! [`Machine::on`] takes an input and returns actions; a driver carries them out and decides nothing. The machine has
//! no clock, store, provider or task: times come with inputs, and earlier steps from [`StepLookup`].
//!
//! Laws. *durable first*: what follows from a step leaves the machine only after the input that its commit was synced.
//! *order free*: with `need: all` and no failed lane the steps do not depend on the order in which visits end. Fault
//! routing, limits, money and the contents of a join are decided here and nowhere else.

use rondo_agent_kit::conversation::Episode;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{self, LaneEnd, Outcome};
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::object::{CancelledLane, Followed, Note, RecordKind, Step};
use rondo_protocol::workflow::RoleLimits;
use rondo_protocol::{Digest, Value};

use super::budget::{Budget, CallEstimate, Reservation};
use super::clock::Clock;
use super::decide::Consequences;
use super::fan::Fan;
use super::lane::{Lane, LanePhase};
use super::message::{Action, Commit, Definition, InFlight, Input, LaneState, NewStep, Notice, VisitEnd};
use super::origin::Ending;
use super::recall::{StepLookup, Unstored, Unsynced};
use super::route::{Compacting, Decided, Dispatch, Joins, Undecided};
use super::scope::DecisionInput;
use super::task::Task;
use crate::graph::EdgeId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How many commits may wait for their sync before roles that need no call answer again.
const MAX_UNSYNCED: usize = 64;

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
    /// What an earlier process left of visits in flight.
    pub(super) recovered: BTreeMap<LanePath, InFlight>,
    /// Commits that are not synced yet, each with what follows from it.
    pub(super) unsynced: VecDeque<(u64, Vec<Action>)>,
    /// The steps of these commits.
    pub(super) unstored: Vec<Unstored>,
    /// Lanes whose visit needs no call, so that its step is due.
    pub(super) given: VecDeque<LanePath>,
    /// What the next commit carries in addition to its step.
    pub(super) pending: Pending,
    pub(super) ending: Option<Ending>,
    pub(super) end: Option<Arc<str>>,
    pub(super) is_replaying: bool,
    /// Whether the consequences of its last step have been reported before.
    pub(super) is_resumed: bool,
    /// Whether the caller checks limits itself, with [`broken`](Self::broken).
    pub(super) ignores_limits: bool,
    /// Beyond so many commits that wait for their sync no role answers without a call: a chain of them has no other bound
    /// in memory. None does once the run was told to stop.
    pub(super) most_unsynced: usize,
    /// What follows from the decisions of the input at hand, until a commit or the driver takes it.
    pub(super) after: Consequences,
    /// The actions for that input.
    pub(super) out: Vec<Action>,
    /// The edges chosen by the last input.
    pub(super) chosen: Vec<EdgeId>,
    /// The last decision that failed.
    pub(super) undecided: Option<Undecided>,
}

/// Rows of lanes, and lists of fan-outs by the step that opened them.
type Rows = (Vec<(LanePath, LaneState)>, Vec<(u64, Arc<Value>)>);

#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    pub(super) ending: Option<Ending>,
    /// Notices since the last step, which the next commit reports.
    pub(super) notices: Vec<Followed>,
    pub(super) list: Option<(u64, Arc<Value>)>,
    /// Whether the lanes were made from steps, so that their rows may be missing.
    pub(super) all_rows: bool,
}

impl Machine {
    /// The machine of a new thread; `version` is that of its row.
    pub fn new(definition: Definition, version: u64) -> Self {
        Self {
            keep_all: definition.graph.roles_told_whole(),
            definition,
            seq: 0,
            version,
            trunk: Lane::trunk(),
            budget: Budget::default(),
            clock: Clock::default(),
            recovered: BTreeMap::new(),
            unsynced: VecDeque::new(),
            unstored: Vec::new(),
            given: VecDeque::new(),
            pending: Pending::default(),
            ending: None,
            end: None,
            is_replaying: false,
            is_resumed: false,
            ignores_limits: false,
            most_unsynced: MAX_UNSYNCED,
            after: Consequences::default(),
            out: Vec::new(),
            chosen: Vec::new(),
            undecided: None,
        }
    }

    /// Returns the actions for an input at `now_ms` of a monotonic clock.
    pub fn on(&mut self, input: Input, now_ms: u64, recall: &dyn StepLookup) -> Vec<Action> {
        self.clock.tick(now_ms);
        self.chosen.clear();
        let done = match input {
            Input::Begin { at_ms } => {
                if self.clock.latest_ms == 0 {
                    self.clock.latest_ms = at_ms;
                }
                self.begin(recall)
            }
            Input::Ended { lane, end } => self.ended(&lane, *end, recall),
            Input::TooLong { lane, leaving_bytes } => self.too_long(&lane, leaving_bytes),
            Input::Synced { version } => {
                self.synced(version);
                Ok(())
            }
            Input::Cancel { .. } if self.ending.is_some() => Ok(()),
            Input::Cancel { at_ms } => self.commit_end(Ending::cancelled(at_ms)),
        };
        if let Err(halt) = done.and_then(|()| self.settle(recall)) {
            let fault = self.halted(halt);
            self.out.push(Action::Stop(fault));
        }
        self.after = Consequences::default();
        std::mem::take(&mut self.out)
    }

    /// Reserves what a model call of a lane may use.
    ///
    /// # Errors
    /// The limit that the call could exceed.
    pub fn admit(&mut self, lane: &LanePath, role: &RoleName, wanted: &CallEstimate) -> Result<Reservation, Fault> {
        let own = self.limits_of(role);
        self.budget.admit(lane, role, wanted, &self.definition.limits, &own)
    }

    /// The account, to settle calls.
    pub fn budget(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// The number of the last step.
    pub fn seq(&self) -> u64 {
        self.seq
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

    /// The edges chosen by the last input, in order.
    pub fn chosen(&self) -> &[EdgeId] {
        &self.chosen
    }

    /// The last decision that failed.
    pub fn undecided(&self) -> Option<&Undecided> {
        self.undecided.as_ref()
    }

    /// The run was told to stop: from now on no role answers without a call, so that a chain of rules ends too.
    pub fn stop(&mut self) {
        self.most_unsynced = 0;
    }

    /// Leaves limits to the caller, who checks [`broken`](Self::broken).
    #[must_use]
    pub fn ignoring_limits(self) -> Self {
        Self { ignores_limits: true, ..self }
    }

    /// The visits in progress, in the order of their lanes.
    pub fn visiting(&self) -> Vec<(LanePath, &Dispatch)> {
        self.lanes().into_iter().filter_map(|lane| Some((lane.path.clone(), lane.visiting()?))).collect()
    }

    /// Every lane of the thread, each before those it opened.
    pub fn lanes(&self) -> Vec<&Lane> {
        let mut found = Vec::new();
        lanes(&self.trunk, &mut found);
        found
    }

    pub(super) fn limits_of(&self, role: &RoleName) -> RoleLimits {
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

    pub(super) fn lane_mut(&mut self, path: &LanePath) -> Decided<&mut Lane> {
        let mut lane = &mut self.trunk;
        for (_, index) in path.parts() {
            let fan = lane.lanes_mut().ok_or_else(|| no_lane(path))?;
            lane = fan.lanes.get_mut(&index).ok_or_else(|| no_lane(path))?;
        }
        if lane.path == *path { Ok(lane) } else { Err(no_lane(path).into()) }
    }

    pub(super) fn fan_mut(&mut self, path: &LanePath) -> Decided<&mut Fan> {
        match &mut self.lane_mut(path)?.phase {
            LanePhase::Fanned(fan) => Ok(fan),
            _ => Err(no_lane(path).into()),
        }
    }

    pub(super) fn fan(&self, path: &LanePath) -> Option<&Fan> {
        self.lane(path)?.fan()
    }

    pub(super) fn visiting_mut(&mut self, path: &LanePath) -> Decided<&mut Dispatch> {
        match &mut self.lane_mut(path)?.phase {
            LanePhase::Visiting(dispatch) => Ok(dispatch),
            _ => Err(no_lane(path).into()),
        }
    }

    pub(super) fn begin(&mut self, recall: &dyn StepLookup) -> Decided {
        // Events in lanes before this process happened in the order of their last steps.
        let lanes = self.lanes().into_iter().map(|lane| (lane.last_seq(), lane.path.clone()));
        let mut lanes: Vec<(u64, LanePath)> = lanes.collect();
        lanes.sort_unstable();
        let input = Arc::clone(&self.definition.input);
        let context = DecisionInput { input: &input, recall, fresh: None };
        let mut fans = Vec::new();
        for (_, path) in lanes {
            let Some(lane) = self.lane(&path) else { continue };
            match &lane.phase {
                LanePhase::Deciding => self.decide(&path, context)?,
                LanePhase::Visiting(dispatch) => {
                    let dispatch = Dispatch::clone(dispatch);
                    self.dispatch(&path, dispatch)?;
                }
                LanePhase::Fanned(fan) => {
                    // The lane that decided the transition made no room for another; without one none was opened.
                    let most = match fan.decided() {
                        Some(_) if fan.lanes.is_empty() => 0,
                        decided => fan.parallel() - usize::from(decided.is_some()),
                    };
                    self.open_up_to(&path, most, context)?;
                }
                _ => {}
            }
            fans.push(path);
        }
        fans.sort_by_key(|path| std::cmp::Reverse(path.parts().count()));
        for path in fans {
            let Some(fan) = self.fan(&path).filter(|fan| fan.then.is_none()) else { continue };
            let then = fan.decided();
            self.follow_with(&path, then)?;
            self.complete_if_ended(&path, context)?;
        }
        let after = std::mem::take(&mut self.after);
        let is_new = !self.is_resumed;
        let notices = after.notices.into_iter().filter(|_| is_new);
        let notices = notices.map(|followed| Action::Tell(Notice::After { visit: None, status: None, followed }));
        let actions = notices.chain(after.actions).collect();
        self.emit(actions);
        Ok(())
    }

    pub(super) fn halted(&mut self, halt: Undecided) -> Fault {
        if !matches!(halt, Undecided::Fault(_)) {
            self.undecided = Some(halt.clone());
        }
        halt.into()
    }

    /// Handles everything that is due without an input.
    fn settle(&mut self, recall: &dyn StepLookup) -> Decided {
        // What is left is due when a commit was synced.
        while self.unsynced.len() < self.most_unsynced
            && let Some(path) = self.given.pop_front()
        {
            let LanePhase::Visiting(dispatch) = &mut self.lane_mut(&path)?.phase else { continue };
            let Some(answered) = dispatch.given.take() else { continue };
            let at_ms = self.clock.latest_ms;
            let note = Note { started_at_ms: at_ms, ended_at_ms: at_ms, ..Note::default() };
            let end = VisitEnd::of(Ok(*answered), note);
            // The driver had no opportunity to store the steps that this one follows.
            let over = Unsynced { recall, steps: std::mem::take(&mut self.unstored) };
            let done = self.commit_visit(&path, end, &over);
            let last = std::mem::replace(&mut self.unstored, over.steps);
            self.unstored.extend(last);
            done?;
        }
        if let Some(ending) = self.pending.ending.take() {
            self.commit_end(ending)?;
        }
        Ok(())
    }

    fn ended(&mut self, path: &LanePath, end: VisitEnd, recall: &dyn StepLookup) -> Decided {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let (is_form, left) = match &lane.phase {
            LanePhase::Visiting(dispatch) => (dispatch.task == Task::Form, None),
            LanePhase::Leaving(dispatch) => (dispatch.task == Task::Form, Some(dispatch.role.clone())),
            _ => return Err(no_lane(path).into()),
        };
        if is_form {
            self.clock.waiting = self.clock.waiting.saturating_sub(1);
        } else {
            self.clock.leave(end.waited_ms);
        }
        self.clock.latest_ms = self.clock.latest_ms.max(end.note.ended_at_ms);
        if let Some(role) = left {
            self.close_lane(path, LanePhase::Cancelled)?;
            let lost = lost(path, &role, &end.note, end.effect_unknown);
            let input = Arc::clone(&self.definition.input);
            let context = DecisionInput { input: &input, recall, fresh: None };
            self.lane_left(path, lost, context)?;
            let after = std::mem::take(&mut self.after);
            self.pending.notices.extend(after.notices);
            self.emit(after.actions);
            return Ok(());
        }
        match self.visiting_mut(path)?.compacting {
            Compacting::Running { leaving_bytes } => self.compacted(path, leaving_bytes, end, recall),
            _ => self.commit_visit(path, end, recall),
        }
    }

    /// Commits the step of a visit.
    pub(super) fn commit_visit(&mut self, path: &LanePath, end: VisitEnd, recall: &dyn StepLookup) -> Decided {
        let VisitEnd { outcome, mut note, objects, .. } = end;
        let dispatch = self.lane(path).and_then(Lane::visiting).ok_or_else(|| no_lane(path))?;
        let answered = match outcome {
            Ok(answered) => answered,
            Err(fault) => self.reserved(path, &dispatch.role, fault)?,
        };
        let start = self.definition.start;
        let dispatch = self.visiting_mut(path)?;
        // Nothing else needs them: the visit ends with this step.
        let (edge, mut observations) = (std::mem::take(&mut dispatch.edge), std::mem::take(&mut dispatch.observations));
        observations.extend(answered.observations);
        let step = Step {
            answer: answered.answer,
            edge,
            kind: RecordKind::Step,
            lane: path.clone(),
            observations,
            output: answered.output,
            prev: std::mem::take(&mut dispatch.prev),
            role: dispatch.role.clone(),
            start,
            status: answered.status,
            transcript: answered.transcript,
        };
        let (digest, bytes) = Digest::of(Kind::Step, &step).map_err(|error| no_form(&error))?;
        let added = self.add(path, digest, &step, &mut note)?;
        let (prev, transcript) = (step.prev.clone(), step.transcript);
        let episode = Arc::new(episode(self.seq, step, answered.body, note.opened_by.clone()));
        let visit = event::Visit { role: episode.role.clone(), visit: added.visit, lane: path.clone() };
        self.after.notices = std::mem::take(&mut self.pending.notices);
        if let Some(joins) = &added.joins {
            self.after.notices.extend(joins.cancelled.iter().map(|visit| {
                let visit = visit.clone();
                Followed::LaneEnded { visit, how: LaneEnd::Cancelled }
            }));
        }
        let input = Arc::clone(&self.definition.input);
        let context = DecisionInput { input: &input, recall, fresh: Some(&episode) };
        let decided = self.decide(path, context);
        let after = std::mem::take(&mut self.after);
        let mut actions = vec![Action::Tell(Notice::Committed {
            site: visit.clone().into(),
            seq: self.seq,
            step: digest,
            prev: prev.clone(),
            status: Some(episode.status.clone()),
            at_ms: note.ended_at_ms,
        })];
        actions.extend(after.notices.iter().map(|followed| {
            let (visit, status) = (Some(visit.clone()), Some(episode.status.clone()));
            Action::Tell(Notice::After { visit, status, followed: followed.clone() })
        }));
        actions.extend(after.actions);
        note.after = after.notices;
        note.left_by = self.left_by(path);
        let (closed, closed_list) =
            added.joins.map_or((Vec::new(), None), |joins| (joins.lanes, Some(joins.opened_by)));
        let mut clear_journal = vec![path.clone()];
        clear_journal.extend(closed.iter().cloned());
        self.version += 1;
        let ending = self.pending.ending.take();
        self.ending.clone_from(&ending);
        let (lanes, mut lists) = self.rows(path, &closed)?;
        lists.extend(self.pending.list.take());
        let commit = Commit {
            checkpoint: self.checkpoint()?,
            lanes,
            closed,
            lists,
            closed_list,
            objects,
            clear_journal,
            ending: ending.clone(),
            step: Some(NewStep { seq: self.seq, digest, bytes, prev, transcript, visit: added.visit, note, episode }),
            ..self.commit_of_row()
        };
        if let Some(step) = &commit.step {
            self.unstored.push(Unstored::of(self.version, step));
        }
        match decided {
            Ok(()) => actions.extend(ending.map(Action::Finish)),
            // The step is committed; its consequences cannot be decided.
            Err(halt) => actions.push(Action::Stop(self.halted(halt))),
        }
        self.unsynced.push_back((self.version, actions));
        self.out.push(Action::Commit(Box::new(commit)));
        Ok(())
    }

    /// The rows and lists of lanes that a commit in the lane `path` writes. After steps were followed it is all
    /// that have steps, but those that the commit closes.
    pub(super) fn rows(&mut self, path: &LanePath, closed: &[LanePath]) -> Decided<Rows> {
        if !std::mem::take(&mut self.pending.all_rows) {
            let row = self.lane(path).ok_or_else(|| no_lane(path))?.row()?;
            return Ok((row.into_iter().collect(), Vec::new()));
        }
        let (mut rows, mut lists, mut open) = (Vec::new(), Vec::new(), vec![&self.trunk]);
        while let Some(lane) = open.pop() {
            let is_kept = |(path, row): &(LanePath, LaneState)| row.frontier.is_some() && !closed.contains(path);
            rows.extend(lane.row()?.filter(is_kept));
            let fan = lane.stored_fan();
            open.extend(fan.iter().flat_map(|fan| fan.lanes.values()));
            lists.extend(fan.filter(|fan| fan.out.each.is_some()).map(|fan| (fan.opened_by(), Arc::clone(&fan.list))));
        }
        let is_pending = |opened_by| self.pending.list.as_ref().is_some_and(|(pending, _)| *pending == opened_by);
        lists.retain(|(opened_by, _)| !is_pending(*opened_by));
        Ok((rows, lists))
    }

    /// A commit of nothing but the row, without its checkpoint.
    pub(super) fn commit_of_row(&self) -> Commit {
        Commit { version: self.version, seq: self.seq, head: self.head(), ..Commit::default() }
    }

    /// Adds a step to the fold.
    pub(super) fn add(&mut self, path: &LanePath, digest: Digest, step: &Step, note: &mut Note) -> Decided<Added> {
        let seq = self.seq + 1;
        let keeps = self.keep_all.contains(&step.role);
        self.recovered.remove(path);
        let lane = self.lane_mut(path)?;
        let LanePhase::Visiting(dispatch) = std::mem::replace(&mut lane.phase, LanePhase::Deciding) else {
            return Err(no_lane(path).into());
        };
        if let Some((edge, per)) = &dispatch.bounded {
            lane.take(*edge, per.as_ref());
        }
        let refused = match dispatch.compacting {
            Compacting::Refused(cost) => Some(*cost),
            _ => None,
        };
        lane.joined = lane.joined.take().filter(|_| dispatch.joins.is_some());
        if let Some(mut fan) = lane.joined.take() {
            note.cancelled = std::mem::take(&mut fan.lost);
            lane.see_lanes(&fan);
            lane.fanned.extend(fan.out.branches.iter().map(|branch| branch.to.clone()));
            lane.joined = Some(fan);
        }
        note.cancelled.extend(refused);
        lane.add(seq, digest, step, note, keeps);
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
        Ok(Added { visit, joins: dispatch.joins })
    }

    pub(super) fn over(&mut self, part: &Arc<str>, outcome: Outcome, reason: Option<String>, result: Value) {
        self.trunk.end(LanePhase::Over);
        self.end = Some(Arc::clone(part));
        self.pending.ending = Some(Ending { outcome, reason, result: Arc::new(result), at_ms: 0 });
    }

    /// Commits the end of the thread, without a step.
    fn commit_end(&mut self, ending: Ending) -> Decided {
        self.version += 1;
        self.ending = Some(ending.clone());
        let commit = Commit { checkpoint: self.checkpoint()?, ending: Some(ending.clone()), ..self.commit_of_row() };
        self.unsynced.push_back((self.version, vec![Action::Finish(ending)]));
        self.out.push(Action::Commit(Box::new(commit)));
        Ok(())
    }

    /// Emits actions once everything that they may depend on has been synced.
    pub(super) fn emit(&mut self, actions: Vec<Action>) {
        match self.unsynced.back_mut() {
            Some((_, waiting)) => waiting.extend(actions),
            None => self.out.extend(actions),
        }
    }

    fn synced(&mut self, version: u64) {
        self.unstored.retain(|step| step.version > version);
        while self.unsynced.front().is_some_and(|(waits_for, _)| *waits_for <= version) {
            let Some((_, actions)) = self.unsynced.pop_front() else { return };
            self.out.extend(actions);
        }
    }
}

/// What was added to the fold.
pub(super) struct Added {
    pub(super) visit: u64,
    pub(super) joins: Option<Joins>,
}

fn lanes<'l>(lane: &'l Lane, found: &mut Vec<&'l Lane>) {
    found.push(lane);
    if let Some(fan) = lane.fan() {
        fan.lanes.values().for_each(|lane| lanes(lane, found));
    }
}

pub(super) fn lost(path: &LanePath, role: &RoleName, note: &Note, effect_unknown: Option<String>) -> CancelledLane {
    CancelledLane {
        lane: path.clone(),
        role: role.clone(),
        usage: note.usage,
        cost_usd: note.cost_usd,
        unpriced_calls: note.unpriced_calls,
        model_calls: note.model_calls,
        tool_calls: note.tool_calls,
        effect_unknown,
    }
}

/// A step in the form for history and templates.
pub fn episode(seq: u64, step: Step, body: String, opened_by: Vec<u64>) -> Episode {
    let Step { role, lane, edge, answer, status, output, .. } = step;
    Episode {
        seq,
        opened_by,
        role,
        lane,
        prompt: edge.prompt,
        answer,
        status,
        output,
        body,
        // A role's own visits are known from its conversation or from the store.
        transcript: None,
    }
}

pub(super) fn no_form(error: &rondo_protocol::canonical::Error) -> Fault {
    let message = format!("the answer has no canonical form: {error}");
    Fault::new(Code::ContractBroken, FaultClass::Contract, message)
}

pub(super) fn no_lane(path: &LanePath) -> Fault {
    let message =
        format!("the thread has no lane {path:?} that this could belong to; its workflow does not fit its steps");
    Fault::new(Code::UnfitThread, FaultClass::Denied, message)
}
