use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{AsRefStr, EnumString};

use crate::digest::Digest;
use crate::message::{FileRef, Parts, ToolUse};

/// The model replies, tool results and repairs of one step, in order, without failed attempts. Object kind
/// `transcript`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
}

impl Transcript {
    /// The numbers of model replies and of tool results.
    pub fn counts(&self) -> (u64, u64) {
        let count = |(replies, uses): (u64, u64), entry: &Entry| match entry {
            Entry::Model { .. } => (replies + 1, uses),
            Entry::Tool { .. } => (replies, uses + 1),
            Entry::Repair { .. } => (replies, uses),
        };
        self.entries.iter().fold((0, 0), count)
    }
}

/// One entry of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Entry {
    /// A model answered.
    Model {
        /// The digest of the request before an altering hook, or `None` when it was sent as asked.
        asked: Option<Digest>,
        /// The digest of the request head.
        head: Digest,
        /// The reply.
        reply: ModelReply,
        /// The digest of the request.
        request: Digest,
    },
    /// A tool answered.
    Tool {
        /// The arguments as received.
        arguments: String,
        /// Whether the call failed.
        failed: bool,
        /// The files that it returned.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<FileRef>,
        /// The id of the tool call.
        id: String,
        /// The tool.
        name: String,
        /// The text for the model.
        text: String,
    },
    /// An answer broke the contract and was sent back with this text.
    Repair {
        /// The text.
        text: String,
    },
}

impl Entry {
    /// The files that a tool returned with it; only its answers have some.
    pub fn files(&self) -> &[FileRef] {
        match self {
            Self::Tool { files, .. } => files,
            Self::Model { .. } | Self::Repair { .. } => &[],
        }
    }
}

/// A complete reply of a model, as it entered the thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelReply {
    /// Why the model stopped.
    pub finish: Finish,
    /// Its content, in the order received.
    pub parts: Parts,
}

impl ModelReply {
    /// A complete reply with only a text.
    pub fn said(text: impl Into<String>) -> Self {
        Self { finish: Finish::Stop, parts: Parts::said(text) }
    }

    /// A reply with only these tool calls.
    pub fn asking(tools: impl IntoIterator<Item = ToolUse>) -> Self {
        Self { finish: Finish::ToolCalls, parts: Parts::asking("", tools) }
    }
}

/// Why a model stopped. Other words of providers are kept as received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, AsRefStr, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Finish {
    /// The reply is complete.
    Stop,
    /// It reached its output limit.
    Length,
    /// It calls tools.
    ToolCalls,
    /// The provider withheld the answer.
    ContentFilter,
    /// Another word of the provider.
    #[serde(untagged)]
    #[strum(default, transparent)]
    Other(String),
}

impl Finish {
    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        self.as_ref()
    }
}
