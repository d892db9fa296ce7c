//! The event loop of one thread: decide, visit, commit, tell.
//!
//! It owns the thread's state. What happens next is the moderator's word, what a visit comes to is the worker's, and
//! both enter the state by a commit and in no other way.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use rondo_agent_kit::tool::Toolbox;
use rondo_protocol::call::{CallKind, Fault, FaultClass, Site, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{Outcome, Place, Visit, What};
use rondo_protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo_protocol::object::{FaultKind, HookNote, Note, Observation, Step, StepKind};
use rondo_protocol::workflow::{Limits, RolePolicy};
use rondo_protocol::{Digest, Value};
use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use super::memory::{Memories, Opened, Steps};
use super::noted::Noted;
use super::retry::Deadline;
use super::sink::Sink;
use super::tool_role;
use super::tools::{self, Tooling};
use super::worker::{self, Speaking, Stage};
use crate::cast::Cast;
use crate::engine::Operating;
use crate::env::Env;
use crate::graph::Graph;
use crate::hook::role::served_mark;
use crate::hook::{CallPath, Node, Redactors};
use crate::models::ServedBy;
use crate::moderator::{self, Decision, Dispatch, Finish, limits};
use crate::store::{self, Commit, NewStep, Row, StepStore};
use crate::thread::{Checkpoint, Ending, Origin, State, Stop};

/// What one run of a thread is made of.
pub struct Run {
    /// The store.
    pub store: Arc<dyn StepStore>,
    /// Time, ids and randomness.
    pub env: Arc<dyn Env>,
    /// Which thread.
    pub thread: ThreadId,
    /// Its workflow.
    pub graph: Arc<Graph>,
    /// Its roles, ready to be played.
    pub cast: Cast,
    /// What the operator gives.
    pub operating: Operating,
    /// What takes keys and an author's patterns out of what enters.
    pub redactors: Redactors,
    /// The hooks before each role's calls.
    pub paths: BTreeMap<RoleName, BTreeMap<CallKind, CallPath>>,
    /// The limits in force: the lower of workflow and operator.
    pub limits: Limits,
    /// Where events go.
    pub sink: Sink,
    /// Tells the run to stop.
    pub cancel: CancellationToken,
    /// Whether a stop means the end of the thread for good.
    pub for_good: Arc<AtomicBool>,
    /// The thread's row as it is stored.
    pub row: Row,
    /// What is known of the thread and not hashed.
    pub origin: Origin,
    /// The thread's state.
    pub state: State,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// The thread has ended.
    Finished(Ending),
    /// The thread stopped and can be resumed.
    Stopped(Fault),
}

/// What a visit came to.
struct Made {
    turn: Option<TurnReply>,
    status: Status,
    output: Value,
    observations: Vec<Observation>,
    note: Note,
    objects: Vec<(Kind, Digest, Vec<u8>)>,
}

impl Run {
    /// Runs the thread until it ends or stops. Every way out leaves the store whole.
    pub async fn go(self) -> Ended {
        let mut going = Going {
            run: self,
            memories: Memories::default(),
            stored_heads: BTreeSet::new(),
            under_way: None,
            may_be_journaled: true,
        };
        match going.steps().await {
            Ok(finish) => going.finish(finish).await,
            Err(fault) => going.stop(fault).await,
        }
    }

    /// What a visit of a role is carried out with.
    fn stage<'s>(&'s self, role: &RoleName, policy: &RolePolicy, toolbox: &'s Toolbox, noted: &'s Noted) -> Stage<'s> {
        let Operating { grants, approver, in_doubt, .. } = &self.operating;
        let redactor = self.redactors.tool(role);
        Stage {
            store: &*self.store,
            env: &*self.env,
            sink: &self.sink,
            tooling: Tooling { toolbox, grants, approver: approver.as_deref(), in_doubt: *in_doubt, redactor },
            paths: self.paths(role),
            noted,
            redactor: self.redactors.model(role),
            cancel: &self.cancel,
            may_be_journaled: true,
            deadline: Deadline::of_step(policy.timeout_ms).or_earlier(self.wall_time()),
        }
    }

    fn paths(&self, role: &RoleName) -> &BTreeMap<CallKind, CallPath> {
        static NONE: BTreeMap<CallKind, CallPath> = BTreeMap::new();
        self.paths.get(role).unwrap_or(&NONE)
    }

    /// A mark of where a role's first model is served.
    fn served_by(&self, role: &RoleName) -> Option<String> {
        let first = self.cast.players.get(role)?.heads.first()?;
        let ServedBy { provider, address } = &self.operating.models.0.get(&first.model)?.served_by;
        Some(served_mark(provider, address))
    }

    /// What the hooks before a role's calls did in a visit, which has come to an end.
    async fn noted(&self, site: &Site, noted: Noted) -> Vec<HookNote> {
        let visit = Visit { role: site.role.clone(), visit: site.visit, lane: site.lane.clone() };
        let nodes: BTreeMap<&str, &Arc<Node>> = self
            .paths(&site.role)
            .values()
            .flat_map(CallPath::nodes)
            .map(|node| (node.context.node.as_str(), node))
            .collect();
        let mut metrics = Vec::new();
        for (name, node) in nodes {
            let figures = AssertUnwindSafe(node.hook.visited(site, &node.context)).catch_unwind().await;
            let Ok(Some(figures)) = figures else { continue };
            let report = What::HookReport { visit: visit.clone(), node: name.to_owned(), metrics: figures.clone() };
            self.sink.emit(report).await;
            metrics.push((name.to_owned(), figures));
        }
        noted.into_notes(metrics)
    }

    fn wall_time(&self) -> Deadline {
        let left = self.limits.wall_time_ms.map(|most| most.saturating_sub(self.state.spent.active_ms));
        let message = format!("the thread reached its limit of {} ms wall time", self.limits.wall_time_ms.unwrap_or(0));
        Deadline::after(left, Fault::new(Code::ThreadLimit, FaultClass::Limit, message))
    }
}

struct Going {
    run: Run,
    memories: Memories,
    stored_heads: BTreeSet<Digest>,
    /// The visit that has begun and is not committed yet.
    under_way: Option<Visit>,
    /// Whether an earlier run may have left a journal: a commit clears it, so only before the first one.
    may_be_journaled: bool,
}

impl Going {
    /// Takes step after step until the moderator says that the thread ends.
    async fn steps(&mut self) -> Result<Finish, Fault> {
        let mut decision = moderator::decide(&self.run.graph, &self.run.state)?;
        loop {
            if self.run.cancel.is_cancelled() {
                return Err(worker::cancelled());
            }
            self.tell(&decision).await;
            let dispatch = match decision {
                Decision::Finish(finish) => return Ok(finish),
                Decision::Dispatch(dispatch) => dispatch,
            };
            let made = self.visit(&dispatch).await?;
            decision = self.commit(dispatch, made).await?;
        }
    }

    /// Tells which edge was chosen.
    async fn tell(&self, decision: &Decision) {
        let (visit, from, status) = if let Some(last) = &self.run.state.last {
            let episode = &last.episode;
            (self.visit_number(&episode.role, 0), episode.role.to_string(), Some(episode.status.clone()))
        } else {
            let Ok(role) = RoleName::new("start") else { return };
            (Visit { role, visit: 0, lane: LanePath::trunk() }, "start".to_owned(), None)
        };
        let to = vec![decision.leads_to().to_owned()];
        self.run.sink.emit(What::EdgeTaken { visit: visit.clone(), from, status, to }).await;
        if let Some(text) = decision.chosen().say.clone() {
            self.run.sink.emit(What::Said { visit, text }).await;
        }
    }

    fn visit_number(&self, role: &RoleName, more: u64) -> Visit {
        Visit { role: role.clone(), visit: self.run.state.visits(role) + more, lane: LanePath::trunk() }
    }

    /// Visits a role: its answer, or the reserved status that routes a fault.
    async fn visit(&mut self, dispatch: &Dispatch) -> Result<Made, Fault> {
        let run = &self.run;
        let (role, policy) = run.graph.role(&dispatch.role).ok_or_else(|| unknown_role(&dispatch.role))?;
        let started_at_ms = run.env.now_ms();
        if let Some(fault) = limits::broken_by_visit(&run.state, &dispatch.role, &run.limits, &policy.limits) {
            let note = Note { started_at_ms, ended_at_ms: started_at_ms, ..Note::default() };
            return self.route(&dispatch.role, self.unless_in_doubt(fault)?, note);
        }
        let visit = self.visit_number(&dispatch.role, 1);
        let site = Site {
            thread: run.thread.clone(),
            role: dispatch.role.clone(),
            lane: LanePath::trunk(),
            visit: visit.visit,
            position: 0,
        };
        let attempts = run.state.roles.get(&dispatch.role).map_or(0, |visited| visited.attempts);
        let noted = Noted::default();
        let at = site.clone();
        let may_be_journaled = self.may_be_journaled;
        let stage = |toolbox| Stage { may_be_journaled, ..run.stage(&dispatch.role, policy, toolbox, &noted) };
        let (visited, told) = if let Some(player) = run.cast.tool_players.get(&dispatch.role) {
            self.under_way = Some(visit.clone());
            run.sink.emit(What::StepStarted { visit }).await;
            let args = dispatch.args.clone().unwrap_or_else(Value::empty_object);
            (tool_role::visit(&stage(&player.toolbox), player, site, &args, attempts).await, None)
        } else if let Some(player) = run.cast.players.get(&dispatch.role) {
            let Opened { conversation, told } = {
                let steps = Steps { store: &*run.store, thread: &run.thread, readings: &run.cast.readings };
                self.memories
                    .open(&dispatch.role, &player.telling, &dispatch.edge.prompt, &run.state, &steps)
                    .map_err(|error| worker::store_fault(&error))?
            };
            self.under_way = Some(visit.clone());
            run.sink.emit(What::StepStarted { visit }).await;
            let Operating { models, recorder, call_total_ms, .. } = &run.operating;
            let recorder = recorder.as_deref();
            let speaking = Speaking { models, recorder, player, policy, call_total_ms: *call_total_ms };
            let stage = stage(&player.agent.tools);
            (worker::visit(&stage, &speaking, site, conversation, attempts).await, told)
        } else {
            let message = format!("{} is a {} role, which this version does not run", dispatch.role, role.kind.name());
            return Err(Fault::new(Code::NotYetRun, FaultClass::Denied, message));
        };
        let run = &self.run;
        let hooks = run.noted(&at, noted).await;
        let note = Note {
            hooks,
            started_at_ms,
            ended_at_ms: run.env.now_ms(),
            model_calls: visited.model_calls,
            tool_calls: visited.tool_calls,
            tools: visited.tools,
            attempts: visited.attempts,
            usage: visited.usage,
            cost_usd: visited.cost_usd,
            told,
            ..Note::default()
        };
        let turn = match visited.result {
            Ok(turn) => turn,
            Err(fault) => return self.route(&dispatch.role, fault, note),
        };
        Ok(Made {
            status: turn.status.clone(),
            output: turn.output.clone(),
            observations: turn.fallback.iter().map(|model| Observation::Fallback { model: model.clone() }).collect(),
            note: Note {
                usage: turn.usage,
                cost_usd: turn.cost_usd,
                answered_by: turn.answered_by.clone(),
                model: turn.model.clone(),
                served_by: run.served_by(&dispatch.role),
                ..note
            },
            objects: visited.objects,
            turn: Some(turn),
        })
    }

    /// The fault, unless an earlier run has left a call of which nobody knows whether it had its effect: a step that is
    /// committed now would forget it.
    fn unless_in_doubt(&self, fault: Fault) -> Result<Fault, Fault> {
        let run = &self.run;
        if !self.may_be_journaled || run.operating.in_doubt.is_some() {
            return Ok(fault);
        }
        let journal = Journal::read(&*run.store, &run.thread, &LanePath::trunk());
        let journal = journal.map_err(|error| worker::store_fault(&error))?;
        let tool = journal.open_intents().next();
        tool.map_or(Ok(fault), |tool| Err(tools::in_doubt(tool, &run.thread)))
    }

    /// The step that a fault comes to where the graph routes it; otherwise the fault.
    fn route(&self, role: &RoleName, fault: Fault, note: Note) -> Result<Made, Fault> {
        let (Some(status), Some(kind)) = (moderator::routed(&self.run.graph, role, &fault), fault.routed_by()) else {
            return Err(fault);
        };
        let code = fault.code.to_string();
        let output = Value::from_iter([("code", Value::from(code.as_str())), ("message", Value::from(fault.message))]);
        let observation = match kind {
            FaultKind::Error => Observation::Error { code },
            FaultKind::Limit => Observation::Limit { code },
            FaultKind::Timeout => Observation::Timeout { code },
        };
        Ok(Made { turn: None, status, output, observations: vec![observation], note, objects: Vec::new() })
    }

    /// Commits the step that a visit came to, together with what follows from it, and tells of it.
    async fn commit(&mut self, dispatch: Dispatch, made: Made) -> Result<Decision, Fault> {
        let Made { turn, status, output, observations, note, mut objects } = made;
        let (transcript, said, answer, body) = match turn {
            Some(turn) => {
                let (digest, bytes) = Digest::of(Kind::Transcript, &turn.transcript).map_err(|e| no_form(&e))?;
                self.add_heads(&dispatch.role, &turn, &mut objects);
                objects.push((Kind::Transcript, digest, bytes));
                (Some(digest), Some(turn.transcript), turn.answer, turn.body)
            }
            None => (None, None, String::new(), String::new()),
        };
        let role = dispatch.role;
        let step = Step {
            answer,
            edge: dispatch.edge,
            kind: StepKind::Step,
            lane: LanePath::trunk(),
            observations,
            output,
            prev: self.run.state.head.into_iter().collect(),
            role: role.clone(),
            start: self.run.state.start,
            status,
            transcript,
        };
        let (digest, bytes) = Digest::of(Kind::Step, &step).map_err(|e| no_form(&e))?;
        let answered = step.transcript.is_some();
        let run = &mut self.run;
        run.state.take(&dispatch.chosen.bounded);
        run.state.add(digest, &step, body, &note);
        match run.cast.players.get(&role).filter(|_| answered) {
            Some(player) => {
                let said = said.as_ref();
                self.memories.close(&role, &player.telling, &step.answer, said, run.state.seq);
            }
            None => self.memories.forget(&role),
        }

        let decision = moderator::decide(&run.graph, &run.state);
        let mut row = run.row.clone();
        row.version += 1;
        row.frontier = BTreeMap::from([(LanePath::trunk(), digest)]);
        row.seq = run.state.seq;
        row.checkpoint = Checkpoint::of(&run.state).to_bytes();
        row.status = store::Status::Running;
        if let Ok(Decision::Finish(finish)) = &decision {
            end(&mut row, &mut run.origin, finish, run.env.now_ms());
        }
        let visit = run.state.visits(&role);
        let commit = Commit {
            thread: run.thread.clone(),
            expected: run.row.version,
            row: row.clone(),
            step: Some(NewStep {
                seq: row.seq,
                digest,
                bytes,
                role: role.clone(),
                lane: LanePath::trunk(),
                visit,
                note,
            }),
            objects,
            clear_journal: vec![LanePath::trunk()],
        };
        run.store.commit(commit).await.map_err(|error| worker::store_fault(&error))?;
        run.row = row;
        self.under_way = None;
        self.may_be_journaled = false;
        let visit = Visit { role, visit, lane: LanePath::trunk() };
        let (seq, prev, status) = (run.row.seq, step.prev, step.status);
        run.sink.emit(What::StepCommitted { visit, seq, step: digest, prev, status }).await;
        decision
    }

    /// The heads that a transcript names and that were not stored by this run yet.
    fn add_heads(&mut self, role: &RoleName, turn: &TurnReply, objects: &mut Vec<(Kind, Digest, Vec<u8>)>) {
        let Some(player) = self.run.cast.players.get(role) else { return };
        for entry in &turn.transcript.entries {
            let rondo_protocol::object::Entry::Model { head, .. } = entry else { continue };
            let known = player.heads.iter().find(|known| known.digest == *head);
            if let Some(known) = known.filter(|_| self.stored_heads.insert(*head)) {
                objects.push((Kind::Head, known.digest, known.bytes.to_vec()));
            }
        }
    }

    /// Tells of the end, which the last commit has stored, unless the thread had no step.
    async fn finish(mut self, finish: Finish) -> Ended {
        if self.run.origin.ending.is_none() {
            let (mut row, now_ms) = (self.run.row.clone(), self.run.env.now_ms());
            end(&mut row, &mut self.run.origin, &finish, now_ms);
            if let Err(fault) = self.keep_row(row).await {
                return self.stop(fault).await;
            }
        }
        let at_ms = self.run.origin.ending.as_ref().map_or(0, |ending| ending.at_ms);
        let Finish { outcome, reason, result, .. } = finish;
        self.finished(Ending { outcome, reason, result, at_ms }).await
    }

    async fn finished(self, ending: Ending) -> Ended {
        let finished = What::ThreadFinished {
            outcome: ending.outcome,
            head: self.run.state.head,
            status: self.run.state.last.as_ref().map(|last| last.episode.status.clone()),
            reason: ending.reason.clone(),
            result: ending.result.clone(),
        };
        self.run.sink.emit(finished).await;
        Ended::Finished(ending)
    }

    /// Leaves the thread so that it can be resumed, or ends it for good if that was wanted.
    async fn stop(mut self, fault: Fault) -> Ended {
        let mut row = self.run.row.clone();
        if fault.class == FaultClass::Cancelled && self.run.for_good.load(Ordering::SeqCst) {
            let ending = cancelled_ending(self.run.env.now_ms());
            self.run.origin.ending = Some(ending.clone());
            row.status = store::Status::Cancelled;
            row.origin = self.run.origin.to_bytes();
            return match self.keep_row(row).await {
                Ok(()) => self.finished(ending).await,
                Err(fault) => self.tell_stop(fault).await,
            };
        }
        if fault.class != FaultClass::Store {
            let Fault { code, class, message, .. } = fault.clone();
            self.run.origin.stop = Some(Stop { code: code.to_string(), class, message });
            row.status = store::Status::Stopped;
            row.origin = self.run.origin.to_bytes();
            if let Err(store) = self.keep_row(row).await {
                return self.tell_stop(store).await;
            }
        }
        self.tell_stop(fault).await
    }

    async fn tell_stop(self, fault: Fault) -> Ended {
        let (role, visit) = self.under_way.map(|visit| (visit.role, visit.visit)).unzip();
        let place = Place::Thread { thread: self.run.thread.clone(), role, visit };
        let (code, message) = (fault.code.to_string(), fault.message.clone());
        self.run.sink.emit(What::Error { code, message, place: Some(place) }).await;
        Ended::Stopped(fault)
    }

    /// Commits a row without a step.
    async fn keep_row(&mut self, mut row: Row) -> Result<(), Fault> {
        row.version += 1;
        let commit = Commit {
            thread: self.run.thread.clone(),
            expected: self.run.row.version,
            row: row.clone(),
            step: None,
            objects: Vec::new(),
            clear_journal: Vec::new(),
        };
        self.run.store.commit(commit).await.map_err(|error| worker::store_fault(&error))?;
        self.run.row = row;
        Ok(())
    }
}

/// Writes an end into a row.
fn end(row: &mut Row, origin: &mut Origin, finish: &Finish, at_ms: u64) {
    let Finish { outcome, reason, result, .. } = finish.clone();
    row.status = match outcome {
        Outcome::Done => store::Status::Done,
        Outcome::Failed => store::Status::Failed,
        Outcome::Cancelled => store::Status::Cancelled,
    };
    origin.ending = Some(Ending { outcome, reason, result, at_ms });
    origin.stop = None;
    row.origin = origin.to_bytes();
}

/// The end of a thread that was cancelled.
pub fn cancelled_ending(at_ms: u64) -> Ending {
    Ending { outcome: Outcome::Cancelled, reason: Some("cancelled".to_owned()), result: Value::Null, at_ms }
}

fn no_form(error: &rondo_protocol::canonical::Error) -> Fault {
    let message = format!("the answer has no canonical form: {error}");
    Fault::new(Code::ContractBroken, FaultClass::Contract, message)
}

fn unknown_role(role: &RoleName) -> Fault {
    let message = format!("the graph leads to {role}, which is not a role of this workflow");
    Fault::new(Code::NotYetRun, FaultClass::Denied, message)
}
