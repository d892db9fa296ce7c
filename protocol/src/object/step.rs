use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::canonical::Value;
use crate::digest::Digest;
use crate::id::{LanePath, RoleName, Status};
use crate::message::FileRef;

use super::Outcome;

/// One visit of one role: the edge prompt it got and the answer it gave. Object kind `step`; immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// For a model, its text exactly as it entered the thread; for a reserved status, `""`.
    pub answer: String,
    pub edge: EdgeTaken,
    /// Always `step`.
    pub kind: RecordKind,
    pub lane: LanePath,
    /// Observations besides the answer that decide what follows.
    pub observations: Vec<Observation>,
    /// The declared fields of the answer.
    pub output: Value,
    /// The steps that it follows; empty for the first of a thread.
    pub prev: Vec<Digest>,
    pub role: RoleName,
    pub start: Digest,
    pub status: Status,
    /// The transcript, or `None` if neither a model nor a tool was called.
    pub transcript: Option<Digest>,
}

/// Which of the three records an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    Step,
    Rebind,
    Compaction,
}

/// The edge by which a step's role was entered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EdgeTaken {
    /// The files that go with the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// The role that it leaves, or `start`.
    pub from: String,
    /// The rendered prompt.
    pub prompt: String,
    /// The status that chose the edge, or `None` at the start.
    pub status: Option<Status>,
}

/// A fact besides the answer that decides a route. A step lists them in the order of these variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Observation {
    /// A fan-out was joined.
    Join {
        /// The lanes that arrived.
        arrived: Vec<LanePath>,
        /// The lanes that were cancelled.
        cancelled: Vec<LanePath>,
    },
    /// A fault that was routed.
    Error {
        /// The code, such as `RN1003`.
        code: String,
    },
    /// A limit that was routed.
    Limit {
        /// The code.
        code: String,
    },
    /// A deadline that was routed.
    Timeout {
        /// The code.
        code: String,
    },
    /// A model other than the role's first answered.
    Fallback {
        /// Its logical name.
        model: String,
    },
    /// A child thread ran as this step.
    Child {
        /// The digest of its last step, or `None` if it has none.
        head: Option<Digest>,
        /// How it ended.
        outcome: Outcome,
        /// The digest of its start.
        start: Digest,
    },
    /// The answer was given by the user who forked the thread; no role ran.
    Given {},
}

/// The reserved status that routes a fault: that of the step which the runtime commits when a role's work failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FaultKind {
    /// `on_error`.
    Error,
    /// `on_limit`.
    Limit,
    /// `on_timeout`.
    Timeout,
}

impl FaultKind {
    /// All reserved statuses.
    pub const STATUSES: &'static [&'static str] = Self::VARIANTS;

    pub fn status(self) -> &'static str {
        self.into()
    }
}

/// From here on the thread follows another start. Digested as `step`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rebind {
    /// Always `rebind`.
    pub kind: RecordKind,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    /// The start that the earlier steps name.
    pub start: Digest,
    /// The start that the later steps name.
    pub to: Digest,
}

/// A role's older visits, condensed into one text. Digested as `step`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compaction {
    /// Always `compaction`.
    pub kind: RecordKind,
    pub lane: LanePath,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    pub role: RoleName,
    pub start: Digest,
    pub text: String,
    /// The last visit that the summary covers, from 1.
    pub through_visit: u64,
    /// The transcript of the compacting role.
    pub transcript: Option<Digest>,
}
