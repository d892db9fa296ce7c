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
        assert!(matches!(segments.as_slice(), ["v1beta", "models", last] if last.ends_with(":streamGenerateContent")));
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
    let refusal =
        |status, body: &str| Refusal { status, body: body.to_owned(), retry_after_ms: None, should_retry: None };
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
