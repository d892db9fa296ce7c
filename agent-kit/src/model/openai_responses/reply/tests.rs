use rondo_protocol::call::{FaultClass, ModelAnswer};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::object::Usage;

use super::*;
use crate::model::bounded::MAX_TOOL_CALLS;
use crate::model::{test_call, test_outgoing};

/// A stream as OpenAI sends it, with reasoning, a message and two calls.
const STREAM: &[&str] = &[
    r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"usage":null,"error":null}}"#,
    r#"{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}"#,
    r#"{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gA"}}"#,
    r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
    r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"I thi","obfuscation":"x7"}"#,
    r#"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"I think."}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"I think."},{"type":"summary_text","text":"Well."}],"encrypted_content":"gAA="}}"#,
    r#"{"type":"keepalive","sequence_number":7}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"phase":"commentary","role":"assistant"}}"#,
    r#"{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}}"#,
    r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"I lo","logprobs":[],"obfuscation":"q"}"#,
    r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"ok."}"#,
    r#"{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"I look."}"#,
    r#"{"type":"response.content_part.done","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"I look."}}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"I look."}],"phase":"commentary","role":"assistant"}}"#,
    r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"a"}}"#,
    r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_2","name":"b"}}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":3,"delta":"{}"}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"x\":"}"#,
    r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"x\": 1.0}"}"#,
    r#"{"type":"response.output_item.done","output_index":3,"item":{"id":"fc_2","type":"function_call","status":"completed","arguments":"{}","call_id":"call_2","name":"b"}}"#,
    r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"x\": 1.0}","call_id":"call_1","name":"a"}}"#,
    r#"{"type":"response.completed","sequence_number":40,"response":{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"other"},{},{},{}],"usage":{"input_tokens":90,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":20},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":12},"total_tokens":120}}}"#,
];

struct Read {
    answer: Result<ModelAnswer, Fault>,
    shown: String,
    is_closed: bool,
}

fn read(events: &[&str]) -> Read {
    read_within(events, 1 << 20)
}

fn read_within(events: &[&str], max_bytes: usize) -> Read {
    let (mut reply, mut shown): (Box<dyn Assembly>, _) = (Box::new(Reply::new(max_bytes)), String::new());
    for event in events {
        match reply.take(event, &Redactor::default()) {
            Ok(added) => shown.push_str(&added),
            Err(fault) => {
                return Read { answer: Err(fault.with_usage(reply.progress().usage)), shown, is_closed: false };
            }
        }
    }
    let call = rondo_protocol::call::ModelCall { ordinal: 7, ..test_call() };
    let is_closed = reply.is_closed();
    assert_eq!(is_closed, reply.finish().is_some());
    Read { answer: reply.complete(&test_outgoing(&call), unreadable("incomplete".to_owned())), shown, is_closed }
}

fn kept(data: &str, text: &str) -> Part {
    let opaque = Some(Opaque { data: data.to_owned(), provider: "p/test-model".to_owned() });
    Part::Reasoning { opaque, text: text.to_owned() }
}

fn asked(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolUse { arguments: arguments.to_owned(), id: id.to_owned(), name: name.to_owned() })
}

fn done(item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","item":{item}}}"#)
}

fn delta(text: &str) -> String {
    format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{text}"}}"#)
}

fn message(text: &str) -> String {
    format!(r#"{{"type":"message","content":[{{"type":"output_text","text":"{text}"}}]}}"#)
}

const COMPLETED: &str = r#"{"type":"response.completed","response":{"status":"completed"}}"#;

#[test]
fn a_stream_is_put_together_in_the_order_of_its_items() {
    let Read { answer, shown, is_closed } = read(STREAM);
    let answer = answer.unwrap();
    let reasoning = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"I think."},{"type":"summary_text","text":"Well."}],"encrypted_content":"gAA="}"#;
    let wanted = [
        kept(reasoning, "I think.\n\nWell."),
        kept(r#"{"id":"msg_1","phase":"commentary","status":"completed","type":"message"}"#, ""),
        Part::Text { text: "I look.".to_owned() },
        kept(r#"{"id":"fc_1","status":"completed","type":"function_call"}"#, ""),
        asked("call_1", "a", "{\"x\": 1.0}"),
        kept(r#"{"id":"fc_2","status":"completed","type":"function_call"}"#, ""),
        asked("call_2", "b", "{}"),
    ];
    assert_eq!(answer.reply.parts.as_slice(), wanted);
    assert_eq!((answer.reply.finish, shown.as_str(), is_closed), (Finish::ToolCalls, "I look.", true));
    let usage =
        Usage { prompt_tokens: 90, cached_tokens: 64, cache_write_tokens: 20, output_tokens: 30, ..Usage::default() };
    assert_eq!(answer.usage.map(|usage| Usage { reasoning_tokens: 0, ..usage }), Some(usage));
}

#[test]
fn a_stream_that_is_cut_behind_any_event_is_no_reply() {
    for length in 0..STREAM.len() {
        let Read { answer, is_closed, .. } = read(&STREAM[..length]);
        assert_eq!(answer.unwrap_err().message, "incomplete", "{length}");
        assert!(!is_closed, "{length}");
    }
}

#[test]
fn a_whole_response_is_read_as_a_stream_is() {
    let whole = r#"{"id":"resp_1","object":"response","status":"completed","error":null,"output":[{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"é"},{"type":"refusal","refusal":" no"}]},{"type":"web_search_call","id":"ws_1"}],"usage":{"input_tokens":3,"output_tokens":2}}"#;
    let Read { answer, shown, .. } = read(&[whole]);
    let answer = answer.unwrap();
    assert_eq!((answer.reply.finish, &*answer.reply.parts.text(), shown.as_str()), (Finish::Stop, "é no", "é no"));
    assert_eq!(answer.usage, Some(Usage { prompt_tokens: 3, output_tokens: 2, ..Usage::default() }));
    for json in [r#"{"object":"response","status":"in_progress","output":[]}"#, r#"{"object":"list"}"#, "{}"] {
        assert_eq!(read(&[json]).answer.unwrap_err().message, "incomplete", "{json}");
    }
    let fault = read(&[r#"{"error":{"message":"no","code":"rate_limit_exceeded"}}"#]).answer.unwrap_err();
    assert_eq!((fault.class, fault.message.as_str()), (FaultClass::RateLimit, "the provider answered 429: no"));
}

/// llama.cpp sends no `output_index`, and the parts of an item may have ids of their own.
#[test]
fn items_without_places_are_in_the_order_of_their_arrival() {
    let answer = read(&[
        r#"{"type":"response.output_item.added","item":{"type":"reasoning","id":"rs_1","summary":[],"content":[]}}"#,
        r#"{"type":"response.output_item.added","item":{"type":"message","id":"msg_1","content":[]}}"#,
        r#"{"type":"response.output_text.delta","item_id":"other","delta":"he"}"#,
        r#"{"type":"response.output_text.delta","delta":"llo"}"#,
        r#"{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_1","call_id":"c","name":"a"}}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{"}"#,
        r#"{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":""}}"#,
        r#"{"type":"response.output_item.done","item":{"type":"message","id":"msg_2","content":[{"type":"output_text","text":"hello!"}]}}"#,
        r#"{"type":"response.output_item.done","item":{"type":"function_call","id":"fc_2","call_id":"c","name":"a","arguments":{"y": 2}}}"#,
        COMPLETED,
    ]);
    let parts = answer.answer.unwrap().reply.parts;
    let said: Vec<String> = parts
        .as_slice()
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning { text, .. } => Some(text.clone()).filter(|text| !text.is_empty()),
            Part::Text { text } => Some(text.clone()),
            Part::ToolCall(tool) => Some(format!("{} {} {}", tool.id, tool.name, tool.arguments)),
            Part::ToolResult { .. } | Part::File(_) => None,
        })
        .collect();
    assert_eq!(said, ["hm", "hello!", "c a {\"y\": 2}"]);
    assert_eq!(answer.shown, "hello!");
}

#[test]
fn what_deltas_said_counts_where_no_item_comes() {
    let call = r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"a","arguments":""}}"#;
    let arguments = r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}"#;
    let Read { answer, shown, .. } = read(&[&delta("a"), call, &delta("b"), arguments, COMPLETED]);
    let reply = answer.unwrap().reply;
    assert_eq!(reply.parts.as_slice(), [Part::Text { text: "ab".to_owned() }, asked("call_7_0", "a", "{}")]);
    assert_eq!((reply.finish, shown.as_str()), (Finish::ToolCalls, "ab"));
}

#[test]
fn the_last_event_fills_in_items_that_did_not_come() {
    let end = format!(
        r#"{{"type":"response.completed","response":{{"status":"completed","output":[{},{{"type":"function_call","call_id":"c","name":"a","arguments":"{{}}"}}]}}}}"#,
        message("abc")
    );
    let Read { answer, shown, .. } = read(&[&delta("ab"), &end]);
    let reply = answer.unwrap().reply;
    assert_eq!(reply.parts.as_slice(), [Part::Text { text: "abc".to_owned() }, asked("c", "a", "{}")]);
    assert_eq!((reply.finish, shown.as_str()), (Finish::ToolCalls, "abc"));
}

#[test]
fn a_refusal_is_the_answer() {
    let item = r#"{"type":"message","content":[{"type":"refusal","refusal":"I cannot."}]}"#;
    let refusing = r#"{"type":"response.refusal.delta","output_index":0,"delta":"I can"}"#;
    let Read { answer, shown, .. } = read(&[refusing, &done(item), COMPLETED]);
    let reply = answer.unwrap().reply;
    assert_eq!((&*reply.parts.text(), reply.finish, shown.as_str()), ("I cannot.", Finish::Stop, "I cannot."));
}

#[test]
fn only_a_known_end_ends_a_reply() {
    let ended = |event: &str, response: &str| {
        let end = format!(r#"{{"type":"response.{event}","response":{response}}}"#);
        read(&[&done(&message("a")), &end]).answer.map(|answer| answer.reply.finish)
    };
    for (event, response, finish) in [
        ("completed", r#"{"status":"completed"}"#, Finish::Stop),
        ("completed", "{}", Finish::Stop),
        ("completed", "null", Finish::Stop),
        ("incomplete", r#"{"incomplete_details":{"reason":"max_output_tokens"}}"#, Finish::Length),
        ("incomplete", r#"{"incomplete_details":{"reason":"content_filter"}}"#, Finish::ContentFilter),
        // vLLM ends every stream with this event.
        ("completed", r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#, Finish::Length),
    ] {
        assert_eq!(ended(event, response).unwrap(), finish, "{event} {response}");
    }
    for details in ["null", "{}", r#"{"reason":"steered"}"#, r#"{"reason":"max_messages"}"#, r#"{"reason":7}"#, "7"] {
        let fault = ended("incomplete", &format!(r#"{{"incomplete_details":{details}}}"#)).unwrap_err();
        assert_eq!((fault.code, fault.class), (Code::ReplyUnreadable, FaultClass::Server), "{details}");
    }
    assert_eq!(ended("completed", r#"{"status":"cancelled"}"#).unwrap_err().class, FaultClass::Server);
    for event in ["done", "queued", "in_progress", "COMPLETED"] {
        assert_eq!(ended(event, r#"{"status":"completed"}"#).unwrap_err().message, "incomplete", "{event}");
    }
}

#[test]
fn errors_are_faults_by_their_codes_with_what_they_cost() {
    let failed = |code: &str| {
        let error = format!(r#"{{"code":"{code}","message":"no"}}"#);
        let usage = r#"{"input_tokens":3,"output_tokens":1}"#;
        let end =
            format!(r#"{{"type":"response.failed","response":{{"status":"failed","error":{error},"usage":{usage}}}}}"#);
        let fault = read(&[&delta("a"), &end]).answer.unwrap_err();
        assert_eq!(fault.billed.as_ref().map(|billed| billed.usage.prompt_tokens), Some(3));
        let flat = format!(r#"{{"type":"error","code":"{code}","message":"no","param":null,"sequence_number":1}}"#);
        let nested = format!(r#"{{"type":"error","error":{error}}}"#);
        for event in [flat, nested] {
            let same = read(&[&delta("a"), &event]).answer.unwrap_err();
            assert_eq!((same.code, same.class, &same.message), (fault.code, fault.class, &fault.message));
        }
        (fault.class, fault.message)
    };
    for (code, class, message) in [
        ("rate_limit_exceeded", FaultClass::RateLimit, "the provider answered 429: no"),
        ("server_error", FaultClass::Server, "the provider answered 500: no"),
        ("server_is_overloaded", FaultClass::Server, "the provider answered 500: no"),
        ("insufficient_quota", FaultClass::Refused, "the provider's quota is used up: no"),
        ("context_length_exceeded", FaultClass::Refused, "the provider answered 400: no"),
        ("invalid_prompt", FaultClass::Refused, "the provider answered 400: no"),
        ("invalid_image_format", FaultClass::Refused, "the provider answered 400: no"),
        ("image_too_large", FaultClass::Refused, "the provider answered 400: no"),
    ] {
        assert_eq!(failed(code), (class, message.to_owned()), "{code}");
    }
    let nothing = read(&[r#"{"type":"response.failed","response":null}"#]).answer.unwrap_err();
    assert_eq!(nothing.class, FaultClass::Server);
}

#[test]
fn odd_figures_cost_no_answer() {
    for usage in ["null", r#""many""#, "[1]", r#"{"input_tokens":-5,"output_tokens":2}"#, r#"{"prompt_tokens":1}"#] {
        let end = format!(r#"{{"type":"response.completed","response":{{"status":"completed","usage":{usage}}}}}"#);
        let answer = read(&[&done(&message("a")), &end]).answer.unwrap();
        assert_eq!((&*answer.reply.parts.text(), answer.usage), ("a", None), "{usage}");
    }
}

#[test]
fn unknown_events_members_and_items_are_ignored() {
    let Read { answer, shown, .. } = read(&[
        r#"{"type":"response.something.new","delta":"x","item":{"type":"message"},"response":{"status":"completed"}}"#,
        r#"{"type":7,"delta":"x"}"#,
        r#"{"type":"response.output_text.delta","delta":{"no":"text"}}"#,
        r#"{"type":"response.output_item.done"}"#,
        r#"{"type":"response.output_item.done","item":{"type":"compaction","encrypted_content":"x"}}"#,
        r#"{"type":"response.output_item.done","item":{"type":"message","content":null}}"#,
        &done(r#"{"type":"message","id":null,"phase":{},"content":[7,null,{"type":"new"},{"text":"a","new":[]}]}"#),
        COMPLETED,
        &delta("behind the end"),
        r#"{"type":"error","message":"behind the end"}"#,
    ]);
    assert_eq!(answer.unwrap().reply.parts.as_slice(), [Part::Text { text: "a".to_owned() }]);
    assert_eq!(shown, "a");
}

#[test]
fn what_is_no_json_is_no_event() {
    for event in ["", "[DONE]", "7", "{", r#"{"type":"response.completed","type":"x"}"#] {
        let fault = read(&[event]).answer.unwrap_err();
        assert_eq!(fault.code, Code::ReplyUnreadable, "{event}");
    }
}

#[test]
fn an_item_is_counted_once_whether_it_comes_in_deltas_or_whole() {
    let text = "12345678";
    let all = [&delta(text) as &str, &done(&message(text)), COMPLETED];
    assert!(read_within(&all, 8).answer.is_ok());
    for events in [&all[..], &all[1..], &all[..1]] {
        let fault = read_within(events, 7).answer.unwrap_err();
        assert_eq!((fault.code, fault.class), (Code::ReplyTooLarge, FaultClass::Refused));
        assert_eq!(fault.message, "the reply is longer than 7 bytes");
    }
    let reasoning = r#"{"type":"reasoning","encrypted_content":"12345678"}"#;
    assert!(read_within(&[&done(reasoning), COMPLETED], reasoning.len()).answer.is_ok());
    assert!(read_within(&[&done(reasoning)], reasoning.len() - 1).answer.is_err());
}

#[test]
fn the_numbers_of_items_parts_and_calls_are_bounded() {
    let too_large = |events: &[&str]| assert_eq!(read(events).answer.unwrap_err().code, Code::ReplyTooLarge);
    let empty = done(&message(""));
    too_large(&vec![empty.as_str(); MAX_ITEMS + 1]);
    let call = done(r#"{"type":"function_call","call_id":"c","name":"a","arguments":""}"#);
    too_large(&vec![call.as_str(); MAX_TOOL_CALLS + 1]);
    let many = vec!["{}"; MAX_ITEMS + 1].join(",");
    too_large(&[&format!(r#"{{"type":"response.completed","response":{{"output":[{many}]}}}}"#)]);
    too_large(&[&done(&format!(r#"{{"type":"message","content":[{many}]}}"#))]);
}
