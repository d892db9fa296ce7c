//! Messages of a conversation: ordered parts, and the chain of digests over the messages.

mod conversation;
mod part;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::{Digest, Kind};

pub use conversation::Conversation;
pub use part::{Opaque, Part, Parts, ToolUse};

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

impl Speaker {
    /// The word in objects and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message, object kind `message`.
///
/// Laws: a user's has exactly one text part, which may be empty, and perhaps files; an assistant's are [`Parts`]; a
/// tool's is one result. A message that breaks them cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Message {
    parts: Vec<Part>,
    role: Speaker,
}

/// A message as it is written, before its parts are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    parts: Vec<Part>,
    role: Speaker,
}

impl TryFrom<Written> for Message {
    type Error = &'static str;

    fn try_from(Written { parts, role }: Written) -> Result<Self, Self::Error> {
        Self::new(role, parts)
    }
}

impl From<Parts> for Message {
    fn from(parts: Parts) -> Self {
        Self { parts: parts.into_vec(), role: Speaker::Assistant }
    }
}

impl Message {
    /// A message of these parts.
    ///
    /// # Errors
    /// The law that they break.
    pub fn new(role: Speaker, parts: Vec<Part>) -> Result<Self, &'static str> {
        match role {
            Speaker::User => {
                let texts = parts.iter().filter(|part| matches!(part, Part::Text { .. })).count();
                if texts != 1 {
                    return Err("a message of the user has exactly one text part");
                }
                if !parts.iter().all(|part| matches!(part, Part::Text { .. } | Part::File { .. })) {
                    return Err("a message of the user has a text and files");
                }
                Ok(Self { parts, role })
            }
            Speaker::Assistant => Parts::try_from(parts).map(Self::from),
            Speaker::Tool if matches!(parts.as_slice(), [Part::ToolResult { .. }]) => Ok(Self { parts, role }),
            Speaker::Tool => Err("a message of a tool has exactly one part, its result"),
        }
    }

    /// Bytes of text that it holds.
    pub fn size_bytes(&self) -> usize {
        self.parts.iter().map(Part::size_bytes).sum()
    }

    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], role: Speaker::User }
    }

    /// A message of the assistant without tools.
    pub fn assistant(text: impl Into<String>) -> Self {
        Parts::said(text).into()
    }

    /// The result of the tool use `id`.
    pub fn tool(id: impl Into<String>, text: impl Into<String>, failed: bool) -> Self {
        Self { parts: vec![Part::ToolResult { failed, id: id.into(), text: text.into() }], role: Speaker::Tool }
    }

    /// Who speaks.
    pub fn role(&self) -> Speaker {
        self.role
    }

    /// What is said, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text parts joined; of a tool's message its result.
    pub fn text(&self) -> Cow<'_, str> {
        match self.parts.as_slice() {
            [Part::ToolResult { text, .. }] => Cow::Borrowed(text),
            parts => part::text(parts),
        }
    }

    /// The tools that it asks for.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolUse> {
        part::tool_calls(&self.parts)
    }

    /// The texts of its reasoning joined, if it holds any.
    pub fn reasoning(&self) -> Option<Cow<'_, str>> {
        part::reasoning(&self.parts)
    }

    /// Of a tool's message the use that it answers.
    pub fn answers(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::ToolResult { id, .. }] => Some(id),
            _ => None,
        }
    }

    /// The same message with its texts and arguments put through `change`, such as to take a key out. What cannot be
    /// rewritten without losing its sense loses it: see [`Parts::with_texts`].
    #[must_use]
    pub fn with_texts(&self, change: &dyn Fn(&mut String)) -> Self {
        match self.role {
            Speaker::Assistant => self.parts.iter().cloned().collect::<Parts>().with_texts(change).into(),
            Speaker::User | Speaker::Tool => {
                let mut parts = self.parts.clone();
                for part in &mut parts {
                    part.change_texts(change);
                }
                Self { parts, role: self.role }
            }
        }
    }

    /// The canonical bytes, which always exist: a message is made of texts.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(b"{\"parts\":[");
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            part.write(&mut out);
        }
        out.extend_from_slice(b"],\"role\":");
        canonical::push_text(&mut out, self.role.as_str());
        out.push(b'}');
        out
    }

    /// The digest.
    pub fn digest(&self) -> Digest {
        Digest::of_bytes(Kind::Message, &self.canonical_bytes())
    }
}

/// The chain over no message: `m0 = H("rondo/messages/v1\n")`.
pub fn empty_chain() -> Digest {
    Digest::of_bytes(Kind::Messages, &[])
}

/// The chain over the messages of `chain` and `message`: `mi = H("rondo/messages/v1\n" || m(i-1) || digest(message i))`.
pub fn link(chain: Digest, message: &Message) -> Digest {
    Digest::of_parts(Kind::Messages, &[chain.as_bytes(), message.digest().as_bytes()])
}

/// The digest of the request that the head of digest `head` makes with the messages of `chain`.
pub fn request(head: Digest, chain: Digest) -> Digest {
    Digest::of_parts(Kind::Request, &[head.as_bytes(), chain.as_bytes()])
}

#[cfg(test)]
mod tests;
