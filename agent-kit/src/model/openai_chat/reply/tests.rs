use rondo_protocol::call::{FaultClass, ModelAnswer, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::object::Usage;

use super::*;
use crate::model::bounded::MAX_TOOL_CALLS;
use crate::model::{test_call, test_outgoing};

fn assembled(chunks: &[&str]) -> Result<ModelAnswer, Fault> {
    let mut reply: Box<dyn Assembly> = Box::new(Reply::new(1 << 20));
    for chunk in chunks {
        reply.take(chunk, &Redactor::default())?;
    }
    let call = ModelCall { ordinal: 7, ..test_call() };
    reply.complete(&test_outgoing(&call), unreadable("incomplete".to_owned()))
}

#[test]
fn tool_calls_are_put_together_by_index() {
    let answer = assembled(&[
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":""}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":"é"}}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"another choice"}},{"delta":{"tool_calls":[{"index":2,"function":{"name":"h","arguments":{"y": 2}}}]},"finish_reason":"tool_calls"}]}"#,
        ])
        .unwrap();
    let tool = |id: &str, name: &str, arguments: &str| ToolUse {
        arguments: arguments.to_owned(),
        id: id.to_owned(),
        name: name.to_owned(),
    };
    let wanted = vec![tool("a", "f", "{\"x\":1}"), tool("b", "g", "é"), tool("call_7_2", "h", "{\"y\": 2}")];
    assert_eq!(answer.reply.parts.tool_calls().cloned().collect::<Vec<_>>(), wanted);
    assert_eq!((answer.reply.finish, answer.reply.parts.text().as_ref()), (Finish::ToolCalls, ""));
}

#[test]
fn odd_figures_cost_no_answer() {
    for usage in [r#""many""#, "[1]", "true", r#"{"prompt_tokens":-5,"completion_tokens":2}"#, "1180591620717411303424"]
    {
        let chunk = format!(r#"{{"choices":[{{"delta":{{"content":"a"}},"finish_reason":"stop"}}],"usage":{usage}}}"#);
        let answer = assembled(&[&chunk]).unwrap();
        assert_eq!((&*answer.reply.parts.text(), answer.usage), ("a", None), "{usage}");
    }
}

#[test]
fn only_a_known_finish_reason_ends_a_reply() {
    let ended = |reason: &str| {
        assembled(&[&format!(r#"{{"choices":[{{"delta":{{"content":"a"}},"finish_reason":"{reason}"}}]}}"#)])
    };
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("end_turn", Finish::Stop),
        ("length", Finish::Length),
        ("max_tokens", Finish::Length),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("content_filter", Finish::ContentFilter),
    ] {
        assert_eq!(ended(reason).unwrap().reply.finish, finish, "{reason}");
    }
    for reason in ["anything", "error", "STOP", "network_error", " "] {
        let fault = ended(reason).unwrap_err();
        assert_eq!((fault.code, fault.class), (Code::ReplyUnreadable, FaultClass::Server), "{reason}");
    }
}

#[test]
fn text_reasoning_and_tool_calls_are_counted_together_and_nothing_else_is() {
    let mut reply = Reply::new(20);
    let mut take = |delta: &str| {
        let chunk = format!(r#"{{"id":"{}","choices":[{{"delta":{delta}}}]}}"#, "x".repeat(100));
        reply.take(&chunk, &Redactor::default())
    };
    take(r#"{"content":"12345"}"#).unwrap();
    take(r#"{"reasoning_content":"12345"}"#).unwrap();
    take(r#"{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"12345678"}}]}"#).unwrap();
    let fault = take(r#"{"content":"1"}"#).unwrap_err();
    assert_eq!((fault.code, fault.class), (Code::ReplyTooLarge, FaultClass::Refused));
    assert_eq!(fault.message, "the reply is longer than 20 bytes");
}

#[test]
fn one_index_with_two_ids_is_two_calls() {
    let answer = assembled(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}"#,
        ])
        .unwrap();
    assert_eq!(answer.reply.parts.tool_calls().map(|tool| tool.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn the_number_of_tool_calls_is_bounded() {
    let calls: Vec<String> = (0..=MAX_TOOL_CALLS).map(|n| format!(r#"{{"index":{n},"id":"{n}"}}"#)).collect();
    let chunk = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{}]}}}}]}}"#, calls.join(","));
    assert_eq!(assembled(&[&chunk]).unwrap_err().code, Code::ReplyTooLarge);
}

#[test]
fn reasoning_and_usage_are_kept() {
    let answer = assembled(&[
            r#"{"choices":[{"delta":{"role":"assistant","reasoning_content":"hm","unknown":[1]}}],"object":"x"}"#,
            r#"{"choices":[{"delta":{"content":"yes","reasoning_content":null},"finish_reason":"end_turn"}],"usage":null}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":29}}}"#,
        ])
        .unwrap();
    assert_eq!(
        answer.usage,
        Some(Usage { prompt_tokens: 30, cached_tokens: 29, output_tokens: 2, ..Usage::default() })
    );
    assert_eq!(answer.reply.parts.reasoning().as_deref(), Some("hm"));
}

#[test]
fn a_message_beside_a_delta_is_not_said_twice_and_a_repeated_member_counts_once() {
    let said = |chunks: &[&str]| assembled(chunks).map(|answer| answer.reply.parts.text().into_owned());
    let streamed = [
        r#"{"choices":[{"delta":{"role":"assistant","content":""},"message":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"delta":{"content":"One"},"message":{"content":"One"}}]}"#,
        r#"{"choices":[{"message":{"content":"One two"},"delta":{"content":" two"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"message":{"content":"One two"},"delta":null}]}"#,
    ];
    assert_eq!(said(&streamed).as_deref(), Ok("One two"));
    for whole in [
        r#"{"choices":[{"message":{"content":"a"},"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"content":"a"},"message":null,"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"choices":null}"#,
    ] {
        assert_eq!(said(&[whole]).as_deref(), Ok("a"), "{whole}");
    }
    let repeated = r#"{"usage":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2},"usage":null}"#;
    let usage = assembled(&[repeated]).unwrap().usage;
    assert_eq!(usage, Some(Usage { prompt_tokens: 3, output_tokens: 2, ..Usage::default() }));
}

/// The calls of a reply: id, name and arguments of each.
fn calls(chunks: &[String]) -> Vec<String> {
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let answer = assembled(&chunks).unwrap();
    answer.reply.parts.tool_calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect()
}

#[test]
fn parallel_calls_without_ids_are_different_calls() {
    let function =
        |name: &str, path: &str| format!(r#""function":{{"name":"{name}","arguments":"{{\"path\":\"{path}\"}}"}}"#);
    let wanted =
        |name: &str| vec![r#"call_7_0 read {"path":"a"}"#.to_owned(), format!(r#"call_7_1 {name} {{"path":"b"}}"#)];
    for member in ["", r#""index":0,"#, r#""id":"","#, r#""index":0,"id":null,"#] {
        for name in ["read", "list"] {
            let call = |name, path| format!("{{{member}{}}}", function(name, path));
            let (first, second) = (call("read", "a"), call(name, "b"));
            let chunk = |part: &str, calls: &str| {
                format!(r#"{{"choices":[{{"{part}":{{"tool_calls":[{calls}]}},"finish_reason":"tool_calls"}}]}}"#)
            };
            let both = format!("{first},{second}");
            assert_eq!(calls(&[chunk("message", &both)]), wanted(name), "{both}");
            assert_eq!(calls(&[chunk("delta", &both)]), wanted(name), "{both}");
            assert_eq!(calls(&[chunk("delta", &first), chunk("delta", &second)]), wanted(name), "{both}");
        }
    }
    let same = |name, path| format!(r#"{{"id":"x",{}}}"#, function(name, path));
    let whole = format!(
        r#"{{"choices":[{{"message":{{"tool_calls":[{},{}]}},"finish_reason":"stop"}}]}}"#,
        same("read", "a"),
        same("read", "b")
    );
    assert_eq!(calls(&[whole]), [r#"x read {"path":"a"}"#, r#"call_7_1 read {"path":"b"}"#]);
}

#[test]
fn the_pieces_of_one_call_are_joined_by_index_by_id_by_name_or_by_nothing() {
    for member in ["", r#""index":3,"#, r#""id":"x","#, r#""index":0,"id":"x","#] {
        for (first, later) in [
            (r#""name":"read","#, ""),
            (r#""name":"read","#, r#""name":"","#),
            (r#""name":"read","#, r#""name":"read","#),
        ] {
            let piece = |name: &str, arguments: &str| {
                format!(
                    r#"{{"choices":[{{"delta":{{"tool_calls":[{{{member}"function":{{{name}"arguments":"{arguments}"}}}}]}}}}]}}"#
                )
            };
            let pieces = [
                piece(first, ""),
                piece(later, r#"{\"a\":{"#),
                piece(later, "}"),
                piece(later, "}"),
                piece(later, ""),
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
            ];
            let id = if member.contains("id") { "x" } else { "call_7_0" };
            assert_eq!(calls(&pieces), [format!(r#"{id} read {{"a":{{}}}}"#)], "{pieces:?}");
        }
    }
}

#[test]
fn an_empty_error_is_none() {
    for error in ["null", "{}", r#""""#, "[]", "false"] {
        let chunk = format!(r#"{{"choices":[{{"delta":{{"content":"a"}},"finish_reason":"stop"}}],"error":{error}}}"#);
        assert_eq!(assembled(&[&chunk]).unwrap().reply.parts.text(), "a", "{error}");
    }
    assert!(assembled(&[r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"error":"no"}"#]).is_err());
}
