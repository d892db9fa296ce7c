use rondo_protocol::call::FaultClass;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::{Opaque, Part, ToolUse};

use super::*;
use crate::model::{Completion, test_call};

const KEY: &str = "sk-secret-0123456789";

/// A provider that leaks the key wherever it can.
struct Leaking {
    fails: bool,
}

impl Model for Leaking {
    fn complete<'a>(&'a self, _call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        Box::pin(async move {
            for piece in ["a sk-sec", "ret-01234567", "89 b ", KEY, " sk-secret"] {
                deltas.text(piece);
            }
            if self.fails {
                return Err(Fault::new(Code::KeyRefused, FaultClass::Refused, format!("bad key {KEY}")));
            }
            let tool = ToolUse { arguments: format!("{{\"k\":\"{KEY}\"}}"), id: KEY.to_owned(), name: KEY.to_owned() };
            let opaque = Some(Opaque { data: KEY.to_owned(), provider: "any".to_owned() });
            let parts = [
                Part::Reasoning { opaque, text: KEY.to_owned() },
                Part::Text { text: format!("a {KEY} b {KEY} sk-secret") },
                Part::ToolCall(tool),
            ];
            let reply = ModelReply { finish: Finish::Other(KEY.to_owned()), parts: parts.into_iter().collect() };
            Ok(ModelAnswer { reply, usage: None, cost_usd: None })
        })
    }
}

#[derive(Default)]
struct Kept(Mutex<String>);

impl Deltas for Kept {
    fn text(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

fn complete(fails: bool) -> (Result<ModelAnswer, Fault>, String) {
    let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
    complete_with(&redactor, fails)
}

fn complete_with(redactor: &Redactor, fails: bool) -> (Result<ModelAnswer, Fault>, String) {
    let kept = Kept::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answered = runtime.block_on(super::complete(&Leaking { fails }, redactor, &test_call(), &kept));
    (answered, kept.0.into_inner().unwrap())
}

/// Law `no_secret`, for replies.
#[test]
fn no_secret_enters_by_a_reply() {
    let (answered, deltas) = complete(false);
    let answer = answered.unwrap();
    assert!(!format!("{answer:?}{deltas}").contains(KEY));
    assert_eq!(deltas, answer.reply.parts.text());
    assert_eq!(deltas, "a [redacted:KEY] b [redacted:KEY] sk-secret");
    let asked = answer.reply.parts.tool_calls().next().unwrap();
    assert_eq!(asked.arguments, r#"{"k":"[redacted:KEY]"}"#);
}

/// A role's patterns apply after the operator's keys, to the pieces of a reply as to the whole.
#[test]
fn a_role_may_redact_more() {
    use crate::redact::Pattern;

    let keys = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
    let role = keys.with_patterns([Pattern::new(r"(?<begun>sk-[a-z]+)").unwrap(), Pattern::new("bad|b").unwrap()]);
    let [answered, failed] = [false, true].map(|fails| complete_with(&role, fails));
    let answer = answered.0.unwrap();
    assert_eq!(answered.1, "a [redacted:KEY] [redacted:pattern] [redacted:KEY] [redacted:begun]");
    assert_eq!(answer.reply.parts.text(), answered.1);
    assert_eq!(answer.reply.parts.reasoning().as_deref(), Some("[redacted:KEY]"));
    assert_eq!(failed.0.unwrap_err().message, "[redacted:pattern] key [redacted:KEY]");

    let mut again = answer.reply.clone();
    reply(&role, &mut again);
    assert_eq!(again, answer.reply);
}

/// Law `no_secret`, for faults.
#[test]
fn no_secret_enters_by_a_fault() {
    let (answered, deltas) = complete(true);
    assert_eq!(answered.unwrap_err().message, "bad key [redacted:KEY]");
    assert!(!deltas.contains(KEY));
}
