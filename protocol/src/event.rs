//! Events: what a run tells whoever watches it. A closed list; one JSON object a line with `--json`.

use serde::{Deserialize, Serialize};

use crate::canonical::Value;
use crate::digest::Digest;
use crate::id::{LanePath, RoleName, Status, ThreadId};
use crate::object::{AnsweredBy, Usage};

/// How far an acknowledged step is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Synced to the device: survives power loss.
    #[default]
    Sync,
    /// Handed to the operating system: survives a crash of the process, not power loss.
    Log,
    /// Kept in memory only.
    Memory,
}

/// One event of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Which thread.
    pub thread: ThreadId,
    /// The thread whose step this one belongs to, if any.
    pub parent: Option<ThreadId>,
    /// How safe acknowledged steps of this thread are.
    pub durability: Durability,
    /// Unix milliseconds.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// Whose visit an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// The role.
    pub role: RoleName,
    /// Its n-th visit in the lane, from 1.
    pub visit: u64,
    /// The lane.
    pub lane: LanePath,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The thread's row has been synced.
    ThreadStarted {
        /// The checked workflow.
        workflow: Digest,
        /// The beginning.
        start: Digest,
    },
    /// An earlier run of the thread is continued.
    ThreadResumed {
        /// Its last committed step, 0 before the first.
        seq: u64,
    },
    /// A role begins.
    StepStarted {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
    },
    /// A model said something. Provisional: the attempt may fail.
    ModelDelta {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// Which attempt.
        attempt: u32,
        /// What it said.
        text: String,
    },
    /// An attempt failed and another follows.
    CallRetried {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// The attempt that failed.
        attempt: u32,
        /// The logical name of the model that failed.
        model: String,
        /// The code of the fault.
        code: String,
        /// How long until the next attempt.
        wait_ms: u64,
    },
    /// A tool begins.
    ToolStarted {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// The tool.
        tool: String,
        /// The use.
        call: String,
        /// What it does to the world: `pure`, `reads`, `writes`, `external`.
        effect: String,
    },
    /// A tool has answered.
    ToolFinished {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// The tool.
        tool: String,
        /// The use.
        call: String,
        /// What it does to the world.
        effect: String,
        /// Bytes of its answer.
        bytes: u64,
        /// How long it took.
        duration_ms: u64,
        /// Whether it failed.
        failed: bool,
        /// Who answered.
        answered_by: AnsweredBy,
    },
    /// A hook answered in the place of a port.
    HookAnswered {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// The node.
        node: String,
        /// What it looked the answer up by, if anything.
        key: Option<String>,
        /// What the port would have cost.
        saved_usd: Option<f64>,
    },
    /// A hook's own figures.
    HookReport {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// The node.
        node: String,
        /// The figures.
        metrics: Value,
    },
    /// A model call has been answered and its answer checked.
    CallSettled {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// Tokens, where they were counted.
        usage: Option<Usage>,
        /// Of the prompt's tokens, those that the provider had kept from an earlier request.
        cached_tokens: Option<u64>,
        /// US dollars, where a price is known.
        cost_usd: Option<f64>,
        /// Who answered.
        answered_by: AnsweredBy,
    },
    /// A step has been synced.
    StepCommitted {
        /// Whose.
        #[serde(flatten)]
        visit: Visit,
        /// Its place in the thread, from 1.
        seq: u64,
        /// Its digest.
        step: Digest,
        /// The steps it follows.
        prev: Vec<Digest>,
        /// The status it chose.
        status: Status,
    },
    /// The moderator chose an edge.
    EdgeTaken {
        /// Whose step it leaves.
        #[serde(flatten)]
        visit: Visit,
        /// That role, or `start`.
        from: String,
        /// The status that chose it.
        status: Option<Status>,
        /// Where it leads: roles, `end` or `fail`.
        to: Vec<String>,
    },
    /// A line for the user.
    Said {
        /// Whose step it follows.
        #[serde(flatten)]
        visit: Visit,
        /// The line.
        text: String,
    },
    /// The thread waits for a person.
    ThreadWaiting {
        /// What is asked.
        form: Value,
    },
    /// The thread has ended.
    ThreadFinished {
        /// How.
        outcome: Outcome,
        /// The digest of the trunk's last step.
        head: Option<Digest>,
        /// The status of that step.
        status: Option<Status>,
        /// Why, after `fail`.
        reason: Option<String>,
        /// The workflow's result.
        result: Value,
    },
    /// A run stopped, or could not go on.
    Error {
        /// The code, such as `RN1003`.
        code: String,
        /// What happened and what to do.
        message: String,
        /// Where.
        #[serde(rename = "where")]
        place: Option<Place>,
    },
}

/// How a thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// At `end`.
    Done,
    /// At `fail`.
    Failed,
    /// By `rondo cancel`.
    Cancelled,
}

impl Outcome {
    /// The word in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Where an error is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// In a file; lines and columns count from 1, columns in code points.
    File {
        /// As it was given.
        file: String,
        /// From 1.
        line: u32,
        /// From 1.
        column: u32,
    },
    /// In a thread.
    Thread {
        /// Which.
        thread: ThreadId,
        /// Whose visit, where one had begun.
        role: Option<RoleName>,
        /// Which visit.
        visit: Option<u64>,
    },
}
