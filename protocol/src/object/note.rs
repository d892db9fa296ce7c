use serde::{Deserialize, Serialize};

use crate::call_kind::CallKind;
use crate::canonical::Value;
use crate::id::{LanePath, RoleName};

use super::{LaneEnd, Target, Visit, targets};

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of all requests.
    pub prompt_tokens: u64,
    /// Of those, tokens that the provider had kept from an earlier request.
    pub cached_tokens: u64,
    /// Of those, tokens that the provider has kept for later requests and charges apart; most charge nothing for it and
    /// do not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens of all replies.
    pub output_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Who gave an answer: one word, `port`, `journal`, `loop` or the name of a hook's node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnsweredBy {
    /// The port: a model provider, a tool, a script.
    Port,
    /// The journal of this thread, after a crash.
    Journal,
    /// The agent loop itself, or a person: a tool call that was not made.
    Loop,
    /// A hook in front of the port, by the name of its node.
    #[serde(untagged)]
    Hook(String),
}

impl AnsweredBy {
    /// The word in events and notes.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Port => "port",
            Self::Journal => "journal",
            Self::Loop => "loop",
            Self::Hook(node) => node,
        }
    }
}

/// What is known of one tool call of a step and not hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolNote {
    /// The use that it answers.
    pub call: String,
    /// The tool, by its name in workflows.
    pub tool: String,
    /// `pure`, `reads`, `writes` or `external`.
    pub effect: String,
    /// Bytes of its result.
    pub bytes: u64,
    /// Milliseconds that it took.
    pub duration_ms: u64,
    /// Whether it failed.
    pub failed: bool,
    /// Who answered.
    pub answered_by: AnsweredBy,
}

/// What one hook did in a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookNote {
    /// Its node.
    pub node: String,
    /// The calls that it answered itself, in order.
    #[serde(default)]
    pub answered: Vec<HookAnswer>,
    /// Its own figures of this visit; an object, or `null` where it has none.
    #[serde(default)]
    pub metrics: Value,
}

/// A call that a hook answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookAnswer {
    /// Which kind of call.
    pub at: CallKind,
    /// The call's position in the step.
    pub position: u32,
    /// What it looked the answer up by, if anything.
    pub key: Option<String>,
    /// What the answer had cost, in US dollars, where a price was known. The call itself cost nothing.
    pub saved_usd: Option<f64>,
    /// The tokens of that answer, where they had been counted.
    pub saved: Option<Usage>,
}

/// What followed from a step or from the start, as its events report it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Followed {
    /// An edge was taken.
    Edge {
        /// The visits it leads to; none at `end` and `fail`.
        #[serde(with = "targets")]
        to: Vec<Target>,
    },
    /// A line for the user.
    Said {
        /// The line.
        text: String,
    },
    /// A lane of a fan-out ended.
    LaneEnded {
        /// Its last visit.
        visit: Visit,
        /// How.
        how: LaneEnd,
    },
    /// The thread began to wait for a person.
    Waiting {
        /// Whose visit needs the answer.
        visit: Visit,
        /// What is asked.
        form: Value,
    },
}

/// What is known of a step and not hashed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Tokens, or `None` where no provider counted.
    pub usage: Option<Usage>,
    /// US dollars, or `None` where no price is known.
    pub cost_usd: Option<f64>,
    /// Of the last model reply of the step.
    pub answered_by: Option<AnsweredBy>,
    /// The resolved model of the last reply.
    pub model: Option<String>,
    /// A mark of where the role's first model is served: equal marks are equal providers and addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_by: Option<String>,
    /// Unix milliseconds.
    pub started_at_ms: u64,
    /// Unix milliseconds.
    pub ended_at_ms: u64,
    /// Milliseconds in which it was worked on, by a clock that never jumps: without those in which a person was waited
    /// for.
    pub active_ms: u64,
    /// Model replies that entered the step.
    pub model_calls: u64,
    /// Tool results that entered the step.
    pub tool_calls: u64,
    /// The tool calls that were made, in the order asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolNote>,
    /// What the hooks on its call paths did, by node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookNote>,
    /// Attempts at a port, failed ones too: the position in a script counts these.
    pub attempts: u64,
    /// What the role was told of the steps since its last visit, beside its prompt. The steps say it too, but reading
    /// them all again would make a long thread slow to resume; `None` = they have to be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// What followed from the step, in the order of its events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Followed>,
    /// Of a step in a lane: for each part of the lane's path the step that opened this round; 0 = `start`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened_by: Vec<u64>,
    /// The same of the lane's first round, where it is another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_opened_by: Vec<u64>,
    /// The bounded edge by which the step was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_by: Option<BoundedEdge>,
    /// Of a join: what the lanes had used that were cancelled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<CancelledLane>,
}

/// A bounded edge that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundedEdge {
    /// Its number in the order of the file.
    pub edge: u32,
    /// How often it was taken since `mark`.
    pub count: u64,
    /// The visits of its `per` role when counting began.
    pub mark: u64,
}

/// What a lane had used in the visit in which it was cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CancelledLane {
    /// The lane.
    pub lane: LanePath,
    /// Whose visit.
    pub role: RoleName,
    /// Tokens, where they were counted.
    pub usage: Option<Usage>,
    /// US dollars, where a price is known.
    pub cost_usd: Option<f64>,
    /// Model replies.
    pub model_calls: u64,
    /// Tool results.
    pub tool_calls: u64,
    /// The tool that had begun to change something and did not end in time: whether it did is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_unknown: Option<String>,
}
