//! The memory that large replies share: one at a time is read, until its step is committed or its result is taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::tool::{Content, Error, Invocation, Origin, Spec, Tool};
use rondo_core::{Ended, Engine, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Effect, Fault, ModelAnswer, ModelCall};
use rondo_protocol::message::{Speaker, ToolUse};
use rondo_protocol::object::ModelReply;
use rondo_store::MemoryStore;
use rondo_tests::{answer, checked, equipped, follow, start, start_with};
use tokio::sync::Barrier;

use crate::durable_first::Gated;

const DONE: &str = "---\nstatus: done\n---\n\nfine";
const WORKFLOW: &str = "rondo: 1\nname: large\nroles: { a: { system: x, tools: [meet] } }\ngraph:\n  \
    start: { to: a, prompt: go }\n  a: { done: { to: end } }\n";
const LARGE_BYTES: usize = 8 << 20;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Gives large replies; the first of a visit asks for the tool.
#[derive(Default)]
struct Large {
    uses_tool: bool,
    /// How many replies there was memory for.
    read: AtomicUsize,
}

impl Model for Large {
    fn complete<'a>(
        &'a self,
        call: &'a ModelCall,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        Box::pin(async move {
            deltas.reserve(LARGE_BYTES).await;
            self.read.fetch_add(1, Ordering::Relaxed);
            let last = call.conversation.messages().last().map(|message| message.role());
            Ok(if self.uses_tool && last == Some(Speaker::User) {
                let meet = ToolUse { arguments: "{}".to_owned(), id: "1".to_owned(), name: "meet".to_owned() };
                ModelAnswer { reply: ModelReply::asking([meet]), usage: None, cost_usd: None }
            } else {
                answer(DONE.to_owned())
            })
        })
    }
}

/// Gives large replies, of which the first never ends.
#[derive(Default)]
struct Stalling {
    asked: AtomicUsize,
}

impl Model for Stalling {
    fn complete<'a>(&'a self, _: &'a ModelCall, deltas: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        Box::pin(async move {
            let is_first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
            deltas.reserve(LARGE_BYTES).await;
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok(answer(DONE.to_owned()))
        })
    }
}

/// A tool that ends when all who use it have met.
struct Meet(Spec, Barrier);

impl Tool for Meet {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn effect(&self, _: &Value) -> Effect {
        Effect::Pure
    }

    fn run<'a>(&'a self, _: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            self.1.wait().await;
            Ok(Content::default())
        })
    }
}

#[tokio::test]
async fn a_large_reply_is_read_when_the_one_before_it_is_committed() {
    let (store, mut waits) = Gated::new(3);
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let workflow = checked(&WORKFLOW.replace(", tools: [meet]", ""));
    let model = Arc::new(Large::default());
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(start(&engine, &workflow, Value::empty_object(), Arc::clone(&model) as _).await);
        assert_eq!(waits.recv().await, Some("row"));
    }
    for read in 1..=3 {
        assert_eq!(waits.recv().await, Some("step"));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(model.read.load(Ordering::Relaxed), read, "the step before is not committed yet");
        store.gate.add_permits(1);
    }
    for (_, ended) in join_all(handles.into_iter().map(follow)).await {
        assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    }
}

#[tokio::test]
async fn a_visit_that_waits_for_a_tool_has_given_its_memory_back() {
    const THREADS: usize = 8;
    let engine = Engine::new(Arc::new(MemoryStore::default()), Arc::new(SystemEnv::default()), registry());
    let model: Arc<dyn Model> = Arc::new(Large { uses_tool: true, ..Large::default() });
    let (name, parameters) = ("meet".to_owned(), r#"{"type":"object"}"#.to_owned());
    let spec = Spec { name, description: "Waits.".to_owned(), parameters, origin: Origin::BuiltIn };
    let meet = Arc::new(Meet(spec, Barrier::new(THREADS)));
    let workflow = checked(WORKFLOW);
    let runs = (0..THREADS).map(|_| async {
        let run_config = equipped(&workflow.workflow, &model, vec![Arc::clone(&meet) as _]);
        follow(start_with(&engine, &workflow, Value::empty_object(), run_config).await).await
    });
    for (_, ended) in tokio::time::timeout(PATIENCE, join_all(runs)).await.unwrap() {
        assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    }
}

/// The time in which a reply waits for another one counts towards none of its deadlines.
#[tokio::test]
async fn a_reply_that_stalls_pushes_no_other_into_its_deadline() {
    let engine = Engine::new(Arc::new(MemoryStore::default()), Arc::new(SystemEnv::default()), registry());
    let [patient, workflow] =
        ["2s", "500ms"].map(|timeout| checked(&WORKFLOW.replace("tools: [meet]", &format!("timeout: {timeout}"))));
    let stalling = Arc::new(Stalling::default());
    let model: Arc<dyn Model> = Arc::clone(&stalling) as _;
    let first = start(&engine, &patient, Value::empty_object(), Arc::clone(&model)).await;
    while stalling.asked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let others = (0..3)
        .map(|_| async { follow(start(&engine, &workflow, Value::empty_object(), Arc::clone(&model)).await).await.1 });
    for ended in tokio::time::timeout(PATIENCE, join_all(others)).await.unwrap() {
        assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    }
    assert!(matches!(first.ended().await, Ended::Stopped(_)));
}

#[tokio::test]
async fn a_result_that_nobody_takes_holds_others_up_for_a_second_and_no_longer() {
    let engine = Engine::new(Arc::new(MemoryStore::default()), Arc::new(SystemEnv::default()), registry());
    let workflow = checked(&WORKFLOW.replace(", tools: [meet]", ""));
    let model = Arc::new(Large::default());
    let start = || start(&engine, &workflow, Value::empty_object(), Arc::clone(&model) as _);
    let mut first = start().await;
    while first.events.recv().await.is_some() {}
    let began = Instant::now();
    let second = start().await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let read = model.read.load(Ordering::Relaxed);
    assert!(read == 1 || began.elapsed() > Duration::from_secs(1), "the first result is not taken yet");
    let (_, ended) = tokio::time::timeout(PATIENCE, follow(second)).await.unwrap();
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    assert!(matches!(first.ended().await, Ended::Finished(_)));
}
