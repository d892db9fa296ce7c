use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Effect, FaultClass, ModelAnswer, Reply, ToolReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::file::File;
use rondo_protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo_protocol::message::Message;
use rondo_protocol::message::{Parts, ToolUse};
use rondo_protocol::object::{AnsweredBy, Entry, Finish, Head, ModelReply, Parameters};
use rondo_protocol::read_set::{FileStamp, ReadEntry, ReadKind, ReadSet};
use rondo_protocol::workflow::AnswerFormat;
use rondo_protocol::{Digest, Value};

use super::*;
use crate::effects::{Performed, Sent, Verdict};
use crate::tool::{Content, Error, Invocation, Origin, Spec, Tool, ToolSet};

/// Answers from a list and records the calls.
struct Listed {
    replies: VecDeque<Reply>,
    asked: Vec<String>,
    /// The conversations sent to the model, kept as a hook might keep them.
    kept: Vec<Arc<Conversation>>,
    verdicts: Vec<Verdict>,
    answered: Vec<String>,
}

impl Effects for Listed {
    fn perform(&mut self, call: Call) -> BoxFuture<'_, Result<Performed, Fault>> {
        let sent = match &call {
            Call::Model(call) => {
                let texts: Vec<_> = call.conversation.messages().into_iter().map(Message::text).collect();
                self.asked.push(format!("model {}: {}", call.site.position, texts.join(" | ")));
                let (head, request) = (call.head_digest, call.request());
                self.kept.push(Arc::clone(&call.conversation));
                Some(Sent { head, request, asked: None, model: "m".to_owned(), fallback: None })
            }
            Call::Tool(_) | Call::Turn(_) => None,
        };
        let reply = self.replies.pop_front().expect("the list has a reply for each call");
        Box::pin(std::future::ready(Ok(Performed { reply, answered_by: AnsweredBy::Port, sent })))
    }

    fn perform_side_by_side(&mut self, calls: Vec<ToolCall>) -> BoxFuture<'_, Result<Vec<Performed>, Fault>> {
        let asked = calls.iter().map(|call| format!("{} {}({})", call.site.position, call.name, call.arguments));
        self.asked.push(format!("tools {}", asked.collect::<Vec<_>>().join(", ")));
        let reply = |_| self.replies.pop_front().expect("the list has a reply for each call");
        let replies =
            calls.iter().map(reply).map(|reply| Performed { reply, answered_by: AnsweredBy::Port, sent: None });
        let replies = replies.collect();
        Box::pin(std::future::ready(Ok(replies)))
    }

    fn answered(&mut self, call: ToolCall, _: ToolReply) -> BoxFuture<'_, ()> {
        self.answered.push(call.name);
        Box::pin(std::future::ready(()))
    }

    fn settle(&mut self, refused: Option<String>) -> BoxFuture<'_, ()> {
        self.verdicts.push(if refused.is_some() { Verdict::Refused } else { Verdict::Accepted });
        Box::pin(std::future::ready(()))
    }
}

/// A tool that takes a path and does nothing.
struct Idle(Spec, Effect);

impl Tool for Idle {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn effect(&self, _: &Value) -> Effect {
        self.1.clone()
    }

    fn run<'a>(&'a self, _: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(std::future::ready(Ok(Content::default())))
    }
}

fn toolbox() -> Toolbox {
    let mut tools = ToolSet::default();
    let of = |name: &str, effect: Effect| {
        let parameters = r#"{"properties":{"path":{"type":"string"}},"type":"object"}"#.to_owned();
        let (name, description, origin) = (name.to_owned(), String::new(), Origin::BuiltIn);
        Arc::new(Idle(Spec { name, description, parameters, origin }, effect))
    };
    tools.add(of("a", Effect::Pure)).unwrap();
    tools.add(of("b", Effect::Reads(Vec::new()))).unwrap();
    tools.add(of("fs.write", Effect::Writes(Vec::new()))).unwrap();
    tools.add(of("secret", Effect::External)).unwrap();
    let named = ["a", "b", "fs.*", "secret", "missing.*"].map(str::to_owned);
    Toolbox::new(&named, &tools, |tool| (tool.spec().name == "secret").then(|| "no grant for secret".to_owned()))
}

fn says(text: &str, finish: Finish, tools: &[&str]) -> Reply {
    let tool = |name: &&str| ToolUse { arguments: "{}".to_owned(), id: format!("id-{name}"), name: (*name).to_owned() };
    let reply = ModelReply { finish, parts: Parts::asking(text, tools.iter().map(tool)) };
    Reply::Model(ModelAnswer { reply, usage: None, cost_usd: Some(0.5) })
}

fn turn(replies: Vec<Reply>) -> (Result<TurnReply, Fault>, Listed) {
    turn_with(3, replies)
}

fn turn_with(tool_calls: u64, replies: Vec<Reply>) -> (Result<TurnReply, Fault>, Listed) {
    let output = vec![(Status::new("yes_done").unwrap(), Vec::new()), (Status::new("redo").unwrap(), Vec::new())];
    let agent = Agent {
        repairs: super::REPAIRS,
        contract: Contract::new(AnswerFormat::Frontmatter, &output).unwrap(),
        model: "default".to_owned(),
        model_calls: tool_calls + 1,
        tool_calls,
        tools: toolbox(),
    };
    let head = Head {
        model: "m".to_owned(),
        parameters: Parameters::default(),
        response_format: None,
        system: String::new(),
        tools: Vec::new(),
    };
    let call = TurnCall {
        site: Site {
            thread: ThreadId::from_parts(1, 1),
            role: RoleName::new("writer").unwrap(),
            lane: LanePath::trunk(),
            visit: 1,
            position: 0,
        },
        head_digest: Digest::of(Kind::Head, &head).unwrap().0,
        head: Arc::new(head),
        conversation: Arc::new([Message::user("Write.")].into_iter().collect()),
    };
    let mut effects = Listed {
        replies: replies.into(),
        asked: Vec::new(),
        kept: Vec::new(),
        verdicts: Vec::new(),
        answered: Vec::new(),
    };
    let result = futures_util::FutureExt::now_or_never(run(&agent, call.clone(), &call, &mut effects));
    (result.expect("a list never waits"), effects)
}

const GOOD: &str = "---\nstatus: yes_done\n---\n\nFine.";

#[test]
fn an_answer_that_keeps_its_contract_ends_the_turn() {
    let (reply, effects) = turn(vec![says(GOOD, Finish::Stop, &[])]);
    let reply = reply.unwrap();
    assert_eq!((reply.status.as_str(), reply.answer.as_str(), reply.body.as_str()), ("yes_done", GOOD, "Fine."));
    assert_eq!(effects.asked, ["model 0: Write."]);
    assert_eq!(effects.verdicts, [Verdict::Accepted]);
}

#[test]
fn a_broken_answer_is_sent_back_in_the_same_conversation_and_the_third_fails() {
    let (reply, effects) = turn(vec![says("what?", Finish::Stop, &[]), says(GOOD, Finish::Stop, &[])]);
    let reply = reply.unwrap();
    assert_eq!(reply.transcript.entries.len(), 3);
    let Some(Entry::Repair { text }) = reply.transcript.entries.get(1) else { panic!("no repair") };
    assert_eq!(effects.asked[1], format!("model 1: Write. | what? | {text}"));
    assert_eq!(effects.verdicts, [Verdict::Refused, Verdict::Accepted]);
    assert_eq!(reply.cost_usd, Some(1.0));

    let bad = || says("what?", Finish::Stop, &[]);
    let (reply, effects) = turn(vec![bad(), bad(), bad()]);
    assert_eq!(reply.unwrap_err().class, FaultClass::Contract);
    assert_eq!(effects.asked.len(), 3);
}

#[test]
fn an_answer_that_was_cut_is_not_taken_for_whole() {
    let (reply, effects) = turn(vec![says(GOOD, Finish::Length, &[]), says(GOOD, Finish::Stop, &[])]);
    assert!(reply.is_ok());
    assert_eq!(effects.verdicts, [Verdict::Refused, Verdict::Accepted]);
}

#[test]
fn what_a_cut_reply_asks_for_is_answered_and_not_done() {
    let cut = || says("Let me", Finish::Length, &["fs__write", "a"]);
    let (reply, effects) = turn_with(20, vec![cut(), says(GOOD, Finish::Stop, &[])]);
    let reply = reply.unwrap();
    let told = "error RN1606: the reply was cut at its output limit, so none of its calls was made; call again and say \
                less in one reply";
    assert_eq!(results(&reply), [told, told]);
    assert_eq!(effects.asked, ["model 0: Write.".to_owned(), format!("model 3: Write. | Let me | {told} | {told}")]);
    assert_eq!(effects.answered, ["fs__write", "a"]);
    assert_eq!(effects.verdicts, [Verdict::Refused, Verdict::Accepted]);

    // It counts as an answer that needs a repair, with the same limit.
    let (reply, effects) = turn_with(20, vec![cut(), cut(), cut()]);
    assert_eq!(reply.unwrap_err().code, Code::ContractBroken);
    assert_eq!(effects.asked.len(), 3);
}

#[test]
fn what_a_reply_asks_for_that_was_withheld_or_ended_nobody_knows_how_is_not_done() {
    for (finish, code) in
        [(Finish::ContentFilter, Code::AnswerWithheld), (Finish::Other("anything".to_owned()), Code::ReplyUnreadable)]
    {
        for tools in [&["fs__write"][..], &[]] {
            let (reply, effects) = turn(vec![says(GOOD, finish.clone(), tools)]);
            assert_eq!(reply.unwrap_err().code, code);
            assert_eq!((effects.asked.len(), effects.answered.len()), (1, 0));
        }
    }
}

#[test]
fn a_round_of_tools_copies_nothing_of_the_conversation() {
    let (reply, effects) = turn_with(20, vec![asks(&[("1", "a", "{}")]), done("it"), says(GOOD, Finish::Stop, &[])]);
    reply.unwrap();
    let [first, second] = effects.kept.as_slice() else { panic!("two requests") };
    assert_eq!((first.len(), second.len()), (1, 3));
    assert!(std::ptr::eq(first.messages()[0], second.messages()[0]));
}

fn done(text: &str) -> Reply {
    Reply::Tool(ToolReply::said(text))
}

/// A reply with tool calls: id, name and arguments of each.
fn asks(uses: &[(&str, &str, &str)]) -> Reply {
    let use_of = |(id, name, arguments): &(&str, &str, &str)| ToolUse {
        arguments: (*arguments).to_owned(),
        id: (*id).to_owned(),
        name: (*name).to_owned(),
    };
    let reply = ModelReply { finish: Finish::ToolCalls, parts: Parts::asking("", uses.iter().map(use_of)) };
    Reply::Model(ModelAnswer { reply, usage: None, cost_usd: None })
}

/// The texts of the tool results of a turn, in order.
fn results(reply: &TurnReply) -> Vec<&str> {
    let mut texts = Vec::new();
    for entry in &reply.transcript.entries {
        if let Entry::Tool { text, .. } = entry {
            texts.push(text.as_str());
        }
    }
    texts
}

#[test]
fn a_turn_keeps_files_up_to_its_limits_and_tells_of_the_others() {
    let file = |size: usize| File::new("a.txt", vec![b'a'; size]);
    let with = |files: Vec<File>| Reply::Tool(ToolReply { files, ..ToolReply::said("seen") });
    let asks = || asks(&[("1", "a", "{}"), ("2", "b", "{}")]);
    for (files, counts, told) in [
        ([vec![file(20 << 20), file(20 << 20)], vec![file(12 << 20), file(1)]], [1, 1], true),
        ([(0..60).map(file).collect(), (0..60).map(file).collect()], [60, 40], true),
        ([vec![file(1)], vec![file(32 << 19)]], [1, 1], false),
    ] {
        let [first, second] = files.map(with);
        let (reply, _) = turn_with(20, vec![asks(), first, second, says(GOOD, Finish::Stop, &[])]);
        let reply = reply.unwrap();
        let kept = reply.transcript.entries.iter().filter_map(|entry| match entry {
            Entry::Tool { files, .. } => Some(files.len()),
            Entry::Model { .. } | Entry::Repair { .. } => None,
        });
        assert_eq!(kept.collect::<Vec<_>>(), counts);
        assert_eq!(
            results(&reply)[1].contains("files left out: a step keeps 100 files of tools, of 32 MiB in all"),
            told
        );
    }
}

#[test]
fn tools_that_change_nothing_run_side_by_side_and_are_answered_in_the_order_asked() {
    let asks = says("", Finish::ToolCalls, &["a", "b"]);
    let (reply, effects) = turn(vec![asks, done("one"), done("two"), says(GOOD, Finish::Stop, &[])]);
    assert_eq!(effects.asked, ["model 0: Write.", "tools 1 a({}), 2 b({})", "model 3: Write. |  | one | two"]);
    assert_eq!(reply.unwrap().transcript.entries.len(), 4);
}

#[test]
fn a_tool_that_changes_something_runs_alone_and_after_what_was_asked_before() {
    let asks = asks(&[("1", "a", ""), ("2", "fs__write", "{}"), ("3", "fs.write", "{}"), ("4", "b", "{}")]);
    let replies = vec![asks, done("one"), done("two"), done("three"), done("four"), says(GOOD, Finish::Stop, &[])];
    let (reply, effects) = turn_with(20, replies);
    let asked = ["tools 1 a()", "tools 2 fs.write({})", "tools 3 fs.write({})", "tools 4 b({})"];
    assert_eq!(effects.asked.get(1..5).unwrap(), asked);
    assert_eq!(results(&reply.unwrap()), ["one", "two", "three", "four"]);
}

#[test]
fn calls_that_cannot_be_made_are_answered_by_the_loop_and_told_apart() {
    let wrong = [
        ("", "a", "{}"),
        ("1", "a", r#"{"path":1}"#),
        ("1", "a", "{}"),
        ("2", "unknown", "{}"),
        ("3", "a", "{\"path\": "),
        ("4", "a", "[]"),
        ("5", "a", r#"{"path":"x","path":"y"}"#),
    ];
    let (reply, effects) = turn_with(20, vec![asks(&wrong), says(GOOD, Finish::Stop, &[])]);
    assert_eq!(effects.asked.len(), 2, "no tool was called: {:?}", effects.asked);
    assert_eq!(effects.answered, ["a", "a", "a", "unknown", "a", "a", "a"]);
    let reply = reply.unwrap();
    let codes: Vec<&str> = results(&reply).iter().map(|text| text.get(..13).unwrap()).collect();
    let code = |number: u32| format!("error RN{number}:");
    assert_eq!(codes, [1603, 1602, 1603, 1601, 1602, 1602, 1602].map(code));
}

#[test]
fn a_tool_that_is_not_granted_or_not_there_ends_the_run_before_any_call_of_the_reply() {
    for (name, code) in [("secret", Code::ToolNotGranted), ("missing__x", Code::ToolLacking)] {
        let (reply, effects) = turn(vec![asks(&[("1", "a", "{}"), ("2", name, "{}")])]);
        let fault = reply.unwrap_err();
        assert_eq!((fault.class, fault.code), (FaultClass::Denied, code));
        assert_eq!(effects.asked.len(), 1);
    }
}

#[test]
fn identical_calls_stop_after_three_unless_something_changed() {
    let read = || asks(&[("1", "a", r#"{ "path": "x" }"#)]);
    let again = || asks(&[("2", "a", r#"{"path":"x"}"#)]);
    let write = || asks(&[("3", "fs__write", "{}")]);
    let mut replies = vec![read(), done("1"), again(), done("2"), read(), done("3"), again(), write(), done("w")];
    replies.extend([read(), done("4"), says(GOOD, Finish::Stop, &[])]);
    let (reply, _) = turn_with(20, replies);
    let reply = reply.unwrap();
    let results = results(&reply);
    assert!(results[3].starts_with("error RN1604: a was called with these arguments 3 times"), "{}", results[3]);
    assert_eq!([results[0], results[2], results[4], results[5]], ["1", "3", "w", "4"]);
}

#[test]
fn a_failed_change_does_not_start_the_count_anew_and_a_change_is_counted_itself() {
    let failed = || Reply::Tool(ToolReply::failed("no", None));
    let write = || asks(&[("3", "fs__write", "{}")]);
    let mut replies = vec![write(), failed(), write(), done("1"), write(), done("2"), write()];
    replies.push(says(GOOD, Finish::Stop, &[]));
    let (reply, _) = turn_with(20, replies);
    assert!(results(&reply.unwrap())[3].starts_with("error RN1604"));
}

#[test]
fn endless_calls_reach_a_limit_before_more_is_done() {
    let asks = || says("", Finish::ToolCalls, &["a"]);
    let (reply, _) = turn(vec![asks(), done(""), asks(), done(""), asks(), done(""), asks()]);
    assert_eq!(reply.unwrap_err().code, Code::StepLimit);
    let (reply, effects) = turn(vec![says("", Finish::ToolCalls, &["a", "b", "a", "b"])]);
    assert_eq!(reply.unwrap_err().code, Code::StepLimit);
    assert_eq!(effects.asked.len(), 1);
}

#[test]
fn a_long_result_is_shown_cut_and_kept_whole() {
    let long = "x".repeat(crate::conversation::SHOWN_MAX_BYTES * 2);
    let (reply, effects) = turn(vec![asks(&[("1", "a", "{}")]), done(&long), says(GOOD, Finish::Stop, &[])]);
    assert_eq!(results(&reply.unwrap()), [long.as_str()]);
    let shown = effects.asked.last().unwrap();
    assert!(shown.contains("[cut: 32832 bytes left out]"), "{}", shown.len());
    assert!(shown.len() < crate::conversation::SHOWN_MAX_BYTES + 200);
}

fn read_entry(path: &str, size_bytes: u64) -> ReadEntry {
    let mark = FileStamp { size_bytes, modified: (1, 0), changed: (1, 0), device: 1, inode: 1 };
    ReadEntry { path: path.to_owned(), kind: ReadKind::File, mark: Some(mark), digest: None, read_bytes: 0 }
}

fn saw(read_entries: &[ReadEntry]) -> Reply {
    Reply::Tool(ToolReply { seen: Some(ReadSet { read_entries: read_entries.to_vec() }), ..ToolReply::said("seen") })
}

/// The read set of a turn whose calls, with these arguments, got these replies.
fn seen_by(calls: &[(&str, &str, Reply)]) -> Option<ReadSet> {
    let ids: Vec<String> = (0..calls.len()).map(|index| index.to_string()).collect();
    let uses: Vec<_> =
        calls.iter().zip(&ids).map(|((name, arguments, _), id)| (id.as_str(), *name, *arguments)).collect();
    let mut replies = vec![asks(&uses)];
    replies.extend(calls.iter().map(|(_, _, reply)| reply.clone()));
    replies.push(says(GOOD, Finish::Stop, &[]));
    turn_with(20, replies).0.unwrap().seen
}

#[test]
fn a_turn_that_only_looked_tells_what_its_calls_saw_each_name_once() {
    let (reply, _) = turn(vec![says("what?", Finish::Stop, &[]), says(GOOD, Finish::Stop, &[])]);
    assert_eq!(reply.unwrap().seen, Some(ReadSet::default()), "nothing was looked at");
    let calls = vec![
        ("b", r#"{"path":"x"}"#, saw(&[read_entry("x", 1), read_entry("y", 1)])),
        ("a", "{}", done("pure")),
        ("b", r#"{"path":"y"}"#, saw(&[read_entry("a", 1), read_entry("y", 1)])),
    ];
    assert_eq!(
        seen_by(&calls),
        Some(ReadSet { read_entries: vec![read_entry("a", 1), read_entry("x", 1), read_entry("y", 1)] })
    );
}

#[test]
fn a_turn_that_did_more_or_cannot_tell_says_so() {
    let ok = || ("b", r#"{"path":"x"}"#, saw(&[read_entry("x", 1)]));
    assert!(seen_by(&[ok()]).is_some());
    let mut failed = saw(&[]);
    if let Reply::Tool(reply) = &mut failed {
        reply.failed = true;
    }
    let doubts = [
        ("something changed in between", ("b", "{}", saw(&[read_entry("x", 2)]))),
        ("a call does not say", ("b", "{}", done("read"))),
        ("a call failed", ("b", "{}", failed.clone())),
        ("a pure call failed", ("a", "{}", failed)),
        ("a call wrote", ("fs.write", "{}", saw(&[]))),
    ];
    for (why, doubt) in doubts {
        assert_eq!(seen_by(&[ok(), doubt.clone()]), None, "{why}");
        assert_eq!(seen_by(&[doubt, ok()]), None, "{why}");
    }
    // The loop answers these itself.
    let answered = asks(&[("1", "b", "{}"), ("2", "unknown", "{}")]);
    let (reply, _) = turn(vec![answered, saw(&[]), says(GOOD, Finish::Stop, &[])]);
    assert_eq!(reply.unwrap().seen, None);
}

#[test]
fn what_a_turn_saw_is_bounded() {
    let read_entries =
        |from: u64, to: u64| saw(&(from..to).map(|n| read_entry(&format!("{n:05}"), 1)).collect::<Vec<_>>());
    let within = seen_by(&[("b", "{}", read_entries(0, 10_000)), ("b", "{ }", read_entries(5_000, 20_000))]);
    assert_eq!(within.unwrap().read_entries.len(), 20_000);
    assert_eq!(seen_by(&[("b", "{}", read_entries(0, 10_000)), ("b", "{ }", read_entries(9_999, 20_001))]), None);
}
