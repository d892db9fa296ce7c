//! The engine: starts, resumes and cancels threads over one store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{EventId, Outcome, What};
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::LAYOUT;
use rondo_protocol::workflow::{Limits, Policy, RolePolicy, Workflow};
use rondo_protocol::{Digest, Value};
use tokio::time::Instant;

use super::child::ParentVisit;
use super::event_loop::{Parts as RunParts, Run};
use super::fork::row_of;
use super::forms::PersonAnswer;
use super::hook_paths::{HookSurroundings, views};
use super::hub::{Hub, SubscribeError, Subscription, Topic};
use super::limits::{self, RaisedLimits};
use super::replay::{Replay, ReplayClock};
use super::reply_memory::{ReplyMemory, ResultMemory};
use super::resume_hint::ResumeHint;
use super::thread_handle::{
    Cancelled, DriveLease, Reservation, Resumed, Running, RunningEntry, StopKind, Stopper, ThreadHandle,
};
use super::{Error, NewThread, Position, RunConfig, Sink, StoredPast, commits, event_log, take_files};
use crate::conversation::{Steps, rebuild};
use crate::env::Env;
use crate::graph::Graph;
use crate::hook::{KeySpace, NoPast, NoReports, Past, Registry};
use crate::models::Models;
use crate::resolved_roles::{self, ResolvedRoles};
use crate::secret::Secret;
use crate::store::{self, CancelOutcome, Commit, Parent, Row, Status, StepStore, ThreadDrivers};
use crate::thread::{Action, Definition, Ending, Input, Machine, Notice, Object, Origin};

/// How long to wait for a stopping run: the longest that draining takes.
const STOPPING: Duration = Duration::from_secs(10);

/// How long a run may hold its thread after it has written that the thread waits, stopped or ended.
const RELEASING: Duration = Duration::from_secs(2);
const RELEASE_POLL: Duration = Duration::from_millis(2);

/// Runs threads over one store.
#[derive(Clone)]
pub struct Engine {
    pub(super) parts: Arc<Parts>,
    /// Authenticates hooks' entries in the store.
    secret: Secret,
}

pub(super) struct Parts {
    pub(super) store: Arc<dyn StepStore>,
    pub(super) env: Arc<dyn Env>,
    pub(super) registry: Registry,
    pub(super) running: Arc<Running>,
    pub(super) hub: Hub,
    pub(super) reply_memory: ReplyMemory,
    /// Set if other processes drive threads of the store too.
    drivers: Option<Arc<dyn ThreadDrivers>>,
}

impl Engine {
    /// An engine over `store`, with the hook kinds of `registry`.
    pub fn new(store: Arc<dyn StepStore>, env: Arc<dyn Env>, registry: Registry) -> Self {
        let (running, hub, reply_memory) = (Arc::default(), Hub::new(Arc::clone(&store)), ReplyMemory::default());
        let parts = Parts { store, env, registry, running, hub, reply_memory, drivers: None };
        Self { parts: Arc::new(parts), secret: Secret::default() }
    }

    /// An engine over a store that other processes write too; they end threads of this one through `running`.
    pub fn shared(
        store: Arc<impl StepStore + ThreadDrivers + 'static>,
        running: Arc<Running>,
        env: Arc<dyn Env>,
        registry: Registry,
    ) -> Self {
        let drivers: Arc<dyn ThreadDrivers> = Arc::clone(&store) as _;
        let store: Arc<dyn StepStore> = store;
        let (hub, reply_memory) = (Hub::new(Arc::clone(&store)), ReplyMemory::default());
        let parts = Parts { store, env, registry, running, hub, reply_memory, drivers: Some(drivers) };
        Self { parts: Arc::new(parts), secret: Secret::default() }
    }

    /// The same engine, whose hooks authenticate their entries with the user's secret. Without one, entries are
    /// protected against damage only.
    #[must_use]
    pub fn with_secret(self, secret: Secret) -> Self {
        Self { secret, ..self }
    }

    /// The entries of the hook kind `kind`.
    pub fn space(&self, kind: &str) -> KeySpace {
        KeySpace::new(Arc::clone(&self.parts.store), kind).with_secret(self.secret.clone())
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn StepStore> {
        &self.parts.store
    }

    /// Starts a new thread.
    ///
    /// # Errors
    /// If the definition cannot be run or the store cannot be written.
    ///
    /// # Durability
    /// The thread's row is durable when this returns.
    pub async fn start(&self, new: NewThread, run_config: RunConfig) -> Result<ThreadHandle, Error> {
        self.start_as(new, run_config, self.parts.env.thread_id(), None).await
    }

    /// Starts a thread whose id was drawn before.
    ///
    /// # Errors
    /// Like [`start`](Self::start); [`store::Error::Conflict`] if the thread is there already.
    pub async fn start_drawn(
        &self,
        new: NewThread,
        run_config: RunConfig,
        thread: ThreadId,
    ) -> Result<ThreadHandle, Error> {
        self.start_as(new, run_config, thread, None).await
    }

    /// The input as it will enter a thread: without the values that must not.
    ///
    /// # Errors
    /// If the definition cannot be run.
    pub fn redacted(
        &self,
        (workflow, policy): (&Workflow, &Policy),
        run_config: &RunConfig,
        mut input: Value,
    ) -> Result<Value, Error> {
        let graph = self.graph(workflow, policy, &run_config.imposed)?;
        self.redactors(&graph, run_config)?.input.value(&mut input);
        Ok(input)
    }

    /// Starts a thread; a child has the visit above it.
    pub(super) async fn start_as(
        &self,
        new: NewThread,
        run_config: RunConfig,
        thread: ThreadId,
        above: Option<ParentVisit>,
    ) -> Result<ThreadHandle, Error> {
        let parent = above.as_ref().map(|above| above.parent.clone());
        let Beginning { workflow, graph, origin, machine, first, commit } =
            self.beginning(new, &run_config, &thread, parent)?;
        let row = commit.row.clone();
        let position = Position { id: EventId::NONE, at_ms: origin.started_at_ms };
        let told =
            (Arc::new(NoPast) as Arc<dyn Past>, position, row.parent.as_ref().map(|parent| parent.thread.clone()));
        let ready = self.ready(&thread, workflow, (graph, run_config), (&origin, above), told)?;
        let driven = self.drive(&thread)?;
        self.parts.store.commit(commit).await?;
        let started = What::ThreadStarted { workflow: row.workflow, start: row.start };
        let PreparedRun { parts, topic, events, .. } = ready;
        let run = Run { parts, row, origin, machine, first, may_be_journaled: false, answer: None };
        Ok(self.run(run, driven, started, (topic, events)))
    }

    /// The first commit of a new thread, which is not stored: whoever stores it can have the thread
    /// [resumed](Self::resume), also by another engine. Of `run_config` the redactor, the rules of files, the hooks and
    /// the ceilings count.
    ///
    /// # Errors
    /// If the definition cannot be run.
    pub fn compose(&self, new: NewThread, run_config: &RunConfig, thread: &ThreadId) -> Result<Commit, Error> {
        Ok(self.beginning(new, run_config, thread, None)?.commit)
    }

    fn beginning(
        &self,
        new: NewThread,
        run_config: &RunConfig,
        thread: &ThreadId,
        parent: Option<Parent>,
    ) -> Result<Beginning, Error> {
        let NewThread { workflow, policy, mut input, file, script, recorded, workspace, labels } = new;
        let parts = &self.parts;
        let graph = self.graph(&workflow, &policy, &run_config.imposed)?;
        let rules = Some((&run_config.files, &*run_config.redactor));
        let files = take_files(&workflow, &mut input, rules, &*parts.store)?;
        self.redactors(&graph, run_config)?.input.value(&mut input);
        let (start, objects) = commits::definition(&workflow, &policy, input)?;
        let [workflow_digest, policy_digest, start_digest] = objects.each_ref().map(|(_, digest, _)| *digest);
        let origin = Origin {
            name: workflow.name.clone(),
            file,
            script,
            recorded,
            workspace,
            started_at_ms: parts.env.now_ms(),
            ..Origin::default()
        };
        let limits = run_config.ceilings.over(&graph.policy().limits);
        let input = Arc::new(start.input);
        let mut machine = Machine::new(Definition { graph: Arc::clone(&graph), start: start_digest, input, limits }, 1);
        // Before the first decisions, which may make a step without a call: the row has none yet.
        let checkpoint = machine.checkpoint().map_err(Error::Fault)?;
        let steps = Steps::new(&*parts.store, thread.clone(), start_digest, &workflow)?;
        let first = machine.on(Input::Begin { at_ms: origin.started_at_ms }, parts.env.elapsed_ms(), &steps);
        let told = first.iter().filter_map(|action| match action {
            Action::Tell(Notice::After { followed, .. }) => Some(followed.clone()),
            _ => None,
        });
        let origin = Origin { after: told.collect(), ..origin };
        let row = Row {
            version: 1,
            status: Status::Running,
            seq: 0,
            head: None,
            workflow: workflow_digest,
            policy: policy_digest,
            start: start_digest,
            base: None,
            parent,
            label: labels.label,
            tags: labels.tags,
            raised: Vec::new(),
            checkpoint,
            origin: origin.to_bytes()?,
        };
        let objects = objects.into_iter().chain(files).collect();
        let commit = Commit { objects, ..Commit::of_row(thread.clone(), row) };
        Ok(Beginning { workflow, graph, origin, machine, first, commit })
    }

    /// Continues a thread that stopped. `run_config` is called once the workflow is known; `file` and `script`
    /// identify its sources.
    ///
    /// # Errors
    /// If there is no such thread, it is already running, or its data is damaged.
    pub async fn resume<E: From<Error>>(
        &self,
        thread: &ThreadId,
        run_config: impl FnOnce(&Workflow, &Origin) -> Result<RunConfig, E>,
    ) -> Result<Resumed, E> {
        self.resume_with(thread, (None, None), run_config).await
    }

    /// Continues a thread that waits for a person, with their answer. [`Origin::forms`] lists what it waits for.
    ///
    /// # Errors
    /// Like [`resume`](Self::resume), and a fault with [`Code::NotWaiting`] if the form that the answer names is not open
    /// any more; nothing has changed then.
    pub async fn answer<E: From<Error>>(
        &self,
        thread: &ThreadId,
        answer: PersonAnswer,
        run_config: impl FnOnce(&Workflow, &Origin) -> Result<RunConfig, E>,
    ) -> Result<Resumed, E> {
        self.resume_with(thread, (Some(answer), None), run_config).await
    }

    /// Continues a thread, perhaps with an answer; a child has the visit above it.
    pub(super) async fn resume_with<E: From<Error>>(
        &self,
        thread: &ThreadId,
        (answer, above): (Option<PersonAnswer>, Option<ParentVisit>),
        run_config: impl FnOnce(&Workflow, &Origin) -> Result<RunConfig, E>,
    ) -> Result<Resumed, E> {
        let store = &self.parts.store;
        if let Some(ending) = self.row(thread)?.1.ending {
            return Ok(Resumed::Ended { ending });
        }
        let driven = self.claim(thread).await?;
        // Read again: no other process changes it from here on.
        let (mut row, mut origin) = self.row(thread)?;
        if let Some(ending) = origin.ending {
            return Ok(Resumed::Ended { ending });
        }
        if let Some(answer) = &answer {
            self.is_open(thread, (&row, &origin), answer)?;
        }
        let beginning = rebuild::beginning(&**store, &row).map_err(Error::from)?;
        if beginning.start.layout != LAYOUT {
            let found = beginning.start.layout;
            return Err(Error::from(rondo_agent_kit::conversation::UnknownLayout { found }).into());
        }
        let policy = rebuild::policy(&**store, &row).map_err(Error::from)?;
        let run_config = run_config(&beginning.workflow, &origin)?;
        let now_ms = self.parts.env.now_ms();
        let own = run_config.raised.of(thread, above.is_none());
        let (policy, raised) = limits::raise(policy, own, &run_config.ceilings, now_ms)?;
        if above.is_none() {
            self.check_raised_below(thread, &run_config)?;
        }
        let graph = self.graph(&beginning.workflow, &policy, &run_config.imposed)?;
        let past = StoredPast { store: Arc::clone(store), thread: thread.clone() };
        let position = event_log::position(&**store, &row, thread, &origin).map_err(Error::from)?;
        let parent = row.parent.as_ref().map(|parent| parent.thread.clone());
        let told = (Arc::new(past) as Arc<dyn Past>, position, parent);
        let ready = self.ready(thread, beginning.workflow, (graph, run_config), (&origin, above), told)?;
        let machine = self.machine(&ready, &row, &beginning.start)?;
        let mut objects = Vec::new();
        if !raised.is_empty() {
            let (digest, bytes) = Digest::of(Kind::Policy, &policy).map_err(Error::from)?;
            objects.push((Kind::Policy, digest, bytes));
            row.policy = digest;
            row.raised.extend(raised);
        }
        if row.status != Status::Running || origin.stop.is_some() || !objects.is_empty() {
            // Readers see that the thread is running again.
            origin.stop = None;
            origin.forms.clear();
            row.status = Status::Running;
            row.origin = origin.to_bytes().map_err(Error::from)?;
            row = self.keep_row(thread, row, objects).await?;
        }
        let machine = machine.resumed(row.version);
        let resumed = What::ThreadResumed { seq: row.seq };
        let PreparedRun { parts, topic, events, .. } = ready;
        let run = Run { parts, row, origin, machine, first: Vec::new(), may_be_journaled: true, answer };
        Ok(Resumed::Running(self.run(run, driven, resumed, (topic, events))))
    }

    /// Checks that a thread, which nobody else drives now, still waits for the form that an answer names. An answer that
    /// comes too late changes nothing.
    fn is_open(&self, thread: &ThreadId, (row, origin): (&Row, &Origin), answer: &PersonAnswer) -> Result<(), Error> {
        let (is_waiting, now_ms) = (row.status == Status::Waiting, self.parts.env.now_ms());
        if is_waiting && origin.forms.iter().any(|open| open.takes(answer.form, thread, now_ms)) {
            return Ok(());
        }
        let state = if !is_waiting {
            "it does not wait for anybody now"
        } else if origin.forms.iter().any(|open| open.digest(thread) == answer.form) {
            "its time has passed, and the thread takes the edge for that when it is resumed"
        } else {
            "it waits for something else now"
        };
        let message = format!("thread {thread} does not wait for that form any more: {state}");
        let hint = Hint::from(Operation::on(Verb::Show, thread)).words(" tells how it stands now");
        Err(Error::Fault(Fault { hint: Some(hint), ..Fault::new(Code::NotWaiting, FaultClass::Denied, message) }))
    }

    /// Checks the limits that are raised for a descendant of a thread, before anything is run. One that has ended needs
    /// none.
    fn check_raised_below(&self, thread: &ThreadId, run_config: &RunConfig) -> Result<(), Error> {
        let RaisedLimits { thread: named, limits } = &run_config.raised;
        let Some(below) = named.as_ref().filter(|named| *named != thread) else { return Ok(()) };
        let (row, origin) = self.row(below)?;
        if origin.ending.is_none() {
            let policy = rebuild::policy(&*self.parts.store, &row)?;
            limits::raise(policy, limits, &run_config.ceilings, 0)?;
        }
        Ok(())
    }

    /// The definition and the origin of a thread.
    ///
    /// # Errors
    /// If there is no such thread, or its data is damaged.
    pub fn definition(&self, thread: &ThreadId) -> Result<(Workflow, Origin), Error> {
        let (row, origin) = self.row(thread)?;
        Ok((rebuild::beginning(&*self.parts.store, &row)?.workflow, origin))
    }

    /// Ends a thread for good: stops its run, in any process, and waits for it, or writes the end into the row.
    ///
    /// # Errors
    /// If there is no such thread, or it has ended in another way.
    pub async fn cancel(&self, thread: &ThreadId) -> Result<Cancelled, Error> {
        let (mut row, mut origin) = self.row(thread)?;
        let mut lease = None;
        while origin.ending.is_none() && lease.is_none() {
            if self.free(thread).await? == CancelOutcome::Pending {
                return Ok(Cancelled::Stopping);
            }
            // A process whose holder has just changed may drive the thread again by now, or this one is about to.
            lease = match self.drive(thread) {
                Err(Error::Running { .. }) => {
                    tokio::task::yield_now().await;
                    None
                }
                driven => Some(driven?),
            };
            (row, origin) = self.row(thread)?;
            // The run has written its end, unless the store failed.
            if origin.ending.as_ref().is_some_and(|ending| ending.outcome == Outcome::Cancelled) {
                return Ok(Cancelled::Ended);
            }
        }
        if let Some(ending) = origin.ending {
            return Err(Error::HasEnded { thread: thread.clone(), ending: Box::new(ending) });
        }
        let waiting: BTreeSet<ThreadId> = origin.forms.drain(..).filter_map(|open| open.thread).collect();
        origin.ending = Some(Ending::cancelled(self.parts.env.now_ms()));
        origin.stop = None;
        row.status = Status::Cancelled;
        row.origin = origin.to_bytes()?;
        self.keep_row(thread, row, Vec::new()).await?;
        for child in waiting {
            self.cancel_below(thread, child).await?;
        }
        Ok(Cancelled::Ended)
    }

    /// Ends a waiting descendant of `root` for good, and the threads between them.
    async fn cancel_below(&self, root: &ThreadId, descendant: ThreadId) -> Result<(), Error> {
        let mut next = Some(descendant);
        while let Some(thread) = next.filter(|thread| thread != root) {
            let parent = self.row(&thread)?.0.parent;
            match Box::pin(self.cancel(&thread)).await {
                Ok(_) | Err(Error::HasEnded { .. }) => {}
                Err(error) => return Err(error),
            }
            next = parent.map(|parent| parent.thread);
        }
        Ok(())
    }

    /// The events of a thread: every durable one after `after`, and new ones for as long as it runs in this process.
    /// With [`EventId::NONE`] it starts with the first.
    ///
    /// # Errors
    /// If there is no such thread or event.
    pub fn subscribe(&self, thread: &ThreadId, after: EventId) -> Result<Subscription, SubscribeError> {
        self.parts.hub.subscribe(thread, after)
    }

    /// The hook kinds of this engine.
    pub fn registry(&self) -> &Registry {
        &self.parts.registry
    }

    /// Sends the recorded calls of a thread's roles through the nodes of the hook kind `kind`, with ports that return
    /// the recorded answers. Returns the number of calls. The thread is unchanged.
    ///
    /// # Errors
    /// If the thread cannot be read, or `run_config` does not fit it.
    pub async fn replay(&self, thread: &ThreadId, run_config: RunConfig, kind: &str) -> Result<u64, Error> {
        let store = &self.parts.store;
        let (row, origin) = self.row(thread)?;
        let is_imported = origin.imported.is_some();
        let beginning = rebuild::beginning(&**store, &row)?;
        let policy = rebuild::policy(&**store, &row)?;
        let graph = self.graph(&beginning.workflow, &policy, &run_config.imposed)?;
        let toolboxes = resolved_roles::toolboxes(&beginning.workflow, &run_config.tools, &run_config.grants);
        let limits = run_config.ceilings.over(&policy.limits);
        let resolved_roles =
            resolved_roles::resolve(&beginning.workflow, &policy.roles, &limits, &run_config.models, toolboxes, None)?;
        let views = views(&graph, &resolved_roles, &run_config, &self.redactors(&graph, &run_config)?);
        let (reports, past) = (Arc::new(NoReports), Arc::new(NoPast));
        let then = Arc::new(ReplayClock::default());
        let env = Arc::clone(&then) as Arc<dyn Env>;
        let around = HookSurroundings { reports, past, env, replayed: Some(kind.to_owned()) };
        let paths = self.paths(&graph, &views, &run_config, &around)?;
        let (store, thread) = (Arc::clone(store), thread.clone());
        let replay = Replay { store, thread, row, is_imported, paths, views, resolved_roles, then };
        replay.go().await.map_err(|error| match error {
            rebuild::Error::Store(error) => Error::Store(error),
            rebuild::Error::ResolvedRoles(error) => Error::ResolvedRoles(error),
            rebuild::Error::Layout(error) => Error::Layout(error),
        })
    }

    /// How many threads run in this process.
    pub fn running(&self) -> usize {
        self.parts.running.stoppers().len()
    }

    /// The threads that run in this process, and those that are about to.
    pub fn driven(&self) -> BTreeSet<ThreadId> {
        self.parts.running.driven()
    }

    /// Whether a thread runs in this process.
    pub fn is_running(&self, thread: &ThreadId) -> bool {
        self.parts.running.stopper(thread).is_some()
    }

    /// Stops the run of a thread in this process, and waits until it has ended; the thread can be resumed. Returns
    /// whether it ran here.
    pub async fn stop(&self, thread: &ThreadId) -> bool {
        self.stop_as(thread, StopKind::Resumable).await
    }

    async fn stop_as(&self, thread: &ThreadId, kind: StopKind) -> bool {
        let Some(stopper) = self.parts.running.stopper(thread) else { return false };
        stopper.stop_as(kind);
        // A run that takes longer is still told to stop.
        let _ = tokio::time::timeout(STOPPING, stopper.ended.cancelled()).await;
        true
    }

    /// Lets the calls of a thread that runs in this process end, and begins no other; the thread can be resumed.
    pub fn drain(&self, thread: &ThreadId) {
        self.parts.running.stop(thread, StopKind::Draining);
    }

    /// Breaks off a thread in this process that another one drives now, without writing its row, and waits until it has
    /// ended here.
    pub async fn abandon(&self, thread: &ThreadId) {
        self.stop_as(thread, StopKind::Abandon).await;
    }

    /// Stops all runs in this process, and waits until they have ended; the threads can be resumed.
    pub async fn stop_all(&self) {
        let all = self.parts.running.stoppers();
        all.iter().for_each(Stopper::stop);
        let ended = async {
            for stopper in &all {
                stopper.ended.cancelled().await;
            }
        };
        let _ = tokio::time::timeout(STOPPING, ended).await;
    }

    /// Claims a thread that nobody drives.
    pub(super) fn drive(&self, thread: &ThreadId) -> Result<DriveLease, Error> {
        DriveLease::of(self.parts.drivers.clone(), Arc::clone(&self.parts.running), thread)
    }

    /// Claims a thread as [`drive`](Self::drive) does. Its last run is waited for if it has written that it came to rest.
    pub(super) async fn claim(&self, thread: &ThreadId) -> Result<DriveLease, Error> {
        let until = Instant::now() + RELEASING;
        loop {
            match self.drive(thread) {
                Err(Error::Running { .. })
                    if Instant::now() < until && self.row(thread)?.0.status != Status::Running => {}
                driven => return driven,
            }
            tokio::time::sleep(RELEASE_POLL).await;
        }
    }

    /// Waits until nobody holds a name, in any process with this store, and holds it until the result is dropped. The name
    /// is an id that no thread has.
    ///
    /// # Errors
    /// If who holds it cannot be known.
    pub async fn reserve(&self, name: &ThreadId) -> Result<Reservation, Error> {
        loop {
            match self.drive(name) {
                Err(Error::Running { .. }) => tokio::time::sleep(RELEASE_POLL).await,
                lease => return Ok(Reservation { _lease: lease? }),
            }
        }
    }

    /// Asks the run of a thread, in any process, to end it for good, and waits until it has.
    async fn free(&self, thread: &ThreadId) -> Result<CancelOutcome, Error> {
        if let Some(stopper) = self.parts.running.stopper(thread) {
            stopper.cancel();
            let ended = tokio::time::timeout(STOPPING, stopper.ended.cancelled()).await;
            return Ok(if ended.is_ok() { CancelOutcome::Left } else { CancelOutcome::Pending });
        }
        let Some(drivers) = self.parts.drivers.clone() else { return Ok(CancelOutcome::NotDriven) };
        let thread = thread.clone();
        let freeing = tokio::task::spawn_blocking(move || drivers.cancel(&thread)).await;
        Ok(freeing.unwrap_or_else(|error| Err(store::Error::Poisoned { what: error.to_string() }))?)
    }

    pub(super) fn row(&self, thread: &ThreadId) -> Result<(Row, Origin), Error> {
        row_of(&*self.parts.store, thread)
    }

    async fn keep_row(&self, thread: &ThreadId, mut row: Row, objects: Vec<Object>) -> Result<Row, Error> {
        row.version += 1;
        let commit = Commit { objects, ..Commit::of_row(thread.clone(), row.clone()) };
        self.parts.store.commit(commit).await?;
        Ok(row)
    }

    fn ready(
        &self,
        thread: &ThreadId,
        workflow: Workflow,
        (graph, run_config): (Arc<Graph>, RunConfig),
        (origin, above): (&Origin, Option<ParentVisit>),
        (past, position, parent): (Arc<dyn Past>, Position, Option<ThreadId>),
    ) -> Result<PreparedRun, Error> {
        let parts = &self.parts;
        let limits = run_config.ceilings.over(&graph.policy().limits);
        let toolboxes = resolved_roles::toolboxes(&workflow, &run_config.tools, &run_config.grants);
        let policies = &graph.policy().roles;
        let script = run_config.script.as_ref();
        let resolved_roles =
            resolved_roles::resolve(&workflow, policies, &limits, &run_config.models, toolboxes, script)?;
        priced(&resolved_roles, &limits, policies, &run_config.models)?;
        let topic = Arc::new(Topic::default());
        let events = topic.subscribe(parts.hub.stored(), thread, position.id);
        let (durability, env) = (parts.store.durability(), Arc::clone(&parts.env));
        let sink = Sink::new(Arc::clone(&topic), (thread.clone(), parent), durability, env, position);
        let around =
            HookSurroundings { reports: Arc::new(sink.clone()), past, env: Arc::clone(&parts.env), replayed: None };
        let redactors = self.redactors(&graph, &run_config)?;
        let paths =
            self.paths(&graph, &views(&graph, &resolved_roles, &run_config, &redactors), &run_config, &around)?;
        let resume_hint = ResumeHint {
            root: above.as_ref().map_or_else(|| thread.clone(), |above| above.account.resume_hint.root.clone()),
            thread: thread.clone(),
            origin: origin.clone(),
            graph: Arc::clone(&graph),
            ceilings: run_config.ceilings.clone(),
        };
        let parts = RunParts {
            resume_hint: Arc::new(resume_hint),
            engine: self.clone(),
            origin: origin.clone(),
            above,
            store: Arc::clone(&parts.store),
            env: Arc::clone(&parts.env),
            thread: thread.clone(),
            workflow: Arc::new(workflow),
            graph,
            resolved_roles,
            run_config,
            paths,
            redactors,
            sink,
            stopper: Stopper::default(),
        };
        Ok(PreparedRun { parts, limits, topic, events })
    }

    fn run(
        &self,
        run: Run,
        driven: DriveLease,
        told: What,
        (topic, events): (Arc<Topic>, Subscription),
    ) -> ThreadHandle {
        let (thread, stopper) = (run.parts.thread.clone(), run.parts.stopper.clone());
        self.parts.running.begin(&thread, stopper.clone());
        self.parts.hub.open(&thread, Arc::clone(&topic));
        let leaving = RunningEntry { engine: self.clone(), thread: thread.clone(), _driven: driven };
        let task = tokio::spawn(async move {
            let _leaving = leaving;
            run.parts.sink.emit(told);
            let (ended, memory) = topic.waking_once(Box::pin(run.go())).await;
            (ended, ResultMemory::new(memory))
        });
        ThreadHandle { thread, events, stopper, task }
    }
}

/// Checks that every model under a limit on money has a price.
fn priced(
    resolved_roles: &ResolvedRoles,
    limits: &Limits,
    policies: &BTreeMap<String, RolePolicy>,
    models: &Models,
) -> Result<(), Error> {
    for (role, runtime) in &resolved_roles.model_roles {
        let own = policies.get(role.as_str()).and_then(|policy| policy.limits.cost_usd);
        if limits.cost_usd.or(own).is_none() {
            continue;
        }
        for head in &runtime.heads {
            if let Some(model) = models.0.get(&head.model).filter(|model| model.is_unpriced()) {
                return Err(Error::Unpriced { role: role.clone(), model: head.model.clone(), id: model.id.clone() });
            }
        }
    }
    Ok(())
}

/// A new thread, of which nothing is stored.
struct Beginning {
    workflow: Workflow,
    graph: Arc<Graph>,
    origin: Origin,
    machine: Machine,
    /// The machine's first actions.
    first: Vec<Action>,
    /// What has to be stored before anything else of the thread.
    commit: Commit,
}

/// The parts of a run, before anything is stored.
pub(super) struct PreparedRun {
    pub(super) parts: RunParts,
    /// The limits of the thread under those of the operator.
    pub(super) limits: Limits,
    topic: Arc<Topic>,
    events: Subscription,
}
