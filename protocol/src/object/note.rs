use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::AsRefStr;

use crate::call_kind::CallKind;
use crate::canonical::Value;
use crate::id::{LanePath, RoleName};

use super::{KnownCost, LaneEnd, Target, Visit, targets};

/// Tokens as counted by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The tokens of all requests.
    pub prompt_tokens: u64,
    /// Of these, the tokens that the provider had cached.
    pub cached_tokens: u64,
    /// Of these, the tokens that the provider cached for later requests and charges separately; most charge nothing and
    /// do not report it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Of the tokens that the provider cached for later requests, those that it keeps for the longer of its two times and
    /// charges more for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_long_tokens: u64,
    /// The tokens of all replies.
    pub output_tokens: u64,
    /// Of these, the tokens of reasoning, if the provider reports them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
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
        self.cache_write_long_tokens = self.cache_write_long_tokens.saturating_add(other.cache_write_long_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}

/// What gave an answer: one word, `port`, `journal`, `loop` or the name of a hook's node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, AsRefStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum AnsweredBy {
    /// The port: a model provider, a tool, a script.
    Port,
    /// The journal of this thread, after a crash.
    Journal,
    /// The agent loop itself, or a person: a tool call that was not made.
    Loop,
    /// A person who filled in a form.
    Person,
    /// A program that filled in a form: a chat client, or one of MCP.
    Client,
    /// A hook in front of the port, by the name of its node.
    #[serde(untagged)]
    #[strum(transparent)]
    Hook(String),
}

impl AnsweredBy {
    /// The word in events and notes.
    pub fn as_str(&self) -> &str {
        self.as_ref()
    }
}

/// The data of one tool call of a step that is not hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolNote {
    /// The id of the tool call.
    pub call: String,
    /// The tool, by its name in workflows.
    pub tool: String,
    /// `pure`, `reads`, `writes` or `external`.
    pub effect: String,
    /// Bytes of its result.
    pub bytes: u64,
    /// Its duration in milliseconds.
    pub duration_ms: u64,
    /// Whether it failed.
    pub failed: bool,
    /// What gave the answer.
    pub answered_by: AnsweredBy,
}

/// The actions of one hook in a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookNote {
    /// The name of its node.
    pub node: String,
    /// The calls that it answered, in order.
    #[serde(default)]
    pub answered: Vec<HookAnswer>,
    /// Its metrics of this visit; an object, or `null` if it has none.
    #[serde(default)]
    pub metrics: Value,
}

/// A call that a hook answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookAnswer {
    /// The kind of the call.
    pub at: CallKind,
    /// The call's position in the step.
    pub position: u32,
    /// The key by which the hook found the answer, if any.
    pub key: Option<String>,
    /// The original cost of the answer in US dollars, if a price was known. The call itself cost nothing.
    pub saved_usd: Option<f64>,
    /// The tokens of that answer, if counted.
    pub saved: Option<Usage>,
}

impl HookAnswer {
    /// The original cost of the answer; that of a tool has none.
    pub fn saved_cost(&self) -> KnownCost {
        match (self.at, self.saved_usd) {
            (CallKind::Tool, None) => KnownCost::default(),
            (_, saved_usd) => KnownCost::of_call(saved_usd),
        }
    }
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
    Said { text: String },
    /// A lane of a fan-out ended with this visit.
    LaneEnded { visit: Visit, how: LaneEnd },
    /// The thread started to wait for a person.
    Waiting { visit: Visit, form: Value },
}

/// The data of a step that is not hashed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Tokens, or `None` if no provider counted them.
    pub usage: Option<Usage>,
    /// US dollars, or `None` if no price is known.
    pub cost_usd: Option<f64>,
    /// The number of model replies without a known price, if others have one.
    #[serde(skip_serializing_if = "is_zero")]
    pub unpriced_calls: u64,
    /// What gave the last model reply of the step.
    pub answered_by: Option<AnsweredBy>,
    /// The person who answered, by the name of their account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The program that answered a form in place of a person, by the name that it gave itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The resolved model of the last reply.
    pub model: Option<String>,
    /// Identifies where the role's first model is served: equal values mean equal providers and addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_by: Option<String>,
    pub started_at_ms: u64,
    pub ended_at_ms: u64,
    /// Milliseconds of work on the step, by a monotonic clock, without the time spent waiting for a person.
    pub active_ms: u64,
    /// The number of model replies in the step.
    pub model_calls: u64,
    /// The number of tool results in the step.
    pub tool_calls: u64,
    /// The tool calls that were made, in the order requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolNote>,
    /// What the hooks on its call paths did, by node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookNote>,
    /// Attempts at a port, including failed ones: the position in a script counts these.
    pub attempts: u64,
    /// The role's summary of the steps since its last visit, without its prompt. It follows from the steps, but reading
    /// them all again would make a long thread slow to resume; `None` = they have to be read.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub context_report: Option<String>,
    /// What followed from the step, in the order of its events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Followed>,
    /// For a step in a lane: for each part of the lane's path the step that opened this round; 0 = `start`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened_by: Vec<u64>,
    /// The same for the lane's first round, if different.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_opened_by: Vec<u64>,
    /// The bounded edge that leaves the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_by: Option<BoundedEdge>,
    /// For a join: the usage of the cancelled lanes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<CancelledLane>,
}

impl Note {
    pub fn cost(&self) -> KnownCost {
        KnownCost::new(self.cost_usd, self.cost_usd.map_or(self.model_calls, |_| self.unpriced_calls))
    }
}

/// A bounded edge that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundedEdge {
    /// Its number in file order.
    pub edge: u32,
    /// How often it was taken since `mark`.
    pub count: u64,
    /// The number of visits of its `per` role when the count started.
    pub mark: u64,
}

/// The usage of a lane in the visit in which it was cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CancelledLane {
    /// The lane.
    pub lane: LanePath,
    /// The role of that visit.
    pub role: RoleName,
    /// The tokens, if counted.
    pub usage: Option<Usage>,
    /// US dollars, if a price is known.
    pub cost_usd: Option<f64>,
    /// The number of model replies without a known price, if others have one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u64,
    /// The number of model replies.
    pub model_calls: u64,
    /// The number of tool results.
    pub tool_calls: u64,
    /// A tool that started a change and did not end in time: whether it took effect is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_unknown: Option<String>,
}

impl CancelledLane {
    pub fn cost(&self) -> KnownCost {
        KnownCost::new(self.cost_usd, self.cost_usd.map_or(self.model_calls, |_| self.unpriced_calls))
    }
}
