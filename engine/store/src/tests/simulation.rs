//! Deterministic simulation: the engine, the machine and the store's write path run on one thread, under one seed, over
//! a device, a model and a tool that fail, and in a process that ends at any moment. The same seed runs over a log, as on
//! a cluster: each process begins with an empty disk.
//!
//! Laws. After each life of the process the store is whole, and holds every step that was told. No call is made again
//! whose answer another call or a step followed. The last life comes to the same steps and the same effects as one
//! that meets no fault. The same seed gives the same trace.
//!
//! A case that breaks a law is made smaller: faults that it does not need are left out. `RONDO_SIMULATION_SEED=7
//! RONDO_SIMULATION_CASES=1` tries the case 7 again; `make soak` tries as many as its time allows.

mod log;
mod simulated;
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use rondo_core::env::SeededEnv;
use rondo_core::local::{Ended, Resumed};
use rondo_core::{Engine, NewThread, RunConfig};
use rondo_protocol::Value;
use rondo_protocol::digest::Digest;
use rondo_protocol::event::{EpochOpened, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::Checked;

use self::log::Log;
use self::simulated::{Break, End, Operation, SimulatedEnv, below};
use crate as store;
use crate::simulated::{Device, SimulatedStore};
use crate::{Read as _, StepStore};

/// A loop of two roles, one of which uses a tool, and one of which first answers in no form.
const TRUNK: &str = r#"
rondo: 1
name: trunk
input: { topic: string }
roles:
  writer: { system: You write., history: exact, context: bodies, tools: [book], retry: { attempts: 9 } }
  critic:
    system: You find faults.
    output: { revise: {}, approved: {} }
    retry: { attempts: 9 }
graph:
  start: { to: writer, prompt: "Write about {{ input.topic }}." }
  writer: { done: { to: critic, prompt: "Judge this: {{ body }}" } }
  critic:
    revise: { to: writer, prompt: "Again, because {{ body }}", max: 3, on_max: { to: end } }
    approved: { to: end }
"#;

/// Lanes that use the tool at the same time, and a join.
const LANES: &str = r#"
rondo: 1
name: lanes
input: { topic: string }
roles:
  planner:
    system: You plan.
    output: { planned: { items: "string[]" } }
    retry: { attempts: 9 }
  writer: { system: You write., context: bodies, tools: [book], retry: { attempts: 9 } }
  checker: { system: You check facts., history: exact, retry: { attempts: 9 } }
  editor:
    system: You put it together.
    output: { revise: {}, approved: {} }
    retry: { attempts: 9 }
graph:
  start: { to: planner, prompt: "Plan {{ input.topic }}." }
  planner:
    planned:
      to: writer
      each: output.items
      as: part
      parallel: 3
      prompt: "Write {{ part }}."
      join: { to: editor, prompt: "{% for b in branches %}{{ b.item }}: {{ b.body }}; {% endfor %}" }
  writer: { done: { to: checker, prompt: "Check this: {{ body }}" } }
  checker: { done: { to: editor } }
  editor:
    revise: { to: planner, prompt: "Plan again, because {{ body }}", max: 1, on_max: { to: end } }
    approved: { to: end }
"#;

const WORKFLOWS: [&str; 2] = [TRUNK, LANES];

/// How long a life may take, of which each takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// How many faults a case has at most.
const MOST_FAULTS: usize = 4;

/// A case: everything that happens follows from it.
#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    workflow: usize,
    place: Place,
    /// What breaks at which operation of its kind, counted over all lives of the process.
    breaks: BTreeMap<(Operation, usize), Break>,
}

/// What keeps the writes of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A device, which the next process finds again.
    Device,
    /// A log, which fills the disk of the next process.
    Log,
}

/// What a thread came to.
#[derive(Debug, Clone, Default)]
struct Outcome {
    /// The digest of each visit's step: the order of lanes is not part of it.
    steps: BTreeMap<String, Digest>,
    head: Option<Digest>,
    /// The effects of the tool, by idempotency key.
    effects: BTreeMap<String, String>,
    /// How many operations of each kind there were.
    operations: BTreeMap<Operation, usize>,
    /// What broke.
    met: BTreeSet<(Operation, &'static str)>,
    trace: Vec<String>,
}

/// A law that was broken.
#[derive(Debug)]
struct Broken {
    law: String,
    trace: Vec<String>,
}

impl Case {
    /// The case of a seed, whose faults lie within the operations of the run without any.
    fn new(seed: u64, place: Place) -> (Self, Outcome) {
        let workflow = usize::from(seed.is_multiple_of(2));
        let whole = Self { seed, workflow, place: Place::Device, breaks: BTreeMap::new() };
        let reference = whole.play().unwrap_or_else(|broken| panic!("without a fault: {broken:?}"));
        let env = SeededEnv::new(0, !seed);
        let breaks = (0..=below(&env, MOST_FAULTS)).map(|_| {
            let operation = [Operation::Write, Operation::Write, Operation::Read, Operation::Model, Operation::Tool]
                [below(&env, 5)];
            let at = 1 + below(&env, reference.operations.get(&operation).copied().unwrap_or(1));
            ((operation, at), Break::drawn(&env, operation))
        });
        (Self { place, breaks: breaks.collect(), ..whole }, reference)
    }

    /// Runs it to its end, in as many lives of the process as it takes.
    fn play(&self) -> Result<Outcome, Broken> {
        let simulated = Arc::new(SimulatedEnv::new(self.seed, self.breaks.clone()));
        let law = match self.lives(&simulated) {
            Ok(outcome) => match simulated.broken() {
                None => return Ok(Outcome { trace: simulated.trace(), ..outcome }),
                Some(law) => law,
            },
            Err(law) => law,
        };
        Err(Broken { law, trace: simulated.trace() })
    }

    fn lives(&self, simulated: &Arc<SimulatedEnv>) -> Result<Outcome, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let folder = tempfile::tempdir().map_err(|error| text(&error))?;
        let (device, log) = (Arc::new(Device::new(Arc::clone(simulated) as _)), Arc::new(Log::default()));
        let mut checked = rondo_protocol::workflow::read("workflow.yaml", WORKFLOWS[self.workflow], &BTreeMap::new())
            .map_err(|faults| format!("{faults:?}"))?;
        // No time passes but by what is done, so that the clock of the machine decides nothing.
        checked.policy.roles.values_mut().for_each(|role| role.retry.backoff_ms = 0);
        let thread = ThreadId::from_parts(1_700_000_000_000, u128::from(self.seed));
        for _ in 0..=self.breaks.len() {
            simulated.begin_life();
            let anchor = folder.path().join("anchor");
            let anchor_before = std::fs::read(&anchor);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.map_err(|error| text(&error))?;
            let ended = runtime.block_on(async {
                let (store, has_row): (Arc<dyn StepStore>, bool) = match self.place {
                    Place::Device => {
                        let pauses = Arc::clone(simulated);
                        let pause = move || pauses.clone().pause();
                        let store = SimulatedStore::open(Arc::clone(&device), folder.path(), pause);
                        let has_row = device.contents().row(&thread).map_err(|error| text(&error))?.is_some();
                        (Arc::new(store.map_err(|error| text(&error))?), has_row)
                    }
                    Place::Log => {
                        let store = log.store(simulated, &thread).await.map_err(|error| text(&error))?;
                        let has_row = store.row(&thread).map_err(|error| text(&error))?.is_some();
                        (Arc::new(store), has_row)
                    }
                };
                life(simulated, (store, has_row), &checked, &thread).await
            });
            // The tasks of a process end with it.
            drop(runtime);
            let end = simulated.end_life();
            if end == Some(End::Power) {
                device.lose_power(|written| simulated.below(written + 1));
                // Of the anchor, which is not synced with each batch, an older one may be there.
                if let (Ok(before), 0) = (anchor_before, simulated.below(2)) {
                    std::fs::write(&anchor, before).map_err(|error| text(&error))?;
                }
            }
            let contents = match self.place {
                Place::Device => device.contents(),
                Place::Log => {
                    let runtime = tokio::runtime::Builder::new_current_thread().build();
                    let contents = runtime.map_err(|error| text(&error))?.block_on(log.contents(&thread));
                    contents.map_err(|error| text(&error))?
                }
            };
            let faults = contents.faults().map_err(|error| text(&error))?;
            if !faults.is_empty() {
                return Err(format!("the store is damaged: {faults:?}"));
            }
            let (steps, head) = stored(&contents, &thread).map_err(|error| text(&error))?;
            simulated.stored(&steps);
            match (ended, end) {
                (Ok(true), None) => {
                    let steps = steps.into_values().collect();
                    let (effects, operations, met) = (simulated.effects(), simulated.operations(), simulated.met());
                    return Ok(Outcome { steps, head, effects, operations, met, trace: Vec::new() });
                }
                (_, Some(_)) => {}
                (Ok(false), None) => return Err("the thread stopped, though nothing had failed".to_owned()),
                (Err(error), None) => return Err(error),
            }
        }
        Err("the thread did not end, though nothing failed any more".to_owned())
    }

    /// Runs it, and compares what it comes to with the run without faults.
    fn verdict(&self, reference: &Outcome) -> Result<Outcome, Broken> {
        let outcome = self.play()?;
        let differs = [
            (outcome.steps != reference.steps, "steps"),
            (outcome.head != reference.head, "head"),
            (outcome.effects != reference.effects, "effects"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, what)) => Err(Broken { law: format!("other {what} than without faults"), trace: outcome.trace }),
            None => Ok(outcome),
        }
    }

    /// The same with as few faults as break a law.
    fn smaller(mut self, reference: &Outcome) -> Self {
        while let Some(smaller) = self.breaks.keys().copied().collect::<Vec<_>>().into_iter().find_map(|without| {
            let mut smaller = self.clone();
            smaller.breaks.remove(&without);
            smaller.verdict(reference).is_err().then_some(smaller)
        }) {
            self = smaller;
        }
        self
    }

    /// Fails with the law that it breaks, and how it comes to that.
    fn tell(&self, reference: &Outcome) -> ! {
        let Err(Broken { law, trace }) = self.verdict(reference) else { panic!("seed {} is not repeated", self.seed) };
        let mut told = String::new();
        for line in trace.iter().rev().take(60).rev() {
            let _ = writeln!(told, "  {line}");
        }
        panic!("{law}\nRONDO_SIMULATION_SEED={}, with {:?}\n{told}", self.seed, self.breaks)
    }
}

/// The visit and the digest of each step of a thread, by number.
type Steps = BTreeMap<u64, (String, Digest)>;

/// The steps and the head of a thread.
fn stored(store: &dyn store::Read, thread: &ThreadId) -> Result<(Steps, Option<Digest>), store::Error> {
    let mut steps = Steps::new();
    let Some(row) = store.row(thread)? else { return Ok((steps, None)) };
    store.scan(thread, 1..=row.seq, &mut |stored, _| {
        steps.insert(stored.seq, (simulated::place_of(&stored), stored.digest));
        true
    })?;
    Ok((steps, row.head))
}

/// One life of the process over a store: starts or resumes the thread, and follows it. Returns whether the thread
/// has ended; an error if it could not go on.
async fn life(
    simulated: &Arc<SimulatedEnv>,
    (store, has_row): (Arc<dyn StepStore>, bool),
    checked: &Checked,
    thread: &ThreadId,
) -> Result<bool, String> {
    let engine = Engine::new(store, Arc::clone(simulated) as _, rondo_hooks::registry());
    let run_config: RunConfig = simulated::equipped(simulated, &checked.workflow);
    let run = async {
        let mut handle = if has_row {
            let resumed = engine.resume::<rondo_core::Error>(thread, |_, _| Ok(run_config)).await;
            match resumed.map_err(|error| error.to_string())? {
                Resumed::Running(handle) => handle,
                Resumed::Ended { .. } => return Ok(true),
            }
        } else {
            let input = [("topic", Value::from("tides"))].into_iter().collect();
            let new = NewThread::of(checked.clone(), input);
            engine.start_drawn(new, run_config, thread.clone()).await.map_err(|error| error.to_string())?
        };
        while let Some(event) = handle.events.recv().await {
            if let What::StepCommitted { seq, step, .. } | What::EpochOpened(EpochOpened { seq, step, .. }) =
                &event.what
            {
                simulated.tell(*seq, *step);
            }
            simulated.note(serde_json::to_string(&event).unwrap_or_default());
        }
        match handle.ended().await {
            Ended::Finished(_) => Ok(true),
            Ended::Stopped(fault) => {
                simulated.note(format!("stopped: {}", fault.message));
                Ok(false)
            }
            Ended::Waiting(_) => Err("it waits for a person".to_owned()),
        }
    };
    tokio::select! {
        biased;
        () = simulated.died() => Ok(false),
        ended = run => ended,
        () = tokio::time::sleep(PATIENCE) => Err("nothing continues any more".to_owned()),
    }
}
