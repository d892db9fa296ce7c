use std::sync::Arc;

use proptest::prelude::{Strategy, prop_oneof};
use rondo_protocol::call::{Files, ModelCall};
use rondo_protocol::message::{Conversation, Opaque, Parts};
use rondo_protocol::object::{Parameters, ToolSpec};

use super::*;
use crate::model::protocol::Form;
use crate::model::{test_call, test_outgoing};

const ORIGIN: &str = "p/gemini-3-test";

fn signature(text: &str) -> Signature {
    serde_json::value::to_raw_value(text).unwrap()
}

fn tool_call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolUse { arguments: arguments.to_owned(), id: id.to_owned(), name: name.to_owned() })
}

fn said(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn reasoning(text: &str) -> Part {
    Part::Reasoning { opaque: None, text: text.to_owned() }
}

fn attached(attached: &Attached) -> Part {
    attached.part(ORIGIN, String::new())
}

fn of_call(has_id: bool, words: Option<&str>) -> Part {
    attached(&Attached::Call { has_id, signature: words.map(signature) })
}

fn answer(parts: impl IntoIterator<Item = Part>) -> Message {
    Message::from(parts.into_iter().collect::<Parts>())
}

fn call_of(messages: impl IntoIterator<Item = Message>) -> ModelCall {
    let head = Head { model: "gemini-3-test".to_owned(), ..Head::clone(&test_call().head) };
    ModelCall { head: Arc::new(head), conversation: Arc::new(messages.into_iter().collect()), ..test_call() }
}

fn call() -> ModelCall {
    let parameters = [
        ("max_output_tokens", Value::from(200)),
        ("temperature", Value::Float(0.2)),
        ("top_p", Value::Float(0.9)),
        ("seed", Value::from(7)),
        ("stop", Value::from("END")),
        ("presence_penalty", Value::from(1)),
        ("frequency_penalty", Value::from(-1)),
        ("reasoning_effort", Value::from("low")),
    ];
    let tool = |name: &str, parameters: &str| ToolSpec {
        description: format!("Does {name}."),
        name: name.to_owned(),
        parameters: parameters.to_owned(),
    };
    let head = Head {
        model: "gemini-3-test".to_owned(),
        parameters: Parameters(parameters.map(|(name, value)| (name.to_owned(), value)).into()),
        response_format: Some(
            r#"{"type":"object","properties":{"status":{"type":"string","enum":["ok"]},"body":{"type":"string","minLength":1}},"required":["status","body"],"additionalProperties":false}"#.to_owned(),
        ),
        system: "You are \"a writer\".\n".to_owned(),
        tools: vec![tool("b", r#"{"type": "object", "zebra": 1, "apple": 2}"#), tool("a", "{}")],
    };
    let foreign =
        Some(Opaque { data: r#"{"call":{"has_id":true,"signature":"x"}}"#.to_owned(), provider: "another".to_owned() });
    let messages = [
        Message::user("Write é."),
        answer([Part::Reasoning { opaque: foreign, text: "hm".to_owned() }, tool_call("call_1", "a", "{\"x\":")]),
        Message::tool("call_1", "no", true),
        answer([
            reasoning("thought"),
            said("I look."),
            of_call(true, Some("c2ln+/8=")),
            tool_call("id-2", "a", r#"{ "y": 1.0, "x": "é\u00e9" }"#),
            of_call(true, None),
            tool_call("id-3", "b", ""),
        ]),
        Message::tool("id-2", "two", false),
        Message::tool("id-3", "three", false),
        answer([
            attached(&Attached::Text(signature("dGV4dA=="))),
            said("done"),
            attached(&Attached::PlainText),
            said("!"),
        ]),
        Message::user("Next."),
        answer([said("all"), attached(&Attached::EmptyText(signature("ZW1wdHk=")))]),
        Message::user(""),
    ];
    ModelCall { head: Arc::new(head), ..call_of(messages) }
}

fn text(call: &ModelCall) -> String {
    String::from_utf8(body(&test_outgoing(call)).unwrap()).unwrap()
}

/// The contents of a request with these messages.
fn sent(messages: impl IntoIterator<Item = Message>) -> String {
    let body = text(&call_of(messages));
    body.split_once(r#""contents":"#).unwrap().1.strip_suffix('}').unwrap().to_owned()
}

/// A configuration with that model, parameters and tools.
fn config(model: &str, parameters: &[(&str, Value)], format: Option<&str>, has_tools: bool) -> serde_json::Value {
    let mut call = call();
    let head = Arc::make_mut(&mut call.head);
    model.clone_into(&mut head.model);
    head.parameters = Parameters(parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect());
    head.response_format = format.map(str::to_owned);
    if !has_tools {
        head.tools.clear();
    }
    let body: serde_json::Value = serde_json::from_str(&text(&call)).unwrap();
    body.get("generationConfig").cloned().unwrap_or_default()
}

#[test]
fn the_bytes_of_a_request_are_fixed() {
    let body = text(&call());
    insta::assert_snapshot!(body);
    assert_eq!(text(&call()), body);
}

#[test]
fn a_plain_request_holds_nothing_that_was_not_given() {
    assert_eq!(
        text(&test_call()),
        r#"{"systemInstruction":{"parts":[{"text":"You test."}]},"contents":[{"role":"user","parts":[{"text":"Write."}]}]}"#
    );
}

#[test]
fn neighbours_of_one_role_are_one_content_and_none_is_empty() {
    let user = Message::user;
    insta::assert_snapshot!(
        sent([user("a"), user(""), user("b"), answer([]), Message::assistant("c"), answer([reasoning("hm")]), user("")]),
        @r#"[{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"}]},{"role":"user","parts":[{"text":" "}]}]"#
    );
    insta::assert_snapshot!(
        sent([user("a"), answer([of_call(false, Some("s")), tool_call("1", "f", "")]), Message::tool("1", "", false), answer([]), user("b")]),
        @r#"[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"s"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":""}}}]},{"role":"model","parts":[{"text":"(no answer)"}]},{"role":"user","parts":[{"text":"b"}]}]"#
    );
}

#[test]
fn a_file_is_sent_beside_the_text() {
    let bytes: Arc<[u8]> = b"\x89PNG".as_slice().into();
    let digest = rondo_protocol::Digest::sha256(&bytes);
    let file = Part::File(FileRef { digest, media_type: "image/png".to_owned(), name: "a.png".to_owned() });
    let message = |text: &str| Message::new(Speaker::User, vec![file.clone(), said(text)]).unwrap();
    let mut call = call_of([message("see"), Message::assistant("yes"), message("")]);
    let fault = body(&test_outgoing(&call)).unwrap_err();
    assert_eq!(fault.message, "the file a.png is not at hand");
    call.files = [(digest, bytes)].into_iter().collect::<Files>();
    insta::assert_snapshot!(
        text(&call).split_once(r#""contents":"#).unwrap().1,
        @r#"[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}},{"text":"see"}]},{"role":"model","parts":[{"text":"yes"}]},{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}}]}]}"#
    );
}

#[test]
fn arguments_go_back_as_the_object_that_they_are() {
    for (stored, wanted) in [
        (r#"{"x": 1.0,"x":2, "e":1e400}"#, r#"{"x": 1.0,"x":2, "e":1e400}"#),
        (" {} ", "{}"),
        ("", "{}"),
        (" \n", "{}"),
        ("{\"x\":", r#"{"arguments":"{\"x\":"}"#),
        ("[1]", r#"{"arguments":"[1]"}"#),
        ("null", r#"{"arguments":"null"}"#),
        ("{} {}", r#"{"arguments":"{} {}"}"#),
    ] {
        assert_eq!(object_of(stored).unwrap().get(), wanted, "{stored}");
    }
}

#[test]
fn signatures_go_only_to_the_model_that_sent_them() {
    let signed = |call: &ModelCall| ["c2ln+/8=", "dGV4dA==", "ZW1wdHk="].map(|words| text(call).matches(words).count());
    let mut call = call();
    assert_eq!(signed(&call), [1, 1, 1]);
    let form = Form { is_without_reasoning: true, ..Form::default() };
    let bare = String::from_utf8(body(&Outgoing { form, ..test_outgoing(&call) }).unwrap()).unwrap();
    assert_eq!((bare.matches("skip_thought").count(), bare.matches("thoughtSignature").count()), (2, 2));
    assert!(!bare.contains("id-2") && holds_signatures(&test_outgoing(&call)));
    "gemini-3-other".clone_into(&mut Arc::make_mut(&mut call.head).model);
    assert_eq!((signed(&call), text(&call).matches("skip_thought").count()), ([0, 0, 0], 2));
    assert!(!text(&call).contains("id-2") && !holds_signatures(&test_outgoing(&call)));
    "gemini-2.5-flash".clone_into(&mut Arc::make_mut(&mut call.head).model);
    assert!(!text(&call).contains("thoughtSignature"));
}

#[test]
fn a_thought_with_a_signature_goes_back_and_one_without_does_not() {
    let thought = Attached::Thought(signature("s")).part(ORIGIN, "why".to_owned());
    insta::assert_snapshot!(
        sent([answer([reasoning("how"), thought, said("so")])]),
        @r#"[{"role":"model","parts":[{"text":"why","thought":true,"thoughtSignature":"s"},{"text":"so"}]}]"#
    );
}

#[test]
fn a_result_without_its_call_is_refused() {
    let call = call_of([Message::user("a"), Message::tool("1", "x", false)]);
    let fault = body(&test_outgoing(&call)).unwrap_err();
    assert_eq!(fault.message, "the result of a tool answers `1`, which was not called");
}

#[test]
fn a_schema_that_is_not_json_is_refused() {
    let mut call = call();
    Arc::make_mut(&mut call.head).response_format = Some("{".to_owned());
    assert_eq!(body(&test_outgoing(&call)).unwrap_err().class, rondo_protocol::call::FaultClass::Refused);
}

#[test]
fn effort_is_a_level_or_a_budget() {
    let thinking = |model: &str, effort: &str| {
        config(model, &[("reasoning_effort", Value::from(effort))], None, true)["thinkingConfig"].to_string()
    };
    for (effort, level, budget) in [
        ("none", r#"{"thinkingLevel":"MINIMAL"}"#, r#"{"thinkingBudget":0}"#),
        (
            "minimal",
            r#"{"includeThoughts":true,"thinkingLevel":"MINIMAL"}"#,
            r#"{"includeThoughts":true,"thinkingBudget":512}"#,
        ),
        (
            "low",
            r#"{"includeThoughts":true,"thinkingLevel":"LOW"}"#,
            r#"{"includeThoughts":true,"thinkingBudget":1024}"#,
        ),
        (
            "medium",
            r#"{"includeThoughts":true,"thinkingLevel":"MEDIUM"}"#,
            r#"{"includeThoughts":true,"thinkingBudget":8192}"#,
        ),
        (
            "high",
            r#"{"includeThoughts":true,"thinkingLevel":"HIGH"}"#,
            r#"{"includeThoughts":true,"thinkingBudget":24576}"#,
        ),
    ] {
        assert_eq!(
            (thinking("gemini-3-pro", effort), thinking("gemini-2.5-pro", effort)),
            (level.to_owned(), budget.to_owned())
        );
    }
    assert_eq!(thinking("gemini-4-pro", "xhigh"), r#"{"includeThoughts":true,"thinkingLevel":"XHIGH"}"#);
    assert!(ThinkingConfig::new("gemini-2.5-pro", "xhigh").is_err());
}

#[test]
fn parameters_that_a_model_ignores_are_not_sent() {
    let given =
        [("temperature", Value::from(0)), ("top_p", Value::from(1)), ("stop", Value::from(vec![Value::from("a")]))];
    let of = |model: &str| config(model, &given, None, true).to_string();
    assert_eq!(of("gemini-3-pro"), r#"{"stopSequences":["a"],"temperature":0,"topP":1}"#);
    assert_eq!(of("gemini-4-pro"), r#"{"stopSequences":["a"]}"#);
}

#[test]
fn the_format_of_an_answer_is_asked_for_as_far_as_the_model_takes_it() {
    let schema = Some(r#"{"type":"object","minProperties":1}"#);
    let of = |model: &str, format, has_tools| config(model, &[], format, has_tools).to_string();
    let whole = r#"{"responseJsonSchema":{"type":"object"},"responseMimeType":"application/json"}"#;
    let any = r#"{"responseMimeType":"application/json"}"#;
    assert_eq!(
        (of("gemini-3-pro", schema, true), of("gemini-2.5-pro", schema, false)),
        (whole.to_owned(), whole.to_owned())
    );
    assert_eq!(of("gemini-3-pro", Some(ANY_OBJECT), true), any);
    assert_eq!(of("gemini-3-pro", Some("true"), true), any);
    assert_eq!(
        (of("gemini-2.5-pro", schema, true), of("gemini-3-pro", None, true)),
        ("null".to_owned(), "null".to_owned())
    );
}

/// Messages that a conversation may hold: every result has its call.
fn messages() -> impl Strategy<Value = Vec<Message>> {
    let text = || "[a-z\"\\\\ é]{0,4}";
    let origin = proptest::sample::select(&[ORIGIN, "p/another"][..]);
    let attached = (0..5_u8, text(), proptest::bool::ANY, origin).prop_map(|(kind, words, is_other, origin)| {
        let attached = match kind {
            0 => None,
            1 => Some(Attached::Text(signature(&words))),
            2 if is_other => Some(Attached::EmptyText(signature(&words))),
            2 => Some(Attached::PlainText),
            3 => Some(Attached::Thought(signature(&words))),
            _ => Some(Attached::Call { has_id: is_other, signature: (words.len() > 2).then(|| signature(&words)) }),
        };
        attached.map(|attached| attached.part(origin, words))
    });
    let part = (0..3_u8, text(), "[0-2]", attached).prop_map(|(kind, text, id, attached)| {
        let part = match kind {
            0 => said(&text),
            1 => tool_call(&id, "f", &text),
            _ => reasoning(&text),
        };
        attached.into_iter().chain([part]).collect::<Vec<_>>()
    });
    let message = prop_oneof![
        text().prop_map(Message::user),
        proptest::collection::vec(part, 0..4).prop_map(|parts| answer(parts.into_iter().flatten())),
        ("[0-2]", text(), proptest::bool::ANY).prop_map(|(id, text, failed)| Message::tool(id, text, failed)),
    ];
    proptest::collection::vec(message, 0..10).prop_map(|messages| {
        let calls = answer(["0", "1", "2"].map(|id| tool_call(id, "f", "{}")));
        [Message::user("go"), calls].into_iter().chain(messages).collect()
    })
}

proptest::proptest! {
    #[test]
    fn a_conversation_that_goes_on_only_grows_at_its_end(messages in messages()) {
        let (mut call, mut conversation, mut before) = (call(), Conversation::default(), String::new());
        for message in messages {
            conversation.push(message);
            call.conversation = Arc::new(conversation.clone());
            let now = text(&call);
            let shared = before.strip_suffix("]}]}").unwrap_or_default();
            proptest::prop_assert!(now.starts_with(shared), "{before}\n{now}");
            before = now;
        }
        let sent: serde_json::Value = serde_json::from_str(&before).unwrap();
        let contents = sent["contents"].as_array().unwrap();
        let roles: Vec<&str> = contents.iter().map(|content| content["role"].as_str().unwrap()).collect();
        proptest::prop_assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
        for content in contents {
            let parts = content["parts"].as_array().unwrap();
            proptest::prop_assert!(!parts.is_empty());
            proptest::prop_assert!(parts.iter().all(|part| part["text"] != "" || part.get("thoughtSignature").is_some()));
            let first = parts.iter().find(|part| part.get("functionCall").is_some());
            proptest::prop_assert!(first.is_none_or(|part| part.get("thoughtSignature").is_some()));
        }
        proptest::prop_assert!(!before.contains("another"));
    }
}
