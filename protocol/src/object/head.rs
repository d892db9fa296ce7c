use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::Value;

/// The parts of a request besides its messages, object kind `head`: no address and no key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The resolved id of the model, as sent to the provider.
    pub model: String,
    /// Only the parameters that were given.
    pub parameters: Parameters,
    /// The JSON Schema for the answer, as text exactly as sent to the provider; the schema of any object if the
    /// provider supports no other; `None` if it supports none, and for front matter.
    pub response_format: Option<String>,
    /// The role's text and its output contract, as one system text.
    pub system: String,
    /// The offered tools, sorted by name.
    pub tools: Vec<ToolSpec>,
}

/// The description of a tool for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// What it does, for the model to read.
    pub description: String,
    /// The name by which the model asks for it.
    pub name: String,
    /// The JSON Schema of its arguments, as text exactly as sent.
    pub parameters: String,
}

/// Sampling parameters of a model, an object with only those that were given: `temperature`, `top_p`,
/// `max_output_tokens`, `seed`, `stop`, `presence_penalty`, `frequency_penalty`, `reasoning_effort`
/// (<https://platform.openai.com/docs/api-reference/chat/create>).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Parameters(pub std::collections::BTreeMap<String, Value>);
