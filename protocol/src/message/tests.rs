use proptest::prelude::*;

use super::*;

fn use_of(id: &str) -> Part {
    Part::ToolCall(ToolUse { arguments: "{\"a\": 1}".to_owned(), id: id.to_owned(), name: "read_file".to_owned() })
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

/// Law `format`: the bytes of messages are fixed.
#[test]
fn the_bytes_of_messages_are_fixed() {
    let opaque = Some(Opaque { data: "c2ln\n".to_owned(), provider: "anthropic".to_owned() });
    let reply: Parts = [
        Part::Reasoning { opaque, text: "hm".to_owned() },
        text("I look."),
        use_of("1"),
        Part::Reasoning { opaque: None, text: String::new() },
        text("And \"then\"."),
    ]
    .into_iter()
    .collect();
    let file =
        || [FileRef { digest: Digest([7; 32]), media_type: "image/png".to_owned(), name: "tide.png".to_owned() }];
    let messages = [
        Message::user(""),
        Message::user("Look.").with_files(file()),
        reply.into(),
        Message::tool("1", "é\u{1}", true),
        Message::tool("1", "seen", false).with_files(file()),
        Message::assistant(""),
    ];
    let shown: Vec<String> = messages
        .iter()
        .map(|message| format!("{}\n{}", String::from_utf8(message.canonical_bytes()).unwrap(), message.digest()))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

const RESULT: &str = r#"{"failed":false,"id":"1","kind":"tool_result","text":""}"#;
const FILE: &str = r#"{"digest":"0707070707070707070707070707070707070707070707070707070707070707","kind":"file","media_type":"image/png","name":"a"}"#;

#[test]
fn what_breaks_the_rules_of_parts_is_no_message() {
    let read = |text: &str| canonical::from_slice::<Message>(text.as_bytes());
    for whole in [
        r#"{"parts":[{"kind":"text","text":""}],"role":"user"}"#,
        r#"{"parts":[],"role":"assistant"}"#,
        r#"{"parts":[{"failed":false,"id":"1","kind":"tool_result","text":""}],"role":"tool"}"#,
        &format!(r#"{{"parts":[{RESULT},{FILE}],"role":"tool"}}"#),
    ] {
        assert_eq!(String::from_utf8(read(whole).unwrap().canonical_bytes()).unwrap(), whole);
    }
    for broken in [
        r#"{"parts":[],"role":"user"}"#,
        r#"{"parts":[{"kind":"text","text":"a"},{"kind":"text","text":"b"}],"role":"user"}"#,
        r#"{"parts":[{"kind":"text","text":"a"},{"arguments":"","id":"","kind":"tool_call","name":""}],"role":"user"}"#,
        r#"{"parts":[{"kind":"text","text":""}],"role":"assistant"}"#,
        r#"{"parts":[{"kind":"text","text":"a"},{"kind":"text","text":"b"}],"role":"assistant"}"#,
        r#"{"parts":[{"failed":false,"id":"1","kind":"tool_result","text":""}],"role":"assistant"}"#,
        r#"{"parts":[{"kind":"text","text":"a"}],"role":"tool"}"#,
        r#"{"parts":[],"role":"tool"}"#,
        &format!(r#"{{"parts":[{FILE},{RESULT}],"role":"tool"}}"#),
        &format!(r#"{{"parts":[{RESULT},{RESULT}],"role":"tool"}}"#),
        r#"{"parts":[{"kind":"text","text":"","more":1}],"role":"user"}"#,
        r#"{"parts":[{"kind":"picture","text":""}],"role":"user"}"#,
    ] {
        assert!(read(broken).is_err(), "{broken}");
    }
}

#[test]
fn texts_that_come_in_pieces_are_one_part() {
    let said: Parts = ["a", "", "b"].map(text).into_iter().chain([use_of("1"), text(""), text("c")]).collect();
    assert_eq!(said.as_slice(), [text("ab"), use_of("1"), text("c")]);
    assert_eq!((said.text().as_ref(), said.tool_calls().count()), ("abc", 1));
    assert_eq!(said.reasoning(), None);
}

#[test]
fn a_key_that_stands_in_two_parts_is_taken_out_of_both() {
    let said: Parts = [text("a ke"), use_of("1"), text("y b"), use_of("key"), text("c")].into_iter().collect();
    let hidden = said.with_texts(&|text| *text = text.replace("key", "*"));
    assert_eq!(hidden.text(), "a * bc");
    assert_eq!(hidden.as_slice(), [text("a * bc"), use_of("1"), use_of("*")]);
}

#[test]
fn reasoning_that_is_rewritten_loses_what_vouches_for_it() {
    let reasoned = |text: &str, data: &str| {
        let opaque = Some(Opaque { data: data.to_owned(), provider: "p".to_owned() });
        let said: Parts = [Part::Reasoning { opaque, text: text.to_owned() }].into_iter().collect();
        said.with_texts(&|text| *text = text.replace("key", "*")).into_vec().remove(0)
    };
    for (text, data) in [("key", "d"), ("hm", "a key")] {
        assert!(matches!(reasoned(text, data), Part::Reasoning { opaque: None, .. }), "{text} {data}");
    }
    assert!(matches!(reasoned("hm", "d"), Part::Reasoning { opaque: Some(_), .. }));
}

fn any_part() -> impl Strategy<Value = Part> {
    let text = || "([a-z]|\\PC|[\n\t\"\\\\\u{1}]){0,8}";
    let opaque = proptest::option::of((text(), text()).prop_map(|(data, provider)| Opaque { data, provider }));
    prop_oneof![
        text().prop_map(|text| Part::Text { text }),
        (opaque, text()).prop_map(|(opaque, text)| Part::Reasoning { opaque, text }),
        (text(), text(), text()).prop_map(|(arguments, id, name)| Part::ToolCall(ToolUse { arguments, id, name })),
        (text(), text()).prop_map(|(media_type, name)| Part::File(FileRef {
            digest: Digest([1; 32]),
            media_type,
            name
        })),
    ]
}

proptest! {
    /// The hashed bytes equal those of the canonical writer, and parse back to the same message.
    #[test]
    fn a_message_is_written_as_the_canonical_writer_does(
        parts in prop::collection::vec(any_part(), 0..5),
        words in "([a-z]|\\PC|[\n\"\\\\]){0,8}",
        failed: bool,
    ) {
        let reply = Message::from(parts.into_iter().collect::<Parts>());
        let file = FileRef { digest: Digest([1; 32]), media_type: words.clone(), name: words.clone() };
        let tool = Message::tool(words.clone(), words.clone(), failed);
        for message in [reply, Message::user(words), tool.clone(), tool.with_files([file])] {
            let bytes = message.canonical_bytes();
            prop_assert_eq!(&bytes, &canonical::to_bytes(&message).unwrap());
            prop_assert_eq!(canonical::from_slice::<Message>(&bytes).unwrap(), message);
        }
    }
}
