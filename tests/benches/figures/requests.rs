//! The bytes of a request in each protocol, for a conversation of 1,000 messages, beside a plain serialisation of the
//! same bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_agent_kit::model::PromptCache;
use rondo_agent_kit::model::protocol::{ALL, Form, Outgoing};
use rondo_protocol::call::{Files, ModelCall, Site};
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::{Conversation, Message, Parts, ToolUse};
use rondo_protocol::object::{Head, Parameters};

use crate::support::{BODY, median, print, us};

const MESSAGES: usize = 1_000;

const TIMES: usize = 50;

/// Visits of four messages: a prompt, a call of a tool, its result and an answer.
fn conversation() -> Conversation {
    let mut conversation = Conversation::default();
    for visit in 0..MESSAGES / 4 {
        let id = format!("call_{visit}");
        let arguments = "{\"path\": \"notes/tides.md\", \"lines\": [1, 200]}".to_owned();
        let call = ToolUse { arguments, id: id.clone(), name: "read_file".to_owned() };
        conversation.push(Message::user(BODY));
        conversation.push(Parts::asking("I look.", [call]).into());
        conversation.push(Message::tool(id, BODY, false));
        conversation.push(Message::assistant(BODY));
    }
    conversation.push(Message::user("Go on."));
    conversation
}

pub fn bytes() {
    let head = Head {
        model: "claude-opus-5".to_owned(),
        parameters: Parameters::default(),
        response_format: None,
        system: BODY.to_owned(),
        tools: Vec::new(),
    };
    let (head_digest, _) = Digest::of(Kind::Head, &head).expect("a head");
    let call = ModelCall {
        site: Site {
            thread: ThreadId::from_parts(1, 2),
            role: RoleName::new("a").expect("a name"),
            lane: LanePath::trunk(),
            visit: 1,
            position: 0,
        },
        attempt: 0,
        ordinal: 0,
        model: "default".to_owned(),
        head_digest,
        head: Arc::new(head),
        conversation: Arc::new(conversation()),
        files: Files::default(),
        time_left: Duration::from_secs(1),
    };
    for protocol in ALL {
        let dialect = protocol.dialect("");
        let request = Outgoing {
            call: &call,
            provider: "p",
            dialect: &dialect,
            prompt_cache: PromptCache::Auto,
            prompt_cache_retention: None,
            form: Form::default(),
        };
        let plain: serde_json::Value =
            serde_json::from_slice(&protocol.body(&request).expect("a request")).expect("JSON");
        let (mut made, mut serialised) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let started = Instant::now();
            std::hint::black_box(protocol.body(&request).expect("a request"));
            made.push(started.elapsed());
            let started = Instant::now();
            std::hint::black_box(serde_json::to_vec(&plain).expect("JSON"));
            serialised.push(started.elapsed());
        }
        let (made, serialised) = (median(&made), median(&serialised));
        let times = made.as_secs_f64() / serialised.as_secs_f64();
        let reference = format!("{} to serialise the same bytes: {times:.1} x", us(serialised));
        print(&format!("request, 1,000 messages, {}", protocol.name()), &us(made), &reference);
    }
}
