use serde::{Deserialize, Serialize};

use crate::canonical::Value;
use crate::digest::Digest;
use crate::id::{LanePath, RoleName, Status};

use super::Outcome;

/// One visit of one role: the edge prompt it got and the answer it gave. Object kind `step`; immutable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Of a model its text exactly as it entered the thread; of a reserved status `""`.
    pub answer: String,
    /// How the role was entered.
    pub edge: EdgeTaken,
    /// Always `step`.
    pub kind: StepKind,
    /// The lane.
    pub lane: LanePath,
    /// What happened around it that decides what follows.
    pub observations: Vec<Observation>,
    /// The declared fields of the answer.
    pub output: Value,
    /// The steps it follows; empty for a thread's first.
    pub prev: Vec<Digest>,
    /// Who spoke.
    pub role: RoleName,
    /// The beginning of its thread.
    pub start: Digest,
    /// The status that the role answered with.
    pub status: Status,
    /// What was said within it, or `None` where no model and no tool spoke.
    pub transcript: Option<Digest>,
}

/// The one value of [`Step::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// A step.
    Step,
}

/// The edge by which a step's role was entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeTaken {
    /// The role that it came from, or `start`.
    pub from: String,
    /// The rendered prompt.
    pub prompt: String,
    /// The status that chose the edge, or `None` at the start.
    pub status: Option<Status>,
}

/// What decides a route and is no answer. In a step they stand in the order of these variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Observation {
    /// A fan-out was joined.
    Join {
        /// Lanes that arrived.
        arrived: Vec<LanePath>,
        /// Lanes that were cancelled.
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
    /// Another model than the role's first answered.
    Fallback {
        /// Its logical name.
        model: String,
    },
    /// Another thread ran in the step's place.
    Child {
        /// The digest of its last step, or `None` when it made none.
        head: Option<Digest>,
        /// How it ended.
        outcome: Outcome,
        /// The digest of its beginning.
        start: Digest,
    },
    /// The answer was given by the user who forked the thread; no role ran.
    Given {},
}

/// Which of the reserved statuses a fault is routed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// `on_error`.
    Error,
    /// `on_limit`.
    Limit,
    /// `on_timeout`.
    Timeout,
}

impl FaultKind {
    /// The reserved status.
    pub fn status(self) -> &'static str {
        match self {
            Self::Error => crate::id::reserved::ERROR,
            Self::Limit => crate::id::reserved::LIMIT,
            Self::Timeout => crate::id::reserved::TIMEOUT,
        }
    }
}

/// From here on the thread follows another beginning. Digested as `step`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rebind {
    /// Always `rebind`.
    pub kind: RebindKind,
    /// The steps it follows.
    pub prev: Vec<Digest>,
    /// The beginning that the steps before it name.
    pub start: Digest,
    /// The beginning that the steps after it name.
    pub to: Digest,
}

/// The one value of [`Rebind::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RebindKind {
    /// A rebind.
    Rebind,
}

/// A role's older visits, put into one text. Digested as `step`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compaction {
    /// Always `compaction`.
    pub kind: CompactionKind,
    /// The lane.
    pub lane: LanePath,
    /// The steps it follows.
    pub prev: Vec<Digest>,
    /// Whose visits.
    pub role: RoleName,
    /// The beginning of its thread.
    pub start: Digest,
    /// The summary.
    pub text: String,
    /// The last visit that the summary covers, from 1.
    pub through_visit: u64,
    /// What the compacting role said.
    pub transcript: Option<Digest>,
}

/// The one value of [`Compaction::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompactionKind {
    /// A compaction.
    Compaction,
}
