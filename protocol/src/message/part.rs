//! The parts of a message.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::push_text;
use crate::digest::Digest;

/// A tool call of a model. `arguments` is text as received, whether or not it is JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolUse {
    /// The unchanged text of the model.
    pub arguments: String,
    /// The model's id for this call, which the result refers to.
    pub id: String,
    /// The tool's name.
    pub name: String,
}

/// Data that a provider requires to accept its reasoning back: a signature, or the encrypted reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Opaque {
    /// The text as received.
    pub data: String,
    /// The provider family that sent it. It is sent back to no other.
    pub provider: String,
}

/// A file that a message holds, by the digest of its contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRef {
    /// The digest of kind `file`, over the raw bytes.
    pub digest: Digest,
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// Its name, for the model to read.
    pub name: String,
}

impl fmt::Display for FileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.media_type)
    }
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning, if a provider returns it.
    Reasoning {
        /// The data that the provider requires to accept it back, if any.
        opaque: Option<Opaque>,
        /// The readable text; may be empty.
        text: String,
    },
    /// A tool call.
    ToolCall(ToolUse),
    /// The result of a tool call.
    ToolResult {
        /// Whether the call failed.
        failed: bool,
        /// The id of the tool call.
        id: String,
        /// The text for the model.
        text: String,
    },
    /// A file.
    File(FileRef),
}

impl Part {
    /// Appends the canonical bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut member = |key: &str, text: &str| {
            out.extend_from_slice(key.as_bytes());
            push_text(out, text);
        };
        match self {
            Self::Text { text } => member("{\"kind\":\"text\",\"text\":", text),
            Self::Reasoning { opaque, text } => {
                match opaque {
                    Some(Opaque { data, provider }) => {
                        member("{\"kind\":\"reasoning\",\"opaque\":{\"data\":", data);
                        member(",\"provider\":", provider);
                        out.push(b'}');
                    }
                    None => out.extend_from_slice(b"{\"kind\":\"reasoning\",\"opaque\":null"),
                }
                out.extend_from_slice(b",\"text\":");
                push_text(out, text);
            }
            Self::ToolCall(ToolUse { arguments, id, name }) => {
                member("{\"arguments\":", arguments);
                member(",\"id\":", id);
                member(",\"kind\":\"tool_call\",\"name\":", name);
            }
            Self::ToolResult { failed, id, text } => {
                member(if *failed { "{\"failed\":true,\"id\":" } else { "{\"failed\":false,\"id\":" }, id);
                member(",\"kind\":\"tool_result\",\"text\":", text);
            }
            Self::File(FileRef { digest, media_type, name }) => {
                member("{\"digest\":", &digest.to_string());
                member(",\"kind\":\"file\",\"media_type\":", media_type);
                member(",\"name\":", name);
            }
        }
        out.push(b'}');
    }

    /// The number of bytes of its texts.
    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Reasoning { opaque, text } => text.len() + opaque.as_ref().map_or(0, |opaque| opaque.data.len()),
            Self::ToolCall(ToolUse { arguments, id, name }) => arguments.len() + id.len() + name.len(),
            Self::ToolResult { id, text, .. } => id.len() + text.len(),
            Self::File(FileRef { media_type, name, .. }) => media_type.len() + name.len(),
        }
    }

    /// Applies `change` to every text. Changed reasoning loses its opaque data, because that vouches for the original
    /// text.
    pub(super) fn change_texts(&mut self, change: &dyn Fn(&mut String)) {
        match self {
            Self::Text { text } => change(text),
            Self::Reasoning { opaque, text } => {
                let mut changed = text.clone();
                change(&mut changed);
                let is_same = changed == *text;
                *text = changed;
                *opaque = opaque.take().filter(|Opaque { data, provider }| {
                    let mut seen = (data.clone(), provider.clone());
                    change(&mut seen.0);
                    change(&mut seen.1);
                    is_same && seen == (data.clone(), provider.clone())
                });
            }
            Self::ToolCall(ToolUse { arguments, id, name }) => {
                for text in [arguments, id, name] {
                    change(text);
                }
            }
            Self::ToolResult { id, text, .. } => {
                for text in [id, text] {
                    change(text);
                }
            }
            Self::File(FileRef { media_type, name, .. }) => {
                for text in [media_type, name] {
                    change(text);
                }
            }
        }
    }
}

/// The content of a model's reply, in the order received.
///
/// Laws: no two texts are adjacent, no text is empty, and there is no tool result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<Part>")]
pub struct Parts(Vec<Part>);

impl Parts {
    /// Only a text.
    pub fn said(text: impl Into<String>) -> Self {
        [Part::Text { text: text.into() }].into_iter().collect()
    }

    /// A text followed by tool calls.
    pub fn asking(text: impl Into<String>, tools: impl IntoIterator<Item = ToolUse>) -> Self {
        [Part::Text { text: text.into() }].into_iter().chain(tools.into_iter().map(Part::ToolCall)).collect()
    }

    /// Appends a part; joins a text with a preceding text. Ignores empty texts and tool results, which are not part of
    /// a reply.
    pub fn push(&mut self, part: Part) {
        match (self.0.last_mut(), part) {
            (_, Part::ToolResult { .. }) => {}
            (Some(Part::Text { text: before }), Part::Text { text }) => before.push_str(&text),
            (_, Part::Text { text }) if text.is_empty() => {}
            (_, part) => self.0.push(part),
        }
    }

    pub fn as_slice(&self) -> &[Part] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of bytes of text in the parts.
    pub fn size_bytes(&self) -> usize {
        self.0.iter().map(Part::size_bytes).sum()
    }

    /// The text parts joined: the answer.
    pub fn text(&self) -> Cow<'_, str> {
        text(&self.0)
    }

    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolUse> {
        tool_calls(&self.0)
    }

    pub fn asks_for_tools(&self) -> bool {
        self.tool_calls().next().is_some()
    }

    /// The reasoning texts joined, if there are any.
    pub fn reasoning(&self) -> Option<Cow<'_, str>> {
        reasoning(&self.0)
    }

    #[must_use]
    pub fn without_reasoning(&self) -> Self {
        self.0.iter().filter(|part| !matches!(part, Part::Reasoning { .. })).cloned().collect()
    }

    /// Applies `change` to all texts and arguments, for example to redact a key. If `change` affects the joined text
    /// other than the single parts, such as for a key that spans two parts, the whole text replaces the first text
    /// part. Changed reasoning loses its [`Opaque`].
    #[must_use]
    pub fn with_texts(self, change: &dyn Fn(&mut String)) -> Self {
        let mut whole = self.text().into_owned();
        change(&mut whole);
        let mut parts = self.0;
        for part in &mut parts {
            part.change_texts(change);
        }
        if text(&parts) != whole {
            let mut whole = Some(whole);
            for part in &mut parts {
                if let Part::Text { text } = part {
                    *text = whole.take().unwrap_or_default();
                }
            }
        }
        parts.into_iter().collect()
    }

    pub(super) fn into_vec(self) -> Vec<Part> {
        self.0
    }
}

impl FromIterator<Part> for Parts {
    fn from_iter<T: IntoIterator<Item = Part>>(parts: T) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.push(part);
        }
        all
    }
}

impl TryFrom<Vec<Part>> for Parts {
    type Error = &'static str;

    fn try_from(parts: Vec<Part>) -> Result<Self, Self::Error> {
        let mut follows_text = false;
        for part in &parts {
            let is_text = matches!(part, Part::Text { .. });
            match part {
                Part::Text { text } if text.is_empty() => return Err("an empty text is no part of what a model says"),
                Part::Text { .. } if follows_text => return Err("two texts that stand side by side are one part"),
                Part::ToolResult { .. } => return Err("the result of a tool is no part of what a model says"),
                _ => follows_text = is_text,
            }
        }
        Ok(Self(parts))
    }
}

pub(super) fn text(parts: &[Part]) -> Cow<'_, str> {
    joined(parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    }))
    .unwrap_or_default()
}

pub(super) fn reasoning(parts: &[Part]) -> Option<Cow<'_, str>> {
    joined(parts.iter().filter_map(|part| match part {
        Part::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    }))
}

pub(super) fn tool_calls(parts: &[Part]) -> impl Iterator<Item = &ToolUse> {
    parts.iter().filter_map(|part| match part {
        Part::ToolCall(tool) => Some(tool),
        _ => None,
    })
}

/// The joined texts, borrowed if there is only one; `None` if there is none.
fn joined<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<Cow<'a, str>> {
    let mut all = Cow::Borrowed(texts.next()?);
    for text in texts {
        all.to_mut().push_str(text);
    }
    Some(all)
}
