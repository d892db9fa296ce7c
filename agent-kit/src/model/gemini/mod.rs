//! The Gemini API, generateContent (<https://ai.google.dev/api/generate-content>).

mod attached;
mod reply;
mod request;
mod schema;
mod usage;

use reqwest::Url;
use reqwest::header::HeaderMap;
use rondo_protocol::call::Fault;
use rondo_protocol::object::Head;

use super::dialects::{self, Dialect};
use super::http::{Refusal, SettingsError, with_key};
use super::prompt_cache::PromptCache;
use super::protocol::{Assembly, Form, Outgoing, Protocol, Service};
use crate::redact::Secret;

const HOST: &str = "generativelanguage.googleapis.com";

/// The version of the API in an address that names none. It is the one with `parametersJsonSchema` and
/// `responseJsonSchema` for every model.
const VERSION: &str = "v1beta";

/// The generation of a model whose id has no number, such as `gemini-flash-latest`: those names are moved to new models,
/// and none names an older one.
const UNNUMBERED_GENERATION: u32 = 3;

/// The largest number that is a generation; `gemini-exp-1206` has a date.
const MAX_GENERATION: u32 = 99;

#[derive(Debug, Clone, Copy)]
pub struct Gemini;

impl Protocol for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn service(&self) -> Service {
        Service {
            provider: "gemini",
            base_url: "https://generativelanguage.googleapis.com",
            base_url_env: "GOOGLE_GEMINI_BASE_URL",
            key_env: "GEMINI_API_KEY",
        }
    }

    /// The same host also speaks chat completions (<https://ai.google.dev/gemini-api/docs/openai>).
    fn is_at(&self, base_url: &str) -> bool {
        dialects::is_at(base_url, &[HOST]) && Url::parse(base_url).is_ok_and(|url| !url.path().contains("/openai"))
    }

    /// A model is one segment of the path, whatever its id holds.
    fn url(&self, base: &str, head: &Head) -> String {
        let method = format!("{}:streamGenerateContent", model(&head.model));
        let Ok(mut url) = Url::parse(base) else { return base.to_owned() };
        let has_version = url.path().rsplit('/').next().is_some_and(is_version);
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend((!has_version).then_some(VERSION)).extend(["models", &method]);
        }
        url.set_query(Some("alt=sse"));
        url.into()
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, SettingsError> {
        with_key(HeaderMap::new(), "x-goog-api-key", key)
    }

    fn body(&self, request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
        request::body(request)
    }

    /// <https://ai.google.dev/gemini-api/docs/document-processing>
    fn media_types(&self) -> &'static [&'static str] {
        &["image/*", "audio/*", "video/*", "application/pdf", "text/*"]
    }

    fn assembly(&self, max_bytes: usize) -> Box<dyn Assembly> {
        Box::new(reply::Reply::new(max_bytes))
    }

    /// A signature that the server no longer reads is refused with every request that holds it.
    fn amendment(&self, request: &Outgoing<'_>, refusal: &Refusal) -> Option<Form> {
        let body = refusal.body.to_lowercase();
        let is_of_signature = refusal.status == 400 && body.contains("thought") && body.contains("signature");
        (is_of_signature && request::holds_signatures(request))
            .then_some(Form { is_without_reasoning: true, ..request.form })
    }

    /// <https://ai.google.dev/gemini-api/docs/text-generation>
    fn ignores(&self, model: &str) -> &'static [&'static str] {
        if generation(model).is_some_and(|generation| generation >= 4) { &["temperature", "top_p"] } else { &[] }
    }

    fn open_schema(&self, model: &str, schema: &str, has_tools: bool) -> Option<&'static str> {
        if has_tools && request::is_before_levels(model) {
            return Some("this model takes none together with tools");
        }
        (!schema::is_whole(schema)).then_some("a part of it is left out, because that JSON Schema is not supported")
    }

    /// Prefixes are kept without being asked for (<https://ai.google.dev/gemini-api/docs/caching>).
    fn dialect(&self, _base_url: &str) -> Dialect {
        Dialect { prompt_caches: &[PromptCache::Auto, PromptCache::Off], ..dialects::COMMON }
    }
}

/// The id of a model without the name of its collection.
fn model(id: &str) -> &str {
    id.strip_prefix("models/").unwrap_or(id)
}

/// Whether a segment of a path is a version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let number = segment.strip_prefix('v').filter(|number| number.starts_with(is_digit));
    let stage = number.map(|number| number.trim_matches(is_digit));
    stage.is_some_and(|stage| matches!(stage, "" | "alpha" | "beta"))
}

/// The first number in the id of a Gemini model; `None` for another model, such as one of Gemma.
fn generation(id: &str) -> Option<u32> {
    let name = id.rsplit('/').next().unwrap_or(id).strip_prefix("gemini-")?;
    let number = |word: &str| word.split('.').next().and_then(|whole| whole.parse().ok());
    let numbers = name.split('-').filter_map(number);
    Some(numbers.into_iter().find(|number| *number <= MAX_GENERATION).unwrap_or(UNNUMBERED_GENERATION))
}

#[cfg(test)]
mod tests;
