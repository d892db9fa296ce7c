//! What stops a thread keeps what was paid for: calls in flight run to their end, their answers are journaled and counted,
//! and a resumed run asks for none of them again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::tool::{Content, Error, Invocation, Origin, Spec, Tool};
use rondo_core::thread::Ending;
use rondo_core::{Ended, Engine, RaisedLimit, RaisedLimits, Resumed, RunConfig, SystemEnv, ThreadHandle};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Effect, Fault, FaultClass, ModelAnswer, ModelCall, Site};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, Outcome, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::message::{Speaker, ToolUse};
use rondo_protocol::object::{ModelReply, Usage};
use rondo_protocol::workflow::Checked;
use rondo_store::{MemoryStore, Read as _};
use rondo_tests::{checked, equipped, follow, start_with};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const DONE: &str = "---\nstatus: done\n---\n\nfine";

const LANES: &str = r"
rondo: 1
name: kept
roles: { a: { system: x, retry: { attempts: 1 } }, b: { system: x }, c: { system: x, tools: [look] }, j: { system: x } }
graph:
  start: { to: [{ to: a }, { to: b }, { to: c }], prompt: go, join: j }
  a: { done: { to: j } }
  b: { done: { to: j } }
  c: { done: { to: j } }
  j: { done: { to: end } }
";

/// A provider that notes each answered call, and whose answers each role waits for.
struct Paced {
    answered: Mutex<BTreeMap<String, u32>>,
    /// One permit an answer.
    gates: BTreeMap<&'static str, Semaphore>,
    /// Told when a call has come.
    asked: Semaphore,
    fails: Mutex<Option<&'static str>>,
}

impl Paced {
    fn new(roles: &[&'static str]) -> Arc<Self> {
        let gates = roles.iter().map(|role| (*role, Semaphore::new(0))).collect();
        let (answered, asked, fails) = (Mutex::default(), Semaphore::new(0), Mutex::default());
        Arc::new(Self { answered, gates, asked, fails })
    }

    fn open(&self) {
        self.gates.values().for_each(|gate| gate.add_permits(1000));
    }

    fn answered(&self) -> BTreeMap<String, u32> {
        self.answered.lock().unwrap().clone()
    }

    async fn asked(&self, calls: u32) {
        self.asked.acquire_many(calls).await.unwrap().forget();
    }
}

impl Model for Paced {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        Box::pin(async move {
            let Site { role, lane, position, .. } = &call.site;
            self.asked.add_permits(1);
            if let Some(gate) = self.gates.get(role.as_str()) {
                gate.acquire().await.unwrap().forget();
            }
            if self.fails.lock().unwrap().is_some_and(|fails| fails == role.as_str()) {
                return Err(Fault::new(Code::RequestRefused, FaultClass::Refused, "no"));
            }
            *self.answered.lock().unwrap().entry(format!("{lane:?} {role} {position}")).or_default() += 1;
            let is_first = call.conversation.messages().last().is_some_and(|last| last.role() == Speaker::User);
            let reply = match (role.as_str(), is_first) {
                ("c", true) => {
                    let looks = ["look", "peek"].map(|id| ToolUse {
                        id: id.to_owned(),
                        name: "look".to_owned(),
                        arguments: format!(r#"{{"at":"{id}"}}"#),
                    });
                    ModelReply::asking(looks)
                }
                _ => ModelReply::said(DONE.to_owned()),
            };
            let usage =
                Some(Usage { prompt_tokens: prompt_tokens(role.as_str()), output_tokens: 5, ..Usage::default() });
            Ok(ModelAnswer { reply, usage, cost_usd: Some(0.001) })
        })
    }
}

/// What is billed for a call of a role.
fn prompt_tokens(role: &str) -> u64 {
    if role == "c" { 10_000 } else { 10 }
}

/// A tool that answers as soon as its gate is open, or fails the run.
struct Looks {
    spec: Spec,
    effect: Effect,
    calls: Arc<Mutex<Vec<String>>>,
    gate: Semaphore,
    fails_at: Option<&'static str>,
}

impl Looks {
    fn new(effect: Effect, fails_at: Option<&'static str>) -> Arc<Self> {
        let parameters = r#"{"type":"object"}"#.to_owned();
        let spec = Spec { name: "look".to_owned(), description: String::new(), parameters, origin: Origin::BuiltIn };
        Arc::new(Self { spec, effect, calls: Arc::default(), gate: Semaphore::new(0), fails_at })
    }

    fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

impl Tool for Looks {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _: &Value) -> Effect {
        self.effect.clone()
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            let text = arguments.to_text();
            self.calls.lock().unwrap().push(text.clone());
            if self.fails_at.is_some_and(|at| text.contains(at)) && self.calls() < 3 {
                return Err(Error::new(Code::McpChanged, "its tools are others"));
            }
            self.gate.acquire().await.unwrap().forget();
            Ok(format!("seen {text}").into())
        })
    }
}

/// A chain of rules asks nobody and never waits; it stops all the same, and continues where it was.
#[tokio::test]
async fn a_chain_of_rules_stops_and_goes_on() {
    const RULES: &str = "rondo: 1\nname: rules\nlimits: { steps: 1000000 }\nroles:\n  \
        turn: { kind: rule, output: { taken: null } }\n  wait: { kind: rule, output: { taken: null } }\ngraph:\n  \
        start: { to: turn }\n  turn: { taken: { to: wait, max: 100000, on_max: { to: end } } }\n  \
        wait: { taken: { to: turn } }\n";
    let bench = Bench::new(RULES, &Paced::new(&[]), &Looks::new(Effect::Pure, None));
    let mut handle = bench.start().await;
    while !matches!(handle.events.recv().await.unwrap().what, What::StepCommitted { .. }) {}
    let thread = handle.thread.clone();
    handle.stopper.stop();
    let (_, ended) = tokio::time::timeout(Duration::from_secs(20), follow(handle)).await.unwrap();
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.code == Code::Interrupted), "{ended:?}");
    let steps = bench.store.row(&thread).unwrap().unwrap().seq;
    assert!(steps < 100_000, "{steps}");
    let config = |_: &_, _: &_| Ok::<_, rondo_core::Error>(bench.config());
    let Resumed::Running(mut handle) = bench.engine.resume(&thread, config).await.unwrap() else { panic!("it ended") };
    while !matches!(handle.events.recv().await.unwrap().what, What::StepCommitted { .. }) {}
    handle.stopper.cancel();
    let (_, ended) = tokio::time::timeout(Duration::from_secs(20), follow(handle)).await.unwrap();
    assert!(matches!(&ended, Ended::Finished(ending) if ending.outcome == Outcome::Cancelled), "{ended:?}");
    assert!(bench.store.row(&thread).unwrap().unwrap().seq > steps);
}

/// Follows a run that stops: it still waits for the calls that are paid for.
async fn waits(handle: ThreadHandle) -> JoinHandle<(Vec<Event>, Ended)> {
    let stopping = tokio::spawn(follow(handle));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!stopping.is_finished(), "it waits for the calls that are on their way");
    stopping
}

struct Bench {
    store: Arc<MemoryStore>,
    engine: Engine,
    checked: Checked,
    model: Arc<Paced>,
    tool: Arc<Looks>,
}

impl Bench {
    fn new(text: &str, model: &Arc<Paced>, tool: &Arc<Looks>) -> Self {
        let store = Arc::new(MemoryStore::default());
        let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
        Self { store, engine, checked: checked(text), model: Arc::clone(model), tool: Arc::clone(tool) }
    }

    fn config(&self) -> RunConfig {
        let model: Arc<dyn Model> = Arc::clone(&self.model) as _;
        equipped(&self.checked.workflow, &model, vec![Arc::clone(&self.tool) as _])
    }

    async fn start(&self) -> ThreadHandle {
        start_with(&self.engine, &self.checked, Value::empty_object(), self.config()).await
    }

    /// A run of three lanes whose three calls are on their way.
    async fn begun(&self) -> (ThreadId, ThreadHandle) {
        let handle = self.start().await;
        self.model.asked(3).await;
        (handle.thread.clone(), handle)
    }

    async fn resume(&self, thread: &ThreadId) -> (Vec<Event>, Ended) {
        let config = |_: &_, _: &_| Ok::<_, rondo_core::Error>(self.config());
        let resumed = self.engine.resume(thread, config).await.unwrap();
        let Resumed::Running(handle) = resumed else { panic!("it has ended") };
        follow(handle).await
    }

    /// Every answer was asked for once, and the thread's sum is what was billed.
    #[track_caller]
    fn is_paid_once(&self, thread: &ThreadId, ended: &Ended) {
        assert!(matches!(ended, Ended::Finished(Ending { outcome: Outcome::Done, .. })), "{ended:?}");
        let answered = self.model.answered();
        assert!(answered.values().all(|times| *times == 1), "{answered:?}");
        let row = self.store.row(thread).unwrap().unwrap();
        let tokens: u64 = (1..=row.seq)
            .map(|seq| self.store.step(thread, seq).unwrap().unwrap().1)
            .map(|note| note.usage.map_or(0, |usage| usage.prompt_tokens))
            .sum();
        let billed = answered.keys().map(|call| prompt_tokens(call.split(' ').rev().nth(1).unwrap()));
        assert_eq!(tokens, billed.sum::<u64>());
    }
}

#[tokio::test]
async fn a_fault_in_one_lane_lets_the_calls_of_the_others_end() {
    let (model, tool) = (Paced::new(&["a", "b", "c"]), Looks::new(Effect::Pure, None));
    *model.fails.lock().unwrap() = Some("a");
    let bench = Bench::new(LANES, &model, &tool);
    let (thread, handle) = bench.begun().await;
    model.gates["a"].add_permits(1);
    let stopping = waits(handle).await;
    model.open();
    let (_, ended) = stopping.await.unwrap();
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.code == Code::RequestRefused), "{ended:?}");
    assert_eq!((model.answered().len(), tool.calls()), (2, 0), "no further call has begun");

    *model.fails.lock().unwrap() = None;
    tool.gate.add_permits(10);
    let (_, ended) = bench.resume(&thread).await;
    bench.is_paid_once(&thread, &ended);
}

#[tokio::test]
async fn lanes_at_a_limit_keep_the_answers_that_were_on_their_way() {
    let (model, tool) = (Paced::new(&["a", "b", "c"]), Looks::new(Effect::Pure, None));
    // One answer reaches it, so that what `c` asks for after its tools is refused.
    let text = LANES.replace("graph:", "limits: { tokens: 8000 }\ngraph:");
    let bench = Bench::new(&text, &model, &tool);
    tool.gate.add_permits(10);
    let (thread, handle) = bench.begun().await;
    model.gates["c"].add_permits(1);
    let stopping = waits(handle).await;
    model.open();
    let (_, ended) = stopping.await.unwrap();
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.class == FaultClass::Limit), "{ended:?}");
    let raised = RaisedLimits {
        thread: None,
        limits: vec![RaisedLimit { key: "tokens".to_owned(), value: Value::from(100_000_u64) }],
    };
    let config = |_: &_, _: &_| Ok::<_, rondo_core::Error>(RunConfig { raised: raised.clone(), ..bench.config() });
    let Resumed::Running(handle) = bench.engine.resume(&thread, config).await.unwrap() else { panic!("it has ended") };
    let (_, ended) = follow(handle).await;
    bench.is_paid_once(&thread, &ended);
}

#[tokio::test]
async fn a_run_that_is_told_to_stop_keeps_what_comes_in_time() {
    let (model, tool) = (Paced::new(&["a", "b", "c"]), Looks::new(Effect::Pure, None));
    let bench = Bench::new(LANES, &model, &tool);
    let (thread, handle) = bench.begun().await;
    handle.stopper.stop();
    let stopping = waits(handle).await;
    model.open();
    let (_, ended) = stopping.await.unwrap();
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.code == Code::Interrupted), "{ended:?}");
    assert_eq!(model.answered().len(), 3);
    tool.gate.add_permits(10);
    let (_, ended) = bench.resume(&thread).await;
    bench.is_paid_once(&thread, &ended);
}

#[tokio::test]
async fn a_run_that_is_stopped_at_once_waits_for_nobody() {
    let (model, tool) = (Paced::new(&["a", "b", "c"]), Looks::new(Effect::Pure, None));
    let bench = Bench::new(LANES, &model, &tool);
    let (thread, handle) = bench.begun().await;
    handle.stopper.stop();
    handle.stopper.stop_at_once();
    let (_, ended) = follow(handle).await;
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.code == Code::Interrupted), "{ended:?}");
    model.open();
    tool.gate.add_permits(10);
    let (_, ended) = bench.resume(&thread).await;
    bench.is_paid_once(&thread, &ended);
}

#[tokio::test]
async fn a_neighbours_fault_leaves_a_child_to_be_resumed_with_its_answers() {
    let child = r"
rondo: 1
name: child
roles: { b: { system: x }, c: { system: x, tools: [look] } }
graph: { start: { to: b, prompt: go }, b: { done: { to: c, prompt: on } }, c: { done: { to: end } } }
";
    let text = LANES.replace("b: { system: x },", "b: { kind: workflow, workflow: child.yaml },");
    let text = text.replace("  b: { done: { to: j } }", "  b: { done: { to: j }, failed: { to: fail } }");
    let files = BTreeMap::from([("child.yaml".to_owned(), child.to_owned())]);
    let (model, tool) = (Paced::new(&["a", "b", "c"]), Looks::new(Effect::Pure, None));
    *model.fails.lock().unwrap() = Some("a");
    let bench = Bench {
        checked: rondo_protocol::workflow::read("workflow.yaml", &text, &files).unwrap(),
        ..Bench::new(LANES, &model, &tool)
    };
    let config = || {
        let Ok(role) = rondo_protocol::id::RoleName::new("b") else { panic!("a name") };
        RunConfig { children: BTreeMap::from([(role, bench.config())]), ..bench.config() }
    };
    let handle = start_with(&bench.engine, &bench.checked, Value::empty_object(), config()).await;
    let thread = handle.thread.clone();
    model.asked(3).await;
    model.gates["a"].add_permits(1);
    let stopping = waits(handle).await;
    model.open();
    let (_, ended) = stopping.await.unwrap();
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.code == Code::RequestRefused), "{ended:?}");
    *model.fails.lock().unwrap() = None;
    tool.gate.add_permits(10);
    let resume = |_: &_, _: &_| Ok::<_, rondo_core::Error>(config());
    let Resumed::Running(handle) = bench.engine.resume(&thread, resume).await.unwrap() else { panic!("it has ended") };
    let (_, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Finished(Ending { outcome: Outcome::Done, .. })), "{ended:?}");
    let answered = model.answered();
    // The child's lane is its own trunk.
    assert!(answered.values().all(|times| *times == 1), "{answered:?}");
}

const ALONE: &str = "rondo: 1\nname: alone\nroles: { c: { system: x, tools: [look] } }\ngraph: { start: { to: c, prompt: go }, c: { done: { to: end } } }\n";

#[tokio::test]
async fn results_beside_a_tool_that_fails_the_run_are_kept() {
    let (model, tool) = (Paced::new(&[]), Looks::new(Effect::Pure, Some("look")));
    let bench = Bench::new(ALONE, &model, &tool);
    let handle = bench.start().await;
    let thread = handle.thread.clone();
    let stopping = waits(handle).await;
    tool.gate.add_permits(10);
    let (_, ended) = stopping.await.unwrap();
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.code == Code::McpChanged), "{ended:?}");
    let (_, ended) = bench.resume(&thread).await;
    bench.is_paid_once(&thread, &ended);
    let mut calls = tool.calls.lock().unwrap().clone();
    calls.sort();
    assert_eq!(calls, [r#"{"at":"look"}"#, r#"{"at":"look"}"#, r#"{"at":"peek"}"#]);
}

#[tokio::test]
async fn a_deadline_lets_a_write_end_that_is_under_way() {
    let (model, tool) = (Paced::new(&[]), Looks::new(Effect::External, None));
    let text = ALONE.replace("c: { system: x,", "c: { system: x, timeout: 200ms,");
    let bench = Bench::new(&text, &model, &tool);
    let mut handle = bench.start().await;
    let thread = handle.thread.clone();
    while tool.calls() == 0 {
        handle.events.recv().await;
    }
    let stopping = tokio::spawn(follow(handle));
    tokio::time::sleep(Duration::from_millis(400)).await;
    tool.gate.add_permits(1);
    let (events, ended) = stopping.await.unwrap();
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.code == Code::StepTimeout), "{ended:?}");
    let ends = events.iter().filter(|event| matches!(event.what, What::ToolFinished { .. })).count();
    assert_eq!(ends, 1, "its result is known");
    tool.gate.add_permits(10);
    let (_, ended) = bench.resume(&thread).await;
    bench.is_paid_once(&thread, &ended);
    assert_eq!(tool.calls(), 2, "one of each call");
}

#[tokio::test]
async fn what_a_child_used_that_did_not_end_stands_in_the_step_that_follows_its_fault() {
    let child = "rondo: 1\nname: child\nroles: { b: { system: x }, d: { system: x, retry: { attempts: 1 } } }\ngraph: { start: { to: b, prompt: go }, b: { done: { to: d, prompt: on } }, d: { done: { to: end } } }\n";
    let text = "rondo: 1\nname: parent\nroles: { p: { kind: workflow, workflow: child.yaml }, j: { system: x } }\ngraph: { start: { to: p }, p: { done: { to: end }, failed: { to: fail }, on_error: { to: j, prompt: on } }, j: { done: { to: end } } }\n";
    let files = BTreeMap::from([("child.yaml".to_owned(), child.to_owned())]);
    let (model, tool) = (Paced::new(&[]), Looks::new(Effect::Pure, None));
    *model.fails.lock().unwrap() = Some("d");
    let bench = Bench {
        checked: rondo_protocol::workflow::read("workflow.yaml", text, &files).unwrap(),
        ..Bench::new(ALONE, &model, &tool)
    };
    let Ok(role) = rondo_protocol::id::RoleName::new("p") else { panic!("a name") };
    let config = RunConfig { children: BTreeMap::from([(role, bench.config())]), ..bench.config() };
    let handle = start_with(&bench.engine, &bench.checked, Value::empty_object(), config).await;
    let thread = handle.thread.clone();
    let (_, ended) = follow(handle).await;
    bench.is_paid_once(&thread, &ended);
}
