//! What a program is asked: one line of JSON, version 1. `engine/docs/hooks.md` is its page.
//!
//! What stands as text in a request and is JSON (schemas, arguments) is given as JSON. Arguments are given in canonical
//! form, so that each has one spelling and a program may look for words in them.

use std::io::{self, Write};

use rondo_protocol::call::{Call, Effect, Site, ToolCall};
use rondo_protocol::canonical;
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{Head, Parameters};
use serde::Serialize;
use serde_json::value::RawValue;

/// The version of what is asked and answered. Members may be added to it; what is there keeps its meaning.
const VERSION: u32 = 1;

/// The most bytes that a program is handed.
const MAX_BYTES: usize = 32 << 20;

/// The line for a program, with its end.
pub(super) fn line(call: &Call, hook: &str) -> Result<Vec<u8>, String> {
    let Site { thread, role, lane, visit, position } = call.site();
    let attempt = if let Call::Model(call) = call { call.attempt } else { 0 };
    let question = Question {
        version: VERSION,
        hook,
        at: call.kind().name(),
        thread: thread.as_str(),
        role: role.as_str(),
        lane: lane.to_string(),
        visit: *visit,
        position: *position,
        attempt,
        call: match call {
            Call::Turn(call) => CallJson::request(&call.head, &call.conversation),
            Call::Model(call) => CallJson::request(&call.head, &call.conversation),
            Call::Tool(call) => CallJson::of_tool(call),
        },
    };
    let mut line = Bounded(Vec::new());
    let written = serde_json::to_writer(&mut line, &question).map_err(io::Error::from);
    match written.and_then(|()| line.write_all(b"\n")) {
        Ok(()) => Ok(line.0),
        Err(_) => Err(format!("the call is longer than {} MiB, which a program is not handed", MAX_BYTES >> 20)),
    }
}

#[derive(Serialize)]
struct Question<'a> {
    version: u32,
    hook: &'a str,
    at: &'static str,
    thread: &'a str,
    role: &'a str,
    lane: String,
    visit: u64,
    position: u32,
    attempt: u32,
    call: CallJson<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CallJson<'a> {
    Request {
        model: &'a str,
        parameters: &'a Parameters,
        system: &'a str,
        tools: Vec<Offered<'a>>,
        response_format: Option<Json<'a>>,
        messages: Vec<&'a Message>,
    },
    Tool {
        tool: &'a str,
        id: &'a str,
        arguments: Json<'a>,
        effect: Does<'a>,
    },
}

#[derive(Serialize)]
struct Offered<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Json<'a>,
}

#[derive(Serialize)]
struct Does<'a> {
    kind: &'static str,
    paths: &'a [String],
}

/// A text that holds JSON is given as JSON, any other as text.
#[derive(Serialize)]
#[serde(untagged)]
enum Json<'a> {
    Whole(Box<RawValue>),
    Text(&'a str),
}

impl<'a> Json<'a> {
    fn canonical(text: &'a str) -> Self {
        let value = canonical::parse(text.as_bytes()).map(|value| value.to_text()).ok();
        value.and_then(|text| RawValue::from_string(text).ok()).map_or(Self::Text(text), Self::Whole)
    }
}

impl<'a> CallJson<'a> {
    fn request(head: &'a Head, conversation: &'a Conversation) -> Self {
        let Head { model, parameters, response_format, system, tools } = head;
        let offered = tools.iter().map(|tool| Offered {
            name: &tool.name,
            description: &tool.description,
            parameters: Json::canonical(&tool.parameters),
        });
        Self::Request {
            model,
            parameters,
            system,
            tools: offered.collect(),
            response_format: response_format.as_deref().map(Json::canonical),
            messages: conversation.messages(),
        }
    }

    fn of_tool(call: &'a ToolCall) -> Self {
        let paths: &[String] = match &call.effect {
            Effect::Reads(paths) | Effect::Writes(paths) => paths,
            Effect::Pure | Effect::External => &[],
        };
        Self::Tool {
            tool: &call.name,
            id: &call.id,
            arguments: Json::canonical(&call.arguments),
            effect: Does { kind: call.effect.name(), paths },
        }
    }
}

/// Takes at most [`MAX_BYTES`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > MAX_BYTES {
            return Err(io::Error::other("too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
