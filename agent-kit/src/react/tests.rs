use std::collections::{BTreeMap, VecDeque};

use futures_util::future::BoxFuture;
use rondo_protocol::call::{FaultClass, ModelAnswer, Reply, ToolReply};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo_protocol::message::Message;
use rondo_protocol::message::ToolUse;
use rondo_protocol::object::{AnsweredBy, Entry, Finish, ModelReply, Parameters};
use rondo_protocol::workflow::AnswerFormat;

use super::*;
use crate::effects::{Performed, Sent, Verdict};

/// Answers from a list and keeps what it was asked.
struct Listed {
    replies: VecDeque<Reply>,
    asked: Vec<String>,
    verdicts: Vec<Verdict>,
}

impl Effects for Listed {
    fn perform(&mut self, call: Call) -> BoxFuture<'_, Result<Performed, Fault>> {
        let sent = match &call {
            Call::Model(call) => {
                let texts: Vec<&str> = call.conversation.messages().iter().map(|m| m.text.as_str()).collect();
                self.asked.push(format!("model {}: {}", call.site.position, texts.join(" | ")));
                let (head, request) = (call.head_digest, call.request());
                Some(Sent { head, request, asked: None, model: "m".to_owned(), fallback: None })
            }
            Call::Tool(call) => {
                self.asked.push(format!("tool {}: {}({})", call.site.position, call.name, call.arguments));
                None
            }
            Call::Turn(_) => None,
        };
        let reply = self.replies.pop_front().expect("the list has a reply for each call");
        Box::pin(std::future::ready(Ok(Performed { reply, answered_by: AnsweredBy::Port, sent })))
    }

    fn settle(&mut self, verdict: Verdict) -> BoxFuture<'_, ()> {
        self.verdicts.push(verdict);
        Box::pin(std::future::ready(()))
    }
}

fn says(text: &str, finish: Finish, tools: &[&str]) -> Reply {
    let tool = |name: &&str| ToolUse { arguments: "{}".to_owned(), id: format!("id-{name}"), name: (*name).to_owned() };
    let tool_calls = tools.iter().map(tool).collect();
    let reply = ModelReply { finish, reasoning: None, text: text.to_owned(), tool_calls };
    Reply::Model(ModelAnswer { reply, usage: None, cost_usd: Some(0.5) })
}

fn turn(replies: Vec<Reply>) -> (Result<TurnReply, Fault>, Listed) {
    let output = vec![(Status::new("yes_done").unwrap(), Vec::new()), (Status::new("redo").unwrap(), Vec::new())];
    let agent = Agent {
        contract: Contract::new(AnswerFormat::Frontmatter, &output).unwrap(),
        model: "default".to_owned(),
        model_calls: 4,
        tool_calls: 3,
        effects: BTreeMap::new(),
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
    let mut effects = Listed { replies: replies.into(), asked: Vec::new(), verdicts: Vec::new() };
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
fn tools_are_answered_in_the_order_asked_and_then_the_model_goes_on() {
    let done = |text: &str| Reply::Tool(ToolReply { text: text.to_owned(), failed: false });
    let asks = says("", Finish::ToolCalls, &["a", "b"]);
    let (reply, effects) = turn(vec![asks, done("one"), done("two"), says(GOOD, Finish::Stop, &[])]);
    assert_eq!(effects.asked, ["model 0: Write.", "tool 1: a({})", "tool 2: b({})", "model 3: Write. |  | one | two"]);
    assert_eq!(reply.unwrap().transcript.entries.len(), 4);
}

#[test]
fn endless_calls_reach_a_limit() {
    let asks = || says("", Finish::ToolCalls, &["a"]);
    let done = || Reply::Tool(ToolReply { text: String::new(), failed: true });
    let (reply, _) = turn(vec![asks(), done(), asks(), done(), asks(), done(), asks()]);
    assert_eq!(reply.unwrap_err().code, rondo_protocol::diagnostic::Code::StepLimit);
}
