use std::sync::Arc;

use rondo_protocol::call::{FaultClass, Files, ModelCall};
use rondo_protocol::message::{Conversation, Parts, ToolUse};
use rondo_protocol::object::{Parameters, ToolSpec};
use rondo_protocol::{Digest, canonical};

use super::*;
use crate::model::anthropic::Anthropic;
use crate::model::anthropic::thoughts::{beginning, place};
use crate::model::prompt_cache::{CacheRetention, PromptCache};
use crate::model::protocol::{Form, Protocol as _};
use crate::model::{test_call, test_outgoing};

const SCHEMA: &str =
    r#"{"additionalProperties":false,"properties":{"title":{"type":"string"}},"required":["title"],"type":"object"}"#;

/// A thought of the provider `p` behind these messages of the head.
fn thought(head: &Head, before: &[Message], text: &str) -> Part {
    let chain = before.iter().cloned().collect::<Conversation>().chain();
    Thought::new(Proof::Signature(format!("of {text}\n=")), &place(&beginning(head), chain)).part("p", text.to_owned())
}

fn called(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolUse { arguments: arguments.to_owned(), id: id.to_owned(), name: "read_file".to_owned() })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

/// A call of a model whose signatures are bound, in the middle of a turn with tools.
fn call() -> ModelCall {
    let mut call = test_call();
    let head = Arc::make_mut(&mut call.head);
    head.model = "claude-opus-5-5".to_owned();
    head.response_format = Some(SCHEMA.to_owned());
    let given = [("max_output_tokens", Value::from(2_000)), ("reasoning_effort", "medium".into()), ("seed", 7.into())];
    head.parameters = Parameters(given.map(|(name, value)| (name.to_owned(), value)).into());
    let parameters = r#"{"type": "object", "properties": {"path": {"type": "string"}}}"#.to_owned();
    let tool = |name: &str| ToolSpec {
        description: format!("Does {name}."),
        name: name.to_owned(),
        parameters: parameters.clone(),
    };
    head.tools = vec![tool("write_file"), tool("read_file")];
    let mut messages = vec![Message::user("Write."), Message::assistant("done"), Message::user("Again.")];
    let asked: Parts = [
        thought(head, &messages, "hm"),
        text("I look."),
        called("toolu_1", r#"{ "path": "a.txt","n":1e2 }"#),
        called("call 2!", ""),
    ]
    .into_iter()
    .collect();
    messages.push(asked.into());
    messages.push(Message::tool("toolu_1", "tide", false));
    messages.push(Message::tool("call 2!", "no such file", true));
    call.conversation = Arc::new(messages.into_iter().collect());
    call
}

fn sent(outgoing: &Outgoing<'_>) -> String {
    String::from_utf8(Anthropic.body(outgoing).unwrap()).unwrap()
}

fn plain(call: &ModelCall) -> String {
    let dialect = Anthropic.dialect("");
    sent(&Outgoing { dialect: &dialect, ..test_outgoing(call) })
}

fn json(body: &str) -> serde_json::Value {
    serde_json::from_str(body).unwrap()
}

#[test]
fn the_bytes_of_a_request_are_fixed() {
    insta::assert_snapshot!(plain(&call()));
}

#[test]
fn a_prefix_is_kept_by_marks_in_front_of_the_messages() {
    let call = call();
    let dialect = Anthropic.dialect("");
    let asked = |time| {
        let base = test_outgoing(&call);
        sent(&Outgoing { dialect: &dialect, prompt_cache: PromptCache::Auto, prompt_cache_retention: time, ..base })
    };
    let marked = asked(Some(CacheRetention::Hour));
    let (front, messages) = marked.split_once(r#","messages":"#).unwrap();
    insta::assert_snapshot!(front.split_once(r#""cache_control":"#).unwrap().1);
    assert_eq!(messages, plain(&call).split_once(r#","messages":"#).unwrap().1);
    assert_eq!(marked.matches("cache_control").count(), 2);
    assert!(!asked(None).contains("ttl"));

    let mut bare = call.clone();
    Arc::make_mut(&mut bare.head).system.clear();
    let body = sent(&Outgoing { dialect: &dialect, prompt_cache: PromptCache::Auto, ..test_outgoing(&bare) });
    assert_eq!(json(&body)["tools"][1]["cache_control"]["type"], "ephemeral");
}

#[test]
fn arguments_are_sent_as_the_object_that_was_written() {
    let input = |arguments: &str| object_of(arguments).unwrap().get().to_owned();
    assert_eq!(input(r#" {"a": 1.0,"a":"é\u00e9"} "#), r#"{"a": 1.0,"a":"é\u00e9"}"#);
    assert_eq!(input(""), "{}");
    assert_eq!(input("[1]"), r#"{"arguments":"[1]"}"#);
    assert_eq!(input(r#"{"a"#), r#"{"arguments":"{\"a"}"#);
}

#[test]
fn no_block_is_blank_and_no_message_is_empty() {
    let mut call = test_call();
    let said = [Message::user(" "), Message::assistant("\n"), Message::tool("1", "", false), Message::user("Go.")];
    call.conversation = Arc::new(said.into_iter().collect());
    let body = plain(&call);
    assert_eq!(
        json(&body)["messages"],
        serde_json::json!([
            {"role": "user", "content": [{"type": "text", "text": "(no prompt)"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "(no answer)"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}, {"type": "text", "text": "Go."}]},
        ])
    );
}

/// Law: bound thoughts are sent whole, or not at all.
#[test]
fn thoughts_behind_something_else_are_not_sent() {
    let call = call();
    assert!(plain(&call).contains("\"thinking\":\"hm\",\"signature\":\"of hm\\n=\""));
    let mut other_system = call.clone();
    Arc::make_mut(&mut other_system.head).system.push('!');
    assert!(!plain(&other_system).contains("signature"));
    let mut other_history = call.clone();
    let shorter: Vec<Message> = call.conversation.after(2).into_iter().cloned().collect();
    other_history.conversation = Arc::new(shorter.into_iter().collect());
    assert!(!plain(&other_history).contains("signature"));
    let misplaced = |call: &ModelCall| crate::model::protocol::misplaced_reasoning(&call.head, &call.conversation);
    let in_answer = |call: &ModelCall| {
        let has_thought =
            |message: &&Message| message.parts().iter().any(|part| matches!(part, Part::Reasoning { .. }));
        call.conversation.messages().iter().position(has_thought).map(|at| at + 1)
    };
    assert_eq!(misplaced(&call), None);
    assert_eq!(misplaced(&other_system), in_answer(&call));
    assert_eq!(misplaced(&other_history), in_answer(&other_history));
    // Effort and ceiling are free.
    let mut other_effort = call.clone();
    let parameters = &mut Arc::make_mut(&mut other_effort.head).parameters.0;
    parameters.insert("reasoning_effort".to_owned(), "low".into());
    assert!(plain(&other_effort).contains("signature"));
    // Signatures of earlier models are not bound.
    Arc::make_mut(&mut other_system.head).model = "claude-opus-4-8".to_owned();
    assert!(plain(&other_system).contains("signature"));
    // Another provider never gets them.
    let of_other = Outgoing { provider: "other", ..test_outgoing(&call) };
    assert!(!sent(&of_other).contains("signature"));
    let form = Form { is_without_reasoning: true, ..Form::default() };
    assert!(!sent(&Outgoing { form, ..test_outgoing(&call) }).contains("signature"));
}

#[test]
fn each_model_is_asked_to_think_in_its_own_way() {
    let asked = |model: &str, effort: &str| {
        let mut call = call();
        let head = Arc::make_mut(&mut call.head);
        head.model = model.to_owned();
        head.response_format = None;
        head.parameters.0.insert("reasoning_effort".to_owned(), effort.into());
        head.parameters.0.insert("max_output_tokens".to_owned(), Value::from(9_000));
        call.conversation = Arc::new([Message::user("Write.")].into_iter().collect());
        let body = json(&plain(&call));
        (body["thinking"].to_string(), body["output_config"].to_string())
    };
    let pair = |thinking: &str, config: &str| (thinking.to_owned(), config.to_owned());
    assert_eq!(asked("claude-opus-5-5", "none"), pair("null", r#"{"effort":"low"}"#));
    assert_eq!(asked("claude-sonnet-5", "none"), pair(r#"{"type":"disabled"}"#, "null"));
    assert_eq!(asked("claude-sonnet-5", "high"), pair("null", r#"{"effort":"high"}"#));
    assert_eq!(asked("claude-opus-4-7", "minimal"), pair(r#"{"type":"adaptive"}"#, r#"{"effort":"low"}"#));
    let budget = |tokens: u64| pair(&format!(r#"{{"budget_tokens":{tokens},"type":"enabled"}}"#), "null");
    assert_eq!(asked("claude-opus-4-5", "low"), budget(4_096));
    assert_eq!(asked("claude-opus-4-5", "high"), budget(4_500));
    assert_eq!(asked("claude-3-5-haiku", "high"), pair("null", "null"));
}

#[test]
fn a_turn_begun_without_a_thought_is_continued_without_one() {
    let mut call = call();
    Arc::make_mut(&mut call.head).model = "claude-opus-4-5".to_owned();
    Arc::make_mut(&mut call.head).parameters.0.insert("max_output_tokens".to_owned(), Value::from(9_000));
    assert!(plain(&call).contains("budget_tokens"));
    let form = Form { is_without_reasoning: true, ..Form::default() };
    assert!(!sent(&Outgoing { form, ..test_outgoing(&call) }).contains("budget_tokens"));
}

#[test]
fn what_a_model_does_not_take_is_not_sent() {
    let mut call = test_call();
    let head = Arc::make_mut(&mut call.head);
    for (name, value) in [("temperature", Value::Float(0.5)), ("stop", Value::List(vec!["end".into()]))] {
        head.parameters.0.insert(name.to_owned(), value);
    }
    head.model = "claude-opus-5".to_owned();
    let body = json(&plain(&call));
    assert_eq!((body["temperature"].is_null(), &body["stop_sequences"][0]), (true, &"end".into()));
    assert!(Anthropic.ignores("claude-opus-5").contains(&"temperature"));
    Arc::make_mut(&mut call.head).model = "claude-opus-4-5".to_owned();
    assert_eq!(json(&plain(&call))["temperature"], 0.5);
    assert_eq!(json(&plain(&call))["max_tokens"], 32_000);
}

#[test]
fn files_are_blocks_and_one_that_is_not_taken_is_refused() {
    let file = |media_type: &str, name: &str| {
        let digest = Digest::sha256(name.as_bytes());
        Part::File(FileRef { digest, media_type: media_type.to_owned(), name: name.to_owned() })
    };
    let with = |media_type: &str, name: &str| {
        let mut call = test_call();
        let message = Message::new(Speaker::User, vec![text("Look."), file(media_type, name)]).unwrap();
        call.conversation = Arc::new([message].into_iter().collect());
        call.files = [(Digest::sha256(name.as_bytes()), name.as_bytes().into())].into_iter().collect();
        call
    };
    let block =
        |media_type: &str, name: &str| json(&plain(&with(media_type, name)))["messages"][0]["content"][1].clone();
    assert_eq!(
        block("image/png", "tide.png"),
        serde_json::json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "dGlkZS5wbmc="}})
    );
    assert_eq!(block("application/pdf", "a.pdf")["title"], "a.pdf");
    assert_eq!(block("text/markdown", "a.md")["source"]["data"], "a.md");
    let refused = |call: &ModelCall| Anthropic.body(&test_outgoing(call)).unwrap_err();
    assert_eq!(refused(&with("audio/wav", "a.wav")).class, FaultClass::Refused);
    let mut unread = with("image/png", "tide.png");
    unread.files = Files::default();
    assert!(refused(&unread).message.contains("tide.png"));
}

fn any_messages() -> impl proptest::strategy::Strategy<Value = Vec<Message>> {
    use proptest::prelude::*;
    let visit = (
        "[a-z é\"]{0,6}",
        prop::collection::vec(("[a-z]{0,4}", prop::sample::select(vec!["{}", "", "[1]", r#"{"a": 1}"#])), 0..3),
        "[a-z]{0,6}",
    );
    prop::collection::vec(visit, 1..6).prop_map(|visits| {
        let mut messages = Vec::new();
        for (at, (prompt, calls, answer)) in visits.into_iter().enumerate() {
            messages.push(Message::user(prompt));
            if !calls.is_empty() {
                let parts =
                    calls.iter().enumerate().map(|(n, (_, arguments))| called(&format!("c{at}_{n}"), arguments));
                messages.push(parts.collect::<Parts>().into());
                messages.extend(
                    calls.iter().enumerate().map(|(n, (said, _))| Message::tool(format!("c{at}_{n}"), said, n == 1)),
                );
            }
            messages.push(Message::assistant(answer));
        }
        messages.push(Message::user("Go on."));
        messages
    })
}

proptest::proptest! {
    /// Law `prefix` on the wire.
    #[test]
    fn a_longer_conversation_begins_with_the_bytes_of_a_shorter_one(messages in any_messages()) {
        let ending_with = |length: usize| {
            let mut call = call();
            call.conversation = Arc::new(messages[..length].iter().cloned().collect());
            plain(&call)
        };
        let whole = ending_with(messages.len());
        for length in 1..messages.len() {
            if messages[length - 1].role() == Speaker::Assistant {
                continue;
            }
            let shorter = ending_with(length);
            let shorter = shorter.strip_suffix("]}]}").unwrap();
            proptest::prop_assert!(whole.starts_with(shorter), "{}\n{}", shorter, whole);
        }
        // Roles alternate, and each result stands in the message behind its call.
        let body = json(&whole);
        let sent = body["messages"].as_array().unwrap();
        for (before, after) in sent.iter().zip(&sent[1..]) {
            proptest::prop_assert_ne!(&before["role"], &after["role"]);
            let ids = |message: &serde_json::Value, kind: &str, id: &str| -> Vec<serde_json::Value> {
                let blocks = message["content"].as_array().unwrap().iter();
                blocks.filter(|block| block["type"] == kind).map(|block| block[id].clone()).collect()
            };
            proptest::prop_assert_eq!(ids(before, "tool_use", "id"), ids(after, "tool_result", "tool_use_id"));
        }
        proptest::prop_assert!(canonical::parse(whole.as_bytes()).is_ok());
    }
}
