use std::sync::Arc;

use async_openai::types::chat::CreateChatCompletionRequest;
use rondo_protocol::object::{Head, Parameters as Given};

use super::*;
use crate::model::test_call;

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
    let asked = Message {
        reasoning: Some("hm".to_owned()),
        tool_calls: vec![ToolUse { arguments: "{\"x\":".to_owned(), id: "call_1".to_owned(), name: "a".to_owned() }],
        ..Message::assistant("")
    };
    let messages = [
        Message::user("Write é."),
        asked,
        Message::tool("call_1", "no"),
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

#[test]
fn strictness_is_asked_for_only_where_it_can_be_had() {
    let strict = |schema: &str| is_strict_root(&canonical::parse(schema.as_bytes()).unwrap());
    let object = |properties: &str, required: &str| {
        format!(
            r#"{{"type":"object","properties":{{{properties}}},"required":[{required}],"additionalProperties":false}}"#
        )
    };
    assert!(strict(&object(
        r#""a":{"type":"string"},"b":{"anyOf":[{"type":"integer"},{"type":"null"}]}"#,
        r#""a","b""#
    )));
    assert!(strict(&object(r#""a":{"type":"array","items":{"type":"string"},"maxItems":3}"#, r#""a""#)));
    for loose in [
        object(r#""a":{"type":"string"}"#, ""),
        object(r#""a":{"type":"string","minLength":3}"#, r#""a""#),
        object(r#""a":{}"#, r#""a""#),
        object(r#""a":{"type":"object"}"#, r#""a""#),
        format!(r#"{{"anyOf":[{}]}}"#, object("", "")),
        r#"{"type":"string"}"#.to_owned(),
        r#"{"type":"object","properties":{},"required":[]}"#.to_owned(),
    ] {
        assert!(!strict(&loose), "{loose}");
    }
}
