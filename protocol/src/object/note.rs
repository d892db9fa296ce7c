use serde::{Deserialize, Serialize};

use crate::call::CallKind;
use crate::canonical::Value;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The port: a model provider, a tool, a script.
    Port,
    /// The journal of this thread, after a crash.
    Journal,
    /// The agent loop itself, or a person: a tool call that was not made.
    Loop,
    /// A hook in front of the port, by the name of its node.
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

impl Serialize for AnsweredBy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AnsweredBy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(match word.as_str() {
            "port" => Self::Port,
            "journal" => Self::Journal,
            "loop" => Self::Loop,
            _ => Self::Hook(word),
        })
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
    /// The calls that it answered in place of what lies behind it, in order.
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
}
