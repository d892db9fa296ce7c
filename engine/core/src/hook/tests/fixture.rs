//! Calls of each kind, and a path of hooks that they are sent through. The tests of hook kinds name this file too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_protocol::call::{
    Call, Effect, Fault, Files, ModelAnswer, ModelCall, Reply, Site, ToolCall, ToolReply, TurnCall, TurnReply,
};
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{Head, ModelReply, Parameters};
use rondo_protocol::workflow::OnHookError;

use rondo_core::env::SeededEnv;
use rondo_core::hook::call_path::Answered;
use rondo_core::hook::{CallPath, Context, Hook, KeySpace, NoPast, NoReports, Node};
use rondo_core::store::MemoryStore;

pub(crate) fn site() -> Site {
    Site {
        thread: ThreadId::from_parts(1, 1),
        role: RoleName::new("writer").unwrap(),
        lane: LanePath::trunk(),
        visit: 1,
        position: 0,
    }
}

pub(crate) fn head(system: &str) -> Head {
    Head {
        model: "m".to_owned(),
        parameters: Parameters::default(),
        response_format: None,
        system: system.to_owned(),
        tools: Vec::new(),
    }
}

pub(crate) fn calls() -> Vec<Call> {
    let head = Arc::new(head("You write."));
    let head_digest = Digest::of(Kind::Head, &*head).unwrap().0;
    let conversation: Arc<Conversation> = Arc::new([Message::user("Write.")].into_iter().collect());
    vec![
        Call::Turn(TurnCall {
            site: site(),
            head_digest,
            head: Arc::clone(&head),
            conversation: Arc::clone(&conversation),
        }),
        Call::Model(ModelCall {
            site: site(),
            attempt: 0,
            ordinal: 0,
            model: "default".to_owned(),
            head_digest,
            head,
            conversation,
            files: Files::default(),
            time_left: Duration::from_secs(1),
        }),
        Call::Tool(ToolCall {
            site: site(),
            id: "1".to_owned(),
            name: "read_file".to_owned(),
            arguments: "{}".to_owned(),
            effect: Effect::Pure,
            idempotency_key: "k".to_owned(),
        }),
    ]
}

/// A reply that says `text`, of the kind that `call` wants.
pub(crate) fn reply(call: &Call, text: &str) -> Reply {
    match call {
        Call::Turn(_) => Reply::Turn(Box::new(TurnReply {
            body: text.to_owned(),
            ..TurnReply::said(Status::new("done").unwrap(), text)
        })),
        Call::Model(_) => Reply::Model(ModelAnswer { reply: ModelReply::said(text), usage: None, cost_usd: None }),
        Call::Tool(_) => Reply::Tool(ToolReply::said(text)),
    }
}

/// The text in which calls of each kind differ when they are rewritten.
pub(crate) fn text_of(call: &Call) -> String {
    match call {
        Call::Turn(call) => call.conversation.messages().last().unwrap().text().into_owned(),
        Call::Model(call) => call.conversation.messages().last().unwrap().text().into_owned(),
        Call::Tool(call) => call.arguments.clone(),
    }
}

pub(crate) fn node(name: &str, hook: Arc<dyn Hook>, on_error: OnHookError) -> Arc<Node> {
    let context = Context {
        node: name.to_owned(),
        space: KeySpace::new(Arc::new(MemoryStore::default()), name),
        env: Arc::new(SeededEnv::new(0, 1)),
        reports: Arc::new(NoReports),
        past: Arc::new(NoPast),
    };
    Arc::new(Node { on_error, hook, context })
}

pub(crate) struct Outcome {
    pub(crate) result: Result<Answered, Fault>,
    pub(crate) port_reached: usize,
    pub(crate) port_saw: Vec<String>,
}

/// Sends `call` through `nodes` to a port that answers, or fails with `port_fault`.
pub(crate) async fn send(nodes: Vec<Arc<Node>>, call: Call, port_fault: Option<Fault>) -> Outcome {
    let path = CallPath::new(nodes);
    let reached = AtomicUsize::new(0);
    let saw = std::sync::Mutex::new(Vec::new());
    let result = {
        let (reached, saw) = (&reached, &saw);
        let port = move |call: Call| -> BoxFuture<'_, Result<Reply, Fault>> {
            Box::pin(async move {
                reached.fetch_add(1, Ordering::SeqCst);
                saw.lock().unwrap().push(text_of(&call));
                port_fault.map_or_else(|| Ok(reply(&call, "from the port")), Err)
            })
        };
        path.run(call, Box::new(port)).await
    };
    Outcome { result, port_reached: reached.into_inner(), port_saw: saw.into_inner().unwrap() }
}
