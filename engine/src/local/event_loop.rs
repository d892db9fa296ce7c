//! The driver of one thread: carries out the actions of its machine, and reports the results back to it.
//!
//! It decides nothing. Lanes are visited concurrently; commits go to the store in the order in which the machine
//! requests them, and complete in that order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, poll_immediate};
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use futures_util::{FutureExt, future};
use rondo_agent_kit::conversation::PastStep;
use rondo_agent_kit::tool::Toolbox;
use rondo_protocol::call::{CallKind, Fault, FaultClass, Site, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{self, Location, Outcome, What};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Entry, Followed, HookNote, Note, Observation, Record, Transcript};
use rondo_protocol::workflow::{History, RolePolicy, Workflow};
use rondo_protocol::{Digest, Value, canonical};
use tokio_util::sync::CancellationToken;

use super::child::{self, ParentVisit};
use super::commits;
use super::forms::{self, PersonAnswer, PersonSaid};
use super::hook_notes::HookNotes;
use super::journal::{Decided, JournalPart};
use super::mend::Mender;
use super::retry::{Deadline, Waits};
use super::sink::Sink;
use super::stop::cancelled;
use super::tool_calls::Tooling;
use super::tool_role;
use super::visit::{self, AwayPerson, ModelContext, VisitContext, VisitResult, store_fault};
use super::{Engine, RunConfig};
use crate::conversation::{Conversations, Opened, Opening, Steps};
use crate::env::Env;
use crate::graph::Graph;
use crate::hook::{CallPath, Node, Redactors};
use crate::resolved_roles::{ResolvedRoles, RoleRuntime};
use crate::store::{self, JournalRecord, NewStep, Row, StepStore};
use crate::thread::{
    Action, Answered, Commit, Ending, Input, MAX_FORMS, Machine, NewEpoch, Notice, Object, OpenForm, Origin, Stop,
    Task, Visit, VisitEnd,
};

/// What the visits of a run share.
pub struct Parts {
    /// Starts and continues child threads.
    pub engine: Engine,
    /// Where the thread came from, which its children inherit.
    pub origin: Origin,
    /// The visit that runs the thread as a child.
    pub above: Option<ParentVisit>,
    /// Says how the thread goes on after a fault.
    pub mender: Arc<Mender>,
    /// The store.
    pub store: Arc<dyn StepStore>,
    /// Time, ids and randomness.
    pub env: Arc<dyn Env>,
    /// The thread.
    pub thread: ThreadId,
    /// Its workflow.
    pub workflow: Arc<Workflow>,
    /// The same, lowered.
    pub graph: Arc<Graph>,
    /// Its resolved roles.
    pub resolved_roles: ResolvedRoles,
    /// The operator's configuration.
    pub run_config: RunConfig,
    /// Remove keys and an author's patterns from text that enters the thread.
    pub redactors: Redactors,
    /// The hooks before each role's calls.
    pub paths: BTreeMap<RoleName, BTreeMap<CallKind, CallPath>>,
    /// Receives the events.
    pub sink: Sink,
    /// Stops the run.
    pub cancel: CancellationToken,
    /// Whether a stop ends the thread for good.
    pub for_good: Arc<AtomicBool>,
}

/// One run of a thread.
pub struct Run {
    /// What its visits share.
    pub parts: Parts,
    /// The thread's row as it is stored.
    pub row: Row,
    /// What is known of the thread and not hashed.
    pub origin: Origin,
    /// Makes the decisions.
    pub machine: Machine,
    /// The machine's pending actions.
    pub first: Vec<Action>,
    /// Whether an earlier process may have left journals.
    pub may_be_journaled: bool,
    /// A person's answer, for a form that is open when the run begins.
    pub answer: Option<PersonAnswer>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// The thread has ended.
    Finished(Ending),
    /// The thread stopped and can be resumed.
    Stopped(Fault),
    /// Every lane waits for a person.
    Waiting(Vec<OpenForm>),
}

impl Run {
    /// Runs the thread until it ends or stops. Every exit leaves the store consistent.
    pub async fn go(self) -> Ended {
        let Self { parts, row, origin, machine, first, may_be_journaled, answer } = self;
        let store: &dyn store::Read = &*parts.store;
        let steps = match Steps::new(store, parts.thread.clone(), row.start, &parts.workflow) {
            Ok(steps) => steps,
            Err(error) => return Ended::Stopped(Fault::new(Code::UnfitThread, FaultClass::Denied, error.to_string())),
        };
        let driver = Driver {
            steps,
            parts: &parts,
            machine: Arc::new(Mutex::new(machine)),
            conversations: Mutex::default(),
            lanes: Mutex::default(),
            stored: Mutex::new(Stored { row, origin }),
            stored_heads: Mutex::default(),
            transcripts: Mutex::default(),
            journaled: Mutex::new(may_be_journaled.then(BTreeSet::new)),
            answer: Mutex::new(answer),
        };
        driver.drive(first).await
    }
}

/// A person who answers while the thread waits.
struct Away<'d, 'a> {
    driver: &'d Driver<'a>,
    /// The form that the visit leaves them.
    asked: Mutex<Option<Value>>,
}

impl AwayPerson for Away<'_, '_> {
    fn decision(&self, site: &Site) -> Option<Decided> {
        let visit = visit::visit_of(site);
        let answer = lock(&self.driver.answer).take_if(|answer| {
            self.driver.is_own(answer) && answer.visit == visit && matches!(answer.said, PersonSaid::Approval { .. })
        })?;
        match answer.said {
            PersonSaid::Approval { is_allowed, why } => Some(Decided { is_allowed, why, person: answer.person }),
            PersonSaid::Form(_) => None,
        }
    }

    fn ask(&self, form: Value) {
        lock(&self.asked).get_or_insert(form);
    }
}

/// Locks data that a panic cannot leave inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Driver<'a> {
    parts: &'a Parts,
    steps: Steps<'a>,
    machine: Arc<Mutex<Machine>>,
    conversations: Mutex<Conversations>,
    /// Stops the visit of a lane.
    lanes: Mutex<BTreeMap<LanePath, CancellationToken>>,
    stored: Mutex<Stored>,
    stored_heads: Mutex<BTreeSet<Digest>>,
    /// Transcripts of visits whose roles have `history: exact`, until their steps are made.
    transcripts: Mutex<BTreeMap<LanePath, Transcript>>,
    /// Lanes with a commit since an earlier process may have left journals; `None` if there are none.
    journaled: Mutex<Option<BTreeSet<LanePath>>>,
    /// A person's answer that no form has taken yet.
    answer: Mutex<Option<PersonAnswer>>,
}

/// What the store holds of the thread beside its steps.
struct Stored {
    row: Row,
    origin: Origin,
}

/// How many bytes count as a token where a workflow file says tokens of a request.
const BYTES_A_TOKEN: u64 = 4;

/// A commit on its way: the row's version and the thread's last step after it.
type PendingCommit<'a> = BoxFuture<'a, (u64, u64, Result<(), store::Error>)>;

/// How a visit left off.
pub(super) enum VisitOutcome {
    /// It ended. The records are those that the journal needs if no step follows.
    Ended(Box<VisitEnd>, Vec<JournalRecord>),
    /// Its child waits for people.
    Asleep(Vec<OpenForm>),
    /// Its request is too long: so many bytes of its history could leave.
    TooLong(usize),
}

impl VisitOutcome {
    pub(super) fn of(end: VisitEnd) -> Self {
        Self::Ended(Box::new(end), Vec::new())
    }
}

struct RunState<'a> {
    visits: FuturesUnordered<BoxFuture<'a, (LanePath, VisitOutcome)>>,
    commits: FuturesOrdered<PendingCommit<'a>>,
    actions: VecDeque<Action>,
    /// The open forms, by lane.
    forms: BTreeMap<LanePath, OpenForm>,
    /// The forms that the children of visits wait for, by lane.
    asleep: BTreeMap<LanePath, Vec<OpenForm>>,
    /// Lanes whose form was reported since the run began.
    announced: BTreeSet<LanePath>,
    stop: Option<Fault>,
    finish: Option<Ending>,
}

impl<'a> Driver<'a> {
    async fn drive(&'a self, mut first: Vec<Action>) -> Ended {
        if lock(&self.journaled).is_some() {
            let at_ms = lock(&self.stored).origin.started_at_ms;
            first.extend(self.on(Input::Begin { at_ms }));
        }
        let mut run = RunState {
            visits: FuturesUnordered::new(),
            commits: FuturesOrdered::new(),
            actions: first.into(),
            forms: BTreeMap::new(),
            asleep: BTreeMap::new(),
            // The form that is about to be answered is not asked for again.
            announced: lock(&self.answer).iter().map(|answer| answer.visit.lane.clone()).collect(),
            stop: None,
            finish: None,
        };
        loop {
            self.carry_out(&mut run).await;
            if let Some(ending) = run.finish.take() {
                return self.finished(ending);
            }
            let own =
                lock(&self.answer).take_if(|answer| self.is_own(answer) && matches!(answer.said, PersonSaid::Form(_)));
            if let Some(answer) = own {
                self.answer(&mut run, answer);
                continue;
            }
            if run.stop.is_none() && self.expire(&mut run) {
                continue;
            }
            if run.visits.is_empty() && run.commits.is_empty() {
                if lock(&self.answer).take_if(|answer| self.is_own(answer)).is_some() {
                    // The visit whose call it is about has not asked for it.
                    self.stop(&mut run, not_open());
                }
                if run.stop.is_none() && !(run.forms.is_empty() && run.asleep.is_empty()) {
                    let of_children = run.asleep.into_values().flatten();
                    return self.waiting(run.forms.into_values().chain(of_children).collect()).await;
                }
                let fault = run.stop.take().unwrap_or_else(nothing_to_do);
                return self.stopped(fault).await;
            }
            tokio::select! {
                biased;
                Some((version, seq, committed)) = run.commits.next() => match committed {
                    Ok(()) => {
                        self.steps.synced(seq);
                        run.actions.extend(self.on(Input::Synced { version }));
                    }
                    Err(error) => self.stop(&mut run, store_fault(&error)),
                },
                Some((lane, outcome)) = run.visits.next() => match outcome {
                    VisitOutcome::Ended(end, unwritten) => {
                        let mut has_step = false;
                        // Answers are kept even if the run stops; interrupted visits continue when it resumes.
                        if run.stop.is_none() || end.outcome.is_ok() {
                            let actions = self.on(Input::Ended { lane, end });
                            has_step = actions.iter().any(|action| matches!(action, Action::Commit(_)));
                            run.actions.extend(actions);
                        }
                        if !has_step && !unwritten.is_empty() {
                            // The fault that ended the visit is more useful than a store failure on top of it.
                            let _ = self.parts.store.record(self.parts.thread.clone(), unwritten, true).await;
                        }
                    }
                    VisitOutcome::Asleep(open) => {
                        for OpenForm { visit, form, .. } in open.iter().filter(|open| open.thread.is_none()) {
                            let (visit, form) = (visit.clone(), form.clone());
                            self.parts.sink.emit_again(What::ThreadWaiting { visit, form });
                        }
                        run.asleep.insert(lane, open);
                    }
                    VisitOutcome::TooLong(leaving_bytes) => {
                        run.actions.extend(self.on(Input::TooLong { lane, leaving_bytes }));
                    }
                },
                () = self.parts.cancel.cancelled(), if run.stop.is_none() => self.stop(&mut run, cancelled()),
                () = self.until_expiry(&run.forms), if !run.forms.is_empty() && run.stop.is_none() => {}
            }
        }
    }

    async fn carry_out(&'a self, run: &mut RunState<'a>) {
        while let Some(action) = run.actions.pop_front() {
            match action {
                Action::Commit(commit) => {
                    let mut commit = self.commit(*commit);
                    // Polled here, so that commits reach the store in order.
                    let on_its_way: PendingCommit<'a> = match poll_immediate(&mut commit).await {
                        Some(done) => Box::pin(future::ready(done)),
                        None => commit,
                    };
                    run.commits.push_back(on_its_way);
                }
                Action::Visit(visit) if visit.task == Task::Form && !self.is_scripted(&visit) => {
                    self.open_form(run, &visit);
                }
                Action::Visit(visit) if run.stop.is_none() => {
                    let cancel = self.parts.cancel.child_token();
                    lock(&self.lanes).insert(visit.lane.clone(), cancel.clone());
                    run.visits.push(Box::pin(self.visit(*visit, cancel)));
                }
                Action::Visit(_) => {}
                Action::CancelLane(lane) => {
                    if run.forms.remove(&lane).is_some() {
                        let end = forms::end(Err(cancelled()), None, self.parts.env.now_ms());
                        run.visits.push(Box::pin(future::ready((lane.clone(), VisitOutcome::of(end)))));
                    }
                    if let Some(open) = run.asleep.remove(&lane) {
                        run.visits.push(Box::pin(self.abandon(lane.clone(), open)));
                    }
                    if let Some(cancel) = lock(&self.lanes).get(&lane) {
                        cancel.cancel();
                    }
                }
                Action::Tell(told) => {
                    if let Notice::After { followed: Followed::Waiting { visit, .. }, .. } = &told {
                        run.announced.insert(visit.lane.clone());
                    }
                    self.tell(told);
                }
                Action::Finish(ending) => run.finish = Some(ending),
                Action::Stop(fault) => self.stop(run, fault),
            }
        }
    }

    /// Ends for good the child of a visit that is no longer needed.
    async fn abandon(&self, lane: LanePath, open: Vec<OpenForm>) -> (LanePath, VisitOutcome) {
        let child = open.into_iter().find_map(|open| open.thread);
        if let Some(child) = child {
            // It is asleep, so that nothing but its row changes.
            let _ = self.parts.engine.cancel(&child).await;
        }
        let end = forms::end(Err(cancelled()), None, self.parts.env.now_ms());
        (lane, VisitOutcome::of(end))
    }

    /// Whether an answer is for a form of this thread itself.
    fn is_own(&self, answer: &PersonAnswer) -> bool {
        answer.thread.as_ref().is_none_or(|of| *of == self.parts.thread)
    }

    /// The answer that is for a form of the child in `lane`, or below it.
    fn answer_of_child(&self, lane: &LanePath) -> Option<PersonAnswer> {
        let Parts { store, thread, .. } = self.parts;
        lock(&self.answer).take_if(|answer| {
            let of = answer.thread.as_ref();
            of.and_then(|of| child::lane_of(&**store, thread, of)).as_ref() == Some(lane)
        })
    }

    /// Whether the script of this run answers a form.
    fn is_scripted(&self, visit: &Visit) -> bool {
        let site = self.site(visit);
        self.parts.run_config.script.as_ref().is_some_and(|script| script.has(&site, visit.attempts))
    }

    fn site(&self, visit: &Visit) -> Site {
        Site {
            thread: self.parts.thread.clone(),
            role: visit.role.clone(),
            lane: visit.lane.clone(),
            visit: visit.visit,
            position: 0,
        }
    }

    /// Opens a form, and reports it if no durable event of this run did.
    fn open_form(&self, run: &mut RunState<'_>, visit: &Visit) {
        let Some(open) = lock(&self.machine).open_form(&visit.lane) else { return };
        if !run.announced.contains(&visit.lane) {
            let OpenForm { visit, form, .. } = open.clone();
            self.parts.sink.emit_again(What::ThreadWaiting { visit, form });
        }
        run.forms.insert(visit.lane.clone(), open);
    }

    /// Ends the visit that a person's answer is for; stops if its form is not open.
    fn answer(&self, run: &mut RunState<'_>, answer: PersonAnswer) {
        let PersonAnswer { visit, said, person, .. } = answer;
        let PersonSaid::Form(mut form) = said else { return };
        let lane = visit.lane.clone();
        let is_open = run.forms.get(&lane).is_some_and(|open| open.visit == visit);
        let read = if is_open {
            let redactor = self.parts.redactors.model(&visit.role);
            redactor.value(&mut form.fields);
            redactor.string(&mut form.body);
            let contract = self.parts.resolved_roles.body_readers.get(&visit.role);
            let contract = contract.ok_or_else(|| unknown_role(&visit.role));
            contract.and_then(|contract| forms::read(contract, &form.to_value()))
        } else {
            Err(not_open())
        };
        match read {
            Ok(answered) => {
                run.forms.remove(&lane);
                let end = forms::end(Ok(answered), Some(person), self.parts.env.now_ms());
                run.actions.extend(self.on(Input::Ended { lane, end: Box::new(end) }));
            }
            Err(fault) => self.stop(run, fault),
        }
    }

    /// Ends the visits whose forms have expired; `false` if none has.
    fn expire(&self, run: &mut RunState<'_>) -> bool {
        let now_ms = self.parts.env.now_ms();
        let is_over = |open: &OpenForm| forms::expires_at_ms(open).is_some_and(|at| at <= now_ms);
        let Some(lane) = run.forms.iter().find(|(_, open)| is_over(open)).map(|(lane, _)| lane.clone()) else {
            return false;
        };
        if let Some(open) = run.forms.remove(&lane) {
            let end = forms::end(Err(forms::expired(&open)), None, now_ms);
            run.actions.extend(self.on(Input::Ended { lane, end: Box::new(end) }));
        }
        true
    }

    async fn until_expiry(&self, open: &BTreeMap<LanePath, OpenForm>) {
        match forms::until_expiry(open.values(), self.parts.env.now_ms()) {
            Some(rest) => tokio::time::sleep(rest).await,
            None => future::pending().await,
        }
    }

    /// Leaves the thread until a person answers.
    async fn waiting(&self, open: Vec<OpenForm>) -> Ended {
        let listed = open.iter().take(MAX_FORMS).cloned().collect();
        let kept = self.keep_row(store::Status::Waiting, |origin| origin.forms = listed).await;
        kept.map_or_else(|fault| self.tell_stop(fault), |()| Ended::Waiting(open))
    }

    /// Stops every visit; the first reason counts.
    fn stop(&self, run: &mut RunState<'_>, fault: Fault) {
        if run.stop.is_none() {
            run.stop = Some(fault);
            lock(&self.lanes).values().for_each(CancellationToken::cancel);
        }
    }

    fn on(&self, input: Input) -> Vec<Action> {
        lock(&self.machine).on(input, self.parts.env.elapsed_ms(), &self.steps)
    }

    /// Passes a commit to the store.
    fn commit(&'a self, commit: Commit) -> PendingCommit<'a> {
        let Commit { version, seq, .. } = commit;
        let now_ms = self.parts.env.now_ms();
        let row = {
            let mut stored = lock(&self.stored);
            if let Some(ending) = commit.ending.clone() {
                stored.row.status = status(ending.outcome);
                stored.origin.ending = Some(Ending { at_ms: now_ms, ..ending });
                stored.origin.stop = None;
                match stored.origin.to_bytes() {
                    Ok(origin) => stored.row.origin = origin,
                    Err(error) => {
                        let error = store::Error::Malformed { what: error.to_string() };
                        return Box::pin(future::ready((version, seq, Err(error))));
                    }
                }
            } else {
                stored.row.status = store::Status::Running;
            }
            let row = &mut stored.row;
            (row.version, row.seq, row.head) = (version, seq, commit.head);
            row.checkpoint.clone_from(&commit.checkpoint);
            row.clone()
        };
        let heads = commit.objects.iter().filter(|(kind, ..)| *kind == Kind::Head).map(|(_, head, _)| *head);
        lock(&self.stored_heads).extend(heads);
        let mut commit = commit;
        let step = commit.step.take().map(|step| self.made(step));
        let record = step.or_else(|| commit.epoch.take().map(|epoch| self.opened(epoch)));
        let commit = commits::stored(self.parts.thread.clone(), commit, row, record);
        let committed = self.parts.store.commit(commit);
        Box::pin(async move { (version, seq, committed.await) })
    }

    /// Records a new step, which conversations continue from.
    fn made(&self, new: crate::thread::NewStep) -> NewStep {
        let crate::thread::NewStep { digest, step, episode, .. } = &new;
        let said = lock(&self.transcripts).remove(&step.lane);
        let mut conversations = lock(&self.conversations);
        match self.parts.resolved_roles.model_roles.get(&step.role).filter(|_| step.transcript.is_some()) {
            Some(_) => {
                conversations.close(&step.role, episode.place(), &step.answer, said.as_ref());
            }
            None => conversations.forget(&step.role, &step.lane),
        }
        drop(conversations);
        if let Some(lanes) = &mut *lock(&self.journaled) {
            lanes.insert(step.lane.clone());
        }
        let (place, prev) = (episode.place(), step.prev.as_slice().into());
        self.steps.add(PastStep { place, episode: Some(Arc::clone(episode)), digest: *digest, prev });
        commits::step(new)
    }

    /// Records a compaction: the conversation is built again when its visit opens.
    fn opened(&self, new: NewEpoch) -> NewStep {
        let NewEpoch { digest, record, place, .. } = &new;
        if let Record::Compaction(compaction) = record {
            lock(&self.conversations).forget(&compaction.role, &compaction.lane);
            if let Some(lanes) = &mut *lock(&self.journaled) {
                lanes.insert(compaction.lane.clone());
            }
        }
        let (place, prev) = (place.clone(), record.prev().into());
        self.steps.add(PastStep { place, episode: None, digest: *digest, prev });
        commits::epoch(new)
    }

    /// The heads that a role's transcript names and this run has not stored yet.
    fn new_heads(&self, role: &RoleName, transcript: &Transcript) -> Vec<Object> {
        let Some(runtime) = self.parts.resolved_roles.model_roles.get(role) else { return Vec::new() };
        let stored = lock(&self.stored_heads);
        let is_new = |head: &Digest| {
            let is_named = |entry: &Entry| matches!(entry, Entry::Model { head: named, .. } if named == head);
            !stored.contains(head) && transcript.entries.iter().any(is_named)
        };
        let heads = runtime.heads.iter().filter(|head| is_new(&head.digest));
        heads.map(|head| (Kind::Head, head.digest, head.bytes.to_vec())).collect()
    }

    fn tell(&self, told: Notice) {
        let sink = &self.parts.sink;
        match told {
            Notice::Committed { site, seq, step, prev, status, at_ms } => {
                sink.emit_at(at_ms, What::StepCommitted { site, seq, step, prev, status });
            }
            Notice::After { visit, status, followed } => {
                if let Followed::LaneEnded { visit, .. } = &followed {
                    lock(&self.conversations).forget_lane(&visit.lane);
                    lock(&self.lanes).remove(&visit.lane);
                }
                let Some(visit) = visit.or_else(event::Visit::beginning) else { return };
                sink.emit(What::followed(&visit, status.as_ref(), followed));
            }
        }
    }

    async fn visit(&self, visit: Visit, cancel: CancellationToken) -> (LanePath, VisitOutcome) {
        let lane = visit.lane.clone();
        let (started_at_ms, started_ms) = (self.parts.env.now_ms(), self.parts.env.elapsed_ms());
        let waits = Waits::default();
        let visited = self.visited(visit, &cancel, &waits).await;
        let visited = visited.unwrap_or_else(|fault| {
            let (note, objects) = (Note::default(), Vec::new());
            VisitOutcome::of(VisitEnd { outcome: Err(fault), note, objects, waited_ms: 0, effect_unknown: None })
        });
        let VisitOutcome::Ended(mut end, unwritten) = visited else { return (lane, visited) };
        let waited_ms = u64::try_from(waits.total().as_millis()).unwrap_or(u64::MAX);
        end.waited_ms = waited_ms;
        end.note.started_at_ms = started_at_ms;
        end.note.ended_at_ms = self.parts.env.now_ms();
        end.note.active_ms = self.parts.env.elapsed_ms().saturating_sub(started_ms).saturating_sub(waited_ms);
        (lane, VisitOutcome::Ended(end, unwritten))
    }

    async fn visited(&self, visit: Visit, cancel: &CancellationToken, waits: &Waits) -> Result<VisitOutcome, Fault> {
        let parts = self.parts;
        let (role, policy) = parts.graph.role(&visit.role).ok_or_else(|| unknown_role(&visit.role))?;
        let site = self.site(&visit);
        let hook_notes = HookNotes::default();
        let person = Away { driver: self, asked: Mutex::default() };
        let context = |toolbox| self.context(&visit, policy, toolbox, &hook_notes, (cancel, waits, &person));
        let at = site.clone();
        let started = What::StepStarted { visit: visit::visit_of(&site) };
        if let Task::Child(input) = &visit.task {
            parts.sink.emit(started);
            let no_tools = Toolbox::default();
            let answer = self.answer_of_child(&visit.lane);
            return child::visit(parts, &context(&no_tools), (role, input), site, answer).await;
        }
        let script = parts.run_config.script.as_ref().filter(|_| visit.task == Task::Form);
        let (visited, told) =
            if let Some((script, contract)) = script.zip(parts.resolved_roles.body_readers.get(&visit.role)) {
                parts.sink.emit(started);
                let no_tools = Toolbox::default();
                (forms::play(&context(&no_tools), contract, script, site, visit.attempts).await, None)
            } else if let Some(runtime) = parts.resolved_roles.tool_roles.get(&visit.role) {
                parts.sink.emit(started);
                let Task::Tool(args) = &visit.task else { return Err(unknown_role(&visit.role)) };
                (tool_role::visit(&context(&runtime.toolbox), runtime, site, args, visit.attempts).await, None)
            } else if let Some(runtime) = parts.resolved_roles.model_roles.get(&visit.role) {
                let opening = Opening {
                    lane: &visit.lane,
                    role: &visit.role,
                    prompt: &visit.prompt,
                    prev: &visit.prev,
                    before: lock(&self.machine).seq() + 1,
                    first_opened_by: &visit.first_opened_by,
                };
                let opened = if let Task::Compact { of, through_visit } = &visit.task {
                    self.leaving(of, &visit.lane, *through_visit)?
                } else {
                    let opened = lock(&self.conversations).open(&opening, &runtime.history_policy, &self.steps);
                    opened.map_err(|error| store_fault(&error))?
                };
                if let Some(leaving_bytes) = self.too_long(&visit, runtime, opened.conversation.size_bytes()) {
                    return Ok(VisitOutcome::TooLong(leaving_bytes));
                }
                parts.sink.emit(started);
                let RunConfig { models, recorder, call_total_ms, .. } = &parts.run_config;
                let recorder = recorder.as_deref();
                let model_context = ModelContext { models, recorder, runtime, policy, call_total_ms: *call_total_ms };
                let context = context(&runtime.agent.tools);
                let told = opened.told;
                (visit::visit(&context, &model_context, site, opened.conversation, visit.attempts).await, told)
            } else {
                let message = format!("{} is a {} role, which this version does not run", visit.role, role.kind.name());
                return Err(Fault::new(Code::UnfitThread, FaultClass::Denied, message));
            };
        let hooks = self.hook_notes(&at, hook_notes).await;
        let VisitResult { result, note, objects, effect_unknown, unwritten } = visited?;
        let asked = lock(&person.asked).take();
        if let Some(form) = asked.filter(|_| result.is_err()) {
            return Ok(VisitOutcome::Asleep(vec![OpenForm { thread: None, visit: visit::visit_of(&at), form }]));
        }
        let note = Note { hooks, told, ..note };
        let end = VisitEnd { outcome: Err(cancelled()), note, objects, waited_ms: 0, effect_unknown };
        let end = match result {
            Ok(turn) => self.answered(&visit, turn, end)?,
            Err(fault) => VisitEnd { outcome: Err(fault), ..end },
        };
        Ok(VisitOutcome::Ended(Box::new(end), unwritten))
    }

    /// The bytes of a visit's history that could leave, if its request is too long and its role is to be compacted.
    fn too_long(&self, visit: &Visit, runtime: &RoleRuntime, messages_bytes: usize) -> Option<usize> {
        let offer = visit.compact?;
        let head_bytes = runtime.heads.first().map_or(0, |head| head.bytes.len());
        let bytes = u64::try_from(head_bytes.saturating_add(messages_bytes)).unwrap_or(u64::MAX);
        let is_too_long = bytes / BYTES_A_TOKEN > offer.at_tokens;
        let leaving = || lock(&self.conversations).leaving(&visit.role, &visit.lane, offer.through_visit);
        is_too_long.then(leaving).flatten().map(|(_, bytes)| bytes)
    }

    /// The conversation for the text of a compaction. The visit that it makes room for was opened before.
    fn leaving(&self, of: &RoleName, lane: &LanePath, through_visit: u64) -> Result<Opened, Fault> {
        let leaving = lock(&self.conversations).leaving(of, lane, through_visit);
        let (conversation, _) = leaving.ok_or_else(|| unknown_role(of))?;
        Ok(Opened { conversation: Arc::new(conversation), told: None })
    }

    fn answered(&self, visit: &Visit, turn: TurnReply, mut end: VisitEnd) -> Result<VisitEnd, Fault> {
        // A form is answered without a call.
        let transcript = if visit.task == Task::Form {
            None
        } else {
            let (digest, bytes) = Digest::of(Kind::Transcript, &turn.transcript).map_err(|error| {
                let message = format!("the answer has no canonical form: {error}");
                Fault::new(Code::ContractBroken, FaultClass::Contract, message)
            })?;
            end.objects.push((Kind::Transcript, digest, bytes));
            Some(digest)
        };
        end.objects.extend(self.new_heads(&visit.role, &turn.transcript));
        let runtime = self.parts.resolved_roles.model_roles.get(&visit.role);
        let is_compaction = matches!(visit.task, Task::Compact { .. });
        if !is_compaction && runtime.is_some_and(|runtime| runtime.history_policy.history == History::Exact) {
            lock(&self.transcripts).insert(visit.lane.clone(), turn.transcript);
        }
        end.note = Note {
            usage: turn.usage,
            cost_usd: turn.cost_usd,
            answered_by: turn.answered_by,
            model: turn.model,
            served_by: runtime.and_then(|runtime| runtime.served_by.clone()),
            ..end.note
        };
        let fallback = turn.fallback.into_iter().map(|model| Observation::Fallback { model });
        end.outcome = Ok(Answered {
            status: turn.status,
            output: turn.output,
            answer: turn.answer,
            body: turn.body,
            transcript,
            observations: fallback.collect(),
        });
        Ok(end)
    }

    /// The context for a role's visit.
    fn context<'s>(
        &'s self,
        visit: &Visit,
        policy: &RolePolicy,
        toolbox: &'s Toolbox,
        hook_notes: &'s HookNotes,
        (cancel, waits, person): (&'s CancellationToken, &Waits, &'s Away<'_, '_>),
    ) -> VisitContext<'s> {
        let parts = self.parts;
        let RunConfig { grants, approver, in_doubt, .. } = &parts.run_config;
        let redactor = parts.redactors.tool(&visit.role);
        let is_left = lock(&self.journaled).as_ref().is_some_and(|lanes| !lanes.contains(&visit.lane));
        let journal_part = match visit.task {
            Task::Compact { .. } => JournalPart::Compaction,
            _ => JournalPart::Visit,
        };
        let wall_time = Deadline::of_thread(visit.wall_time_left_ms, visit.wall_time_limit_ms);
        VisitContext {
            store: &*parts.store,
            env: &*parts.env,
            sink: &parts.sink,
            tooling: Tooling { toolbox, grants, approver: approver.as_deref(), in_doubt: *in_doubt, redactor },
            paths: paths(parts, &visit.role),
            hook_notes,
            redactor: parts.redactors.model(&visit.role),
            cancel,
            may_be_journaled: is_left || visit.is_uncompacted,
            journal_part,
            deadline: Deadline::of_step(policy.timeout_ms).or_earlier(wall_time).without(waits),
            waits: waits.clone(),
            mender: &parts.mender,
            machine: &self.machine,
            person,
            above: parts.above.as_ref().map(|above| &above.account),
        }
    }

    /// What the hooks did in an ended visit.
    async fn hook_notes(&self, site: &Site, hook_notes: HookNotes) -> Vec<HookNote> {
        let visit = visit::visit_of(site);
        let nodes: BTreeMap<&str, &Arc<Node>> = paths(self.parts, &site.role)
            .values()
            .flat_map(CallPath::nodes)
            .map(|node| (node.context.node.as_str(), node))
            .collect();
        let mut metrics = Vec::new();
        for (name, node) in nodes {
            let figures = AssertUnwindSafe(node.hook.visited(site, &node.context)).catch_unwind().await;
            let Ok(Some(figures)) = figures else { continue };
            let report = What::HookReport { visit: visit.clone(), node: name.to_owned(), metrics: figures.clone() };
            self.parts.sink.emit(report);
            metrics.push((name.to_owned(), figures));
        }
        hook_notes.into_notes(metrics)
    }

    /// Reports the end, which is stored.
    fn finished(&self, ending: Ending) -> Ended {
        let at_ms = lock(&self.stored).origin.ending.as_ref().map_or(0, |stored| stored.at_ms);
        let ending = Ending { at_ms, ..ending };
        let machine = lock(&self.machine);
        let finished = What::ThreadFinished {
            outcome: ending.outcome,
            head: machine.head(),
            status: machine.status().cloned(),
            reason: ending.reason.clone(),
            result: ending.result.clone(),
        };
        drop(machine);
        self.parts.sink.emit_at(at_ms, finished);
        Ended::Finished(ending)
    }

    /// Leaves the thread resumable, or ends it for good if requested.
    async fn stopped(&'a self, fault: Fault) -> Ended {
        let fault = self.parts.mender.with_hint(fault);
        if fault.class == FaultClass::Cancelled && self.parts.for_good.load(Ordering::SeqCst) {
            let mut ended = None;
            for action in self.on(Input::Cancel { at_ms: self.parts.env.now_ms() }) {
                if let Action::Commit(commit) = action {
                    ended.clone_from(&commit.ending);
                    if let (_, _, Err(error)) = self.commit(*commit).await {
                        return self.tell_stop(store_fault(&error));
                    }
                }
            }
            if let Some(ending) = ended {
                return self.finished(ending);
            }
        }
        if fault.class != FaultClass::Store
            && let Err(error) = self.keep_stop(&fault).await
        {
            return self.tell_stop(error);
        }
        self.tell_stop(fault)
    }

    /// Writes the reason for the stop into the row.
    async fn keep_stop(&self, fault: &Fault) -> Result<(), Fault> {
        let Fault { code, class, message, hint, .. } = fault.clone();
        let stop = Stop { code: code.to_string(), class, message, hint };
        self.keep_row(store::Status::Stopped, |origin| origin.stop = Some(stop)).await
    }

    /// Writes into the row how the run ends.
    async fn keep_row(&self, status: store::Status, changed: impl FnOnce(&mut Origin)) -> Result<(), Fault> {
        let row = {
            let mut stored = lock(&self.stored);
            changed(&mut stored.origin);
            stored.row.status = status;
            let unwritable = |error: canonical::Error| {
                Fault::new(Code::StoreRefused, FaultClass::Store, format!("the thread's row: {error}"))
            };
            stored.row.origin = stored.origin.to_bytes().map_err(unwritable)?;
            stored.row.version += 1;
            stored.row.clone()
        };
        let commit = store::Commit::of_row(self.parts.thread.clone(), row);
        self.parts.store.commit(commit).await.map_err(|error| store_fault(&error))
    }

    fn tell_stop(&self, fault: Fault) -> Ended {
        let visit =
            lock(&self.machine).visiting().first().map(|(lane, dispatch)| (lane.clone(), dispatch.role.clone()));
        let visit = visit.map(|(lane, role)| {
            let before = lock(&self.machine).lane(&lane).map_or(0, |lane| lane.visits(&role));
            (role, before + 1)
        });
        let (role, visit) = visit.unzip();
        let place = Location::Thread { thread: self.parts.thread.clone(), role, visit };
        let (code, message, hint) = (fault.code.to_string(), fault.message.clone(), fault.hint.clone());
        self.parts.sink.emit(What::Error { code, message, hint, place: Some(place) });
        Ended::Stopped(fault)
    }
}

fn paths<'p>(parts: &'p Parts, role: &RoleName) -> &'p BTreeMap<CallKind, CallPath> {
    static NONE: BTreeMap<CallKind, CallPath> = BTreeMap::new();
    parts.paths.get(role).unwrap_or(&NONE)
}

/// The row status for an outcome.
pub fn status(outcome: Outcome) -> store::Status {
    match outcome {
        Outcome::Done => store::Status::Done,
        Outcome::Failed => store::Status::Failed,
        Outcome::Cancelled => store::Status::Cancelled,
    }
}

/// The ending of a cancelled thread.
pub fn cancelled_ending(at_ms: u64) -> Ending {
    Ending { outcome: Outcome::Cancelled, reason: Some("cancelled".to_owned()), result: Value::Null, at_ms }
}

fn not_open() -> Fault {
    let message = "the form was answered before, or its time has passed";
    Fault::new(Code::NotWaiting, FaultClass::Denied, message)
}

fn unknown_role(role: &RoleName) -> Fault {
    let message = format!("the graph leads to {role}, which is not a role of this workflow");
    Fault::new(Code::UnfitThread, FaultClass::Denied, message)
}

/// A thread with nothing under way must have ended or stopped; anything else is a bug.
fn nothing_to_do() -> Fault {
    let message = "the run has nothing left to do and no end; this is a fault of rondo, and the thread can be resumed";
    Fault::new(Code::Interrupted, FaultClass::Cancelled, message)
}
