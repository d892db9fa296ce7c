use std::sync::Arc;

use proptest::prelude::*;
use rondo_protocol::canonical;
use rondo_protocol::message::{Parts, ToolUse};
use rondo_protocol::object::{Parameters, ToolSpec};

use super::*;
use crate::conversation::{EMPTY_LINE, system_text};
use crate::prefix::{bytes_of_head, bytes_of_message};

fn tool(name: &str, description: &str) -> ToolSpec {
    let parameters = r#"{"type":"object"}"#.to_owned();
    ToolSpec { description: description.to_owned(), name: name.to_owned(), parameters }
}

fn head(system: &str, tools: &[ToolSpec]) -> Head {
    Head {
        model: "m".to_owned(),
        parameters: Parameters::default(),
        response_format: None,
        system: system.to_owned(),
        tools: tools.to_vec(),
    }
}

fn request(head: &Head, messages: &[Message]) -> Request {
    Request::new(&Arc::new(head.clone()), messages.iter().cloned().collect())
}

/// The break between two requests, as `block: cause: detail`.
fn broke(before: (&Head, &[Message]), after: (&Head, &[Message])) -> String {
    match compare(&request(before.0, before.1), &request(after.0, after.1)).broke {
        Some(broke) => format!("{}: {}: {}", broke.block, broke.cause, broke.detail),
        None => "nothing".to_owned(),
    }
}

fn of_heads(before: &Head, after: &Head) -> String {
    let messages = [Message::user("Go.")];
    broke((before, &messages), (after, &messages))
}

fn of_systems(before: &str, after: &str) -> String {
    of_heads(&head(before, &[]), &head(after, &[]))
}

fn of_messages(before: &[Message], after: &[Message]) -> String {
    let head = head("You write.", &[]);
    broke((&head, before), (&head, after))
}

fn of_prompts(before: &str, after: &str) -> String {
    of_messages(&[Message::user(before)], &[Message::user(after)])
}

#[test]
fn heads_are_compared_block_by_block() {
    let plain = head("You write.", &[tool("b", "Does b."), tool("d", "Does d.")]);
    let with = |name: &str| head("You write.", &[tool("b", "Does b."), tool(name, "It."), tool("d", "Does d.")]);
    assert_eq!(of_heads(&plain, &plain), "nothing");
    assert_eq!(of_heads(&plain, &with("c")), "tools.c: tool added: c");
    assert_eq!(of_heads(&plain, &with("e")), "tools.e: tool added: e");
    assert_eq!(of_heads(&with("a"), &plain), "tools.a: tool removed: a");
    assert_eq!(of_heads(&with("e"), &plain), "tools.e: tool removed: e");
    let changed = head("You write.", &[tool("b", "Does bee."), tool("d", "Does d.")]);
    assert_eq!(of_heads(&plain, &changed), "tools.b: tool changed: b: its description: \"b.\" became \"bee.\"");
    let model = Head { model: "n".to_owned(), ..plain.clone() };
    assert_eq!(of_heads(&plain, &model), "model: model changed: \"m\" became \"n\"");
    let format = |schema: &str| Head { response_format: Some(schema.to_owned()), ..plain.clone() };
    assert_eq!(of_heads(&plain, &format("{}")), "response_format: schema changed: a response format was added");
    let said = of_heads(&format(r#"{"title": 1}"#), &format(r#"{"name": 1}"#));
    assert_eq!(said, r#"response_format: schema changed: "{"title":" became "{"name":""#);
    let hot =
        Head { parameters: Parameters([("temperature".to_owned(), canonical::Value::Int(1))].into()), ..plain.clone() };
    assert_eq!(of_heads(&plain, &hot), "nothing");
}

#[test]
fn a_system_text_is_told_apart_from_its_contract() {
    let form = "# Form of the answer\n\nAn answer begins with a front matter in YAML between two lines `---`. After it \
                stands the body, in Markdown. Write nothing before the front matter and no code fence around the \
                answer. Put your own values where angle brackets stand.";
    let contract = |field: &str| format!("{form}\n\n---\nstatus: drafted\n{field}: <a text>\n---\n\n<the body>");
    let (title, name) = (contract("title"), contract("name"));
    let said = of_systems(&system_text("You write.", &title), &system_text("You write.", &name));
    assert_eq!(said, "system: schema changed: \"title:\" became \"name:\"");
    let more = format!("{title}\n\nThe form of `left`:\n\n---\nstatus: left\n---\n\n<the body>");
    let said = of_systems(&system_text("You write.", &title), &system_text("You write.", &more));
    assert!(said.starts_with("system: schema changed: added"), "{said}");
    let said = of_systems(&system_text("You write.", &title), &system_text("You edit.", &title));
    assert_eq!(said, "system: system text changed: \"write.\" became \"edit.\"");
    let said = of_systems(&title, &format!("{title}\nBe brief."));
    assert_eq!(said, r#"system: system text changed: added "\nBe brief.""#);
}

#[test]
fn volatile_text_is_the_more_specific_cause() {
    for (before, after, cause) in [
        ("It is 2026-11-21.", "It is 2026-11-22.", "clock"),
        ("It is 09:59 now", "It is 10:00 now", "clock"),
        ("Run 8f14e45f-ceea-467f-a9f4-0242ac120002", "Run 9f14e45f-ceea-467f-a9f4-0242ac120002", "id"),
        ("Work in /tmp/a1/x.", "Work in /tmp/b2/x.", "path"),
        ("Work in /srv/one/x.", "Work in /opt/one/x.", "path"),
        ("Ask localhost:8080.", "Ask localhost:8081.", "environment"),
        ("In $HOME.", "In $PWD.", "environment"),
        ("You write.", "It is 2026-11-22.\nYou write.", "clock"),
        ("You write.\nrun-2026001", "You write.", "id"),
    ] {
        let said = of_systems(before, after);
        assert!(said.starts_with(&format!("system: {cause} in the system text: ")), "{said}");
        let said = of_prompts(before, after);
        assert!(said.starts_with(&format!("message 1: {cause} in the prompt: ")), "{said}");
    }
    let said = of_systems("You write, since 2026-11-22.", "You edit, since 2026-11-22.");
    assert!(said.starts_with("system: system text changed"), "{said}");
}

#[test]
fn a_long_text_is_more_than_the_date_in_it() {
    let report = format!("The report of 2026-11-21: {}\n\n", "nothing works any more. ".repeat(9));
    let told = of_prompts(&format!("{report}Answer it."), "Answer it.");
    assert!(told.starts_with("message 1: prompt changed: left out"), "{told}");
    let told = of_prompts("Answer it.", &format!("{report}Answer it."));
    assert!(told.starts_with("message 1: prompt changed: added"), "{told}");
}

#[test]
fn a_prompt_is_told_apart_from_its_summary() {
    let since = "What happened since your last answer:";
    let step = |role: &str, fields: &str| format!("<step role=\"{role}\" status=\"done\">\n{fields}\n</step>");
    let (a, b) = (step("a", r#"{"x":1}"#), step("b", r#"{"x":2}"#));
    let of = |prompt: &str, told: &str| format!("{prompt}\n\n{since}\n\n{told}");
    let cause = |before: &str, after: &str| of_prompts(before, after).split(": ").nth(1).unwrap_or_default().to_owned();
    let both = of("Go.", &format!("{a}\n{b}"));
    assert_eq!(cause(&both, &of("Stop.", &format!("{a}\n{b}"))), "prompt changed");
    assert_eq!(cause(&both, &of("Go.", &format!("{b}\n{a}"))), "summary order changed");
    assert_eq!(cause(&both, &of("Go.", &a)), "summary changed");
    assert_eq!(cause("Go.", &both), "summary changed");
    assert_eq!(cause(EMPTY_LINE, &format!("{since}\n\n{a}")), "summary changed");
    assert_eq!(cause(&both, &of("Go.", &format!("[earlier steps are left out]\n{b}"))), "summary cut changed");
    let (long, short) = (step("a", "abcdefghij\n[cut]"), step("a", "abcdef\n[cut]"));
    assert_eq!(cause(&of("Go.", &long), &of("Go.", &short)), "summary cut changed");
}

#[test]
fn messages_are_told_apart_by_who_speaks() {
    let asks = |arguments: &str| {
        let tool = ToolUse { arguments: arguments.to_owned(), id: "1".to_owned(), name: "read".to_owned() };
        Message::from(Parts::asking("", [tool]))
    };
    let go = Message::user("Go.");
    let after_go = |message: Message| [go.clone(), message];
    let cases = [
        (
            of_messages(&after_go(Message::assistant(r#"{"a": 1}"#)), &after_go(Message::assistant(r#"{"a":1}"#))),
            r#"message 2: answer rewritten: the same JSON, written in another way: left out " ""#,
        ),
        (
            of_messages(&after_go(asks(r#"{"p":"a"}"#)), &after_go(asks(r#"{"p":"b"}"#))),
            r#"message 2: tool calls changed: read: "{"p":"a"}" became "{"p":"b"}""#,
        ),
        (
            of_messages(&after_go(Message::tool("1", "yes", false)), &after_go(Message::tool("1", "no", false))),
            r#"message 2: tool result changed: "yes" became "no""#,
        ),
        (
            of_messages(&after_go(Message::assistant("x")), std::slice::from_ref(&go)),
            "message 2: history shortened: message 2 is missing",
        ),
    ];
    for (said, expected) in cases {
        assert_eq!(said, expected);
    }
}

#[test]
fn missing_messages_are_no_change_of_the_others() {
    let talk: Vec<Message> = (0..6)
        .map(|n| if n % 2 == 0 { Message::user(format!("u{n}")) } else { Message::assistant(format!("a{n}")) })
        .collect();
    let said = of_messages(&talk, &talk[2..]);
    assert_eq!(said, "message 1: history shortened: 2 messages from message 1 on are missing");
    let kept_first = [&talk[..1], &talk[4..], &[Message::user("u6")]].concat();
    assert_eq!(
        of_messages(&talk, &kept_first),
        "message 2: history shortened: 3 messages from message 2 on are missing"
    );
    let reordered = [&talk[4..], &talk[..4]].concat();
    assert_eq!(of_messages(&talk, &reordered), "message 1: prompt changed: the messages are in another order");
    let told_first = [&[Message::user("It is 2026-11-22.")], talk.as_slice()].concat();
    assert_eq!(of_messages(&talk, &told_first), "message 1: clock in the prompt: added \"It is 2026-11-22.\"");
}

#[test]
fn what_is_more_is_a_difference_and_no_break() {
    let head = head("You write.", &[]);
    let (short, long) = ([Message::user("Go.")], [Message::user("Go."), Message::assistant("Gone.")]);
    let (old, new) = (request(&head, &short), request(&head, &long));
    assert_eq!(compare(&old, &new).broke, None);
    assert_eq!(difference(&old, &old), None);
    let broke = difference(&old, &new).unwrap();
    assert_eq!((broke.byte, broke.block.to_string()), (old.bytes(), "message 2".to_owned()));
}

/// The bytes of a request, block after block, as documented.
fn concatenated(head: &Head, messages: &[Message]) -> String {
    let canonical = |value: serde_json::Value| canonical::parse(value.to_string().as_bytes()).unwrap().to_text();
    let mut all = String::new();
    for tool in &head.tools {
        all += &canonical(serde_json::to_value(tool).unwrap());
    }
    if let Some(format) = &head.response_format {
        all += &canonical(serde_json::json!({ "response_format": format }));
    }
    if !head.system.is_empty() {
        all += &canonical(serde_json::json!({ "role": "system", "text": head.system }));
    }
    for message in messages {
        all += &canonical(serde_json::to_value(message).unwrap());
    }
    all
}

fn any_message() -> impl Strategy<Value = Message> {
    let uses = proptest::collection::vec("[ab]{0,2}", 0..2).prop_map(|names| {
        let tool = |name: String| ToolUse { arguments: "{}".to_owned(), id: name.clone(), name };
        names.into_iter().map(tool).collect::<Vec<_>>()
    });
    (0..3, "[ab\"é\n]{0,4}", uses).prop_map(|(speaker, text, tool_calls)| match speaker {
        0 => Message::user(text),
        1 => Parts::asking(text, tool_calls).into(),
        _ => Message::tool("1", text, false),
    })
}

fn any_head() -> impl Strategy<Value = Head> {
    let tools = proptest::collection::btree_map("[ab]{1,2}", "[ab]{0,2}", 0..3);
    (tools, proptest::option::of("[ab]{0,2}"), "[ab]{0,3}").prop_map(|(tools, response_format, system)| {
        let tools: Vec<ToolSpec> = tools.iter().map(|(name, description)| tool(name, description)).collect();
        Head { response_format, ..head(&system, &tools) }
    })
}

fn any_messages() -> impl Strategy<Value = Vec<Message>> {
    proptest::collection::vec(any_message(), 0..5)
}

proptest! {
    #[test]
    fn a_request_that_only_got_longer_broke_nothing(head in any_head(), messages in any_messages(), more in any_messages()) {
        let all = [messages.as_slice(), &more].concat();
        let before = request(&head, &messages);
        let comparison = compare(&before, &request(&head, &all));
        prop_assert_eq!(comparison.broke, None);
        prop_assert_eq!(comparison.shared_bytes, before.bytes());
    }

    #[test]
    fn shared_bytes_are_the_longest_common_prefix(
        heads in (any_head(), any_head()),
        messages in (any_messages(), any_messages()),
        is_same_head: bool,
        is_same_beginning: bool,
    ) {
        let after_head = if is_same_head { &heads.0 } else { &heads.1 };
        let beginning = if is_same_beginning { messages.0.clone() } else { Vec::new() };
        let after_messages = [beginning, messages.1].concat();
        let (before, after) = (request(&heads.0, &messages.0), request(after_head, &after_messages));
        let (old, new) = (concatenated(&heads.0, &messages.0), concatenated(after_head, &after_messages));
        let comparison = compare(&before, &after);
        prop_assert_eq!(comparison.request_bytes, new.len() as u64);
        prop_assert_eq!(comparison.shared_bytes, common(old.bytes(), new.bytes()) as u64);
        prop_assert_eq!(comparison.broke.is_none(), new.starts_with(&old));
        if let Some(broke) = comparison.broke {
            prop_assert_eq!(broke.byte, comparison.shared_bytes);
        }
    }

    #[test]
    fn what_is_known_to_be_shared_is_not_needed_again(
        head in any_head(), shared in any_messages(), old in any_messages(), new in any_messages(),
    ) {
        let (before, after) = ([shared.as_slice(), &old].concat(), [shared.as_slice(), &new].concat());
        let known = Shared {
            messages: shared.len(),
            bytes: bytes_of_head(&head) + shared.iter().map(bytes_of_message).sum::<u64>(),
        };
        let whole = compare(&request(&head, &before), &request(&head, &after));
        let (old, new): (Vec<&Message>, Vec<&Message>) = (old.iter().collect(), new.iter().collect());
        prop_assert_eq!(compare_beyond(known, &old, &new).shared_bytes, whole.shared_bytes);
    }

    #[test]
    fn any_two_texts_have_a_difference(old in "[ -~é\n]{0,40}", new in "[ -~é\n]{0,40}") {
        let said = of_prompts(&old, &new);
        prop_assert_eq!(said == "nothing", old == new);
        let said = of_systems(&old, &new);
        prop_assert_eq!(said == "nothing", old == new);
    }
}
