//! The form that a person fills in: `{prompt, statuses: [{status, fields: [{name, optional, schema}]}],
//! expires_at_ms}`. A chosen status, its fields and a body are the answer.

use rondo_protocol::Value;
use rondo_protocol::event;
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::Role;
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
