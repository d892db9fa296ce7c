//! Anthropic's Messages API (<https://platform.claude.com/docs/en/api/messages>), as Anthropic and compatible servers
//! implement it.

mod models;
mod reply;
mod request;
mod schema;
mod thoughts;
mod usage;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rondo_protocol::call::Fault;
use rondo_protocol::message::Conversation;
use rondo_protocol::object::Head;

use super::dialects::{CallIds, Dialect};
use super::http::{Refusal, SettingsError, with_key};
use super::prompt_cache::{AutoPrefix, PromptCache};
use super::protocol::{Assembly, Form, Outgoing, Protocol, Service};
use crate::redact::Secret;

#[derive(Debug, Clone, Copy)]
pub struct Anthropic;

const HOST: &str = "api.anthropic.com";

/// It takes parameters of older models, which 2026-10-21 refuses
/// (<https://platform.claude.com/docs/en/api/versioning>).
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

impl Protocol for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn service(&self) -> Service {
        Service {
            provider: "anthropic",
            base_url: "https://api.anthropic.com",
            base_url_env: "ANTHROPIC_BASE_URL",
            key_env: "ANTHROPIC_API_KEY",
        }
    }

    fn is_at(&self, base_url: &str) -> bool {
        Url::parse(base_url).is_ok_and(|url| url.host_str() == Some(HOST))
    }

    fn url(&self, base: &str, _head: &Head) -> String {
        format!("{}/messages", versioned(base))
    }

    fn models_url(&self, base: &str) -> String {
        format!("{}/models", versioned(base))
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, SettingsError> {
        let version = (HeaderName::from_static("anthropic-version"), VERSION);
        with_key(HeaderMap::from_iter([version]), "x-api-key", key)
    }

    fn body(&self, request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
        request::body(request)
    }

    /// <https://platform.claude.com/docs/en/build-with-claude/vision>,
    /// <https://platform.claude.com/docs/en/build-with-claude/pdf-support>
    fn media_types(&self) -> &'static [&'static str] {
        &["image/gif", "image/jpeg", "image/png", "image/webp", "application/pdf", "text/*"]
    }

    fn assembly(&self, max_bytes: usize) -> Box<dyn Assembly> {
        Box::new(reply::Reply::new(max_bytes))
    }

    /// A signature that does not hold is never taken, however often it is sent.
    fn amendment(&self, request: &Outgoing<'_>, refusal: &Refusal) -> Option<Form> {
        let body = refusal.body.to_lowercase();
        let is_of_thoughts = refusal.status == 400 && body.contains("signature") && body.contains("thinking");
        is_of_thoughts.then_some(Form { is_without_reasoning: true, ..request.form })
    }

    /// A limit on spending, unlike one on rate, does not say how long to wait
    /// (<https://platform.claude.com/docs/en/api/errors>).
    fn is_out_of_funds(&self, refusal: &Refusal) -> bool {
        refusal.status == 429 && refusal.retry_after_ms.is_none() && refusal.should_retry != Some(true)
    }

    fn open_schema(&self, model: &str, schema: &str, _has_tools: bool) -> Option<&'static str> {
        if !models::Model::of(model).takes_schema {
            return Some("this model takes none");
        }
        (!schema::is_supported(schema)).then_some("it goes beyond the JSON Schema that is supported")
    }

    fn ignores(&self, model: &str) -> &'static [&'static str] {
        const ALL: [&str; 6] =
            ["reasoning_effort", "seed", "presence_penalty", "frequency_penalty", "temperature", "top_p"];
        let models::Model { thinking, takes_sampling, .. } = models::Model::of(model);
        let from = usize::from(thinking != models::Thinking::Never);
        let to = if takes_sampling { 4 } else { ALL.len() };
        ALL.get(from..to).unwrap_or_default()
    }

    fn misplaced_reasoning(&self, head: &Head, conversation: &Conversation) -> Option<usize> {
        let is_bound = models::Model::of(&head.model).binds_thoughts;
        is_bound.then(|| thoughts::misplaced(head, conversation, |_| true)).flatten()
    }

    /// Marks are part of the protocol: gateways hand them on, and servers that keep prefixes by themselves ignore them.
    fn dialect(&self, _base_url: &str) -> Dialect {
        let prompt_caches = &[PromptCache::Auto, PromptCache::Blocks, PromptCache::Off];
        Dialect { prefix: AutoPrefix::Blocks, prompt_caches, call_ids: CallIds::Word, ..super::dialects::COMMON }
    }
}

/// Its own client is given the address without a version, others with one.
fn versioned(base: &str) -> String {
    format!("{}/v1", base.strip_suffix("/v1").unwrap_or(base))
}
