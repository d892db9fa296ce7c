//! Visits that a person answers: open forms, the answers to them, and answers from a script.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rondo_agent_kit::model::scripted::Scripted;
use rondo_protocol::call::{Fault, FaultClass, Site, ToolCall, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event;
use rondo_protocol::id::{Status, ThreadId};
use rondo_protocol::object::{AnsweredBy, Note};
use rondo_protocol::{Digest, Value, canonical};
use serde::{Deserialize, Serialize};

use super::journal::ApprovalDecision;
use super::stop::until_stopped;
use super::tool_calls::ToolRunner;
use super::visit::{VisitContext, VisitResult, visit_of};
use crate::resolved_roles::BodyReader;
use crate::shown_call::ShownCall;
use crate::thread::{Answered, OpenForm, VisitEnd};

/// A person's answer to a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonAnswer {
    /// The child thread whose form it is; `None` for the thread's own.
    pub thread: Option<ThreadId>,
    /// The visit whose form it answers.
    pub visit: event::Visit,
    /// The digest of the form that was shown: an answer to another one is refused.
    pub form: Digest,
    /// What was said.
    pub said: PersonSaid,
    /// Who said it.
    pub by: Answerer,
}

/// Who answers a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// A person, by the name of their account.
    Person(String),
    /// A program that speaks for a model or passes on a chat, by the name that it gave itself. It approves no call.
    Client(String),
}

/// What a person said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonSaid {
    /// The answer of a role of `kind: human`.
    Form(FilledForm),
    /// Whether a tool call may be made.
    Approval {
        /// Whether it may.
        is_allowed: bool,
        /// Why not, for the role that asked for it.
        why: String,
    },
}

/// A form that was filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilledForm {
    /// The status.
    pub status: Status,
    /// The fields, an object.
    pub fields: Value,
    /// The body.
    pub body: String,
}

impl FilledForm {
    /// The answer as it enters the thread: canonical JSON of `{status, fields.., body}`.
    pub fn to_value(&self) -> Value {
        let fields = match &self.fields {
            Value::Object(fields) => fields.clone(),
            _ => BTreeMap::new(),
        };
        let own = [("status", Value::from(self.status.as_str())), ("body", Value::from(self.body.as_str()))];
        fields.into_iter().chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
    }
}

/// The approval of tool calls by a person who answers while the thread waits.
pub(super) struct DeferredApproval<'a> {
    /// What they have said and no form has taken yet.
    answer: &'a Mutex<Option<PersonAnswer>>,
    /// The form that the visit leaves them.
    asked: Mutex<Option<Value>>,
}

impl<'a> DeferredApproval<'a> {
    pub(super) fn new(answer: &'a Mutex<Option<PersonAnswer>>) -> Self {
        Self { answer, asked: Mutex::default() }
    }

    /// What they have said to this form, which asks for a call of this visit. Each answer is given once.
    pub(super) fn decision(&self, site: &Site, form: &Value) -> Option<ApprovalDecision> {
        let asked = event::form_digest(&site.thread, &visit_of(site), form);
        // The visit may ask for another call by now: only the one that was shown is decided.
        let answer = self.answer.lock().take_if(|answer| answer.form == asked)?;
        match (answer.said, answer.by) {
            (PersonSaid::Approval { is_allowed, why }, Answerer::Person(person)) => {
                Some(ApprovalDecision { is_allowed, why, person })
            }
            (PersonSaid::Form(_), _) | (_, Answerer::Client(_)) => None,
        }
    }

    /// Leaves them a form, unless they have one of this visit.
    pub(super) fn ask(&self, form: Value) {
        self.asked.lock().get_or_insert(form);
    }

    /// The form that they were left.
    pub(super) fn asked(&self) -> Option<Value> {
        self.asked.lock().take()
    }
}

/// The form that asks whether a tool call may be made: `{prompt, approval: {tool, call, position, effect, arguments},
/// statuses: [], expires_at_ms: null}`.
pub(super) fn approval(call: &ToolCall) -> Value {
    let asked = Value::from_iter([
        ("tool", Value::from(call.name.as_str())),
        ("call", Value::from(call.id.as_str())),
        ("position", Value::from(u64::from(call.site.position))),
        ("effect", Value::from(call.effect.name())),
        ("arguments", Value::from(call.arguments.as_str())),
    ]);
    Value::from_iter([
        ("prompt", Value::from(ShownCall::new(call).question())),
        ("approval", asked),
        ("statuses", Value::List(Vec::new())),
        ("expires_at_ms", Value::Null),
    ])
}

/// Reads an answer by the contract of its role.
///
/// # Errors
/// [`Code::AnswerInvalid`] with everything that is wrong.
pub fn read(contract: &BodyReader, answer: &Value) -> Result<Answered, Fault> {
    let BodyReader::Contract(contract) = contract else { return Err(invalid("the role takes no answer".to_owned())) };
    let text = answer.to_text();
    let read = contract.parse(&text).map_err(|fault| invalid(fault.to_string()))?;
    let (transcript, observations) = (None, Vec::new());
    Ok(Answered { status: read.status, output: read.output, answer: text, body: read.body, transcript, observations })
}

fn invalid(what: String) -> Fault {
    Fault::new(Code::AnswerInvalid, FaultClass::Contract, what)
}

/// The end of a visit by a person's answer, or by the fault of their not giving one.
pub(super) fn end(outcome: Result<Answered, Fault>, by: Option<Answerer>, now_ms: u64) -> VisitEnd {
    let (answered_by, person, client) = match by {
        None => (None, None, None),
        Some(Answerer::Person(name)) => (Some(AnsweredBy::Person), Some(name), None),
        Some(Answerer::Client(name)) => (Some(AnsweredBy::Client), None, Some(name)),
    };
    // The time of waiting is that of a person.
    let note = Note { person, client, answered_by, started_at_ms: now_ms, ended_at_ms: now_ms, ..Note::default() };
    VisitEnd::of(outcome, note)
}

/// The fault of a form that nobody answered.
pub(super) fn expired(form: &OpenForm) -> Fault {
    let message = format!("nobody answered the form of {} in time", form.visit.role);
    Fault::new(Code::FormExpired, FaultClass::Timeout, message)
}

/// Answers a form from a script. `attempts` is the number of the role's earlier attempts in this lane.
pub(super) async fn play(
    context: &VisitContext<'_>,
    contract: &BodyReader,
    script: &Scripted,
    site: Site,
    attempts: u64,
) -> Result<VisitResult, Fault> {
    let mut tool_runner = ToolRunner::new(context, &site)?;
    let played = until_stopped(context, tool_runner.played(script, &site, attempts)).await;
    let result = played.and_then(|text| {
        let value: Value = canonical::from_slice(text.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        let Answered { status, output, answer, body, .. } = read(contract, &value)?;
        let answered_by = Some(AnsweredBy::Port);
        Ok(TurnReply { output, body, answered_by, ..TurnReply::said(status, answer) })
    });
    let attempts = tool_runner.journal.attempts + u64::from(result.is_ok());
    let visited = tool_runner.end(&site, result);
    Ok(VisitResult { note: Note { attempts, ..visited.note }, ..visited })
}
