use proptest::prelude::*;
use rondo_protocol::message::Parts;

use super::*;

fn head() -> Head {
    let parameters = Parameters([("temperature".to_owned(), Value::Int(0))].into());
    let tool = ToolSpec {
        description: "Reads a file.\n".to_owned(),
        name: "read_file".to_owned(),
        parameters: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#.to_owned(),
    };
    let schema = Some("{ \"type\": \"object\" }".to_owned());
    Head {
        model: "gpt-4.1".to_owned(),
        parameters,
        response_format: schema,
        system: "You read.".to_owned(),
        tools: vec![tool],
    }
}

fn conversation() -> Requests {
    let head = Arc::new(head());
    let said = |message: Message, label: &str| (message, label.to_owned());
    let opening = said(Message::user("Look.\n"), "start");
    let call = |id: &str| ToolUse {
        arguments: "{\"path\":\"a\"}".to_owned(),
        id: id.to_owned(),
        name: "read_file".to_owned(),
    };
    let opaque = Some(Opaque { data: "c2ln".to_owned(), provider: "other".to_owned() });
    let parts = [
        Part::Reasoning { opaque, text: "hm".to_owned() },
        Part::ToolCall(call("call 1")),
        Part::Text { text: "And:".to_owned() },
        Part::ToolCall(call("call_2")),
    ];
    let asks = said(parts.into_iter().collect::<Parts>().into(), "answer");
    let result = said(Message::tool("call 1", "---\n  text \n\nmessage 4 · user", true), "");
    let first = vec![opening.clone()];
    let second = vec![opening.clone(), asks, result];
    let third =
        vec![opening, said(Message::assistant("Done."), "answer"), said(Message::user("Again."), "b.ok, summary")];
    let other = Arc::new(Head { model: "gpt 5".to_owned(), ..Head::clone(&head) });
    let request = |visit, head: &Arc<Head>, labelled: Vec<(Message, String)>| {
        let (messages, labels) = labelled.into_iter().unzip();
        Request { lane: LanePath::trunk(), visit, head: Arc::clone(head), messages, labels }
    };
    Requests { sent: vec![request(1, &head, first), request(1, &head, second), request(2, &other, third)] }
}

#[test]
fn a_person_can_read_it() {
    let text = conversation().to_text();
    assert_eq!(Requests::read(&text, 0), Ok(conversation()));
    insta::assert_snapshot!(text);
}

#[test]
fn what_was_edited_is_found_at_its_place() {
    let text = conversation().to_text();
    for (old, new, code, at) in [
        ("    Done.", "    Dome.", Code::SnapshotEdited, "request 3"),
        ("whole ", "whole 0", Code::SnapshotEdited, "digests "),
        ("digests ", "digests 0", Code::SnapshotEdited, "head\n"),
        ("digests ", "digest ", Code::SnapshotSyntax, "digest "),
        ("    Look.", "    Look", Code::SnapshotEdited, "request 1"),
        ("You read.", "You write.", Code::SnapshotEdited, "head\n"),
        ("\"temperature\": 0", "\"temperature\": 1", Code::SnapshotEdited, "head\n"),
        ("\"temperature\": 0", "\"temperature\": ", Code::SnapshotSyntax, "parameters"),
        ("message 2 · assistant", "message 3 · assistant", Code::SnapshotSyntax, "message 3 · assistant"),
        ("message 2 · assistant", "message 2 · nobody", Code::SnapshotSyntax, "message 2 · nobody"),
        ("continues request 1 · 1 messages", "continues request 1", Code::SnapshotSyntax, "continues request 1"),
        ("request 2 · visit 1", "request 2 · visit x", Code::SnapshotSyntax, "request 2 · visit x"),
        ("tool read_file\n", "tool \n", Code::SnapshotSyntax, "    Reads"),
        ("    Again.", "  Again.", Code::SnapshotSyntax, "  Again."),
        ("\\u{20}", "\\u{zz}", Code::SnapshotSyntax, "   \\  text\\u{zz}"),
    ] {
        let edited = text.replacen(old, new, 1);
        assert_ne!(edited, text, "{old}");
        let fault = Requests::read(&edited, 0).unwrap_err();
        assert_eq!(fault.code, code, "{new}: {}", fault.message);
        assert!(edited[fault.at.start..].trim_start_matches('\n').starts_with(at), "{new}: {fault:?}");
    }
}

#[test]
fn a_text_that_is_cut_anywhere_is_refused_or_ends_with_a_request() {
    let text = conversation().to_text();
    for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
        if let Ok(read) = Requests::read(&text[..at], 0) {
            assert!(conversation().sent.starts_with(&read.sent), "cut at {at}");
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    "([a-z]|\\PC|[\n\r\t \\\\·]|message 1 · user\n|---\n){0,12}"
}

fn any_message() -> impl Strategy<Value = (Message, String)> {
    let text = || any_text().prop_map(|text| Part::Text { text });
    let file = || {
        (any_text(), any_text())
            .prop_map(|(media_type, name)| Part::File(FileRef { digest: Digest([7; 32]), media_type, name }))
    };
    let call = (any_text(), any_text(), any_text());
    let call = call.prop_map(|(arguments, id, name)| Part::ToolCall(ToolUse { arguments, id, name }));
    let opaque = prop::option::of((any_text(), any_text()).prop_map(|(data, provider)| Opaque { data, provider }));
    let reasoning = (opaque, any_text()).prop_map(|(opaque, text)| Part::Reasoning { opaque, text });
    let said = prop::collection::vec(prop_oneof![text(), file(), call, reasoning], 0..5);
    let message = prop_oneof![
        said.prop_map(|parts| parts.into_iter().collect::<Parts>().into()),
        (any_text(), any_text(), any::<bool>()).prop_map(|(id, text, failed)| Message::tool(id, text, failed)),
        (prop::collection::vec(file(), 0..2), text(), prop::collection::vec(file(), 0..2)).prop_map(
            |(before, text, after)| {
                let parts = before.into_iter().chain([text]).chain(after).collect();
                Message::new(Speaker::User, parts).unwrap()
            }
        ),
    ];
    (message, any_text())
}

fn any_head() -> impl Strategy<Value = Arc<Head>> {
    let tool = (any_text(), any_text(), any_text());
    let tool = tool.prop_map(|(description, name, parameters)| ToolSpec { description, name, parameters });
    let parameters = prop::collection::btree_map(any_text(), any_text().prop_map(Value::from), 0..3);
    (any_text(), parameters, any_text(), prop::collection::vec(tool, 0..3), prop::option::of(any_text())).prop_map(
        |(model, parameters, system, tools, response_format)| {
            Arc::new(Head { model, parameters: Parameters(parameters), response_format, system, tools })
        },
    )
}

proptest! {
    #[test]
    fn every_request_comes_back(
        heads in prop::collection::vec(any_head(), 1..3),
        pool in prop::collection::vec(any_message(), 1..4),
        picks in prop::collection::vec((0_usize..3, prop::collection::vec(0_usize..4, 0..5), 1_u64..9), 1..5),
    ) {
        let request = |(head, messages, visit): (usize, Vec<usize>, u64)| {
            let (messages, labels) = messages.into_iter().map(|at| pool[at % pool.len()].clone()).unzip();
            Request { lane: LanePath::trunk(), visit, head: Arc::clone(&heads[head % heads.len()]), messages, labels }
        };
        let requests = Requests { sent: picks.into_iter().map(request).collect() };
        let text = requests.to_text();
        let read = Requests::read(&text, 0).map_err(|fault| format!("{fault:?}\n{text}"));
        prop_assert_eq!(read, Ok(requests));
    }
}
