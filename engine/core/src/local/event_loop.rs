//! The driver of one thread: carries out the actions of its machine, and reports the results back to it.
//!
//! It decides nothing. Lanes are visited concurrently; commits go to the store in the order in which the machine
//! requests them, and complete in that order.

mod answering;
mod committing;
mod ending;
mod visiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::future;
use futures_util::future::{BoxFuture, poll_immediate};
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use rondo_protocol::Digest;
use rondo_protocol::call::{CallKind, Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Location, What};
use rondo_protocol::hint::{Operation, Verb};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Followed, Note, Transcript};
use rondo_protocol::workflow::Workflow;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::answering::not_open;
use super::child::{self, ParentVisit};
use super::forms::{self, PersonAnswer, PersonSaid};
use super::reply_memory::Reservation;
use super::resume_hint::ResumeHint;
use super::sink::Sink;
use super::stop::{VisitStop, cancelled};
use super::thread_handle::{DRAIN, StopKind, Stopper};
use super::{Engine, Error, RunConfig};
use crate::conversation::{Conversations, Steps};
use crate::env::Env;
use crate::graph::Graph;
use crate::hook::{CallPath, Redactors};
use crate::resolved_roles::ResolvedRoles;
use crate::store::{self, JournalRecord, Row, StepStore};
use crate::thread::{Action, Ending, Input, Machine, Notice, OpenForm, Origin, Task, VisitEnd};

/// What the visits of a run share.
pub struct Parts {
    /// Starts and continues child threads.
    pub engine: Engine,
    /// Where the thread came from, which its children inherit.
    pub origin: Origin,
    /// The visit that runs the thread as a child.
    pub above: Option<ParentVisit>,
    /// Says how the thread continues after a fault.
    pub resume_hint: Arc<ResumeHint>,
    pub store: Arc<dyn StepStore>,
    pub env: Arc<dyn Env>,
    pub thread: ThreadId,
    pub workflow: Arc<Workflow>,
    /// The same, lowered.
    pub graph: Arc<Graph>,
    pub resolved_roles: ResolvedRoles,
    pub run_config: RunConfig,
    /// Remove keys and an author's patterns from text that enters the thread.
    pub redactors: Redactors,
    /// The hooks before each role's calls.
    pub paths: BTreeMap<RoleName, BTreeMap<CallKind, CallPath>>,
    pub sink: Sink,
    pub stopper: Stopper,
}

/// One run of a thread.
pub struct Run {
    /// What its visits share.
    pub parts: Parts,
    pub row: Row,
    /// What is known of the thread and not hashed.
    pub origin: Origin,
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
    /// Runs the thread until it ends or stops. Every exit leaves the store consistent. Returns the memory of the
    /// replies that its end follows from, too.
    pub(super) async fn go(self) -> (Ended, Vec<Reservation>) {
        let Self { parts, row, origin, machine, first, may_be_journaled, answer } = self;
        let store: &dyn store::Read = &*parts.store;
        let steps = match Steps::new(store, parts.thread.clone(), row.start, &parts.workflow) {
            Ok(steps) => steps,
            Err(error) => {
                let fault = Fault::new(Code::UnfitThread, FaultClass::Denied, error.to_string());
                return (Ended::Stopped(fault), Vec::new());
            }
        };
        let driver = Driver {
            steps,
            parts: &parts,
            machine: Arc::new(Mutex::new(machine)),
            conversations: Mutex::default(),
            drain: CancellationToken::new(),
            lanes: Mutex::default(),
            stored: Mutex::new(Stored { row, origin }),
            stored_heads: Mutex::default(),
            transcripts: Mutex::default(),
            journaled: Mutex::new(may_be_journaled.then(BTreeSet::new)),
            answer: Mutex::new(answer),
            committed: Mutex::default(),
        };
        let ended = driver.drive(first).await;
        let committed = std::mem::take(&mut *driver.committed.lock());
        (ended, committed)
    }
}

struct Driver<'a> {
    parts: &'a Parts,
    steps: Steps<'a>,
    machine: Arc<Mutex<Machine>>,
    conversations: Mutex<Conversations>,
    /// Lets visits begin no further call.
    drain: CancellationToken,
    /// Stops the visit of a lane.
    lanes: Mutex<BTreeMap<LanePath, CancellationToken>>,
    stored: Mutex<Stored>,
    /// Heads that records of this run name: they stay for as long as the thread does.
    stored_heads: Mutex<BTreeSet<Digest>>,
    /// Transcripts of visits whose roles have `history: exact`, until their steps are made.
    transcripts: Mutex<BTreeMap<LanePath, Transcript>>,
    /// Lanes with a commit since an earlier process may have left journals; `None` if there are none.
    journaled: Mutex<Option<BTreeSet<LanePath>>>,
    /// A person's answer that no form has taken yet.
    answer: Mutex<Option<PersonAnswer>>,
    /// The memory of replies that were committed just now.
    committed: Mutex<Vec<Reservation>>,
}

/// What the store holds of the thread beside its steps.
struct Stored {
    row: Row,
    origin: Origin,
}

/// A commit on its way: the row's version and the thread's last step after it.
type PendingCommit<'a> = BoxFuture<'a, (u64, u64, Result<(), store::Error>)>;

/// How a visit left off.
pub(super) enum VisitOutcome {
    Ended {
        end: Box<VisitEnd>,
        /// What the journal needs if no step follows.
        unwritten: Vec<JournalRecord>,
        /// The memory of its replies.
        memory: Option<Reservation>,
    },
    /// Its child waits for people.
    Asleep(Vec<OpenForm>),
    /// Its request is too long: so many bytes of its history could leave.
    TooLong(usize),
}

impl VisitOutcome {
    pub(super) fn of(end: VisitEnd) -> Self {
        Self::Ended { end: Box::new(end), unwritten: Vec::new(), memory: None }
    }
}

#[derive(Default)]
struct RunState<'a> {
    visits: FuturesUnordered<BoxFuture<'a, (LanePath, VisitOutcome)>>,
    /// Commits that the store has and that were not polled yet.
    submitted: Vec<PendingCommit<'a>>,
    commits: FuturesOrdered<PendingCommit<'a>>,
    /// The memory of the replies in these commits, by the version of the row.
    memory: Vec<(u64, Reservation)>,
    actions: VecDeque<Action>,
    forms: BTreeMap<LanePath, OpenForm>,
    /// The forms that the children of visits wait for, by lane.
    asleep: BTreeMap<LanePath, Vec<OpenForm>>,
    /// Lanes whose form was reported since the run began.
    announced: BTreeSet<LanePath>,
    stop: Option<Fault>,
    /// When what is in flight is broken off, since the run was told to stop.
    break_off_at: Option<Instant>,
    finish: Option<Ending>,
}

impl<'a> Driver<'a> {
    async fn drive(&'a self, mut first: Vec<Action>) -> Ended {
        if self.journaled.lock().is_some() {
            let at_ms = self.stored.lock().origin.started_at_ms;
            first.extend(self.on(Input::Begin { at_ms }));
        }
        let mut run = RunState {
            actions: first.into(),
            // The form that is about to be answered is not asked for again.
            announced: self.answer.lock().iter().map(|answer| answer.visit.lane.clone()).collect(),
            ..RunState::default()
        };
        let mut told = self.parts.stopper.told();
        loop {
            // Commits in memory never wait: without this, a chain of rules would let nobody else run.
            tokio::task::consume_budget().await;
            self.carry_out(&mut run);
            self.begin_commits(&mut run).await;
            if let Some(ending) = run.finish.take() {
                return self.finished(ending);
            }
            self.committed.lock().clear();
            let own =
                self.answer.lock().take_if(|answer| self.is_own(answer) && matches!(answer.said, PersonSaid::Form(_)));
            if let Some(answer) = own {
                self.answer(&mut run, answer);
                continue;
            }
            if run.stop.is_none() && self.expire(&mut run) {
                continue;
            }
            if run.visits.is_empty() && run.commits.is_empty() {
                if self.answer.lock().take_if(|answer| self.is_own(answer)).is_some() {
                    // The visit whose call it is about has not asked for it.
                    self.stop(&mut run, not_open());
                }
                if run.stop.is_none() && !(run.forms.is_empty() && run.asleep.is_empty()) {
                    let of_children = run.asleep.into_values().flatten();
                    return self.waiting(run.forms.into_values().chain(of_children).collect()).await;
                }
                let fault = run.stop.take().unwrap_or_else(nothing_to_do);
                return self.stopped(fault, run.asleep).await;
            }
            tokio::select! {
                biased;
                Ok(()) = told.changed() => {
                    let told = *told.borrow_and_update();
                    if told != StopKind::Going {
                        self.stop(&mut run, cancelled());
                    }
                    if told == StopKind::Resumable {
                        run.break_off_at.get_or_insert_with(|| Instant::now() + DRAIN);
                    }
                }
                Some((version, seq, committed)) = run.commits.next() => match committed {
                    Ok(()) => {
                        let committed = run.memory.extract_if(.., |(of, _)| *of <= version);
                        self.committed.lock().extend(committed.map(|(_, memory)| memory));
                        self.steps.synced(seq);
                        run.actions.extend(self.on(Input::Synced { version }));
                    }
                    Err(error) => self.stop(&mut run, error.into()),
                },
                Some(ended) = run.visits.next() => {
                    // The commits of visits that have ended by now share a sync.
                    let mut next = Some(ended);
                    while let Some((lane, outcome)) = next {
                        self.visit_ended(&mut run, lane, outcome).await;
                        // What follows from the next one may depend on this one's step.
                        self.carry_out(&mut run);
                        next = poll_immediate(run.visits.next()).await.flatten();
                    }
                }
                () = until(run.break_off_at) => {
                    run.break_off_at = None;
                    self.parts.stopper.cancel.cancel();
                }
                () = self.until_expiry(&run.forms), if !run.forms.is_empty() && run.stop.is_none() => {}
            }
        }
    }

    /// Reports the outcome of a visit to the machine.
    async fn visit_ended(&self, run: &mut RunState<'_>, lane: LanePath, outcome: VisitOutcome) {
        match outcome {
            VisitOutcome::Ended { end, unwritten, memory } => {
                let mut commit = None;
                // Answers are kept even if the run stops; interrupted visits continue when it resumes.
                if run.stop.is_none() || end.outcome.is_ok() {
                    let actions = self.on(Input::Ended { lane, end });
                    commit = actions.iter().find_map(|action| match action {
                        Action::Commit(commit) => Some(commit.version),
                        _ => None,
                    });
                    run.memory.extend(commit.zip(memory));
                    run.actions.extend(actions);
                }
                if commit.is_none() && !unwritten.is_empty() {
                    // The fault that ended the visit is more useful than a store failure on top of it.
                    let _ = self.parts.store.record(self.parts.thread.clone(), unwritten, true).await;
                }
            }
            VisitOutcome::Asleep(open) => {
                open.iter().filter(|open| open.thread.is_none()).for_each(|open| self.announce(open));
                run.asleep.insert(lane, open);
            }
            VisitOutcome::TooLong(leaving_bytes) => {
                run.actions.extend(self.on(Input::TooLong { lane, leaving_bytes }));
            }
        }
    }

    fn carry_out(&'a self, run: &mut RunState<'a>) {
        while let Some(action) = run.actions.pop_front() {
            match action {
                Action::Commit(commit) => run.submitted.push(self.commit(*commit)),
                Action::Visit(visit) if visit.task == Task::Form && !self.is_scripted(&visit) => {
                    self.open_form(run, &visit);
                }
                Action::Visit(visit) if run.stop.is_none() => {
                    let cancel = self.parts.stopper.cancel.child_token();
                    self.lanes.lock().insert(visit.lane.clone(), cancel.clone());
                    let stop = VisitStop { drain: self.drain.child_token(), cancel };
                    run.visits.push(Box::pin(self.visit(*visit, stop)));
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
                    if let Some(cancel) = self.lanes.lock().get(&lane) {
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

    /// Polls the commits that were submitted. The store has all of them, in order, before the first is polled, so that it
    /// can write them together.
    async fn begin_commits(&self, run: &mut RunState<'a>) {
        for mut commit in run.submitted.drain(..) {
            let on_its_way: PendingCommit<'a> = match poll_immediate(&mut commit).await {
                Some(done) => Box::pin(future::ready(done)),
                None => commit,
            };
            run.commits.push_back(on_its_way);
        }
    }

    /// Ends a visit that is no longer needed while its child waits for a person.
    async fn abandon(&self, lane: LanePath, open: Vec<OpenForm>) -> (LanePath, VisitOutcome) {
        let mut end = forms::end(Err(cancelled()), None, self.parts.env.now_ms());
        if let Some(used) = self.end_child(open).await {
            let Note { started_at_ms, ended_at_ms, .. } = end.note;
            end.note = Note { started_at_ms, ended_at_ms, ..used };
        }
        (lane, VisitOutcome::of(end))
    }

    /// Ends a child for good, of which `open` are the forms, and what waits below it. What it has used.
    async fn end_child(&self, open: Vec<OpenForm>) -> Option<Note> {
        let Parts { store, thread, engine, .. } = self.parts;
        let waiting = open.into_iter().find_map(|open| open.thread)?;
        // A row that cannot be read is met again, and told.
        let child = match child::child_of(&**store, thread, &waiting) {
            Ok(Some((child, _))) => child,
            Ok(None) | Err(_) => waiting,
        };
        let row = store.row(&child);
        let used = row.and_then(|row| row.map(|row| child::note(self.parts, &child, &row)).transpose());
        // It is asleep, so that nothing but its row and those below it change.
        let cancelled = engine.cancel(&child).await;
        let uncancelled = cancelled.err().filter(|error| !matches!(error, Error::HasEnded { .. }));
        let (used, uncounted) = used.map_or_else(|error| (None, Some(Error::Store(error))), |used| (used, None));
        if let Some(error) = uncancelled.or(uncounted) {
            let code = match &error {
                Error::Store(error) => error.code(),
                Error::Fault(fault) => fault.code,
                _ => Code::UnfitThread,
            };
            let code = code.to_string();
            let message = format!("the child {child} of a cancelled visit could not be cancelled or counted: {error}");
            let hint = Some(Operation::on(Verb::Cancel, &child).into());
            let place = Some(Location::Thread { thread: child, role: None, visit: None });
            self.parts.sink.emit(What::Error { code, message, hint, place });
        }
        used
    }

    /// Stops every visit; the first reason counts. Calls in flight run to their end, because they are paid for, unless
    /// their results could not be stored.
    fn stop(&self, run: &mut RunState<'_>, fault: Fault) {
        self.drain.cancel();
        self.machine.lock().stop();
        if fault.class == FaultClass::Store {
            self.lanes.lock().values().for_each(CancellationToken::cancel);
        }
        run.stop.get_or_insert(fault);
    }

    fn on(&self, input: Input) -> Vec<Action> {
        self.machine.lock().on(input, self.parts.env.elapsed_ms(), &self.steps)
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => future::pending().await,
    }
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
