use std::sync::Arc;

use async_openai::types::responses::CreateResponse;
use rondo_protocol::Digest;
use rondo_protocol::call::{FaultClass, ModelCall};
use rondo_protocol::message::{Opaque, Parts, ToolUse};
use rondo_protocol::object::{Head, Parameters as Given, ToolSpec};
use serde_json::Value as Json;

use super::*;
use crate::model::dialects::Dialect;
use crate::model::openai_responses::OpenAiResponses;
use crate::model::prompt_cache::PromptCache;
use crate::model::protocol::{Form, Protocol as _, unreadable};
use crate::model::response_format::ANY_OBJECT;
use crate::model::{test_call, test_outgoing};
use crate::redact::Redactor;

/// The origin of what [`test_outgoing`] sends of [`call`].
const ORIGIN: &str = "p/gpt-test";

const REASONING: &str = r#"{"id": "rs_1", "type":"reasoning","summary":[],"encrypted_content":"gA\u00e9=="}"#;

fn kept(data: &str, text: &str) -> Part {
    let opaque = Some(Opaque { data: data.to_owned(), provider: ORIGIN.to_owned() });
    Part::Reasoning { opaque, text: text.to_owned() }
}

fn asks(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolUse { arguments: arguments.to_owned(), id: id.to_owned(), name: "a".to_owned() })
}

fn said(parts: impl IntoIterator<Item = Part>) -> Message {
    parts.into_iter().collect::<Parts>().into()
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn call() -> ModelCall {
    let parameters = [
        ("max_output_tokens", Value::from(200)),
        ("temperature", Value::Float(0.2)),
        ("seed", Value::from(7)),
        ("reasoning_effort", Value::from("high")),
        ("presence_penalty", Value::from(1)),
    ];
    let tool = |name: &str, parameters: &str| ToolSpec {
        description: format!("Does {name}."),
        name: name.to_owned(),
        parameters: parameters.to_owned(),
    };
    let strict =
        r#"{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}"#;
    let head = Head {
        model: "gpt-test".to_owned(),
        parameters: Given(parameters.map(|(name, value)| (name.to_owned(), value)).into()),
        response_format: Some(
            r#"{"type":"object","properties":{"status":{"type":"string","enum":["ok"]},"body":{"type":"string"}},"required":["status","body"],"additionalProperties":false}"#.to_owned(),
        ),
        system: "You are \"a writer\".\n".to_owned(),
        tools: vec![tool("b", r#"{"type": "object", "zebra": 1, "apple": 2}"#), tool("a", strict)],
    };
    let file = |bytes: &[u8]| (Digest::sha256(bytes), Arc::<[u8]>::from(bytes));
    let files = [file(b"\x89PNG"), file(b"%PDF")];
    let shown = |at: usize, media_type: &str, name: &str| {
        let digest = files[at].0;
        Part::File(FileRef { digest, media_type: media_type.to_owned(), name: name.to_owned() })
    };
    let asked = [shown(0, "image/png", "a.png"), text("Write é."), shown(1, "application/pdf", "b.pdf")];
    let foreign = Some(Opaque { data: REASONING.to_owned(), provider: "p/another".to_owned() });
    let messages = [
        Message::new(Speaker::User, asked.to_vec()).unwrap(),
        said([
            kept(REASONING, "hm"),
            kept(r#"{"id":"msg_1","phase":"commentary","status":"completed","type":"message"}"#, ""),
            text("I look."),
            kept(r#"{"id":"fc_1","status":"completed","type":"function_call"}"#, ""),
            asks("call_1", "{\"x\":"),
            asks("call_2", ""),
        ]),
        Message::tool("call_1", "no", true),
        Message::tool("call_2", "yes", false),
        said([Part::Reasoning { opaque: foreign, text: "hm".to_owned() }, text("done")]),
        Message::user(""),
    ];
    let conversation = Arc::new(messages.into_iter().collect());
    ModelCall { head: Arc::new(head), conversation, files: files.into_iter().collect(), ..test_call() }
}

fn sent(call: &ModelCall) -> String {
    String::from_utf8(body(&test_outgoing(call)).unwrap()).unwrap()
}

fn json(call: &ModelCall) -> Json {
    serde_json::from_str(&sent(call)).unwrap()
}

fn holding(messages: impl IntoIterator<Item = Message>) -> ModelCall {
    ModelCall { conversation: Arc::new(messages.into_iter().collect()), ..call() }
}

#[test]
fn the_bytes_of_a_request_are_fixed() {
    insta::assert_snapshot!(sent(&call()));
    assert_eq!(sent(&call()), sent(&call()));
}

#[test]
fn the_bytes_are_a_request_of_the_interface() {
    let request: CreateResponse = serde_json::from_str(&sent(&call())).unwrap();
    assert_eq!((request.store, request.stream, request.max_output_tokens), (Some(false), Some(true), Some(200)));
    let again = serde_json::to_value(&request).unwrap();
    assert_eq!(again["input"].as_array().unwrap().len(), 10);
    assert_eq!(again["reasoning"]["effort"], "high");
    assert_eq!(again["text"]["format"]["name"], "answer");
}

#[test]
fn a_plain_request_holds_nothing_that_was_not_given() {
    assert_eq!(
        sent(&test_call()),
        r#"{"model":"test-model","store":false,"stream":true,"input":[{"type":"message","role":"system","content":[{"type":"input_text","text":"You test."}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"Write."}]}]}"#
    );
}

#[test]
fn a_server_is_asked_in_its_own_way() {
    let call = test_call();
    let at = |url: &str| {
        let dialect = &OpenAiResponses.dialect(url);
        let outgoing = Outgoing { dialect, prompt_cache: PromptCache::Auto, ..test_outgoing(&call) };
        let body: Json = serde_json::from_slice(&body(&outgoing).unwrap()).unwrap();
        (body["input"][0]["role"].clone(), body["include"].clone(), body["prompt_cache_key"].is_string())
    };
    assert_eq!(at("https://api.openai.com/v1"), ("developer".into(), Json::Null, true));
    assert_eq!(at("https://api.x.ai/v1"), ("system".into(), serde_json::json!(["reasoning.encrypted_content"]), true));
    assert_eq!(at("http://127.0.0.1:8080/v1"), ("system".into(), Json::Null, false));
}

#[test]
fn a_key_stands_behind_the_bytes_that_are_sent_without_one_and_not_where_it_separates() {
    let of_model = |model: &str, keep| {
        let mut call = call();
        Arc::make_mut(&mut call.head).model = model.to_owned();
        let dialect = &OpenAiResponses.dialect("https://api.openai.com/v1");
        let time = Some(CacheRetention::Day);
        let outgoing = Outgoing { dialect, prompt_cache: keep, prompt_cache_retention: time, ..test_outgoing(&call) };
        String::from_utf8(body(&outgoing).unwrap()).unwrap()
    };
    let plain = of_model("gpt-5", PromptCache::Off);
    let keyed = of_model("gpt-5", PromptCache::Auto);
    let added = keyed.strip_prefix(plain.strip_suffix('}').unwrap()).unwrap();
    insta::assert_snapshot!(
        added,
        @r#","prompt_cache_key":"00000000010000000000000002-a756bd7c59c3de7c0b36c8cbffb4ad1f","prompt_cache_retention":"24h"}"#
    );
    assert_eq!(of_model("gpt-5.6", PromptCache::Auto), of_model("gpt-5.6", PromptCache::Off));
    assert!(of_model("gpt-5.6", PromptCache::Key).contains("prompt_cache_key"));
}

#[test]
fn parameters_that_the_interface_lacks_are_left_out_and_told() {
    let mut call = test_call();
    let names = ["frequency_penalty", "presence_penalty", "seed", "stop", "top_p"];
    Arc::make_mut(&mut call.head).parameters = Given(names.map(|name| (name.to_owned(), Value::from(1))).into());
    let body = json(&call);
    let sent: Vec<&str> = names.into_iter().filter(|name| body.get(*name).is_some()).collect();
    assert_eq!(sent, ["top_p"]);
    assert_eq!(OpenAiResponses.ignores("gpt-5"), &names[..4]);
}

#[test]
fn what_a_strict_mode_cannot_say_is_not_asked_for_strictly() {
    let format = |schema: &str| {
        let mut call = test_call();
        Arc::make_mut(&mut call.head).response_format = Some(schema.to_owned());
        json(&call)["text"]["format"].clone()
    };
    let strict =
        r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#;
    assert_eq!(format(strict)["strict"], true);
    assert_eq!(format(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#)["strict"], false);
    assert_eq!(format(ANY_OBJECT), serde_json::json!({ "type": "json_object" }));
    assert_eq!(json(&test_call()).get("text"), None);
}

#[test]
fn what_cannot_be_written_is_refused() {
    let mut odd = call();
    Arc::make_mut(&mut odd.head).response_format = Some("{".to_owned());
    assert_eq!(body(&test_outgoing(&odd)).unwrap_err().class, FaultClass::Refused);
    let mut odd = call();
    Arc::make_mut(&mut odd.head).tools[0].parameters = "{".to_owned();
    assert_eq!(body(&test_outgoing(&odd)).unwrap_err().class, FaultClass::Refused);
    let fileless = ModelCall { files: rondo_protocol::call::Files::default(), ..call() };
    let fault = body(&test_outgoing(&fileless)).unwrap_err();
    assert_eq!(fault.message, "the file a.png is not at hand");
}

#[test]
fn the_files_of_a_result_are_in_its_output() {
    let call = call();
    let outgoing = test_outgoing(&call);
    let message = call.conversation.messages()[0];
    let output = TextOrContents::Contents(contents(&outgoing, message).unwrap());
    insta::assert_snapshot!(
        serde_json::to_string(&Item::FunctionCallOutput { call_id: "call_1", output }).unwrap(),
        @r#"{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw=="},{"type":"input_text","text":"Write é."},{"type":"input_file","filename":"b.pdf","file_data":"data:application/pdf;base64,JVBERg=="}]}"#
    );
}

/// The items of an answer of these parts, as sent in that form.
fn items(parts: impl IntoIterator<Item = Part>, form: Form) -> String {
    let mut call = holding([said(parts)]);
    Arc::make_mut(&mut call.head).system = String::new();
    let body = body(&Outgoing { form, ..test_outgoing(&call) }).unwrap();
    let body = String::from_utf8(body).unwrap();
    let (_, items) = body.split_once(r#""input":["#).unwrap();
    items.strip_suffix("]}").unwrap().to_owned()
}

#[test]
fn reasoning_goes_back_as_it_came_with_what_follows_it() {
    let asked = || asks("call_1", "{}");
    let call = r#"{"type":"function_call","call_id":"call_1","name":"a","arguments":"{}"}"#;
    assert_eq!(items([kept(REASONING, "hm"), asked()], Form::default()), format!("{REASONING},{call}"));
    // Nothing follows it.
    assert_eq!(items([asked(), kept(REASONING, "hm")], Form::default()), call);
    assert_eq!(items([kept(REASONING, "hm")], Form::default()), "");
    // The server does not take it.
    let without = Form { is_without_reasoning: true, ..Form::default() };
    let of_call = || kept(r#"{"id":"fc_1","type":"function_call"}"#, "");
    assert_eq!(items([kept(REASONING, "hm"), of_call(), asked()], without), call);
    // What belongs to a call is not of a message or of the next call.
    let attached = items([of_call(), text("a"), asked()], Form::default());
    assert!(!attached.contains("fc_1"), "{attached}");
    let attached = items([of_call(), asked(), asks("call_2", "{}")], Form::default());
    assert_eq!(attached.matches("fc_1").count(), 1, "{attached}");
    // A message with an id is the item that it was; any other is a text.
    let of_message = |data: &str| items([kept(data, ""), text("a")], Form::default());
    assert_eq!(
        of_message(r#"{"type":"message","id":"msg_1","status":"completed"}"#),
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}],"id":"msg_1","status":"completed"}"#
    );
    assert_eq!(
        of_message(r#"{"type":"message","id":"msg_1","phase":"commentary"}"#),
        r#"{"type":"message","role":"assistant","content":"a","phase":"commentary"}"#
    );
    // A member that is sent anyway, or data that cannot be read, changes nothing.
    for data in [r#"{"type":"function_call","arguments":"no","call_id":"x"}"#, "{", "[]", r#"{"type":"other"}"#] {
        assert_eq!(items([kept(data, ""), asked()], Form::default()), call, "{data}");
    }
}

/// What the server sends in a stream with these items, as the message that goes back.
fn received(items: &[&str]) -> Message {
    let call = call();
    let mut assembly = OpenAiResponses.assembly(1 << 20);
    for (index, item) in items.iter().enumerate() {
        let event = format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#);
        assembly.take(&event, &Redactor::default()).unwrap();
    }
    let end = r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#;
    assembly.take(end, &Redactor::default()).unwrap();
    let answer = assembly.complete(&test_outgoing(&call), unreadable(String::new())).unwrap();
    answer.reply.parts.into()
}

#[test]
fn the_items_of_a_reply_go_back_as_they_came_to_their_origin_only() {
    let message = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}],"id":"msg_1","phase":"commentary","status":"completed"}"#;
    let asked = r#"{"type":"function_call","call_id":"call_1","name":"a","arguments":"{ \"x\" :\t1.0}","id":"fc_1","status":"completed"}"#;
    let reply = received(&[REASONING, message, REASONING, asked]);
    let sent = sent(&holding([reply.clone()]));
    assert!(sent.ends_with(&format!("{REASONING},{message},{REASONING},{asked}]}}")), "{sent}");

    let call = holding([reply]);
    let elsewhere = body(&Outgoing { provider: "q", ..test_outgoing(&call) }).unwrap();
    let elsewhere = String::from_utf8(elsewhere).unwrap();
    for word in ["rs_1", "msg_1", "fc_1", "commentary", "encrypted"] {
        assert!(!elsewhere.contains(word), "{word}: {elsewhere}");
    }
    assert!(elsewhere.contains(r#""arguments":"{ \"x\" :\t1.0}""#), "{elsewhere}");
}

#[test]
fn ids_do_not_go_back_without_the_reasoning_that_led_to_them() {
    let reference =
        r#"{"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":null}"#;
    let message =
        r#"{"type":"message","id":"msg_1","phase":"final_answer","content":[{"type":"output_text","text":"a"}]}"#;
    let reply = received(&[reference, message]);
    assert_eq!(reply.reasoning().as_deref(), Some("hm"));
    let sent = sent(&holding([reply]));
    assert!(!sent.contains("rs_2") && !sent.contains("msg_1"), "{sent}");
    assert!(sent.contains(r#""phase":"final_answer""#), "{sent}");
}

fn any_part() -> impl proptest::strategy::Strategy<Value = Part> {
    use proptest::prelude::*;
    let words = "[a-z\"\\\\ é]{0,6}";
    prop_oneof![
        words.prop_map(|words| text(&words)),
        (words, words).prop_map(|(id, arguments)| asks(&id, &arguments)),
        words.prop_map(|words| kept(REASONING, &words)),
        Just(kept(r#"{"id":"msg_1","phase":"commentary","type":"message"}"#, "")),
        Just(kept(r#"{"id":"msg_1","status":"completed","type":"message"}"#, "")),
        Just(kept(r#"{"id":"fc_1","type":"function_call"}"#, "")),
        words.prop_map(|words| kept(&words, "")),
    ]
}

fn any_message() -> impl proptest::strategy::Strategy<Value = Message> {
    use proptest::prelude::*;
    let words = "[a-z\"\\\\ é]{0,6}";
    prop_oneof![
        words.prop_map(Message::user),
        (words, words, any::<bool>()).prop_map(|(id, text, failed)| Message::tool(id, text, failed)),
        proptest::collection::vec(any_part(), 0..6).prop_map(said),
    ]
}

proptest::proptest! {
    #[test]
    fn a_conversation_that_goes_on_only_grows_at_its_end(
        system in "[a-z]{0,3}",
        messages in proptest::collection::vec(any_message(), 0..10),
        keep in proptest::sample::select(&[PromptCache::Off, PromptCache::Key][..]),
        is_without_reasoning: bool,
    ) {
        let body = |length: usize| {
            let mut call = holding(messages.iter().take(length).cloned());
            Arc::make_mut(&mut call.head).system.clone_from(&system);
            let form = Form { is_without_reasoning, ..Form::default() };
            let dialect = &Dialect::at("https://api.openai.com/v1");
            let outgoing = Outgoing { form, dialect, prompt_cache: keep, ..test_outgoing(&call) };
            let body = String::from_utf8(super::body(&outgoing).unwrap()).unwrap();
            let (front, behind) = body.rsplit_once(']').unwrap();
            (front.to_owned(), behind.to_owned())
        };
        let (all, behind) = body(messages.len());
        for length in 0..messages.len() {
            let (front, same) = body(length);
            proptest::prop_assert!(all.starts_with(&front), "{front}\n{all}");
            proptest::prop_assert_eq!(&same, &behind);
        }
    }

    #[test]
    fn every_request_is_one_of_the_interface(messages in proptest::collection::vec(any_message(), 0..10)) {
        let sent = sent(&holding(messages));
        let read = serde_json::from_str::<CreateResponse>(&sent);
        proptest::prop_assert!(read.is_ok(), "{read:?}\n{sent}");
    }
}
