//! Hooks in a running thread, at turn, model and tool calls: what an altering one leaves behind can be proven, what one
//! answers says so, and one that fails is bypassed or routed.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::tool;
use rondo_core::conversation::rebuild;
use rondo_core::hook::{BuildContext, Context, Hook, HookKind, Next, Registry};
use rondo_core::{Engine, SystemEnv};
use rondo_protocol::Value;
use rondo_protocol::call::{
    Call, CallKind, Effect, Fault, FaultClass, ModelAnswer, ModelCall, Reply, ToolReply, TurnReply,
};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, What};
use rondo_protocol::id::{Status, ThreadId};
use rondo_protocol::message::{Message, ToolUse};
use rondo_protocol::object::{AnsweredBy, Entry, ModelReply, Transcript};
use rondo_protocol::workflow::{HookUse, OnHookError};
use rondo_store::{MemoryStore, Read};
use rondo_tests::{FnTool, answer, checked, equipped, follow, start_with};

const GOOD: &str = "---\nstatus: done\n---\n\nfrom the model";

/// A kind whose hooks all do the same.
#[derive(Clone, Copy)]
enum Kind {
    Answers,
    Rewrites,
    Fails,
}

impl Kind {
    fn all() -> Registry {
        Registry::new([Self::Answers, Self::Rewrites, Self::Fails].map(|kind| Arc::new(kind) as Arc<dyn HookKind>))
    }
}

impl HookKind for Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Rewrites => "rewrites",
            Self::Fails => "fails",
        }
    }

    fn build(&self, _: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        Ok(Arc::new(*self))
    }
}

impl Hook for Kind {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            match self {
                Self::Answers => Ok(answered(&call)),
                Self::Rewrites => next.run(rewritten(call)).await,
                Self::Fails => Err(Fault::new(Code::HookFailed, FaultClass::Hook, "it fails")),
            }
        })
    }
}

fn answered(call: &Call) -> Reply {
    match call {
        Call::Turn(_) => Reply::Turn(Box::new(TurnReply {
            body: "from the turn hook".to_owned(),
            ..TurnReply::said(Status::new("done").unwrap(), GOOD.replace("model", "turn hook"))
        })),
        Call::Model(_) => Reply::Model(answer(GOOD.replace("model", "model hook"))),
        Call::Tool(_) => Reply::Tool(ToolReply::said("from the tool hook")),
    }
}

fn rewritten(call: Call) -> Call {
    let say = |messages: &mut Arc<rondo_protocol::message::Conversation>| {
        Arc::make_mut(messages).push(Message::user("In short."));
    };
    match call {
        Call::Turn(mut call) => {
            say(&mut call.conversation);
            Call::Turn(call)
        }
        Call::Model(mut call) => {
            say(&mut call.conversation);
            Call::Model(call)
        }
        Call::Tool(mut call) => {
            "{\"rewritten\":true}".clone_into(&mut call.arguments);
            Call::Tool(call)
        }
    }
}

/// Asks for a tool first, then answers.
struct AsksForATool;

impl Model for AsksForATool {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let asked = call.conversation.messages().iter().any(|message| message.tool_calls().next().is_some());
        let tool = ToolUse { arguments: "{}".to_owned(), id: "t1".to_owned(), name: "look".to_owned() };
        let reply = ModelReply::asking([tool]);
        let first = ModelAnswer { reply, usage: None, cost_usd: None };
        Box::pin(std::future::ready(Ok(if asked { answer(GOOD.to_owned()) } else { first })))
    }
}

struct Ran {
    store: Arc<MemoryStore>,
    thread: ThreadId,
    events: Vec<Event>,
}

/// Runs one visit with a hook of that kind before its calls of `at`.
async fn run(kind: &str, at: CallKind, on_error: OnHookError) -> Ran {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), Kind::all());
    let mut checked = checked(
        "rondo: 1\nname: hooked\nroles: { a: { system: x, tools: [look] } }\ngraph:\n  start: { to: a, prompt: go }\n  a:\n    \
         done: { to: end }\n    on_error: { to: fail, reason: \"{{ output.code }}\" }\n",
    );
    checked.policy.hooks =
        vec![HookUse { at, on_error, roles: None, settings: BTreeMap::new(), kind: kind.to_owned() }];
    let nothing = |_: &Value, _: &str| Err(tool::Error::new(Code::UnknownTool, "there is nothing to look at"));
    let look = Arc::new(FnTool::new("look", Effect::Pure, nothing));
    let model: Arc<dyn Model> = Arc::new(AsksForATool);
    let run_config = equipped(&checked.workflow, &model, vec![look]);
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
    let thread = handle.thread.clone();
    let (events, _) = follow(handle).await;
    Ran { store, thread, events }
}

impl Ran {
    fn requests(&self) -> Vec<rebuild::Request> {
        let row = self.store.row(&self.thread).unwrap().unwrap();
        let mut requests = Vec::new();
        let mut keep = |request| {
            requests.push(request);
            true
        };
        rebuild::requests(&*self.store, &self.thread, &row, &|_| true, &mut keep).unwrap();
        requests
    }

    fn transcript(&self) -> Transcript {
        let (stored, _) = self.store.step(&self.thread, 1).unwrap().unwrap();
        rebuild::object(&*self.store, rondo_protocol::digest::Kind::Transcript, stored.step.transcript.unwrap())
            .unwrap()
    }

    fn answer(&self) -> String {
        self.store.step(&self.thread, 1).unwrap().unwrap().0.step.answer
    }

    fn status(&self) -> String {
        self.store.step(&self.thread, 1).unwrap().unwrap().0.step.status.to_string()
    }
}

#[tokio::test]
async fn what_a_hook_rewrote_stands_beside_what_was_asked_and_both_can_be_proven() {
    for at in [CallKind::Turn, CallKind::Model] {
        let ran = run("rewrites", at, OnHookError::Fail).await;
        let requests = ran.requests();
        assert_eq!(requests.len(), 2, "{at:?}");
        for request in &requests {
            assert!(request.is_proven(), "{at:?}: {:?}", request.fault);
            let asked = request.plain.messages();
            assert!(request.messages().messages().iter().any(|message| message.text() == "In short."));
            assert!(!asked.iter().any(|message| message.text() == "In short."));
            assert_ne!(request.asked, Some(request.recorded));
        }
    }
}

#[tokio::test]
async fn a_rewritten_tool_call_is_asked_for_as_the_model_wrote_it() {
    let ran = run("rewrites", CallKind::Tool, OnHookError::Fail).await;
    assert!(ran.requests().iter().all(rebuild::Request::is_proven));
    let transcript = ran.transcript();
    let Some(Entry::Tool { arguments, failed, .. }) = transcript.entries.get(1) else { panic!("no tool entry") };
    assert_eq!((arguments.as_str(), *failed), ("{}", true));
}

#[tokio::test]
async fn a_hook_that_answers_is_named_by_the_event_that_tells_of_the_answer() {
    let hook = AnsweredBy::Hook("answers".to_owned());
    let ran = run("answers", CallKind::Model, OnHookError::Fail).await;
    assert_eq!(ran.answer(), GOOD.replace("model", "model hook"));
    assert!(
        ran.events
            .iter()
            .any(|event| matches!(&event.what, What::CallSettled { answered_by, .. } if *answered_by == hook))
    );

    let ran = run("answers", CallKind::Tool, OnHookError::Fail).await;
    assert!(ran.events.iter().any(
        |event| matches!(&event.what, What::ToolFinished { answered_by, failed: false, .. } if *answered_by == hook)
    ));

    let ran = run("answers", CallKind::Turn, OnHookError::Fail).await;
    assert_eq!(ran.answer(), GOOD.replace("model", "turn hook"));
    assert!(ran.transcript().entries.is_empty());
    let (_, note) = ran.store.step(&ran.thread, 1).unwrap().unwrap();
    assert_eq!(note.answered_by, Some(hook));
}

#[tokio::test]
async fn a_hook_that_fails_is_bypassed_or_its_fault_is_routed() {
    for at in CallKind::ALL {
        let bypassed = run("fails", at, OnHookError::Bypass).await;
        assert_eq!((bypassed.status().as_str(), bypassed.answer().as_str()), ("done", GOOD), "{at:?}");
        let failed = run("fails", at, OnHookError::Fail).await;
        assert_eq!(failed.status(), "error", "{at:?}");
    }
}
