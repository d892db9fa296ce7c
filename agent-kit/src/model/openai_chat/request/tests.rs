use std::sync::Arc;

use async_openai::types::chat::CreateChatCompletionRequest;
use rondo_protocol::call::{FaultClass, ModelCall};
use rondo_protocol::canonical;
use rondo_protocol::id::{FieldName, Status};
use rondo_protocol::message::{Opaque, Parts, ToolUse};
use rondo_protocol::object::{Head, Parameters as Given, ToolSpec};
use rondo_protocol::workflow::{AnswerFormat, Field};

use super::super::reply::Reply;
use super::*;
use crate::answer::Contract;
use crate::model::dialects::COMMON;
use crate::model::http::Refusal;
use crate::model::protocol::{Assembly, Form, Protocol as _};
use crate::model::{PromptCache, ResponseFormat, test_call, test_outgoing};
use crate::redact::Redactor;

/// The bytes sent to a server without a dialect.
fn request_body(call: &ModelCall) -> Result<Vec<u8>, Fault> {
    body(&test_outgoing(call))
}

fn call() -> ModelCall {
    let parameters =
        [("max_output_tokens", Value::from(200)), ("temperature", Value::Float(0.2)), ("seed", Value::from(7))];
    let tool = |name: &str, parameters: &str| ToolSpec {
        description: format!("Does {name}."),
        name: name.to_owned(),
        parameters: parameters.to_owned(),
    };
    let head = Head {
        model: "gpt-test".to_owned(),
        parameters: Given(parameters.map(|(name, value)| (name.to_owned(), value)).into()),
        response_format: Some(
            r#"{"type":"object","properties":{"status":{"type":"string","enum":["ok"]},"body":{"type":"string"}},"required":["status","body"],"additionalProperties":false}"#.to_owned(),
        ),
        system: "You are \"a writer\".\n".to_owned(),
        tools: vec![tool("b", r#"{"type": "object", "zebra": 1, "apple": 2}"#), tool("a", "{}")],
    };
    let opaque = Some(Opaque { data: "signed".to_owned(), provider: "another".to_owned() });
    let tool = ToolUse { arguments: "{\"x\":".to_owned(), id: "call_1".to_owned(), name: "a".to_owned() };
    let parts = [Part::Reasoning { opaque, text: "hm".to_owned() }, Part::ToolCall(tool)];
    let asked = Message::from(parts.into_iter().collect::<Parts>());
    let messages = [
        Message::user("Write é."),
        asked,
        Message::tool("call_1", "no", false),
        Message::assistant("done"),
        Message::user(""),
    ];
    ModelCall { head: Arc::new(head), conversation: Arc::new(messages.into_iter().collect()), ..test_call() }
}

#[test]
fn the_bytes_of_a_request_are_fixed() {
    let body = String::from_utf8(request_body(&call()).unwrap()).unwrap();
    insta::assert_snapshot!(body);
    assert_eq!(request_body(&call()).unwrap(), body.as_bytes());
}

#[test]
fn the_bytes_are_a_request_of_the_interface() {
    let request: CreateChatCompletionRequest = serde_json::from_slice(&request_body(&call()).unwrap()).unwrap();
    assert_eq!((request.messages.len(), request.stream, request.max_completion_tokens), (6, Some(true), Some(200)));
}

#[test]
fn a_plain_request_holds_nothing_that_was_not_given() {
    let body = String::from_utf8(request_body(&test_call()).unwrap()).unwrap();
    assert_eq!(
        body,
        r#"{"model":"test-model","messages":[{"role":"system","content":"You test."},{"role":"user","content":"Write."}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
}

#[test]
fn a_conversation_that_goes_on_only_grows_at_its_end() {
    let before = request_body(&test_call()).unwrap();
    let mut call = test_call();
    let mut conversation = rondo_protocol::message::Conversation::clone(&call.conversation);
    conversation.push(Message::assistant("An answer."));
    call.conversation = Arc::new(conversation);
    let after = request_body(&call).unwrap();
    let messages_end = before.windows(2).rposition(|pair| pair == b"}]").unwrap() + 1;
    assert_eq!(before[..messages_end], after[..messages_end]);
}

#[test]
fn a_schema_that_is_not_json_is_refused() {
    let mut call = call();
    Arc::make_mut(&mut call.head).response_format = Some("{".to_owned());
    assert_eq!(request_body(&call).unwrap_err().class, FaultClass::Refused);
}

/// The request of a role with two statuses to a provider with that response format.
fn asked_as(format: ResponseFormat) -> String {
    let field = |name: &str, schema: &str, optional| {
        let schema = canonical::parse(schema.as_bytes()).unwrap();
        (FieldName::new(name).unwrap(), Field { optional, schema })
    };
    let zebras = || field("zebras", r#"{"type":"integer","minimum":1}"#, false);
    let output = vec![
        (Status::new("revise").unwrap(), vec![field("title", r#"{"type":"string","minLength":3}"#, false), zebras()]),
        (Status::new("done").unwrap(), vec![zebras(), field("apples", r#"{"enum":["few","many"]}"#, true)]),
    ];
    let contract = Contract::new(AnswerFormat::Json, &output).unwrap();
    let schema = contract.response_format();
    let mut call = test_call();
    Arc::make_mut(&mut call.head).response_format = format.in_head(schema.as_deref()).map(str::to_owned);
    String::from_utf8(request_body(&call).unwrap()).unwrap()
}

#[test]
fn the_bytes_of_a_request_are_fixed_for_each_way_to_ask_for_a_form() {
    insta::assert_snapshot!(
        asked_as(ResponseFormat::JsonSchema),
        @r#"{"model":"test-model","messages":[{"role":"system","content":"You test."},{"role":"user","content":"Write."}],"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"status":{"type":"string","enum":["revise","done"]},"title":{"anyOf":[{"type":"string"},{"type":"null"}]},"zebras":{"minimum":1,"type":"integer"},"apples":{"anyOf":[{"enum":["few","many"],"type":"string"},{"type":"null"}]},"body":{"type":"string"}},"required":["status","title","zebras","apples","body"],"additionalProperties":false}}},"stream":true,"stream_options":{"include_usage":true}}"#
    );
    insta::assert_snapshot!(
        asked_as(ResponseFormat::JsonObject),
        @r#"{"model":"test-model","messages":[{"role":"system","content":"You test."},{"role":"user","content":"Write."}],"response_format":{"type":"json_object"},"stream":true,"stream_options":{"include_usage":true}}"#
    );
    insta::assert_snapshot!(
        asked_as(ResponseFormat::Off),
        @r#"{"model":"test-model","messages":[{"role":"system","content":"You test."},{"role":"user","content":"Write."}],"stream":true,"stream_options":{"include_usage":true}}"#
    );
}

#[test]
fn what_a_strict_mode_cannot_say_is_not_asked_for_strictly() {
    let sent = |schema: &str| {
        let mut call = test_call();
        Arc::make_mut(&mut call.head).response_format = Some(schema.to_owned());
        let body: serde_json::Value = serde_json::from_slice(&request_body(&call).unwrap()).unwrap();
        body["response_format"]["json_schema"]["strict"].clone()
    };
    assert_eq!(sent(r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#), true);
    assert_eq!(sent(r#"{"type":"object","properties":{},"required":[]}"#), false);
}

fn keeping(host: &str, keep: PromptCache, time: Option<CacheRetention>) -> String {
    asked_to_keep(&call(), host, keep, time)
}

fn asked_to_keep(call: &ModelCall, host: &str, keep: PromptCache, time: Option<CacheRetention>) -> String {
    let dialect = &Dialect::at(&format!("https://{host}"));
    let outgoing = Outgoing { dialect, prompt_cache: keep, prompt_cache_retention: time, ..test_outgoing(call) };
    String::from_utf8(body(&outgoing).unwrap()).unwrap()
}

#[test]
fn a_key_stands_behind_the_bytes_that_are_sent_without_one() {
    let plain = String::from_utf8(request_body(&call()).unwrap()).unwrap();
    let keyed = keeping("api.openai.com", PromptCache::Auto, Some(CacheRetention::Day));
    let added = keyed.strip_prefix(plain.strip_suffix('}').unwrap()).unwrap();
    insta::assert_snapshot!(
        added,
        @r#","prompt_cache_key":"00000000010000000000000002-a756bd7c59c3de7c0b36c8cbffb4ad1f","prompt_cache_retention":"24h"}"#
    );
    assert_eq!(keeping("127.0.0.1", PromptCache::Auto, Some(CacheRetention::Day)), plain);
    assert_eq!(keeping("api.openai.com", PromptCache::Off, None), plain);
}

#[test]
fn the_bytes_of_a_request_with_marked_blocks_are_fixed() {
    insta::assert_snapshot!(keeping("127.0.0.1", PromptCache::Blocks, Some(CacheRetention::Hour)));
}

/// The numbers of the marked messages of a conversation; 0 is the system text.
fn marked(system: &str, messages: &[Message]) -> Vec<usize> {
    let mut call = test_call();
    Arc::make_mut(&mut call.head).system = system.to_owned();
    call.conversation = Arc::new(messages.iter().cloned().collect());
    let body = asked_to_keep(&call, "127.0.0.1", PromptCache::Blocks, None);
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let first = usize::from(system.is_empty());
    let sent = body["messages"].as_array().unwrap().iter().zip(first..);
    sent.filter(|(message, _)| message["content"].is_array()).map(|(_, number)| number).collect()
}

#[test]
fn the_end_of_a_request_and_of_the_one_before_are_marked() {
    let (user, said) = (|| Message::user("Go on."), || Message::assistant("done"));
    assert_eq!(marked("You test.", &[user()]), [0, 1]);
    assert_eq!(marked("You test.", &[user(), said(), user()]), [0, 1, 3]);
    assert_eq!(marked("You test.", &[user(), said(), user(), said(), user()]), [0, 3, 5]);
    assert_eq!(marked("", &[user(), said(), user()]), [1, 3]);

    // However many tools one answer uses, the previous request ended where the answer begins.
    let mut long = vec![user(), said(), user(), said()];
    long.extend((0..30).map(|at| Message::tool(format!("call_{at}"), "no", false)));
    assert_eq!(marked("You test.", &long), [0, 3, 34]);

    // An empty block cannot be marked.
    assert_eq!(marked("You test.", &[Message::user(""), said(), user()]), [0, 3]);
    assert_eq!(marked("", &[]), Vec::<usize>::new());
}

/// A body without the fields that ask a provider to cache its prefix.
fn without_asking(body: &str) -> serde_json::Value {
    let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
    let fields = body.as_object_mut().unwrap();
    fields.remove("prompt_cache_key");
    fields.remove("prompt_cache_retention");
    for message in fields["messages"].as_array_mut().unwrap() {
        let parts = message["content"].as_array().cloned().unwrap_or_default();
        if let [part] = parts.as_slice() {
            assert_eq!(part.as_object().unwrap().len(), 3, "{part}");
            message["content"] = part["text"].clone();
        }
    }
    body
}

proptest::proptest! {
    #[test]
    fn what_asks_to_keep_a_prefix_changes_no_content(
        system in "[a-z]{0,3}",
        messages in proptest::collection::vec((0..4_u8, "[a-z\"\\\\ é]{0,6}"), 0..12),
        keep in proptest::sample::select(&PromptCache::ALL[..]),
        time in proptest::option::of(proptest::sample::select(&CacheRetention::ALL[..])),
    ) {
        let message = |(kind, text): (u8, String)| match kind {
            0 => Message::user(text),
            1 => Message::assistant(text),
            2 => Message::tool("call_1", text, false),
            _ => {
                let asked = self::call().conversation.messages()[1].parts().to_vec();
                asked.into_iter().chain([Part::Text { text }]).collect::<Parts>().into()
            }
        };
        let mut call = call();
        Arc::make_mut(&mut call.head).system = system;
        call.conversation = Arc::new(messages.into_iter().map(message).collect());
        let plain = String::from_utf8(request_body(&call).unwrap()).unwrap();
        let kept = asked_to_keep(&call, "openrouter.ai", keep, time);
        proptest::prop_assert_eq!(without_asking(&kept), serde_json::from_str::<serde_json::Value>(&plain).unwrap());
        proptest::prop_assert!(kept.matches("\"cache_control\"").count() <= 4);
    }
}

#[test]
fn empty_reasoning_goes_back_where_a_server_misses_it() {
    let dialect = &Dialect::at("https://api.deepseek.com");
    let asked = test_call();
    let reply = |dialect| {
        let mut reply: Box<dyn Assembly> = Box::new(Reply::new(1 << 20));
        let chunk = r#"{"choices":[{"delta":{"reasoning_content":"","tool_calls":[{"id":"1","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
        reply.take(chunk, &Redactor::default()).unwrap();
        let outgoing = Outgoing { dialect, ..test_outgoing(&asked) };
        reply.complete(&outgoing, refused("incomplete".to_owned())).unwrap().reply.parts
    };
    let sent = |parts: Parts, form: Form| {
        let messages = [Message::user("Write."), Message::from(parts), Message::tool("1", "no", false)];
        let call = ModelCall { conversation: Arc::new(messages.into_iter().collect()), ..test_call() };
        let outgoing = Outgoing { dialect, form, ..test_outgoing(&call) };
        let body = String::from_utf8(body(&outgoing).unwrap()).unwrap();
        let has_calls = OpenAiChat.amendment(&outgoing, &missing());
        assert_eq!(has_calls, Some(Form { has_empty_reasoning: true, ..form }));
        body.matches(r#""reasoning_content":"""#).count()
    };
    let filled = Form { has_empty_reasoning: true, ..Form::default() };
    assert_eq!(sent(reply(dialect), Form::default()), 1);
    assert_eq!(sent(reply(dialect), filled), 1);
    assert_eq!(sent(reply(&COMMON), Form::default()), 0);
    assert_eq!(sent(reply(&COMMON), filled), 1);
    assert_eq!(OpenAiChat.amendment(&test_outgoing(&asked), &missing()), None);
}

/// What DeepSeek says of a call without reasoning.
fn missing() -> Refusal {
    let message = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    Refusal {
        status: 400,
        body: format!(r#"{{"error":{{"message":"{message}"}}}}"#),
        retry_after_ms: None,
        should_retry: None,
    }
}
