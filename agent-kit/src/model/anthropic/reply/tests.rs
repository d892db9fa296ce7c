use rondo_protocol::call::{FaultClass, ModelAnswer};
use rondo_protocol::diagnostic::Code;

use super::*;
use crate::model::bounded::MAX_TOOL_CALLS;
use crate::model::{test_call, test_outgoing};

/// A reply with a thought, a text and two calls, as the documentation shows it.
const STREAM: [&str; 20] = [
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-opus-5","stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":0},"output_tokens":1}}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"I should "}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look."}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB\/x="}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwK"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Tide "}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"pools."}}"#,
    r#"{"type":"content_block_stop","index":2}"#,
    r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"read_file","input":{}}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\": "}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}"#,
    r#"{"type":"content_block_stop","index":3}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":40}}"#,
    r#"{"type":"message_stop"}"#,
];

fn assembled(events: &[&str]) -> Result<(String, ModelAnswer), Fault> {
    let (mut reply, mut shown): (Box<dyn Assembly>, _) = (Box::new(Reply::new(1 << 20)), String::new());
    for event in events {
        shown += &reply.take(event, &Redactor::default())?;
    }
    Ok((shown, reply.complete(&test_outgoing(&test_call()), unreadable("incomplete".to_owned()))?))
}

fn answer(events: &[&str]) -> ModelAnswer {
    assembled(events).unwrap().1
}

#[test]
fn a_stream_becomes_its_parts_in_order() {
    let (shown, answer) = assembled(&STREAM).unwrap();
    assert_eq!((shown.as_str(), answer.reply.finish), ("Tide pools.", Finish::ToolCalls));
    let [
        Part::Reasoning { opaque: Some(thought), text },
        Part::Reasoning { opaque: Some(redacted), .. },
        Part::Text { text: said },
        Part::ToolCall(tool),
    ] = answer.reply.parts.as_slice()
    else {
        panic!("{:?}", answer.reply.parts);
    };
    assert_eq!(
        (text.as_str(), said.as_str(), tool.arguments.as_str()),
        ("I should look.", "Tide pools.", r#"{"path": "a"}"#)
    );
    let proof = |opaque| Thought::of(Some(opaque), "p").unwrap().proof;
    assert_eq!(proof(thought), Proof::Signature("EqQB/x=".to_owned()));
    assert_eq!(proof(redacted), Proof::Redacted("EmwK".to_owned()));
    let usage = answer.usage.unwrap();
    assert_eq!(
        (usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens),
        (105, 90, 5, 40)
    );
}

/// Law: a cut is never success.
#[test]
fn a_stream_that_is_cut_behind_any_event_is_no_reply() {
    for length in 0..STREAM.len() {
        let fault = assembled(&STREAM[..length]).unwrap_err();
        assert_eq!(fault.message, "incomplete", "behind event {length}");
    }
}

#[test]
fn blocks_may_be_open_at_once_and_end_together() {
    let answer = answer(&[
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"f","input":{"x":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    assert_eq!(answer.reply.parts.text(), "a");
    assert_eq!(answer.reply.parts.tool_calls().map(|tool| tool.arguments.as_str()).collect::<Vec<_>>(), [r#"{"x":1}"#]);
    assert_eq!(answer.usage, None, "tokens read are unknown");
}

#[test]
fn a_whole_message_is_a_reply_too() {
    let whole = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"yes"},{"type":"new_kind"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}"#;
    let (shown, answer) = assembled(&[whole]).unwrap();
    assert_eq!((shown.as_str(), answer.reply.finish, answer.usage.unwrap().prompt_tokens), ("yes", Finish::Stop, 3));
}

#[test]
fn every_stop_reason_is_told_apart() {
    let ended = |reason: &str| {
        assembled(&[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}"#,
            &format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#),
            r#"{"type":"message_stop"}"#,
        ])
        .map(|(_, answer)| (answer.reply.finish, answer.reply.parts.text().into_owned()))
    };
    let said = |finish: Finish| Ok((finish, "a".to_owned()));
    assert_eq!(ended("end_turn"), said(Finish::Stop));
    assert_eq!(ended("stop_sequence"), said(Finish::Stop));
    assert_eq!(ended("max_tokens"), said(Finish::Length));
    assert_eq!(ended("model_context_window_exceeded"), said(Finish::Length));
    assert_eq!(ended("tool_use"), said(Finish::ToolCalls));
    assert_eq!(ended("refusal"), Ok((Finish::ContentFilter, String::new())), "what came before a refusal is dropped");
    for unknown in ["pause_turn", "new_reason", "stop"] {
        let fault = ended(unknown).unwrap_err();
        assert_eq!((fault.code, fault.class), (Code::ReplyUnreadable, FaultClass::Server), "{unknown}");
        assert!(fault.message.contains(unknown));
    }
}

#[test]
fn an_error_after_the_status_is_a_fault_of_its_kind() {
    for (kind, class) in [
        ("overloaded_error", FaultClass::Server),
        ("api_error", FaultClass::Server),
        ("rate_limit_error", FaultClass::RateLimit),
        ("timeout_error", FaultClass::Timeout),
        ("invalid_request_error", FaultClass::Refused),
        ("billing_error", FaultClass::Refused),
    ] {
        let error = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"so"}},"request_id":"r"}}"#);
        assert_eq!(assembled(&[STREAM[0], &error]).unwrap_err().class, class, "{kind}");
    }
}

#[test]
fn blocks_that_make_no_sense_are_no_reply() {
    let begun = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    for events in [
        vec![r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#],
        vec![begun, begun],
        vec![
            begun,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
        ],
        vec!["{"],
        vec![r#"{"type":"content_block_start","index":"no"}"#],
    ] {
        assert_eq!(assembled(&events).unwrap_err().code, Code::ReplyUnreadable, "{events:?}");
    }
}

/// Law: unknown events and members are ignored, and figures never cost an answer.
#[test]
fn what_is_not_known_may_hold_anything() {
    let mut events = Vec::new();
    for event in STREAM {
        events.push(event.replacen('{', r#"{"new":[{}],"#, 1));
        for members in [
            r#""index":"?","message":"?","content_block":7,"delta":"?","error":"?","content":"?","stop_reason":{},"usage":"?""#,
            r#""index":{},"message":[],"content_block":[],"delta":[],"error":null,"content":{},"stop_reason":1,"usage":[]"#,
        ] {
            events.push(format!(r#"{{"type":"from_the_future",{members}}}"#));
        }
    }
    let odd = r#"{"type":"content_block_delta","index":2,"delta":{"type":"new_delta","text":{},"signature":7}}"#;
    events.insert(events.len() - 6, odd.to_owned());
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    assert_eq!(answer(&events), answer(&STREAM));
    let nulls = answer(&[
        r#"{"type":"message_start","message":null}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":null,"citations":null}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","signature":null}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":null}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    assert_eq!((nulls.reply.parts.text().as_ref(), nulls.usage), ("a", None));
}

#[test]
fn everything_kept_is_counted() {
    let mut reply = Reply::new(20);
    let mut take = |event: &str| reply.take(event, &Redactor::default());
    take(r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"12345","signature":""}}"#).unwrap();
    take(r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"1234567890"}}"#)
        .unwrap();
    take(r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"12345"}}"#).unwrap();
    let fault =
        take(r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"1"}}"#).unwrap_err();
    assert_eq!((fault.code, fault.class), (Code::ReplyTooLarge, FaultClass::Refused));
    let mut reply = Reply::new(1 << 20);
    let many = (0..=MAX_TOOL_CALLS).map(|index| {
        let block = r#"{"type":"tool_use","id":"","name":"f","input":{}}"#;
        reply.take(
            &format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#),
            &Redactor::default(),
        )
    });
    assert_eq!(many.last().unwrap().unwrap_err().code, Code::ReplyTooLarge);
}
