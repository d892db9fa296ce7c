use serde::{Deserialize, Serialize};

use crate::canonical::Value;

/// What a request holds besides its messages, object kind `head`: no address and no key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The resolved id of the model, as it is sent to the provider.
    pub model: String,
    /// The parameters that were given, and no others.
    pub parameters: Parameters,
    /// The JSON Schema that the provider is asked to hold the answer to, as text exactly as sent; that of any object where
    /// the provider takes no other, `None` where it takes none and for front matter.
    pub response_format: Option<String>,
    /// The role's text and its output contract, as one system text.
    pub system: String,
    /// The tools on offer, sorted by name.
    pub tools: Vec<ToolSpec>,
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// What it does, for the model to read.
    pub description: String,
    /// The name by which the model asks for it.
    pub name: String,
    /// The JSON Schema of its arguments, as text exactly as sent.
    pub parameters: String,
}

/// Sampling parameters of a model, object of only those that were given: `temperature`, `top_p`,
/// `max_output_tokens`, `seed`, `stop`, `presence_penalty`, `frequency_penalty`, `reasoning_effort`
/// (<https://platform.openai.com/docs/api-reference/chat/create>).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parameters(pub std::collections::BTreeMap<String, Value>);
