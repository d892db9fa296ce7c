use std::sync::Arc;

use rondo_protocol::file::File;
use rondo_protocol::message::{Parts, ToolUse};

use super::*;
use crate::model::{test_call, test_outgoing};

#[test]
fn each_protocol_takes_pictures_and_none_takes_anything() {
    for protocol in ALL {
        assert!(protocol.takes_file("image/png") && protocol.takes_file("application/pdf"), "{protocol:?}");
        assert!(!protocol.takes_file("application/octet-stream"), "{protocol:?}");
        assert_eq!(named(protocol.name()), Some(*protocol));
    }
}

fn files() -> [File; 2] {
    let file = |media_type: &str, name: &str| File {
        bytes: name.as_bytes().into(),
        media_type: media_type.to_owned(),
        name: name.to_owned(),
    };
    [file("image/png", "a.png"), file("application/zip", "b.zip")]
}

/// Two calls of one reply, of which the first returned files, and what follows them.
fn call(model: &str, rest: impl IntoIterator<Item = Message>) -> ModelCall {
    let asks = |id: &str| ToolUse { arguments: "{}".to_owned(), id: id.to_owned(), name: "look".to_owned() };
    let messages = [
        Message::user("Look."),
        Message::from(Parts::asking("", [asks("call_1"), asks("call_2")])),
        Message::tool("call_1", "seen", false).with_files(files().iter().map(File::reference)),
        Message::tool("call_2", "", false),
    ];
    let mut call = test_call();
    let head = Arc::make_mut(&mut call.head);
    (head.model, head.tools) = (model.to_owned(), Vec::new());
    call.conversation = Arc::new(messages.into_iter().chain(rest).collect());
    call.files = files().into_iter().map(|file| (file.digest(), file.bytes)).collect();
    call
}

/// The messages of a request, from the calls on.
fn from_calls(protocol: &dyn Protocol, call: &ModelCall, form: Form) -> String {
    let outgoing = Outgoing { form, ..test_outgoing(call) };
    let body: serde_json::Value = serde_json::from_slice(&protocol.body(&outgoing).unwrap()).unwrap();
    let list = ["messages", "input", "contents"].into_iter().find_map(|name| body[name].as_array()).unwrap();
    let from = list.iter().position(|message| message.to_string().contains("seen")).unwrap();
    list[from..].iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const MODELS: [(&str, &dyn Protocol); 5] = [
    ("gpt-5.6", &openai_chat::OpenAiChat),
    ("gpt-5.6", &openai_responses::OpenAiResponses),
    ("claude-opus-5", &anthropic::Anthropic),
    ("gemini-3-pro", &gemini::Gemini),
    ("gemini-2.5-pro", &gemini::Gemini),
];

#[test]
fn the_files_of_a_result_are_sent_with_it_or_told() {
    let without = Form { is_without_tool_files: true, ..Form::default() };
    let shown = MODELS.map(|(model, protocol)| {
        let call = call(model, [Message::user("And?")]);
        let [with, without] = [Form::default(), without].map(|form| from_calls(protocol, &call, form));
        format!("{} {model}\n{with}\nrefused:\n{without}\n", protocol.name())
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_request_with_files_of_tools_begins_the_next_one() {
    for (model, protocol) in MODELS {
        let sent = |rest: &[Message]| {
            let call = call(model, rest.iter().cloned());
            String::from_utf8(protocol.body(&test_outgoing(&call)).unwrap()).unwrap()
        };
        let shorter = sent(&[]);
        for rest in [&[Message::user("And?")][..], &[Message::assistant("A pixel."), Message::user("And?")]] {
            let longer = sent(rest);
            let (shorter, longer) = (list(&shorter), list(&longer));
            assert!(longer.starts_with(shorter), "{model}: {longer}\ndoes not begin with\n{shorter}");
        }
    }
}

/// The list of messages in a body, without the brackets at its end: Anthropic's last message may grow.
fn list(body: &str) -> &str {
    let members: std::collections::BTreeMap<&str, &RawValue> = serde_json::from_str(body).unwrap();
    let list = ["messages", "input", "contents"].into_iter().find_map(|name| members.get(name)).unwrap().get();
    list.trim_end_matches([']', '}'])
}

#[test]
fn only_a_refusal_that_may_be_of_files_is_answered_without_them() {
    let refusal =
        |status, body: &str| Refusal { status, body: body.to_owned(), retry_after_ms: None, should_retry: None };
    for (model, protocol) in MODELS {
        let call = call(model, []);
        let amended = |refusal: &Refusal| protocol.amended(&test_outgoing(&call), refusal);
        let form = Form { is_without_tool_files: true, ..Form::default() };
        let without = Some(form);
        for (status, body, wanted) in [
            (400, "", without),
            (413, "too large", without),
            (404, "No endpoints found that support image input", without),
            (404, "no such model", None),
            (500, "image input is not supported - hint: you may need to provide the mmproj", without),
            (500, "overloaded", None),
            (401, "image", None),
            (429, "image", None),
        ] {
            assert_eq!(amended(&refusal(status, body)), wanted, "{protocol:?} {status} {body}");
        }
        assert_eq!(protocol.amended(&Outgoing { form, ..test_outgoing(&call) }, &refusal(400, "")), None);
        assert_eq!(protocol.amended(&test_outgoing(&test_call()), &refusal(400, "")), None, "no files, no other form");
    }
}

#[test]
fn a_call_that_no_server_takes_goes_back_in_a_form_that_all_take_and_any_other_as_it_is() {
    for (stored, sent) in [
        (r#" {"x": 1.0} "#, r#" {"x": 1.0} "#),
        ("", "{}"),
        (" ", "{}"),
        ("{\"x\":", r#"{"arguments":"{\"x\":"}"#),
        ("[1]", r#"{"arguments":"[1]"}"#),
    ] {
        assert_eq!(object_text(stored).unwrap(), sent, "{stored}");
    }
    let (long, longest) = ("a".repeat(65), "a".repeat(64));
    for (stored, sent) in [
        ("read_file", "read_file"),
        ("docs__a-1", "docs__a-1"),
        ("functions.read_file", "functions_read_file"),
        ("lies die Datei ü", "lies_die_Datei__"),
        ("", "no_name"),
        (&long, &longest),
        (&longest, &longest),
    ] {
        assert_eq!(fit_name(stored), sent, "{stored}");
    }
}

#[test]
fn a_slip_in_a_call_makes_no_request_that_a_strict_server_refuses() {
    let slip = ToolUse { arguments: "{\"x\":".to_owned(), id: "call_1".to_owned(), name: "functions.look".to_owned() };
    let messages =
        [Message::user("Look."), Message::from(Parts::asking("", [slip])), Message::tool("call_1", "no", true)];
    let call = ModelCall { conversation: Arc::new(messages.into_iter().collect()), ..test_call() };
    for name in ["openai_chat", "openai_responses", "anthropic"] {
        let body = named(name).unwrap().body(&test_outgoing(&call)).unwrap();
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains(r#""name":"functions_look""#), "{body}");
        assert!(body.contains(r#"{\"arguments\":\"{"#) || body.contains(r#"{"arguments":"{"#), "{body}");
    }
}
