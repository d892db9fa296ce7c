use std::sync::Arc;

use rondo_protocol::call::{FaultClass, ModelAnswer, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::Message;
use rondo_protocol::object::{Head, Usage};

use super::super::request;
use super::*;
use crate::model::bounded::MAX_TOOL_CALLS;
use crate::model::{test_call, test_outgoing};

fn call() -> ModelCall {
    let head = Head { model: "gemini-3-test".to_owned(), ..Head::clone(&test_call().head) };
    ModelCall { ordinal: 7, head: Arc::new(head), ..test_call() }
}

fn read(events: &[&str]) -> Result<(ModelAnswer, String), Fault> {
    let (mut reply, mut shown): (Box<dyn Assembly>, _) = (Box::new(Reply::new(1 << 20)), String::new());
    for event in events {
        shown += &reply.take(event, &Redactor::default())?;
    }
    let is_finished = reply.finish().is_some();
    let answer = reply.complete(&test_outgoing(&call()), unreadable("incomplete".to_owned()));
    assert!(is_finished || answer.is_err());
    Ok((answer?, shown))
}

fn assembled(events: &[&str]) -> Result<ModelAnswer, Fault> {
    read(events).map(|(answer, _)| answer)
}

/// A whole answer with these parts.
fn with_parts(parts: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":[{parts}]}},"finishReason":"STOP","index":0}}]}}"#)
}

/// What a second request holds of the answer of the first.
fn sent_back(answer: &ModelAnswer) -> String {
    let messages = [Message::user("Write."), Message::from(answer.reply.parts.clone())];
    let call = ModelCall { conversation: Arc::new(messages.into_iter().collect()), ..call() };
    let body = String::from_utf8(request::body(&test_outgoing(&call)).unwrap()).unwrap();
    let (_, parts) = body.split_once(r#"{"role":"model","parts":["#).unwrap();
    parts.strip_suffix("]}]}").unwrap().to_owned()
}

const STREAM: [&str; 4] = [
    r#"{"candidates":[{"content":{"parts":[{"text":"**Think**","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":30,"totalTokenCount":30},"modelVersion":"x","responseId":"y"}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":" more","thought":true},{"text":"I "}],"role":"model"},"index":0,"safetyRatings":[]}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":1,"thoughtsTokenCount":9}}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"look."},{"functionCall":{"name":"f","args":{ "x": 1.0, "é":"\u00e9" }},"thoughtSignature":"c2ln+\/8="},{"functionCall":{"id":"b","name":"g"}}],"role":"model"},"index":0}]}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0},{"content":{"parts":[{"text":"another"}]},"index":1}],"usageMetadata":{"promptTokenCount":30,"cachedContentTokenCount":29,"candidatesTokenCount":4,"thoughtsTokenCount":12}}"#,
];

#[test]
fn a_stream_is_assembled_in_its_order() {
    let (answer, shown) = read(&STREAM).unwrap();
    let tool = |id: &str, name: &str, arguments: &str| ToolUse {
        arguments: arguments.to_owned(),
        id: id.to_owned(),
        name: name.to_owned(),
    };
    let calls: Vec<ToolUse> = answer.reply.parts.tool_calls().cloned().collect();
    assert_eq!(calls, [tool("call_7_0", "f", r#"{ "x": 1.0, "é":"\u00e9" }"#), tool("b", "g", "{}")]);
    assert_eq!((answer.reply.finish.clone(), shown.as_str()), (Finish::ToolCalls, "I look."));
    assert_eq!(answer.reply.parts.text(), "I look.");
    assert_eq!(answer.reply.parts.reasoning().as_deref(), Some("**Think** more"));
    let usage =
        Usage { prompt_tokens: 30, cached_tokens: 29, output_tokens: 16, reasoning_tokens: 12, ..Usage::default() };
    assert_eq!(answer.usage, Some(usage));
    assert_eq!(
        sent_back(&answer),
        r#"{"text":"I look."},{"functionCall":{"name":"f","args":{ "x": 1.0, "é":"\u00e9" }},"thoughtSignature":"c2ln+\/8="},{"functionCall":{"id":"b","name":"g","args":{}}}"#
    );
    // As a list, with spaces, and as a whole.
    let list = format!(" [{}]", STREAM.join(",\n"));
    assert_eq!(assembled(&[&list]).unwrap(), answer);
}

#[test]
fn parts_with_a_signature_go_back_as_they_came() {
    for parts in [
        r#"{"text":"a","thoughtSignature":"s"}"#,
        r#"{"text":"a"},{"text":"","thoughtSignature":"s"}"#,
        r#"{"text":"a"},{"text":"b","thoughtSignature":"s"},{"text":"c"}"#,
        r#"{"text":"a","thoughtSignature":"s"},{"text":"b","thoughtSignature":"t"}"#,
        r#"{"text":"","thoughtSignature":"s"},{"text":"c"},{"text":"","thoughtSignature":"t"}"#,
        r#"{"text":"why","thought":true,"thoughtSignature":"s"},{"text":"so"}"#,
        r#"{"functionCall":{"name":"f","args":{}},"thoughtSignature":"\u0073="},{"functionCall":{"name":"f","args":{"a": [ ]}}}"#,
        r#"{"functionCall":{"id":"1","name":"f","args":{}},"thoughtSignature":"s"},{"functionCall":{"id":"2","name":"f","args":{}},"thoughtSignature":"t"}"#,
    ] {
        assert_eq!(sent_back(&assembled(&[&with_parts(parts)]).unwrap()), parts);
    }
    let joined = r#"{"text":"a"},{"text":"b"},{"text":"","thoughtSignature":""},{"text":"c","thoughtSignature":null},{"text":"d","thoughtSignature":7}"#;
    assert_eq!(sent_back(&assembled(&[&with_parts(joined)]).unwrap()), r#"{"text":"abcd"}"#);
}

#[test]
fn a_cut_is_never_a_whole_reply() {
    for events in 0..STREAM.len() {
        assert_eq!(assembled(&STREAM[..events]).unwrap_err().message, "incomplete", "{events}");
    }
    let list = format!("[{}]", STREAM.join(","));
    for end in (0..list.len()).filter(|end| list.is_char_boundary(*end)) {
        assert!(assembled(&[&list[..end]]).is_err(), "{end}");
    }
    for end in (0..STREAM[3].len()).filter(|end| STREAM[3].is_char_boundary(*end)) {
        assert!(assembled(&[STREAM[0], &STREAM[3][..end]]).is_err(), "{end}");
    }
}

#[test]
fn every_finish_reason_has_its_meaning() {
    let ended = |reason: &str, parts: &str| {
        assembled(&[&format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},"finishReason":"{reason}"}}]}}"#)])
    };
    let (text, function) = (r#"{"text":"a"}"#, r#"{"functionCall":{"name":"f","args":{}}}"#);
    for (reason, parts, finish) in [
        ("STOP", text, Finish::Stop),
        ("STOP", "", Finish::Stop),
        ("STOP", function, Finish::ToolCalls),
        ("MAX_TOKENS", text, Finish::Length),
        ("MAX_TOKENS", function, Finish::Length),
        ("SAFETY", "", Finish::ContentFilter),
        ("RECITATION", text, Finish::ContentFilter),
        ("BLOCKLIST", text, Finish::ContentFilter),
        ("PROHIBITED_CONTENT", text, Finish::ContentFilter),
        ("SPII", text, Finish::ContentFilter),
        ("LANGUAGE", text, Finish::ContentFilter),
        ("ESCALATION", text, Finish::ContentFilter),
        ("MODEL_ARMOR", text, Finish::ContentFilter),
        ("IMAGE_SAFETY", text, Finish::ContentFilter),
        ("IMAGE_PROHIBITED_CONTENT", text, Finish::ContentFilter),
        ("IMAGE_RECITATION", text, Finish::ContentFilter),
    ] {
        assert_eq!(ended(reason, parts).unwrap().reply.finish, finish, "{reason}");
    }
    for reason in [
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "FINISH_REASON_UNSPECIFIED",
        "OTHER",
        "CONTINUATION",
        "stop",
        " ",
    ] {
        let fault = ended(reason, text).unwrap_err();
        assert_eq!((fault.code, fault.class), (Code::ReplyUnreadable, FaultClass::Server), "{reason}");
        assert_eq!(fault.message, format!("the provider ended the reply with `{}`", reason.trim()));
    }
    for reason in ["", r#"","finishMessage":"x"#] {
        assert_eq!(ended(reason, text).unwrap_err().message, "incomplete");
    }
    let said = ended(r#"MALFORMED_FUNCTION_CALL","finishMessage":"print(\n1)"#, "").unwrap_err().message;
    assert_eq!(said, "the provider ended the reply with `MALFORMED_FUNCTION_CALL`: print( 1)");
}

#[test]
fn a_refused_prompt_is_an_empty_reply() {
    let blocked =
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}"#;
    let answer = assembled(&[blocked]).unwrap();
    assert_eq!((answer.reply.finish, answer.reply.parts), (Finish::ContentFilter, Parts::default()));
    assert_eq!(answer.usage.map(|usage| usage.prompt_tokens), Some(5));
    assert_eq!(assembled(&[STREAM[0], blocked]).unwrap_err().message, "incomplete");
    for other in [
        r#"{"promptFeedback":{"safetyRatings":[]}}"#,
        r#"{"promptFeedback":{"blockReason":"BLOCKED_REASON_UNSPECIFIED"}}"#,
    ] {
        assert_eq!(assembled(&[other]).unwrap_err().message, "incomplete");
        assert_eq!(assembled(&[other, &with_parts("")]).unwrap().reply.finish, Finish::Stop);
    }
}

#[test]
fn an_error_within_a_stream_is_a_fault_with_its_wait() {
    let error =
        r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE","details":[{"retryDelay":"34s"}]}}"#;
    for event in [error.to_owned(), format!("[{error}]"), format!("[{},{error}]", STREAM[0])] {
        let fault = assembled(&[STREAM[0], STREAM[3], &event]).unwrap_err();
        assert_eq!((fault.class, fault.retry_after_ms), (FaultClass::Server, Some(34_000)));
        assert_eq!(fault.message, "the provider answered 503: overloaded");
    }
    for (code, class) in [(429, FaultClass::RateLimit), (400, FaultClass::Refused), (504, FaultClass::Timeout)] {
        let fault = assembled(&[&format!(r#"{{"error":{{"code":{code}}}}}"#)]).unwrap_err();
        assert_eq!(fault.class, class, "{code}");
    }
    assert_eq!(assembled(&[r#"{"error":null}"#]).unwrap_err().message, "incomplete");
}

#[test]
fn odd_figures_cost_no_answer() {
    for usage in [r#""many""#, "[1]", "true", "null", r#"{"promptTokenCount":-5}"#, "1180591620717411303424"] {
        let event = with_parts(r#"{"text":"a"}"#);
        let event = format!(r#"{},"usageMetadata":{usage}}}"#, event.strip_suffix('}').unwrap());
        let answer = assembled(&[&event]).unwrap();
        assert_eq!((&*answer.reply.parts.text(), answer.usage), ("a", None), "{usage}");
    }
}

#[test]
fn what_is_not_known_is_ignored() {
    let parts = r#"{"executableCode":{"code":"x"}},{"inlineData":{"data":"eA=="}},{"text":7},{},{"text":"a","unknown":[1],"thought":"yes"},{"functionCall":null,"text":"b","thought":null}"#;
    let (answer, shown) =
        read(&["{}", r#"{"candidates":[]}"#, r#"{"x":1,"candidates":null}"#, &with_parts(parts)]).unwrap();
    assert_eq!((answer.reply.parts, shown.as_str()), (Parts::said("ab"), "ab"));
    for event in ["[]", "[{}]"] {
        assert_eq!(assembled(&[event]).unwrap_err().message, "incomplete");
    }
    for event in ["", "7", "null", "[7]", "[{}", "[{}] x", r#"{"candidates":7}"#] {
        let fault = assembled(&[event, STREAM[3]]).unwrap_err();
        assert_eq!((fault.code, fault.class), (Code::ReplyUnreadable, FaultClass::Refused), "{event}");
    }
}

#[test]
fn a_reply_is_bounded() {
    let mut reply = Reply::new(20);
    let mut take = |part: &str| reply.take(&with_parts(part), &Redactor::default());
    take(r#"{"text":"12345"}"#).unwrap();
    take(r#"{"text":"123","thought":true,"thoughtSignature":"4"}"#).unwrap();
    take(r#"{"functionCall":{"id":"1","name":"f","args":{"1":2}}}"#).unwrap();
    let fault = take(r#"{"text":"1"}"#).unwrap_err();
    assert_eq!((fault.code, fault.class), (Code::ReplyTooLarge, FaultClass::Refused));
    assert_eq!(fault.message, "the reply is longer than 20 bytes");

    let function = [r#"{"functionCall":{"name":"f"}}"#; MAX_TOOL_CALLS];
    assert!(assembled(&[&with_parts(&function.join(","))]).is_ok());
    let many = [&with_parts(&function.join(",")), with_parts(function[0]).as_str()].map(str::to_owned);
    assert_eq!(assembled(&[&many[0], &many[1]]).unwrap_err().code, Code::ReplyTooLarge);

    let signed = with_parts(&[r#"{"text":"","thoughtSignature":"s"}"#; MAX_ITEMS].join(","));
    assert!(assembled(&[&signed]).is_ok());
    let fault = assembled(&[&signed, &with_parts(r#"{"text":"x"}"#)]).unwrap_err();
    assert_eq!(fault.message, "the reply has more than 1024 parts");
}
