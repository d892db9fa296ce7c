//! What surrounds the engine in a simulation: chance, time, a device's fate, a model and a tool.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::ResponseFormat;
use rondo_agent_kit::model::{Completion, Deltas, Model};
use rondo_agent_kit::tool::{self, Content, InDoubt, Invocation, Origin, Spec, Tool, ToolSet};
use rondo_core::env::SeededEnv;
use rondo_core::grant::Grants;
use rondo_core::models::{Models, ResolvedModel, ServedBy};
use rondo_core::{Env, RunConfig};
use rondo_protocol::Value;
use rondo_protocol::call::{Effect, Fault, FaultClass, ModelAnswer, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Digest;
use rondo_protocol::message::ToolUse;
use rondo_protocol::object::{ModelReply, Record};
use rondo_protocol::workflow::Workflow;
use tokio::sync::Notify;

use super::Steps;
use crate::StoredRecord;
use crate::simulated::{Fate, Fates};

/// A number below `count`, which is not 0.
pub(super) fn below(env: &SeededEnv, count: usize) -> usize {
    usize::try_from(env.random() % count as u128).unwrap_or_default()
}

/// What can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// A batch is written to the device.
    Write,
    /// The device is read.
    Read,
    /// The model is asked.
    Model,
    /// The tool is run.
    Tool,
}

/// How an operation breaks. `is_done`: only after it had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    /// It reports an error.
    Fails { is_done: bool },
    /// The process ends.
    Ends { end: End, is_done: bool },
}

/// How the life of a process ends before its thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// It could not read, and gave up.
    Failed,
    /// It is killed; what it has written stays.
    Killed,
    /// What was not synced may be lost, as also after a failed write.
    Power,
}

impl Break {
    /// How an operation of that kind breaks. A tool's errors are content of the thread, and none here. A process that
    /// ends while it reads is as one that ends at its next operation.
    pub(super) fn drawn(env: &SeededEnv, operation: Operation) -> Self {
        let (way, is_done) = (below(env, 3), below(env, 2) == 0);
        let end = if below(env, 2) == 0 { End::Killed } else { End::Power };
        match operation {
            Operation::Read => Self::Fails { is_done: false },
            Operation::Write | Operation::Model if way == 0 => Self::Fails { is_done },
            Operation::Write | Operation::Model | Operation::Tool => Self::Ends { end, is_done },
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fails { .. } => "fails",
            Self::Ends { end: End::Power, .. } => "power lost",
            Self::Ends { .. } => "killed",
        }
    }
}

/// What happens in a case, and what has happened.
pub(super) struct SimulatedEnv {
    breaks: BTreeMap<(Operation, usize), Break>,
    /// Chance, and a clock that moves when it is looked at.
    env: SeededEnv,
    state: Mutex<State>,
    death: Notify,
}

struct State {
    trace: Vec<String>,
    operations: BTreeMap<Operation, usize>,
    met: BTreeSet<(Operation, &'static str)>,
    /// Whether the current process has ended: nothing that it still does has an effect.
    is_dead: bool,
    /// What ended or hindered the current process.
    end: Option<End>,
    /// The steps that were told, by number.
    told: BTreeMap<u64, Digest>,
    /// The visits whose steps are stored.
    settled: BTreeSet<String>,
    /// Of each visit the position of the last call that was made.
    asked: BTreeMap<String, u32>,
    effects: BTreeMap<String, String>,
    broken: Option<String>,
}

impl SimulatedEnv {
    pub(super) fn new(seed: u64, breaks: BTreeMap<(Operation, usize), Break>) -> Self {
        let state = State {
            trace: Vec::new(),
            operations: BTreeMap::new(),
            met: BTreeSet::new(),
            is_dead: false,
            end: None,
            told: BTreeMap::new(),
            settled: BTreeSet::new(),
            asked: BTreeMap::new(),
            effects: BTreeMap::new(),
            broken: None,
        };
        Self { breaks, env: SeededEnv::new(1_700_000_000_000, seed), state: Mutex::new(state), death: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin_life(&self) {
        let state = &mut *self.state();
        (state.is_dead, state.end) = (false, None);
        state.trace.push("a process starts".to_owned());
    }

    /// What ended or hindered it.
    pub(super) fn end_life(&self) -> Option<End> {
        let state = &mut *self.state();
        state.is_dead = true;
        state.trace.push(format!("it has ended: {:?}", state.end));
        state.end
    }

    /// Adds a line to the trace.
    pub(super) fn note(&self, line: String) {
        self.state().trace.push(line);
    }

    /// A step was told.
    pub(super) fn tell(&self, seq: u64, step: Digest) {
        let earlier = self.state().told.insert(seq, step);
        if earlier.is_some_and(|earlier| earlier != step) {
            self.breaks_law(format!("step {seq} was told as two different ones"));
        }
    }

    /// The steps that are stored between two lives.
    pub(super) fn stored(&self, steps: &Steps) {
        let told = self.state().told.clone();
        for (seq, step) in told {
            if steps.get(&seq).map(|(_, stored)| *stored) != Some(step) {
                self.breaks_law(format!("step {seq} ({step}) was told and is not there"));
            }
        }
        self.state().settled = steps.values().map(|(place, _)| place.clone()).collect();
    }

    fn breaks_law(&self, law: String) {
        let state = &mut *self.state();
        state.trace.push(format!("BROKEN: {law}"));
        state.broken.get_or_insert(law);
    }

    /// The first law that was broken.
    pub(super) fn broken(&self) -> Option<String> {
        self.state().broken.clone()
    }

    pub(super) fn trace(&self) -> Vec<String> {
        self.state().trace.clone()
    }

    pub(super) fn effects(&self) -> BTreeMap<String, String> {
        self.state().effects.clone()
    }

    pub(super) fn operations(&self) -> BTreeMap<Operation, usize> {
        self.state().operations.clone()
    }

    /// What broke.
    pub(super) fn met(&self) -> BTreeSet<(Operation, &'static str)> {
        self.state().met.clone()
    }

    pub(super) fn below(&self, count: usize) -> usize {
        below(&self.env, count)
    }

    /// Lets others go on for a while.
    pub(super) async fn pause(self: Arc<Self>) {
        for _ in 0..self.below(8) {
            tokio::task::yield_now().await;
        }
    }

    /// Waits for the end of the current process.
    pub(super) async fn died(&self) {
        while !self.state().is_dead {
            self.death.notified().await;
        }
    }

    fn die(&self, end: End) {
        let state = &mut *self.state();
        (state.is_dead, state.end) = (true, state.end.max(Some(end)));
        self.death.notify_one();
    }

    /// Counts an operation. Returns how it breaks, if it does.
    fn begins(&self, operation: Operation, what: &str) -> Option<Break> {
        let state = &mut *self.state();
        let number = state.operations.entry(operation).or_default();
        *number += 1;
        let breaks = self.breaks.get(&(operation, *number)).copied();
        if operation != Operation::Read || breaks.is_some() {
            let broken = breaks.map(|breaks| format!(" -> {breaks:?}")).unwrap_or_default();
            state.trace.push(format!("{operation:?} {number}: {what}{broken}"));
        }
        state.met.extend(breaks.map(|breaks| (operation, breaks.name())));
        breaks
    }

    /// What becomes of an operation of the device.
    pub(super) fn fate(&self, operation: Operation, end: End, what: &str) -> Fate {
        // A dead process does nothing more.
        if self.state().is_dead {
            return Fate::Fails { is_done: false };
        }
        match self.begins(operation, what) {
            None => Fate::Done,
            Some(Break::Fails { is_done }) => {
                let state = &mut *self.state();
                state.end = state.end.max(Some(end));
                Fate::Fails { is_done }
            }
            Some(Break::Ends { end, is_done }) => {
                self.die(end);
                Fate::Fails { is_done }
            }
        }
    }

    /// A call to the model or the tool: begins it, and waits as long as it takes.
    async fn calls(self: &Arc<Self>, operation: Operation, what: &str, effect: impl Fn()) -> Option<Break> {
        if self.state().is_dead {
            pending::<()>().await;
        }
        let breaks = self.begins(operation, what);
        if let Some(Break::Ends { end, is_done }) = breaks {
            if is_done {
                effect();
                Arc::clone(self).pause().await;
            }
            self.die(end);
            pending::<()>().await;
        }
        effect();
        Arc::clone(self).pause().await;
        breaks
    }
}

impl Fates for SimulatedEnv {
    fn of_write(&self, changes: usize, sync: bool) -> Fate {
        self.fate(Operation::Write, End::Power, &format!("{changes} changes, sync: {sync}"))
    }

    fn of_read(&self) -> Fate {
        self.fate(Operation::Read, End::Failed, "")
    }
}

impl Env for SimulatedEnv {
    fn now_ms(&self) -> u64 {
        self.env.advance(Duration::from_millis(1));
        self.env.now_ms()
    }

    fn elapsed_ms(&self) -> u64 {
        self.now_ms()
    }

    fn random(&self) -> u128 {
        self.env.random()
    }
}

/// The name of a visit.
fn place(role: &dyn std::fmt::Display, lane: &dyn std::fmt::Display, visit: u64) -> String {
    format!("{role}[{lane}]#{visit}")
}

/// The name of the visit of a record.
pub(super) fn place_of(stored: &StoredRecord) -> String {
    match &stored.record {
        Record::Step(step) => place(&step.role, &step.lane, stored.visit),
        other => format!("{other:?}"),
    }
}

/// A model whose answers follow from what it is asked, so that another history gives another head.
struct Answerer(Arc<SimulatedEnv>);

impl Model for Answerer {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> Completion<'a> {
        Box::pin(async move {
            let (simulated, site) = (&self.0, &call.site);
            let place = place(&site.role, &site.lane, site.visit);
            if simulated.state().settled.contains(&place) {
                simulated.breaks_law(format!("{place} is asked though its step is stored"));
            }
            let last = simulated.state().asked.insert(place.clone(), site.position).unwrap_or_default();
            if last > site.position {
                simulated.breaks_law(format!(
                    "call {} of {place} is made again, though call {last} followed it",
                    site.position
                ));
            }
            match simulated.calls(Operation::Model, &format!("{place} call {}", site.position), || {}).await {
                None => Ok(ModelAnswer { reply: reply(call, &place), usage: None, cost_usd: None }),
                Some(_) => {
                    Err(Fault::new(Code::ProviderUnreachable, FaultClass::Network, "the connection broke".to_owned()))
                }
            }
        })
    }
}

fn reply(call: &ModelCall, place: &str) -> ModelReply {
    let (first, visit) = (call.site.position == 0, call.site.visit);
    let status = match (call.site.role.as_str(), visit) {
        ("writer", _) if first => {
            let (arguments, id) = (format!(r#"{{"for":"{place}"}}"#), "call".to_owned());
            return ModelReply::asking([ToolUse { arguments, id, name: "book".to_owned() }]);
        }
        ("critic" | "checker", _) if first && visit % 2 == 1 => return ModelReply::said("without a form"),
        ("planner", _) => "planned\nitems: [sea, sand, sky, wind]",
        ("critic", 1 | 2) | ("editor", 1) => "revise",
        ("critic" | "editor", _) => "approved",
        _ => "done",
    };
    ModelReply::said(format!("---\nstatus: {status}\n---\n\n{place} after {}", call.request()))
}

/// A tool with an effect, whose other side knows repetitions by their key.
struct Book {
    spec: Spec,
    simulated: Arc<SimulatedEnv>,
}

impl Tool for Book {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _: &Value) -> Effect {
        Effect::External
    }

    fn in_doubt(&self) -> InDoubt {
        InDoubt::Retry
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, tool::Error>> {
        Box::pin(async move {
            let text = arguments.to_text();
            let effect = || {
                let earlier = self.simulated.state().effects.insert(invocation.idempotency_key.clone(), text.clone());
                if earlier.is_some_and(|earlier| earlier != text) {
                    self.simulated.breaks_law(format!("one key for two effects: {text}"));
                }
            };
            self.simulated.calls(Operation::Tool, &text, effect).await;
            Ok(format!("booked {text}").into())
        })
    }
}

/// A run's model and tool.
pub(super) fn equipped(simulated: &Arc<SimulatedEnv>, workflow: &Workflow) -> RunConfig {
    let named = workflow.models.keys().map(String::as_str).chain(["default"]);
    let resolved = |name: &str| {
        let model = ResolvedModel {
            id: "simulated".to_owned(),
            provider: Arc::new(Answerer(Arc::clone(simulated))),
            price: None,
            is_price_claimed: false,
            served_by: ServedBy::default(),
            response_format: ResponseFormat::default(),
        };
        (name.to_owned(), model)
    };
    let spec = Spec {
        name: "book".to_owned(),
        description: "Books.".to_owned(),
        parameters: r#"{"type":"object"}"#.to_owned(),
        origin: Origin::BuiltIn,
    };
    let mut tools = ToolSet::default();
    let added = tools.add(Arc::new(Book { spec, simulated: Arc::clone(simulated) }));
    assert!(added.is_ok(), "one tool has no namesake");
    RunConfig {
        models: Models(named.map(resolved).collect()),
        tools,
        grants: Grants::everything(),
        ..RunConfig::default()
    }
}
