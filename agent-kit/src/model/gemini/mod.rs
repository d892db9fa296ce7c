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
mod tests {
    use std::sync::Arc;

    use rondo_protocol::call::ModelCall;
    use rondo_protocol::message::{Message, Parts};

    use super::*;
    use crate::model::opaque::Kept as _;
    use crate::model::protocol;
    use crate::model::{test_call, test_outgoing};

    fn url(base: &str, model: &str) -> String {
        Gemini.url(base, &Head { model: model.to_owned(), ..Head::clone(&test_call().head) })
    }

    #[test]
    fn the_address_has_one_version_and_the_model_as_one_segment() {
        for (base, version) in [
            ("https://generativelanguage.googleapis.com", "/v1beta"),
            ("https://generativelanguage.googleapis.com/v1", ""),
            ("https://generativelanguage.googleapis.com/v1beta", ""),
            ("https://gateway.example.org/v1alpha2", ""),
            ("https://gateway.example.org/gemini", "/v1beta"),
            ("https://gateway.example.org/vertex", "/v1beta"),
            ("https://gateway.example.org/v", "/v1beta"),
        ] {
            let wanted = format!("{base}{version}/models/gemini-3-pro:streamGenerateContent?alt=sse");
            assert_eq!(url(base, "gemini-3-pro"), wanted);
            assert_eq!(url(base, "models/gemini-3-pro"), wanted);
        }
        for hostile in
            ["../../x", "..", "a/b", "a?key=1", "a#b", "a%2Fb", "a\\b", "http://x/", "a b", "a\nb", "é", "", "@x", "/x"]
        {
            let url = Url::parse(&url("https://h.example.org", hostile)).unwrap();
            assert_eq!((url.host_str(), url.query()), (Some("h.example.org"), Some("alt=sse")), "{hostile}");
            let segments: Vec<&str> = url.path_segments().unwrap().collect();
            assert!(
                matches!(segments.as_slice(), ["v1beta", "models", last] if last.ends_with(":streamGenerateContent"))
            );
        }
    }

    #[test]
    fn the_service_is_known_by_its_host_but_not_in_its_chat_form() {
        let known = |address| protocol::at(address).map(Protocol::name);
        assert_eq!(known("https://generativelanguage.googleapis.com"), Some("gemini"));
        assert_eq!(known("https://generativelanguage.googleapis.com/v1beta"), Some("gemini"));
        assert_ne!(known("https://generativelanguage.googleapis.com/v1beta/openai"), Some("gemini"));
        assert_ne!(known("https://generativelanguage.googleapis.com.example.org"), Some("gemini"));
        assert_eq!(protocol::of_service("gemini").map(Protocol::name), Some("gemini"));
    }

    #[test]
    fn the_key_is_a_header_and_never_shown() {
        let key = |value: &str| Secret { name: "GEMINI_API_KEY".to_owned(), value: value.to_owned() };
        let headers = Gemini.headers(Some(&key("AIza-secret"))).unwrap();
        assert_eq!(headers.get("x-goog-api-key").unwrap(), "AIza-secret");
        assert!(!format!("{headers:?}").contains("secret"));
        assert!(Gemini.headers(None).unwrap().is_empty());
        assert_eq!(Gemini.headers(Some(&key("a\nb"))), Err(SettingsError::Key("GEMINI_API_KEY".to_owned())));
    }

    #[test]
    fn a_signature_that_is_refused_is_left_out_once() {
        let refusal = |status, body: &str| Refusal { status, body: body.to_owned(), retry_after_ms: None };
        let invalid = refusal(400, r#"{"error":{"code":400,"message":"Thought signature is not valid"}}"#);
        let signature = serde_json::value::to_raw_value("s").unwrap();
        let part = attached::Attached::EmptyText(signature).part("p/test-model", String::new());
        let messages = [Message::user("a"), Message::from(Parts::from_iter([part]))];
        let signed = ModelCall { conversation: Arc::new(messages.into_iter().collect()), ..test_call() };
        let of = |call: &ModelCall, refusal: &Refusal| Gemini.amendment(&test_outgoing(call), refusal);
        assert!(of(&signed, &invalid).is_some_and(|form| form.is_without_reasoning));
        assert_eq!(of(&test_call(), &invalid), None);
        assert_eq!(of(&signed, &refusal(400, "thought budget is too large")), None);
        assert_eq!(of(&signed, &refusal(500, &invalid.body)), None);
        let form = protocol::Form { is_without_reasoning: true, ..protocol::Form::default() };
        assert_eq!(Gemini.amendment(&Outgoing { form, ..test_outgoing(&signed) }, &invalid), None);
    }

    #[test]
    fn a_generation_is_read_from_the_id() {
        for (id, wanted) in [
            ("gemini-2.5-flash", Some(2)),
            ("models/gemini-3-pro-preview", Some(3)),
            ("google/gemini-3.8-flash", Some(3)),
            ("gemini-4-pro", Some(4)),
            ("gemini-robotics-er-1.5-preview", Some(1)),
            ("gemini-flash-latest", Some(UNNUMBERED_GENERATION)),
            ("gemini-exp-1206", Some(UNNUMBERED_GENERATION)),
            ("gemma-3-27b-it", None),
            ("", None),
        ] {
            assert_eq!(generation(id), wanted, "{id}");
        }
        assert_eq!(Gemini.ignores("gemini-4-pro"), ["temperature", "top_p"]);
        assert!(Gemini.ignores("gemini-3-pro").is_empty() && Gemini.ignores("gemini-pro-latest").is_empty());
    }
}
