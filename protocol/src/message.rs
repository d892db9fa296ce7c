//! Messages of a conversation: ordered parts, and the chain of digests over the messages.

mod conversation;
mod part;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::canonical;
use crate::digest::{Digest, Kind};

pub use conversation::Conversation;
pub use part::{FileRef, Opaque, Part, Parts, ToolUse};

/// The speaker of a message. The system text is not a message: it is part of the request head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Speaker {
    /// An edge prompt with the summary, or a repair.
    User,
    /// An answer of the model.
    Assistant,
    /// A result of a tool.
    Tool,
}

impl Speaker {
    /// The word in objects and on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One message, object kind `message`.
///
/// Laws: a user message has exactly one text part, which may be empty, and possibly files; an assistant message is made
/// of [`Parts`]; a tool message has one result, and the files that belong to it behind it. A message that breaks these laws
/// cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
pub struct Message {
    parts: Vec<Part>,
    role: Speaker,
}

/// A message as written, before its parts are checked.
#[derive(Deserialize, JsonSchema)]
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
    /// Creates a message of these parts.
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
                if !parts.iter().all(|part| matches!(part, Part::Text { .. } | Part::File(_))) {
                    return Err("a message of the user has a text and files");
                }
                Ok(Self { parts, role })
            }
            Speaker::Assistant => Parts::try_from(parts).map(Self::from),
            Speaker::Tool => match parts.as_slice() {
                [Part::ToolResult { .. }, files @ ..] if files.iter().all(|part| matches!(part, Part::File(_))) => {
                    Ok(Self { parts, role })
                }
                _ => Err("a message of a tool has one result and files behind it"),
            },
        }
    }

    /// The number of bytes of its texts.
    pub fn size_bytes(&self) -> usize {
        self.parts.iter().map(Part::size_bytes).sum()
    }

    pub fn user(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], role: Speaker::User }
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Parts::said(text).into()
    }

    pub fn tool(id: impl Into<String>, text: impl Into<String>, failed: bool) -> Self {
        Self { parts: vec![Part::ToolResult { failed, id: id.into(), text: text.into() }], role: Speaker::Tool }
    }

    /// The message with files behind its last part.
    #[must_use]
    pub fn with_files(mut self, files: impl IntoIterator<Item = FileRef>) -> Self {
        self.parts.extend(files.into_iter().map(Part::File));
        self
    }

    pub fn role(&self) -> Speaker {
        self.role
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text parts joined; for a tool message its result.
    pub fn text(&self) -> Cow<'_, str> {
        match self.parts.as_slice() {
            [Part::ToolResult { text, .. }, ..] => Cow::Borrowed(text),
            parts => part::text(parts),
        }
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolUse> {
        part::tool_calls(&self.parts)
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.parts.iter().filter_map(|part| match part {
            Part::File(file) => Some(file),
            Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult { .. } => None,
        })
    }

    /// Its reasoning texts joined, if it has any.
    pub fn reasoning(&self) -> Option<Cow<'_, str>> {
        part::reasoning(&self.parts)
    }

    /// For a tool message the id of the tool call that it answers.
    pub fn answers(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::ToolResult { id, .. }, ..] => Some(id),
            _ => None,
        }
    }

    /// Applies `change` to all texts and arguments, for example to redact a key. Content that cannot be changed and
    /// keep its meaning is dropped: see [`Parts::with_texts`].
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

    /// The canonical bytes, which always exist: a message consists of texts.
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

    pub fn digest(&self) -> Digest {
        Digest::of_bytes(Kind::Message, &self.canonical_bytes())
    }
}

/// The chain over no messages: `m0 = H("rondo/messages/v1\n")`.
pub fn empty_chain() -> Digest {
    Digest::of_bytes(Kind::Messages, &[])
}

/// Extends `chain` by `message`: `mi = H("rondo/messages/v1\n" || m(i-1) || digest(message i))`.
pub fn link(chain: Digest, message: &Message) -> Digest {
    link_digest(chain, message.digest())
}

fn link_digest(chain: Digest, message: Digest) -> Digest {
    Digest::of_parts(Kind::Messages, &[chain.as_bytes(), message.as_bytes()])
}

/// The digest of the request with the head of digest `head` and the messages of `chain`.
pub fn request(head: Digest, chain: Digest) -> Digest {
    Digest::of_parts(Kind::Request, &[head.as_bytes(), chain.as_bytes()])
}

#[cfg(test)]
mod tests;
