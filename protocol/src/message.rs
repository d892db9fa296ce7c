//! Messages of a conversation, and the chain of digests over them.

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::{Digest, Kind};

/// Who a message is from. The system text is not a message: it stands in the request head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// An edge prompt and what happened since, or a repair.
    User,
    /// What the model answered.
    Assistant,
    /// What a tool answered.
    Tool,
}

/// A tool that a model asked for. `arguments` is text as received, whether or not it is JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolUse {
    /// Text as received; the model's arguments are not touched.
    pub arguments: String,
    /// The model's own name for this use, by which the result answers it.
    pub id: String,
    /// The tool's name.
    pub name: String,
}

/// One message, object kind `message`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Reasoning content, where a provider demands it back within a turn.
    pub reasoning: Option<String>,
    /// Who speaks.
    pub role: Speaker,
    /// What is said.
    pub text: String,
    /// Of a tool message: which use it answers.
    pub tool_call_id: Option<String>,
    /// Of an assistant message: the tools it asks for.
    pub tool_calls: Vec<ToolUse>,
}

impl Message {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Speaker::User, text.into())
    }

    /// A message of the assistant without tools.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::plain(Speaker::Assistant, text.into())
    }

    /// The result of the tool use `id`.
    pub fn tool(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.into()), ..Self::plain(Speaker::Tool, text.into()) }
    }

    fn plain(role: Speaker, text: String) -> Self {
        Self { reasoning: None, role, text, tool_call_id: None, tool_calls: Vec::new() }
    }
}

/// A list of messages with the chain over each of its prefixes:
/// `m0 = H("rondo/messages/v1\n")`, `mi = H("rondo/messages/v1\n" || m(i-1) || digest(message i))`.
///
/// The chain is extended, never recomputed, so that the cost of one more turn does not grow with the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    messages: Vec<Message>,
    chain: Vec<Digest>,
    empty: Digest,
}

impl Default for Conversation {
    fn default() -> Self {
        Self { messages: Vec::new(), chain: Vec::new(), empty: empty_chain() }
    }
}

impl Conversation {
    /// Appends a message and extends the chain.
    pub fn push(&mut self, message: Message) {
        self.chain.push(link(self.chain(), &message));
        self.messages.push(message);
    }

    /// Forgets the messages after the first `length`.
    pub fn truncate(&mut self, length: usize) {
        self.messages.truncate(length);
        self.chain.truncate(length);
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The chain after each message.
    pub fn links(&self) -> &[Digest] {
        &self.chain
    }

    /// The chain over all messages.
    pub fn chain(&self) -> Digest {
        self.chain.last().copied().unwrap_or(self.empty)
    }

    /// The digest of the request that these messages make with the head of that digest.
    pub fn request(&self, head: Digest) -> Digest {
        request(head, self.chain())
    }
}

/// The chain over no message.
pub fn empty_chain() -> Digest {
    Digest::of_bytes(Kind::Messages, &[])
}

/// The chain over the messages of `chain` and `message`.
pub fn link(chain: Digest, message: &Message) -> Digest {
    // A message is made of texts, whose canonical form always exists.
    let bytes = canonical::to_bytes(message).unwrap_or_default();
    let digest = Digest::of_bytes(Kind::Message, &bytes);
    Digest::of_parts(Kind::Messages, &[chain.as_bytes(), digest.as_bytes()])
}

/// The digest of the request that the head of digest `head` makes with the messages of `chain`.
pub fn request(head: Digest, chain: Digest) -> Digest {
    Digest::of_parts(Kind::Request, &[head.as_bytes(), chain.as_bytes()])
}

impl Extend<Message> for Conversation {
    fn extend<T: IntoIterator<Item = Message>>(&mut self, messages: T) {
        for message in messages {
            self.push(message);
        }
    }
}

impl FromIterator<Message> for Conversation {
    fn from_iter<T: IntoIterator<Item = Message>>(messages: T) -> Self {
        let mut conversation = Self::default();
        conversation.extend(messages);
        conversation
    }
}
