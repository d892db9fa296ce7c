//! What a server attaches to a message or a call for its own use, and wants back within the turn.
//!
//! Sources: `extra_content` of Gemini (<https://ai.google.dev/gemini-api/docs/thought-signatures>), `reasoning_details` of
//! OpenRouter (<https://openrouter.ai/docs/use-cases/reasoning-tokens>), `reasoning_content` of DeepSeek
//! (<https://api-docs.deepseek.com/guides/thinking_mode>), `reasoning` of vLLM and Groq.

use serde::{Deserialize, Serialize};

use crate::model::opaque::{Kept, Members};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Attached {
    /// The text of the part came in this member of the message.
    Text(String),
    /// Members of the message.
    Message(Members),
    /// Members of the tool call behind it.
    Call(Members),
}

impl Kept for Attached {}
