//! The OpenAI Responses API, as OpenAI and compatible servers implement it
//! (<https://platform.openai.com/docs/api-reference/responses/create>).
//!
//! Nothing is stored at the provider: every request holds the whole conversation, with the reasoning that the provider
//! encrypted for its own use.

mod attached;
mod reply;
mod request;

use reqwest::header::HeaderMap;
use rondo_protocol::call::Fault;
use rondo_protocol::object::Head;

use super::dialects::{self, Dialect};
use super::http::{Refusal, SettingsError};
use super::openai_chat::{self, OpenAiChat};
use super::prompt_cache::{AutoPrefix, PromptCache};
use super::protocol::{Assembly, Form, Outgoing, Protocol, Service};
use crate::redact::Secret;

/// Hosts that are asked in no other protocol: xAI's chat completions are deprecated
/// (<https://docs.x.ai/developers/model-capabilities/text/comparison>).
const HOSTS: [&str; 1] = ["api.x.ai"];

/// What a server says of items that it does not take back: it cannot decrypt them, did not store them, or misses one
/// that belongs to another.
const REFUSED_ITEMS: [&str; 4] = [
    "invalid_encrypted_content",
    "Items are not persisted",
    "required 'reasoning' item",
    "without its required following item",
];

#[derive(Debug, Clone, Copy)]
pub struct OpenAiResponses;

impl Protocol for OpenAiResponses {
    fn name(&self) -> &'static str {
        "openai_responses"
    }

    fn service(&self) -> Service {
        OpenAiChat.service()
    }

    fn is_at(&self, base_url: &str) -> bool {
        dialects::is_at(base_url, &HOSTS)
    }

    fn url(&self, base: &str, _head: &Head) -> String {
        format!("{base}/responses")
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, SettingsError> {
        openai_chat::bearer(key)
    }

    fn body(&self, request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
        request::body(request)
    }

    /// <https://platform.openai.com/docs/guides/pdf-files>
    fn media_types(&self) -> &'static [&'static str] {
        &["image/*", "application/pdf", "application/json", "text/*"]
    }

    fn assembly(&self, max_bytes: usize) -> Box<dyn Assembly> {
        Box::new(reply::Reply::new(max_bytes))
    }

    /// Encrypted reasoning does not outlive its account, and some servers do not take their own items back.
    fn amendment(&self, request: &Outgoing<'_>, refusal: &Refusal) -> Option<Form> {
        let is_of_items = REFUSED_ITEMS.iter().any(|words| refusal.body.contains(words));
        (matches!(refusal.status, 400 | 404) && is_of_items)
            .then_some(Form { is_without_reasoning: true, ..request.form })
    }

    fn ignores(&self, _model: &str) -> &'static [&'static str] {
        &request::IGNORED
    }

    fn refuses(&self, model: &str) -> &'static [&'static str] {
        openai_chat::refused(model)
    }

    fn dialect(&self, base_url: &str) -> Dialect {
        let mut dialect = Dialect::at(base_url);
        dialect.prompt_caches = &[PromptCache::Auto, PromptCache::Key, PromptCache::Off];
        if dialect.prefix == AutoPrefix::BlocksOfAnthropic {
            dialect.prefix = AutoPrefix::Nothing;
        }
        if self.is_at(base_url) {
            // <https://docs.x.ai/developers/model-capabilities/text/best-practices>
            dialect.prefix = AutoPrefix::Key;
            dialect.asks_for_reasoning = true;
        }
        dialect
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::protocol;
    use crate::model::{test_call, test_outgoing};

    #[test]
    fn it_is_the_protocol_of_one_host_and_one_name() {
        assert_eq!(protocol::at("https://api.x.ai/v1").unwrap().name(), "openai_responses");
        for url in ["https://api.openai.com/v1", "https://x.ai.example.org/v1", "http://127.0.0.1:11434/v1"] {
            assert!(!OpenAiResponses.is_at(url), "{url}");
        }
        assert_eq!(protocol::named("openai_responses").unwrap(), &OpenAiResponses as &dyn Protocol);
        assert_eq!(protocol::of_service("openai").unwrap().name(), "openai_chat");
        let url = OpenAiResponses.url("https://api.openai.com/v1", &test_call().head);
        assert_eq!(url, "https://api.openai.com/v1/responses");
    }

    #[test]
    fn only_items_that_a_server_does_not_take_back_are_left_out() {
        let call = test_call();
        let amendment = |status, body: &str| {
            let refusal = Refusal { status, body: body.to_owned(), retry_after_ms: None, should_retry: None };
            OpenAiResponses.amendment(&test_outgoing(&call), &refusal)
        };
        for (status, body, is_amended) in [
            (400, r#"{"error":{"message":"It could not be verified.","code":"invalid_encrypted_content"}}"#, true),
            (404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.", true),
            (
                400,
                "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
                true,
            ),
            (400, "Item 'rs_1' of type 'reasoning' was provided without its required following item.", true),
            (500, "invalid_encrypted_content", false),
            (400, "Unsupported parameter: 'seed'", false),
            (404, "The model `gpt-0` does not exist", false),
        ] {
            let form = amendment(status, body);
            assert_eq!(form.is_some_and(|form| form.is_without_reasoning), is_amended, "{body}");
        }
    }
}
