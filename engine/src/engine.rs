//! The engine: starts, resumes and cancels threads over one store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rondo_agent_kit::mcp::Server;
use rondo_agent_kit::model::recorded::Recorder;
use rondo_agent_kit::model::scripted::Scripted;
use rondo_agent_kit::redact::Redactor;
use rondo_agent_kit::tool::{InDoubt, ToolSet, Toolbox};
use rondo_protocol::call::{Call, CallKind, Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{EventId, Outcome, What};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{LAYOUT, Start};
use rondo_protocol::workflow::hooks::HookKind;
use rondo_protocol::workflow::{Checked, HookUse, Policy, Workflow};
use rondo_protocol::{Digest, Value, canonical};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::conversation::Steps;
use crate::env::Env;
use crate::grant::{Approver, Grants};
use crate::graph::{self, Graph};
use crate::hook::{
    CallPath, Context, Ground, Making, ModelView, NoPast, Node, Past, Redactors, Registry, Reports, RoleView, Space,
    ToolView,
};
use crate::host::{self, Hub, Seat, SubscribeError, Subscription, Topic};
use crate::models::Models;
use crate::rebuild;
use crate::replay::{Rehearsal, Then};
use crate::resolved_roles;
use crate::scheduler::{self, Ended, Parts as RunParts, Position, Run, Sink, StoredPast, cancelled_ending};
use crate::socket::Freed;
use crate::store::{self, Commit, Row, Status, StepStore};
use crate::thread::{Action, Ceilings, Definition, Ending, Input, LaneState, Machine, Origin, PastStep, Stored, Told};

/// How long a run that is told to stop is waited for: the longest that draining takes.
const STOPPING: Duration = Duration::from_secs(10);

/// How many characters of a name that a file chose are shown.
const SHOWN_NAME: usize = 60;

/// Runs threads over one store.
#[derive(Clone)]
pub struct Engine {
    parts: Arc<Parts>,
}

struct Parts {
    store: Arc<dyn StepStore>,
    env: Arc<dyn Env>,
    registry: Registry,
    running: Arc<Running>,
    hub: Hub,
    /// Where the store is shared with other processes.
    seat: Option<Seat>,
}

/// The threads that run in this process.
#[derive(Default)]
pub(crate) struct Running(Mutex<BTreeMap<ThreadId, Stopper>>);

impl Running {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ThreadId, Stopper>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a thread for good, if it runs here.
    pub(crate) fn cancel(&self, thread: &ThreadId) {
        let stopper = self.all().get(thread).cloned();
        if let Some(stopper) = stopper {
            stopper.cancel();
        }
    }
}

/// Tells a running thread to stop.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    cancel: CancellationToken,
    for_good: Arc<AtomicBool>,
    /// Cancelled when the run has ended.
    ended: CancellationToken,
}

impl Stopper {
    /// Stops the run; the thread can be resumed.
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Ends the thread for good.
    pub fn cancel(&self) {
        self.for_good.store(true, Ordering::SeqCst);
        self.cancel.cancel();
    }
}

/// What a run is given by whoever operates it.
#[derive(Clone, Default)]
pub struct RunConfig {
    /// Who answers for each logical model.
    pub models: Models,
    /// The tools that there are.
    pub tools: ToolSet,
    /// The servers behind some of them, which end with the last run that holds them.
    pub servers: Vec<Arc<Server>>,
    /// Which of them roles may call.
    pub grants: Grants,
    /// Hooks around every workflow, outermost first.
    pub imposed: Vec<HookUse>,
    /// Whom single calls are shown to first, where the operator wants that.
    pub approver: Option<Arc<dyn Approver>>,
    /// What happens with calls that may have had their effect, in place of what each tool says.
    pub in_doubt: Option<InDoubt>,
    /// Answers in place of tools, for tool roles.
    pub script: Option<Arc<Scripted>>,
    /// Writes down what models are asked and say.
    pub recorder: Option<Arc<Recorder>>,
    /// The values that must never enter a thread.
    pub redactor: Arc<Redactor>,
    /// The operator's limits.
    pub ceilings: Ceilings,
    /// How long one call may take with all its attempts, in milliseconds.
    pub call_total_ms: Option<u64>,
    /// What is lent to hooks.
    pub ground: Ground,
    /// The flags of this run that hook kinds brought along, by name.
    pub flags: BTreeMap<String, String>,
}

/// A new thread.
pub struct NewThread {
    /// The checked workflow.
    pub workflow: Workflow,
    /// Its policy.
    pub policy: Policy,
    /// The checked input: an object, defaults filled in.
    pub input: Value,
    /// The workflow's file, as an absolute path.
    pub file: Option<String>,
    /// The script that answers instead of models, as an absolute path.
    pub script: Option<String>,
    /// The recording that answers instead of models, as an absolute path.
    pub recorded: Option<String>,
    /// The folder that tools work in, as an absolute path.
    pub workspace: Option<String>,
}

impl NewThread {
    /// A thread of a checked workflow on a checked input, which comes from no file.
    pub fn of(checked: Checked, input: Value) -> Self {
        let Checked { workflow, policy, .. } = checked;
        Self { workflow, policy, input, file: None, script: None, recorded: None, workspace: None }
    }
}

/// A thread that runs.
pub struct ThreadHandle {
    /// Which.
    pub thread: ThreadId,
    /// What happens, in order. Ends with the run.
    pub events: Subscription,
    /// Tells it to stop.
    pub stopper: Stopper,
    task: JoinHandle<Ended>,
}

impl ThreadHandle {
    /// Waits until the run has ended. Events that nobody reads any more are let go, so that the run does not wait.
    pub async fn ended(mut self) -> Ended {
        self.events.close();
        match self.task.await {
            Ok(ended) => ended,
            Err(error) => Ended::Stopped(Fault::new(
                Code::Interrupted,
                FaultClass::Cancelled,
                format!("the run broke off ({error}); the thread can be resumed"),
            )),
        }
    }
}

/// What `resume` found.
pub enum Resumed {
    /// The thread goes on.
    Running(ThreadHandle),
    /// It had ended before.
    Ended {
        /// How.
        ending: Ending,
        /// The digest of its last step.
        head: Option<Digest>,
    },
}

/// What `cancel` came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// The thread has ended.
    Ended {
        /// How.
        ending: Ending,
        /// The digest of its last step.
        head: Option<Digest>,
    },
    /// Its run was told to stop, and takes its time.
    Stopping,
}

/// Why the engine did not do what was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The store.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// What is stored of the thread does not let it go on.
    #[error("{}", .0.message)]
    Fault(Fault),
    /// No thread has that id.
    #[error("there is no thread {thread}")]
    NoThread {
        /// The id.
        thread: ThreadId,
    },
    /// The thread is driven already, by this process or another.
    #[error("thread {thread} is running already")]
    Running {
        /// The id.
        thread: ThreadId,
    },
    /// The thread has ended, so that it cannot be cancelled.
    #[error("thread {thread} has ended already ({})", ending.outcome.name())]
    HasEnded {
        /// The id.
        thread: ThreadId,
        /// How.
        ending: Box<Ending>,
    },
    /// The definition cannot be lowered.
    #[error(transparent)]
    Graph(#[from] graph::Error),
    /// A role cannot be resolved.
    #[error(transparent)]
    ResolvedRoles(#[from] resolved_roles::Error),
    /// A hook cannot be set up.
    #[error("the hook {node} cannot be set up: {what}")]
    Hook {
        /// Its node.
        node: String,
        /// Why.
        what: String,
    },
    /// A hook works by a program that the operator has not declared.
    #[error("the hook {node} needs the program {program:?}, and rondo.toml has no [hook.{program}]")]
    HookProgram {
        /// Its node.
        node: String,
        /// The program's name, cut to what can be shown.
        program: String,
    },
    /// A limit on money holds nothing where nobody knows what a call costs.
    #[error(
        "a limit on money needs a price: the role {role} asks the model {model:?} ({id}), and no price of it is known"
    )]
    Unpriced {
        /// A role that asks it.
        role: RoleName,
        /// The logical model.
        model: String,
        /// Its id at the provider.
        id: String,
    },
    /// A value has no canonical form.
    #[error("the input cannot be stored: {0}")]
    Input(#[from] canonical::Error),
    /// The thread pins a layout that this version cannot write.
    #[error(transparent)]
    Layout(#[from] rondo_agent_kit::conversation::UnknownLayout),
}

impl Engine {
    /// An engine over `store`, whose hooks are of the kinds of `registry`.
    pub fn new(store: Arc<dyn StepStore>, env: Arc<dyn Env>, registry: Registry) -> Self {
        let parts = Parts { store, env, registry, running: Arc::default(), hub: Hub::default(), seat: None };
        Self { parts: Arc::new(parts) }
    }

    /// An engine over a store that is shared with other processes; `running` is what they end threads by.
    pub(crate) fn shared(seat: Seat, running: Arc<Running>, env: Arc<dyn Env>, registry: Registry) -> Self {
        let store = Arc::new(seat.clone());
        Self { parts: Arc::new(Parts { store, env, registry, running, hub: Hub::default(), seat: Some(seat) }) }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn StepStore> {
        &self.parts.store
    }

    /// Starts a new thread.
    ///
    /// # Errors
    /// When the definition cannot be run or the store cannot be written.
    ///
    /// # Durability
    /// The thread's row is durable when this returns.
    pub async fn start(&self, new: NewThread, run_config: RunConfig) -> Result<ThreadHandle, Error> {
        let NewThread { workflow, policy, mut input, file, script, recorded, workspace } = new;
        let parts = &self.parts;
        let graph = self.graph(&workflow, &policy, &run_config.imposed)?;
        self.redactors(&graph, &run_config)?.input.value(&mut input);
        let (workflow_digest, workflow_bytes) = Digest::of(Kind::Workflow, &workflow)?;
        let (policy_digest, policy_bytes) = Digest::of(Kind::Policy, &policy)?;
        let start = Start { input, layout: LAYOUT, workflow: workflow_digest };
        let (start_digest, start_bytes) = Digest::of(Kind::Start, &start)?;
        let origin = Origin {
            name: workflow.name.clone(),
            file,
            script,
            recorded,
            workspace,
            started_at_ms: parts.env.now_ms(),
            ending: None,
            stop: None,
            after: Vec::new(),
        };
        let thread = parts.env.thread_id();
        let position = Position { id: EventId::NONE, at_ms: origin.started_at_ms };
        let ready = self.ready(thread.clone(), &workflow, graph, run_config, (Arc::new(NoPast), position))?;
        let definition = ready.definition(start_digest, Arc::new(start.input));
        let mut machine = Machine::new(definition, 1);
        let begun = ready.steps(&*parts.store);
        let first = machine.on(Input::Begin, parts.env.elapsed_ms(), &begun);
        let told = first.iter().filter_map(|action| match action {
            Action::Tell(Told::After { followed, .. }) => Some(followed.clone()),
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
            parent: None,
            label: None,
            tags: Vec::new(),
            raised: Vec::new(),
            checkpoint: machine.checkpoint().map_err(Error::Fault)?,
            origin: origin.to_bytes()?,
        };
        let driven = self.drive(&thread)?;
        let commit = Commit {
            thread,
            expected: 0,
            row: row.clone(),
            step: None,
            objects: vec![
                (Kind::Workflow, workflow_digest, workflow_bytes),
                (Kind::Policy, policy_digest, policy_bytes),
                (Kind::Start, start_digest, start_bytes),
            ],
            lanes: Vec::new(),
            lists: Vec::new(),
            clear_journal: Vec::new(),
        };
        parts.store.commit(commit).await?;
        let started = What::ThreadStarted { workflow: workflow_digest, start: start_digest };
        self.run(ready, driven, started, Begun { row, origin, machine, first, may_be_journaled: false })
    }

    /// Goes on with a thread that stopped. `run_config` is asked for once the workflow is known; `file` and `script`
    /// say where it came from.
    ///
    /// # Errors
    /// When there is no such thread, it runs already, or what is stored of it is damaged.
    pub async fn resume<E: From<Error>>(
        &self,
        thread: &ThreadId,
        run_config: impl FnOnce(&Workflow, &Origin) -> Result<RunConfig, E>,
    ) -> Result<Resumed, E> {
        let store = &self.parts.store;
        let (mut row, mut origin) = self.row(thread)?;
        if let Some(ending) = origin.ending {
            return Ok(Resumed::Ended { ending, head: row.head });
        }
        if self.parts.running.all().contains_key(thread) {
            return Err(Error::Running { thread: thread.clone() }.into());
        }
        let driven = self.drive(thread)?;
        // As it is now that nobody else changes it.
        (row, origin) = self.row(thread)?;
        if let Some(ending) = origin.ending {
            return Ok(Resumed::Ended { ending, head: row.head });
        }
        let beginning = rebuild::beginning(&**store, &row).map_err(Error::from)?;
        if beginning.start.layout != LAYOUT {
            let found = beginning.start.layout;
            return Err(Error::from(rondo_agent_kit::conversation::UnknownLayout { found }).into());
        }
        let policy: Policy = rebuild::object(&**store, Kind::Policy, row.policy).map_err(Error::from)?;
        let run_config = run_config(&beginning.workflow, &origin)?;
        let graph = self.graph(&beginning.workflow, &policy, &run_config.imposed)?;
        let past = StoredPast { store: Arc::clone(store), thread: thread.clone() };
        let position = host::position(&**store, &row, thread, &origin).map_err(Error::from)?;
        let told = (Arc::new(past) as Arc<dyn Past>, position);
        let ready = self.ready(thread.clone(), &beginning.workflow, graph, run_config, told)?;
        let machine = self.machine(&ready, &row, &beginning.start)?;
        if row.status != Status::Running || origin.stop.is_some() {
            // Whoever looks meanwhile sees that the thread goes on.
            origin.stop = None;
            row.status = Status::Running;
            row.origin = origin.to_bytes().map_err(Error::from)?;
            row = self.keep_row(thread, row).await?;
        }
        let machine = machine.resumed(row.version);
        let resumed = What::ThreadResumed { seq: row.seq };
        let begun = Begun { row, origin, machine, first: Vec::new(), may_be_journaled: true };
        Ok(Resumed::Running(self.run(ready, driven, resumed, begun)?))
    }

    /// The definition and the origin of a thread.
    ///
    /// # Errors
    /// When there is no such thread, or what is stored of it is damaged.
    pub fn definition(&self, thread: &ThreadId) -> Result<(Workflow, Origin), Error> {
        let (row, origin) = self.row(thread)?;
        Ok((rebuild::beginning(&*self.parts.store, &row)?.workflow, origin))
    }

    /// Ends a thread for good: tells its run to stop, in whichever process that is, and waits until it has, or writes the
    /// end into the row.
    ///
    /// # Errors
    /// When there is no such thread, or it has ended in another way.
    pub async fn cancel(&self, thread: &ThreadId) -> Result<Cancelled, Error> {
        let (mut row, mut origin) = self.row(thread)?;
        if origin.ending.is_none() {
            let freed = self.free(thread).await?;
            if freed == Freed::Leaving {
                return Ok(Cancelled::Stopping);
            }
            (row, origin) = self.row(thread)?;
            // The run has written its end, unless the store failed it.
            let ending = origin.ending.take_if(|ending| ending.outcome == Outcome::Cancelled);
            if let Some(ending) = ending {
                return Ok(Cancelled::Ended { ending, head: row.head });
            }
        }
        if let Some(ending) = origin.ending {
            return Err(Error::HasEnded { thread: thread.clone(), ending: Box::new(ending) });
        }
        let ending = cancelled_ending(self.parts.env.now_ms());
        origin.ending = Some(ending.clone());
        origin.stop = None;
        row.status = Status::Cancelled;
        row.origin = origin.to_bytes()?;
        let row = self.keep_row(thread, row).await?;
        Ok(Cancelled::Ended { ending, head: row.head })
    }

    /// The events of a thread: every durable one after `after`, and what follows for as long as it runs in this process.
    /// With [`EventId::NONE`] it begins with the first.
    ///
    /// # Errors
    /// When there is no such thread or event.
    pub fn subscribe(&self, thread: &ThreadId, after: EventId) -> Result<Subscription, SubscribeError> {
        self.parts.hub.subscribe(&self.parts.store, thread, after)
    }

    /// The kinds of hooks that this engine has.
    pub fn registry(&self) -> &Registry {
        &self.parts.registry
    }

    /// Sends what the roles of a thread once asked along the nodes of the hook kind `kind`, with ports that answer what
    /// they answered then; gives how many calls that were. The thread stays as it is.
    ///
    /// # Errors
    /// When the thread cannot be read, or `run_config` does not fit it.
    pub async fn replay(&self, thread: &ThreadId, run_config: RunConfig, kind: &str) -> Result<u64, Error> {
        let store = &self.parts.store;
        let (row, _) = self.row(thread)?;
        let beginning = rebuild::beginning(&**store, &row)?;
        let policy: Policy = rebuild::object(&**store, Kind::Policy, row.policy)?;
        let graph = self.graph(&beginning.workflow, &policy, &run_config.imposed)?;
        let toolboxes = resolved_roles::toolboxes(&beginning.workflow, &run_config.tools, &run_config.grants);
        let limits = run_config.ceilings.over(&policy.limits);
        let resolved_roles =
            resolved_roles::resolve(&beginning.workflow, &policy.roles, &limits, &run_config.models, toolboxes, None)?;
        let views = views(&graph, &resolved_roles, &run_config, &self.redactors(&graph, &run_config)?);
        let (reports, past) = (Arc::new(Unheard), Arc::new(NoPast));
        let then = Arc::new(Then::default());
        let env = Some(Arc::clone(&then) as Arc<dyn Env>);
        let around = Around { reports, past, env, replayed: Some(kind.to_owned()) };
        let paths = self.paths(&graph, &views, &run_config, &around)?;
        let replay = Rehearsal { store: Arc::clone(store), thread: thread.clone(), row, paths, views, then };
        replay.go().await.map_err(|error| match error {
            rebuild::Error::Store(error) => Error::Store(error),
            rebuild::Error::ResolvedRoles(error) => Error::ResolvedRoles(error),
            rebuild::Error::Layout(error) => Error::Layout(error),
        })
    }

    /// Takes a thread over from whoever drove it, if nobody does any more.
    fn drive(&self, thread: &ThreadId) -> Result<Driven, Error> {
        let seat = self.parts.seat.clone();
        if let Some(seat) = &seat
            && !seat.drive(thread)?
        {
            return Err(Error::Running { thread: thread.clone() });
        }
        Ok(Driven { seat, thread: thread.clone() })
    }

    /// Tells whoever runs a thread to end it for good, and waits until it has.
    async fn free(&self, thread: &ThreadId) -> Result<Freed, Error> {
        let running = self.parts.running.all().get(thread).cloned();
        if let Some(stopper) = running {
            stopper.cancel();
            let ended = tokio::time::timeout(STOPPING, stopper.ended.cancelled()).await;
            return Ok(if ended.is_ok() { Freed::Left } else { Freed::Leaving });
        }
        let Some(seat) = self.parts.seat.clone() else { return Ok(Freed::Nobody) };
        let thread = thread.clone();
        let freeing = tokio::task::spawn_blocking(move || seat.free(&thread)).await;
        Ok(freeing.unwrap_or_else(|error| Err(store::Error::Poisoned { what: error.to_string() }))?)
    }

    fn row(&self, thread: &ThreadId) -> Result<(Row, Origin), Error> {
        let row = self.parts.store.row(thread)?.ok_or_else(|| Error::NoThread { thread: thread.clone() })?;
        let origin = Origin::from_bytes(&row.origin).map_err(|error| {
            let what = format!("the row of thread {thread}: {error}");
            store::Error::from(store::Damage::new(what).of_thread(thread))
        })?;
        Ok((row, origin))
    }

    async fn keep_row(&self, thread: &ThreadId, mut row: Row) -> Result<Row, Error> {
        let expected = row.version;
        row.version += 1;
        let commit = Commit {
            thread: thread.clone(),
            expected,
            row: row.clone(),
            step: None,
            objects: Vec::new(),
            lanes: Vec::new(),
            lists: Vec::new(),
            clear_journal: Vec::new(),
        };
        self.parts.store.commit(commit).await?;
        Ok(row)
    }

    /// Lowers a workflow with the hooks of this engine's registry, and around them those that the operator imposes.
    ///
    /// # Errors
    /// When a stored definition does not fit this version.
    pub fn graph(&self, workflow: &Workflow, policy: &Policy, imposed: &[HookUse]) -> Result<Arc<Graph>, Error> {
        let registry = &self.parts.registry;
        Ok(Arc::new(Graph::new(workflow, policy, |uses, roles| {
            registry.impose(imposed).into_iter().chain(registry.place(uses, roles)).collect()
        })?))
    }

    /// Whether a node changes what is said on its way. One whose patterns act at the port does not.
    fn alters(&self, hook: &HookUse) -> bool {
        let acts_at_port = self
            .parts
            .registry
            .kind(&hook.kind)
            .is_some_and(|kind| kind.patterns(hook).is_ok_and(|patterns| !patterns.is_empty()));
        !acts_at_port && HookKind::find(&hook.kind).is_none_or(|kind| kind.is_altering(&hook.settings))
    }

    fn redactors(&self, graph: &Graph, run_config: &RunConfig) -> Result<Redactors, Error> {
        let roles = graph.roles().map(|(role, _)| role);
        Redactors::new(&run_config.redactor, graph.hooks(), roles, &self.parts.registry)
            .map_err(|(node, what)| Error::Hook { node, what })
    }

    /// The machine of a stored thread: from its rows, or where these do not say enough from its steps.
    fn machine(&self, ready: &Ready, row: &Row, start: &Start) -> Result<Machine, Error> {
        let store = &self.parts.store;
        let steps = ready.steps(&**store);
        let definition = ready.definition(row.start, Arc::new(start.input.clone()));
        let mut lanes: Vec<(LanePath, LaneState)> = Vec::new();
        loop {
            let page = store.lanes(&ready.thread, lanes.last().map(|(path, _)| path), LANES_A_PAGE)?;
            let is_last = page.len() < LANES_A_PAGE;
            lanes.extend(page.into_iter().map(|(path, row)| {
                let index = u32::try_from(row.index).unwrap_or(u32::MAX);
                (path, LaneState { frontier: row.frontier, fold: row.fold, opened_by: row.opened_by, index })
            }));
            if is_last {
                break;
            }
        }
        let asks = ready.run_config.in_doubt.is_none();
        let mut left = BTreeMap::new();
        for path in lanes.iter().map(|(path, _)| path.clone()).chain([LanePath::trunk()]) {
            let found = scheduler::left(&**store, &ready.thread, &path, asks)?;
            left.extend(found.map(|found| (path, found)));
        }
        let stored =
            Stored { checkpoint: &row.checkpoint, lanes, left: left.clone(), version: row.version, seq: row.seq };
        if let Some(machine) = Machine::restore(definition.clone(), stored, &steps).map_err(Error::Fault)? {
            return Ok(machine);
        }
        let mut machine = Machine::new(definition, row.version).with_left(left);
        let mut fault = None;
        let mut each = |stored: store::StoredStep, note: rondo_protocol::object::Note| {
            let past = steps.keep(stored.clone(), &note);
            let (seq, digest) = (stored.seq, stored.digest);
            let followed = PastStep { seq, digest, body: past.episode.body.clone(), note };
            match machine.follow(&stored.step, followed, &steps) {
                Ok(Some(_)) => true,
                Ok(None) => {
                    let what = format!("step {seq} of thread {} does not follow", ready.thread);
                    fault = Some(Error::Store(store::Damage::new(what).of_thread(&ready.thread).into()));
                    false
                }
                Err(error) => {
                    fault = Some(Error::Fault(error));
                    false
                }
            }
        };
        if row.seq > 0 {
            store.scan(&ready.thread, 1..=row.seq, &mut each)?;
        }
        fault.map_or(Ok(machine), Err)
    }

    fn ready(
        &self,
        thread: ThreadId,
        workflow: &Workflow,
        graph: Arc<Graph>,
        run_config: RunConfig,
        (past, position): (Arc<dyn Past>, Position),
    ) -> Result<Ready, Error> {
        let parts = &self.parts;
        let limits = run_config.ceilings.over(&graph.policy().limits);
        let toolboxes = resolved_roles::toolboxes(workflow, &run_config.tools, &run_config.grants);
        let policies = &graph.policy().roles;
        let script = run_config.script.as_ref();
        let resolved_roles =
            resolved_roles::resolve(workflow, policies, &limits, &run_config.models, toolboxes, script)?;
        priced(&resolved_roles, &limits, policies, &run_config.models)?;
        let topic = Arc::new(Topic::default());
        let events = topic.subscribe(&parts.store, &thread, position.id);
        let (durability, env) = (parts.store.durability(), Arc::clone(&parts.env));
        let sink = Sink::new(Arc::clone(&topic) as _, thread.clone(), durability, env, position);
        let around = Around { reports: Arc::new(sink.clone()), past, env: None, replayed: None };
        let redactors = self.redactors(&graph, &run_config)?;
        let paths =
            self.paths(&graph, &views(&graph, &resolved_roles, &run_config, &redactors), &run_config, &around)?;
        Ok(Ready { thread, graph, resolved_roles, run_config, limits, sink, topic, events, paths, redactors })
    }

    /// Sets up the hooks of a graph, one of each node, and the paths through them.
    fn paths(
        &self,
        graph: &Graph,
        roles: &BTreeMap<RoleName, RoleView>,
        run_config: &RunConfig,
        around: &Around,
    ) -> Result<BTreeMap<RoleName, BTreeMap<CallKind, CallPath>>, Error> {
        let parts = &self.parts;
        let mut nodes = Vec::new();
        for (at, placed) in graph.hooks().iter().enumerate() {
            if around.replayed.as_ref().is_some_and(|only| *only != placed.hook.kind) {
                nodes.push(None);
                continue;
            }
            let failed = |what: String| Error::Hook { node: placed.node.clone(), what };
            let kind = parts
                .registry
                .kind(&placed.hook.kind)
                .ok_or_else(|| failed("its kind is not part of this build".to_owned()))?;
            let space = Space::new(Arc::clone(&parts.store), kind.name());
            let RunConfig { flags, ground, .. } = run_config;
            if let Some(program) = kind.program(&placed.hook).filter(|name| !ground.programs.contains_key(*name)) {
                let (node, program) = (placed.node.clone(), program.chars().take(SHOWN_NAME).collect());
                return Err(Error::HookProgram { node, program });
            }
            let is_rehearsal = around.replayed.is_some();
            let hook = &placed.hook;
            let of_kind = graph.hooks().iter().filter(|other| other.hook.kind == hook.kind);
            let of_kind =
                of_kind.flat_map(|other| roles.keys().filter(|role| other.hook.covers(role))).cloned().collect();
            let behind = graph.hooks().iter().skip(at + 1).filter(|other| self.alters(&other.hook));
            let behind = behind.filter(|other| other.hook.at == hook.at || hook.at == CallKind::Turn);
            let altered =
                behind.flat_map(|other| roles.keys().filter(|role| other.hook.covers(role))).cloned().collect();
            let (of_kind, altered) = (&of_kind, &altered);
            let making = Making { hook, roles, flags, ground, space: &space, of_kind, altered, is_rehearsal };
            let hook = kind.build(&making).map_err(failed)?;
            let context = Context {
                node: placed.node.clone(),
                space,
                env: Arc::clone(around.env.as_ref().unwrap_or(&parts.env)),
                reports: Arc::clone(&around.reports),
                past: Arc::clone(&around.past),
            };
            nodes.push(Some(Arc::new(Node { on_error: kind.on_error(&placed.hook, ground), hook, context })));
        }
        let path = |role: &RoleName, kind: CallKind| {
            let through = graph.call_path(role, kind).iter();
            CallPath::new(through.filter_map(|at| nodes.get(*at).cloned().flatten()).collect())
        };
        let of_role = |role: &RoleName| CallKind::ALL.into_iter().map(|kind| (kind, path(role, kind))).collect();
        Ok(graph.roles().map(|(role, _)| (role.clone(), of_role(role))).collect())
    }

    fn run(&self, ready: Ready, driven: Driven, told: What, begun: Begun) -> Result<ThreadHandle, Error> {
        let Ready { thread, graph, resolved_roles, run_config, sink, topic, events, paths, redactors, .. } = ready;
        let Begun { row, origin, machine, first, may_be_journaled } = begun;
        let stopper = Stopper::default();
        match self.parts.running.all().entry(thread.clone()) {
            std::collections::btree_map::Entry::Occupied(_) => return Err(Error::Running { thread }),
            std::collections::btree_map::Entry::Vacant(place) => place.insert(stopper.clone()),
        };
        self.parts.hub.open(&thread, topic);
        let parts = RunParts {
            store: Arc::clone(&self.parts.store),
            env: Arc::clone(&self.parts.env),
            thread: thread.clone(),
            graph,
            resolved_roles,
            run_config,
            paths,
            redactors,
            sink: sink.clone(),
            cancel: stopper.cancel.clone(),
            for_good: Arc::clone(&stopper.for_good),
        };
        let run = Run { parts, row, origin, machine, first, may_be_journaled };
        let leaving = Leaving { engine: self.clone(), thread: thread.clone(), _driven: driven };
        let task = tokio::spawn(async move {
            let _leaving = leaving;
            sink.emit(told);
            drop(sink);
            Box::pin(run.go()).await
        });
        Ok(ThreadHandle { thread, events, stopper, task })
    }
}

/// How many rows of lanes are read at once.
const LANES_A_PAGE: usize = 1000;

/// A thread as it begins or goes on.
struct Begun {
    row: Row,
    origin: Origin,
    machine: Machine,
    first: Vec<Action>,
    may_be_journaled: bool,
}

/// Whether every model that a limit on money is about has a price.
fn priced(
    resolved_roles: &resolved_roles::ResolvedRoles,
    limits: &rondo_protocol::workflow::Limits,
    policies: &BTreeMap<String, rondo_protocol::workflow::RolePolicy>,
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

/// What surrounds the hooks of a run.
struct Around {
    reports: Arc<dyn Reports>,
    past: Arc<dyn Past>,
    /// The time as hooks are to see it; `None` = the engine's.
    env: Option<Arc<dyn Env>>,
    /// The one kind whose hooks stand here, when a thread's calls are sent along them once more.
    replayed: Option<String>,
}

/// Lets all reports go.
struct Unheard;

impl Reports for Unheard {
    fn report(&self, _: &str, _: &Call, _: Value) {}
    fn warn(&self, _: &str, _: &Call, _: String) {}
}

/// What hooks may know of each role, now that models and tools are resolved.
fn views(
    graph: &Graph,
    resolved_roles: &resolved_roles::ResolvedRoles,
    run_config: &RunConfig,
    redactors: &Redactors,
) -> BTreeMap<RoleName, RoleView> {
    let models = &run_config.models;
    let mut views = graph.views().clone();
    for (role, view) in &mut views {
        let runtime = resolved_roles.model_roles.get(role);
        let toolbox = match (runtime, resolved_roles.tool_roles.get(role)) {
            (Some(runtime), _) => Some(&runtime.agent.tools),
            (None, runtime) => runtime.map(|runtime| &runtime.toolbox),
        };
        let heads = runtime.map(|runtime| runtime.heads.as_slice()).unwrap_or_default();
        let resolved = heads.iter().filter_map(|head| Some((head, models.0.get(&head.model)?)));
        view.models = resolved
            .map(|(head, model)| ModelView {
                name: head.model.clone(),
                id: model.id.clone(),
                parameters: head.head.parameters.clone(),
                served_by: model.served_by.clone(),
            })
            .collect();
        let offers = toolbox.into_iter().flat_map(Toolbox::offers);
        view.offers = offers
            .map(|(wire_name, offer)| {
                let spec = offer.tool.spec();
                ToolView {
                    name: spec.name.clone(),
                    wire_name: wire_name.to_owned(),
                    is_granted: offer.denied.is_none(),
                    needs_approval: run_config.grants.asks_about(role, &spec.name),
                    origin: spec.origin.clone(),
                }
            })
            .collect();
        if let Some(runtime) = runtime {
            (view.model_calls, view.tool_calls) = (runtime.agent.model_calls, runtime.agent.tool_calls);
        }
        view.redaction = redactors.mark(role);
        view.contract = runtime.map(|runtime| runtime.agent.contract.clone());
    }
    views
}

/// What a run needs, before anything is stored.
struct Ready {
    thread: ThreadId,
    graph: Arc<Graph>,
    resolved_roles: resolved_roles::ResolvedRoles,
    run_config: RunConfig,
    limits: rondo_protocol::workflow::Limits,
    sink: Sink,
    topic: Arc<Topic>,
    events: Subscription,
    paths: BTreeMap<RoleName, BTreeMap<CallKind, CallPath>>,
    redactors: Redactors,
}

impl Ready {
    fn definition(&self, start: Digest, input: Arc<Value>) -> Definition {
        Definition { graph: Arc::clone(&self.graph), start, input, limits: self.limits.clone() }
    }

    fn steps<'a>(&self, store: &'a dyn StepStore) -> Steps<'a> {
        let roles = self.graph.roles().map(|(role, _)| role.clone()).collect();
        Steps::new(store, self.thread.clone(), roles, self.resolved_roles.readings.clone())
    }
}

/// Takes a thread off the list of those that run, however its run ends.
struct Leaving {
    engine: Engine,
    thread: ThreadId,
    // Let go after the thread is off the list.
    _driven: Driven,
}

/// A thread that this process drives, for as long as this lives.
struct Driven {
    seat: Option<Seat>,
    thread: ThreadId,
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.let_go(&self.thread);
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.engine.parts.hub.close(&self.thread);
        let stopper = self.engine.parts.running.all().remove(&self.thread);
        if let Some(stopper) = stopper {
            stopper.ended.cancel();
        }
    }
}
