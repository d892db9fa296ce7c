use proptest::prelude::*;
use rondo_protocol::message::Message;

use super::decision::{Changes, Decision, HookDecision};
use super::*;
use crate::tests::fixture::calls;

fn read(text: &str) -> Result<Decision, String> {
    Decision::read(text.as_bytes())
}

fn denied(reason: &str) -> Decision {
    Decision::Deny { reason: reason.to_owned() }
}

#[test]
fn what_a_program_puts_out_is_a_decision() {
    for nothing in ["", " \n\t\r\n", r#"{"decision":"continue"}"#, " {\"decision\" : \"continue\"}\n"] {
        assert_eq!(read(nothing), Ok(Decision::Continue), "{nothing:?}");
    }
    let answer = |failed| Decision::Answer { text: "x".to_owned(), failed };
    assert_eq!(read(r#"{"decision":"answer","text":"x"}"#), Ok(answer(false)));
    assert_eq!(read(r#"{"decision":"answer","text":"x","failed":true}"#), Ok(answer(true)));
    assert_eq!(read(r#"{"decision":"rewrite","call":{}}"#), Ok(Decision::Rewrite(Changes::default())));
    assert_eq!(read(r#"{"decision":"deny","reason":" because\n"}"#), Ok(denied("because")));
    assert_eq!(read(r#"{"decision":"deny","reason":""}"#), Ok(denied("no reason is given")));
}

#[test]
fn what_is_no_decision_says_why() {
    let outputs = [
        "hello",
        "[]",
        "{}",
        r#"{"decision":"allow"}"#,
        r#"{"decision":"continue","reason":"x"}"#,
        r#"{"decision":"continue"}{"decision":"deny","reason":"x"}"#,
        r#"{"decision":"continue","decision":"deny"}"#,
        r#"{"decision":"deny"}"#,
        r#"{"decision":"deny","reason":7}"#,
        r#"{"decision":"answer"}"#,
        r#"{"decision":"answer","text":"x","failed":"no"}"#,
        r#"{"decision":"rewrite"}"#,
        r#"{"decision":"rewrite","call":[]}"#,
        r#"{"decision":"rewrite","call":{"model":"other"}}"#,
        r#"{"decision":"rewrite","call":{"arguments":"{}"}}"#,
        r#"{"decision":"rewrite","call":{"messages":[]}}"#,
        r#"{"decision":"rewrite","call":{"messages":[{"role":"system","parts":[]}]}}"#,
        r#"{"decision":"rewrite","call":{"messages":[{"role":"user","parts":[{"kind":"text","text":"x"}],"name":"y"}]}}"#,
        r#"{"decision":"rewrite","call":{"messages":[{"role":"tool","parts":[{"kind":"text","text":"x"}]}]}}"#,
        r#"{"decision":"rewrite","call":{"messages":[{"role":"tool","parts":[{"kind":"tool_result","id":"1","text":"x","failed":false}]}]}}"#,
    ];
    let told: Vec<String> = outputs.iter().map(|output| format!("{output}\n  {}", read(output).unwrap_err())).collect();
    insta::assert_snapshot!(told.join("\n"));
    assert!(Decision::read(b"{\"decision\":\"answer\",\"text\":\"caf\xE9\"}").is_err());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(read(&deep).is_err());
}

proptest! {
    #[test]
    fn no_output_is_more_than_a_decision_or_a_fault(output in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Decision::read(&output);
    }

    #[test]
    fn a_long_reason_is_cut(reason in ".{0,9000}") {
        let Decision::Deny { reason } = Decision::denied(&reason) else { unreachable!() };
        prop_assert!(reason.len() <= 4 << 10);
    }
}

/// Applies a decision to the call of each kind: turn, model, tool.
fn applied(decision: &str) -> [Result<HookDecision, String>; 3] {
    let each: Vec<_> = calls().into_iter().map(|call| read(decision).unwrap().apply(call, None)).collect();
    each.try_into().unwrap()
}

#[test]
fn a_call_is_rewritten_in_what_it_has_and_in_nothing_else() {
    let [turn, model, tool] = applied(r#"{"decision":"rewrite","call":{"system":"You sing."}}"#);
    let (Ok(HookDecision::Rewritten(Call::Turn(turn))), Ok(HookDecision::Rewritten(Call::Model(model)))) =
        (turn, model)
    else {
        unreachable!()
    };
    for (head, digest) in [(&turn.head, turn.head_digest), (&model.head, model.head_digest)] {
        assert_eq!(head.system, "You sing.");
        assert_eq!(digest, rondo_protocol::Digest::of(rondo_protocol::digest::Kind::Head, &**head).unwrap().0);
    }
    assert_eq!(tool.unwrap_err(), "`system` of a tool call cannot be rewritten: it has none");

    let messages = r#"[{"role":"user","parts":[{"kind":"text","text":"Sing."}]},
        {"role":"assistant","parts":[{"kind":"tool_call","id":"1","name":"look","arguments":"{}"}]},
        {"role":"tool","parts":[{"kind":"tool_result","id":"1","text":"seen","failed":false}]}]"#;
    let [turn, model, tool] = applied(&format!(r#"{{"decision":"rewrite","call":{{"messages":{messages}}}}}"#));
    let (Ok(HookDecision::Rewritten(Call::Turn(turn))), Ok(HookDecision::Rewritten(Call::Model(model)))) =
        (turn, model)
    else {
        unreachable!()
    };
    assert_eq!(turn.conversation, model.conversation);
    assert_eq!(turn.conversation.messages()[0], &Message::user("Sing."));
    assert_eq!(turn.conversation.messages()[2], &Message::tool("1", "seen", false));
    assert!(tool.is_err());

    let [turn, model, tool] = applied(r#"{"decision":"rewrite","call":{"arguments":{"b":1, "a":2.0}}}"#);
    assert_eq!(turn.unwrap_err(), "`arguments` of a turn call cannot be rewritten: it has none");
    assert!(model.is_err());
    let Ok(HookDecision::Rewritten(Call::Tool(tool))) = tool else { unreachable!() };
    assert_eq!(tool.arguments, r#"{"a":2,"b":1}"#);
}

#[test]
fn an_answer_fits_the_call_that_it_answers() {
    let [turn, model, tool] = applied(r#"{"decision":"answer","text":"done"}"#);
    assert_eq!(turn.unwrap_err(), "the role has no contract that an answer could keep");
    let Ok(HookDecision::Answered(Reply::Model(model))) = model else { unreachable!() };
    assert_eq!((model.reply.parts.text().as_ref(), model.usage), ("done", None));
    let Ok(HookDecision::Answered(Reply::Tool(tool))) = tool else { unreachable!() };
    assert_eq!((tool.text.as_str(), tool.failed), ("done", false));

    let [turn, model, tool] = applied(r#"{"decision":"answer","text":"no","failed":true}"#);
    assert_eq!(turn.unwrap_err(), "`failed` is for tool calls, and this is a turn call");
    assert!(model.is_err());
    assert!(matches!(tool, Ok(HookDecision::Answered(Reply::Tool(tool))) if tool.failed));
}

#[test]
fn a_denied_tool_call_is_a_failed_reply_and_the_others_are_faults() {
    let [turn, model, tool] = applied(r#"{"decision":"deny","reason":"not on Sundays"}"#);
    for denied in [turn, model] {
        assert!(matches!(denied, Ok(HookDecision::Denied(reason)) if reason == "not on Sundays"));
    }
    let Ok(HookDecision::DeniedTool(Reply::Tool(tool))) = tool else { unreachable!() };
    assert_eq!(tool.text, "error RN1505: this call is not made: not on Sundays");
    assert_eq!((tool.failed, tool.code.as_deref()), (true, Some("RN1505")));
}

#[test]
fn a_program_is_asked_in_one_line_of_json() {
    let mut asked = calls();
    if let Some(Call::Tool(call)) = asked.last_mut() {
        call.arguments = "{\"path\": \"s\\u0065crets/x\", \"a\": [1.0]}".to_owned();
        call.effect = rondo_protocol::call::Effect::Reads(vec!["secrets/x".to_owned()]);
    }
    let lines = asked.iter().map(|call| String::from_utf8(question::line(call, "guard").unwrap()).unwrap());
    let lines: Vec<String> = lines.collect();
    assert!(lines.iter().all(|line| line.ends_with("}\n") && line.matches('\n').count() == 1));
    insta::assert_snapshot!(lines.concat());
}

#[test]
fn a_call_that_is_too_long_is_not_handed_over() {
    let mut call = calls().remove(1);
    if let Call::Model(call) = &mut call {
        Arc::make_mut(&mut call.conversation).push(Message::user("x".repeat(33 << 20)));
    }
    assert_eq!(
        question::line(&call, "guard").unwrap_err(),
        "the call is longer than 32 MiB, which a program is not handed"
    );
}

#[test]
fn the_operator_may_be_stricter_than_the_file_and_not_laxer() {
    use OnHookError::{Bypass, Fail};

    for (is_required, file, expected) in
        [(false, Bypass, Bypass), (false, Fail, Fail), (true, Bypass, Fail), (true, Fail, Fail)]
    {
        assert_eq!(stricter(is_required, file), expected, "{is_required} {file:?}");
    }
    let settings = BTreeMap::from([("name".to_owned(), Value::from("guard"))]);
    let (at, kind) = (CallKind::Tool, "command".to_owned());
    let used = HookUse { at, on_error: Fail, roles: None, settings, kind };
    assert_eq!(Command::default().program(&used), Some("guard"));
}
