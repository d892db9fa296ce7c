//! The OpenAI chat completions API, as OpenAI and compatible servers implement it
//! (<https://platform.openai.com/docs/api-reference/chat/create>).
//!
//! async-openai provides the configuration: addresses and headers. Requests and replies are written and read here,
//! because that client retries by itself, loses the status of unusual errors, drops the end of a cut stream and buffers
//! without a bound.

mod attached;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod models;
mod reply;
mod request;
mod think;

use async_openai::config::{Config, OpenAIConfig};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use rondo_protocol::call::{Fault, ModelAnswer};
use rondo_protocol::message::Parts;
use rondo_protocol::object::{Finish, Head, ModelReply};
use serde_json::Value;

use super::http::{Refusal, SettingsError, refusal, with_key};
use super::protocol::{Assembly, Form, Outgoing, Protocol, Service};
use super::usage;
use crate::redact::Secret;

pub(super) use models::refused;
pub(super) use reply::arguments;

#[derive(Debug, Clone, Copy)]
pub struct OpenAiChat;

impl Protocol for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai_chat"
    }

    fn service(&self) -> Service {
        Service {
            provider: "openai",
            base_url: async_openai::config::OPENAI_API_BASE,
            base_url_env: "OPENAI_BASE_URL",
            key_env: "OPENAI_API_KEY",
        }
    }

    fn is_at(&self, _base_url: &str) -> bool {
        false
    }

    fn url(&self, base: &str, _head: &Head) -> String {
        OpenAIConfig::new().with_api_base(base).url("/chat/completions")
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, SettingsError> {
        bearer(key)
    }

    fn body(&self, request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
        request::body(request)
    }

    /// <https://platform.openai.com/docs/api-reference/chat/create>
    fn media_types(&self) -> &'static [&'static str] {
        &["image/*", "audio/wav", "audio/mpeg", "application/pdf", "application/json", "text/*"]
    }

    fn assembly(&self, max_bytes: usize) -> Box<dyn Assembly> {
        Box::new(reply::Reply::new(max_bytes))
    }

    /// Only the server knows which name of the ceiling it takes, and whether its model thinks: DeepSeek and Moonshot then
    /// refuse calls without reasoning, such as those of another model
    /// (<https://api-docs.deepseek.com/guides/thinking_mode>).
    fn amendment(&self, request: &Outgoing<'_>, refusal: &Refusal) -> Option<Form> {
        let misses_reasoning = refusal.status == 400 && refusal.body.contains(request::REASONING_CONTENT);
        if misses_reasoning && request.call.conversation.messages().into_iter().any(request::has_calls) {
            return Some(Form { has_empty_reasoning: true, ..request.form });
        }
        let has_ceiling = request.call.head.parameters.0.contains_key("max_output_tokens");
        let name = request::dialect(request).output_ceiling;
        let is_its_name = matches!(refusal.status, 400 | 422) && refusal::refuses_parameter(&refusal.body, name);
        (has_ceiling && is_its_name).then_some(Form { has_other_ceiling: true, ..request.form })
    }

    fn refuses(&self, model: &str) -> &'static [&'static str] {
        refused(model)
    }

    fn slip(&self, refusal: &Refusal) -> Option<ModelAnswer> {
        slip(&refusal.body)
    }
}

/// The headers of OpenAI's client, whose configuration would panic for a key that no header can contain.
pub(super) fn bearer(key: Option<&Secret>) -> Result<HeaderMap, SettingsError> {
    // Without an explicit key the configuration would take one from the environment.
    let mut headers = OpenAIConfig::new().with_org_id("").with_project_id("").with_api_key("").headers();
    if key.is_none() {
        headers.remove(AUTHORIZATION);
    }
    let bearer = |key: &Secret| Secret { name: key.name.clone(), value: format!("Bearer {}", key.value) };
    with_key(headers, "authorization", key.map(bearer).as_ref())
}

/// The reply of a model whose call of a tool the server could not read: the model's slip, which it is told of. Groq refuses
/// the request for it (<https://console.groq.com/docs/tool-use>).
fn slip(body: &str) -> Option<ModelAnswer> {
    let body: Value = serde_json::from_str(body).ok()?;
    let error = body.get("error").filter(|error| error.get("code").is_some_and(|code| code == "tool_use_failed"))?;
    let written = error.get("failed_generation").and_then(Value::as_str).unwrap_or_default();
    let reply = ModelReply { finish: Finish::ToolCalls, parts: Parts::said(written) };
    let usage = body.get("usage").and_then(|usage| usage::read(&usage.to_string()));
    Some(ModelAnswer { reply, usage, cost_usd: None })
}
