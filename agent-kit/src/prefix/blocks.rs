//! A request as a provider sees it: blocks in the order in which they form a prefix.
//!
//! First the model, which has no bytes: requests to different models share nothing. Then each tool by name, the
//! response format, the system text, each message. Parameters such as `temperature` are not part of a prefix.
//!
//! The bytes of a block are canonical JSON, so that they can be recounted from the output of `rondo messages --json`:
//! - of a tool its object `{"description", "name", "parameters"}`;
//! - of the response format `{"response_format": TEXT}`;
//! - of the system text `{"role": "system", "text": TEXT}`;
//! - of a message its object.
//!
//! Absent parts have no block. Each block is one JSON object, so none is a prefix of another, and two requests diverge
//! within the first block that differs.

use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{Head, ToolSpec};

/// A request. A copy is cheap at any length.
#[derive(Debug, Clone)]
pub struct Request {
    /// Everything but the messages.
    head: Arc<Head>,
    head_bytes: u64,
    pub messages: Conversation,
}

impl Request {
    pub fn new(head: &Arc<Head>, messages: Conversation) -> Self {
        Self { head: Arc::clone(head), head_bytes: bytes_of_head(head), messages }
    }

    /// A request after this one. A head that differs only in parameters is the same, and is not measured again.
    #[must_use]
    pub fn next(&self, head: &Arc<Head>, messages: Conversation) -> Self {
        if is_same_head(&self.head, head) { Self { messages, ..self.clone() } } else { Self::new(head, messages) }
    }

    pub fn head(&self) -> &Arc<Head> {
        &self.head
    }

    pub fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    pub fn bytes(&self) -> u64 {
        self.head_bytes.saturating_add(self.messages.canonical_size_bytes())
    }
}

/// A part of a request. It prints as `model`, `tools.read_file`, `response_format`, `system`, `message 3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Block {
    Model,
    #[strum(to_string = "tools.{0}")]
    Tool(String),
    ResponseFormat,
    System,
    /// The message of that number, from 1.
    #[strum(to_string = "message {0}")]
    Message(usize),
}

/// The content of a block of a head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Content<'a> {
    Tool(&'a ToolSpec),
    ResponseFormat(&'a str),
    System(&'a str),
}

impl Content<'_> {
    pub(super) fn block(&self) -> Block {
        match self {
            Self::Tool(tool) => Block::Tool(tool.name.clone()),
            Self::ResponseFormat(_) => Block::ResponseFormat,
            Self::System(_) => Block::System,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Tool(ToolSpec { description, name, parameters }) => {
                object([("description", description), ("name", name), ("parameters", parameters)])
            }
            Self::ResponseFormat(text) => object([("response_format", text)]),
            Self::System(text) => object([("role", "system"), ("text", text)]),
        }
    }

    pub(super) fn length(&self) -> u64 {
        length(&self.bytes())
    }
}

/// The canonical bytes of an object of texts.
fn object<const N: usize>(members: [(&str, &str); N]) -> Vec<u8> {
    Value::Object(members.map(|(name, text)| (name.to_owned(), Value::from(text))).into()).to_text().into_bytes()
}

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
    std::ptr::eq(a, b) || a.model == b.model && of_head(a) == of_head(b)
}

pub fn bytes_of_head(head: &Head) -> u64 {
    of_head(head).iter().map(Content::length).sum()
}

pub fn bytes_of_message(message: &Message) -> u64 {
    length(&message.canonical_bytes())
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
