//! A provider whose replies and faults are redacted on entry.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall};
use rondo_protocol::object::{Finish, ModelReply};

use super::{Completion, Deltas, Model};
use crate::redact::{Redactor, StreamRedactor};

/// Redacts the replies of `M`. Requests are unchanged: they come from a thread and were redacted on entry.
#[derive(Debug, Clone)]
pub struct Redacting<M> {
    inner: M,
    redactor: Arc<Redactor>,
}

impl<M> Redacting<M> {
    pub fn new(inner: M, redactor: Arc<Redactor>) -> Self {
        Self { inner, redactor }
    }
}

impl<M: Model> Model for Redacting<M> {
    fn is_paid(&self) -> bool {
        self.inner.is_paid()
    }

    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        Box::pin(complete(&self.inner, &self.redactor, call, deltas))
    }
}

/// Makes one attempt at `provider` and redacts the reply with `redactor`, which may be that of one role.
///
/// # Errors
/// The provider's fault, with its message redacted.
///
/// # Cancel safety
/// As [`Model::complete`]; text held back is never released.
pub async fn complete(
    provider: &dyn Model,
    redactor: &Redactor,
    call: &ModelCall,
    deltas: &dyn Deltas,
) -> Result<ModelAnswer, Fault> {
    let redacting = RedactingDeltas { inner: deltas, stream: Mutex::new(redactor.stream()) };
    match provider.complete(call, &redacting).await {
        Ok(mut answer) => {
            redacting.finish();
            reply(redactor, &mut answer.reply);
            Ok(answer)
        }
        // The unsettled end of a cut reply is never released: it could be the beginning of a key.
        Err(mut fault) => {
            redactor.string(&mut fault.message);
            Err(fault)
        }
    }
}

/// Redacts every text of a finished reply separately.
pub fn reply(redactor: &Redactor, reply: &mut ModelReply) {
    let ModelReply { finish, parts } = reply;
    *parts = std::mem::take(parts).with_texts(&|text| redactor.string(text));
    if let Finish::Other(word) = finish {
        redactor.string(word);
    }
}

/// Deltas that hold back unsettled text.
struct RedactingDeltas<'a> {
    inner: &'a dyn Deltas,
    stream: Mutex<StreamRedactor>,
}

impl RedactingDeltas<'_> {
    fn finish(&self) {
        let rest = self.stream.lock().unwrap_or_else(PoisonError::into_inner).finish();
        if !rest.is_empty() {
            self.inner.text(&rest);
        }
    }
}

impl Deltas for RedactingDeltas<'_> {
    fn text(&self, text: &str) {
        let safe = self.stream.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        if !safe.is_empty() {
            self.inner.text(&safe);
        }
    }

    fn reserve(&self, reply_bytes: usize) -> BoxFuture<'_, ()> {
        self.inner.reserve(reply_bytes)
    }
}

#[cfg(test)]
mod tests {
    use rondo_protocol::call::FaultClass;
    use rondo_protocol::diagnostic::Code;
    use rondo_protocol::message::{Opaque, Part, ToolUse};

    use super::*;
    use crate::model::test_call;

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
                let tool =
                    ToolUse { arguments: format!("{{\"k\":\"{KEY}\"}}"), id: KEY.to_owned(), name: KEY.to_owned() };
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
        let model = Redacting::new(Leaking { fails }, Arc::new(redactor));
        let kept = Kept::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answered = runtime.block_on(model.complete(&test_call(), &kept));
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
    fn a_role_may_redact_more_of_a_provider_that_redacts() {
        use crate::redact::Pattern;

        let keys = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
        let role = keys.with_patterns([Pattern::new(r"(?<begun>sk-[a-z]+)").unwrap(), Pattern::new("bad|b").unwrap()]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [answered, failed] = [false, true].map(|fails| {
            let provider = Redacting::new(Leaking { fails }, Arc::new(keys.clone()));
            let kept = Kept::default();
            let answered = runtime.block_on(super::complete(&provider, &role, &test_call(), &kept));
            (answered, kept.0.into_inner().unwrap())
        });
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
}
