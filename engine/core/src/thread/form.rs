//! The form that a person fills in: `{prompt, statuses: [{status, fields: [{name, optional, schema}]}],
//! expires_at_ms}`. A chosen status, its fields and a body are the answer.

use rondo_protocol::event;
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::Role;
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

/// A form that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenForm {
    /// The child thread whose form it is; `None` for the thread's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The visit that needs the answer.
    pub visit: event::Visit,
    /// The form.
    pub form: Value,
}

impl OpenForm {
    /// The digest by which an answer names it; `thread` is the one that waits.
    pub fn digest(&self, thread: &ThreadId) -> Digest {
        event::form_digest(self.thread.as_ref().unwrap_or(thread), &self.visit, &self.form)
    }

    /// Whether it asks if a tool call may be made.
    pub fn is_approval(&self) -> bool {
        self.form.get("approval").is_some()
    }

    /// When it expires, in Unix milliseconds.
    pub fn expires_at_ms(&self) -> Option<u64> {
        match self.form.get("expires_at_ms") {
            Some(Value::Int(at)) => u64::try_from(*at).ok(),
            _ => None,
        }
    }

    /// Whether an answer to the form with that digest is for this one, and in time.
    pub fn takes(&self, form: Digest, thread: &ThreadId, now_ms: u64) -> bool {
        self.digest(thread) == form && self.expires_at_ms().is_none_or(|at| now_ms < at)
    }
}

/// The form of a role's visit. `expires_at_ms` is in Unix milliseconds.
pub(super) fn form(role: &Role, prompt: &str, expires_at_ms: Option<u64>) -> Value {
    let statuses = role.output.iter().map(|(status, fields)| {
        let fields = fields.iter().map(|(name, field)| {
            Value::from_iter([
                ("name", Value::from(name.as_str())),
                ("optional", Value::Bool(field.optional)),
                ("schema", field.schema.clone()),
            ])
        });
        Value::from_iter([("status", Value::from(status.as_str())), ("fields", Value::List(fields.collect()))])
    });
    Value::from_iter([
        ("prompt", Value::from(prompt)),
        ("statuses", Value::List(statuses.collect())),
        ("expires_at_ms", expires_at_ms.map_or(Value::Null, Value::from)),
    ])
}
