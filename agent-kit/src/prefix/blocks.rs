//! A request as a provider sees it: blocks in the order in which they are a prefix.
//!
//! First the model: another one shares nothing, and it has no bytes. Then each tool by its name, the response format,
//! the system text, each message. Parameters such as `temperature` are no part of a prefix.
//!
//! The bytes of a block are canonical JSON, so that they can be counted again from what `rondo messages --json` prints:
//! - of a tool its object `{"description", "name", "parameters"}`;
//! - of the response format `{"response_format": TEXT}`;
//! - of the system text `{"role": "system", "text": TEXT}`;
//! - of a message its object without the members that are `null` or an empty list.
//!
//! What is absent has no block. As each block is one JSON object, none is the beginning of another one, and where two
//! requests part lies within the first block that differs.

use std::fmt;

use rondo_protocol::canonical;
use rondo_protocol::message::{Message, Speaker, ToolUse};
use rondo_protocol::object::{Head, ToolSpec};
use serde::Serialize;

/// A request, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// All but the messages.
    pub head: &'a Head,
    /// The messages, oldest first.
    pub messages: &'a [Message],
}

/// A part of a request. It prints as `model`, `tools.read_file`, `response_format`, `system`, `message 3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block {
    /// The model.
    Model,
    /// The tool of that name.
    Tool(String),
    /// The schema of the response format.
    ResponseFormat,
    /// The system text.
    System,
    /// The message of that number, from 1.
    Message(usize),
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model => f.write_str("model"),
            Self::Tool(name) => write!(f, "tools.{name}"),
            Self::ResponseFormat => f.write_str("response_format"),
            Self::System => f.write_str("system"),
            Self::Message(number) => write!(f, "message {number}"),
        }
    }
}

/// A block with what it holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Content<'a> {
    Tool(&'a ToolSpec),
    ResponseFormat(&'a str),
    System(&'a str),
    Message(usize, &'a Message),
}

impl Content<'_> {
    pub(super) fn block(&self) -> Block {
        match self {
            Self::Tool(tool) => Block::Tool(tool.name.clone()),
            Self::ResponseFormat(_) => Block::ResponseFormat,
            Self::System(_) => Block::System,
            Self::Message(number, _) => Block::Message(*number),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        // All of them are made of texts, whose canonical form always exists.
        match self {
            Self::Tool(tool) => canonical::to_bytes(tool),
            Self::ResponseFormat(text) => canonical::to_bytes(&ResponseFormat { response_format: text }),
            Self::System(text) => canonical::to_bytes(&System { role: "system", text }),
            Self::Message(_, message) => canonical::to_bytes(&Said::from(*message)),
        }
        .unwrap_or_default()
    }

    pub(super) fn length(&self) -> u64 {
        u64::try_from(self.bytes().len()).unwrap_or(u64::MAX)
    }
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    response_format: &'a str,
}

#[derive(Serialize)]
struct System<'a> {
    role: &'static str,
    text: &'a str,
}

/// A message without what is empty.
#[derive(Serialize)]
struct Said<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    role: Speaker,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[ToolUse]>::is_empty")]
    tool_calls: &'a [ToolUse],
}

impl<'a> From<&'a Message> for Said<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            reasoning: message.reasoning.as_deref(),
            role: message.role,
            text: &message.text,
            tool_call_id: message.tool_call_id.as_deref(),
            tool_calls: &message.tool_calls,
        }
    }
}

/// The blocks of a head, in order.
pub(super) fn of_head(head: &Head) -> Vec<Content<'_>> {
    let mut tools: Vec<&ToolSpec> = head.tools.iter().collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let tools = tools.into_iter().map(Content::Tool);
    let response_format = head.response_format.as_deref().map(Content::ResponseFormat);
    let system = (!head.system.is_empty()).then_some(Content::System(&head.system));
    tools.chain(response_format).chain(system).collect()
}

/// Whether two heads are the same beginning of a request: they differ in parameters at most.
pub fn is_same_head(a: &Head, b: &Head) -> bool {
    a.model == b.model && of_head(a) == of_head(b)
}

/// Bytes of what a request holds besides its messages.
pub fn bytes_of_head(head: &Head) -> u64 {
    of_head(head).iter().map(Content::length).sum()
}

/// Bytes of a message.
pub fn bytes_of_message(message: &Message) -> u64 {
    Content::Message(0, message).length()
}

/// Bytes of a request.
pub fn bytes_of_request(request: Request<'_>) -> u64 {
    let messages: u64 = request.messages.iter().map(bytes_of_message).sum();
    bytes_of_head(request.head).saturating_add(messages)
}
