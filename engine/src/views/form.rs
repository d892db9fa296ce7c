//! The forms that a thread waits for, as `rondo show --json`, the API and the page have them.

use std::collections::BTreeMap;

use rondo_core::shown_call::ShownCall;
use rondo_core::thread::OpenForm;
use rondo_protocol::id::{FieldName, Status, ThreadId};
use rondo_protocol::{Digest, Value, event};
use schemars::JsonSchema;
use serde::Serialize;

/// A form that a thread waits for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FormView {
    /// The thread whose form it is: this one or a child.
    thread: ThreadId,
    #[serde(flatten)]
    visit: event::Visit,
    /// The digest by which an answer names the form.
    digest: Digest,
    #[schemars(with = "FormFields")]
    form: Value,
    /// The call that waits for approval, as a person reads it; `None` if none does.
    call: Option<ShownCall>,
    /// The JSON Schema of the answer; `None` if a tool call waits for approval.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    schema: Option<Value>,
}

/// A form, as its role gives it.
#[derive(JsonSchema)]
#[schemars(rename = "Form")]
#[expect(dead_code, reason = "only its schema is used")]
struct FormFields {
    /// What a person is asked.
    #[serde(default)]
    prompt: Option<String>,
    /// The statuses of an answer; none if a tool call waits for approval.
    statuses: Vec<FormStatus>,
    /// The tool call that waits for approval, if one does; `call` has it in readable form.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<BTreeMap<String, Value>>,
    /// In Unix milliseconds.
    #[serde(default)]
    expires_at_ms: Option<u64>,
}

/// A status of an answer, with its fields.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct FormStatus {
    status: Status,
    fields: Vec<FormField>,
}

/// A field of an answer.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct FormField {
    name: FieldName,
    optional: bool,
    /// The JSON Schema of its value.
    schema: BTreeMap<String, Value>,
}

impl FormView {
    pub fn new(thread: &ThreadId, open: &OpenForm) -> Self {
        let call = ShownCall::of_form(&open.form);
        Self {
            thread: open.thread.as_ref().unwrap_or(thread).clone(),
            digest: open.digest(thread),
            visit: open.visit.clone(),
            schema: call.is_none().then(|| answer_schema(&open.form)),
            form: open.form.clone(),
            call,
        }
    }
}

/// The schema of an answer: an object for each status, with the status, the fields and the body.
fn answer_schema(form: &Value) -> Value {
    let list = |value: Option<&Value>| match value {
        Some(Value::List(items)) => items.clone(),
        _ => Vec::new(),
    };
    let of_status = |status: &Value| {
        let word = status.get("status").cloned().unwrap_or(Value::Null);
        let mut properties = vec![("status".to_owned(), Value::from_iter([("const", word)]))];
        let mut required = vec![Value::from("status")];
        for field in list(status.get("fields")) {
            let name = field.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if field.get("optional") != Some(&Value::Bool(true)) {
                required.push(Value::from(name.as_str()));
            }
            properties.push((name, field.get("schema").cloned().unwrap_or(Value::Null)));
        }
        properties.push(("body".to_owned(), Value::from_iter([("type", Value::from("string"))])));
        Value::from_iter([
            ("type", Value::from("object")),
            ("properties", properties.into_iter().collect()),
            ("required", Value::List(required)),
            ("additionalProperties", Value::Bool(false)),
        ])
    };
    Value::from_iter([("oneOf", Value::List(list(form.get("statuses")).iter().map(of_status).collect()))])
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "thread_waiting")]
pub struct FormLine {
    #[serde(flatten)]
    form: FormView,
}

impl FormLine {
    pub fn new(thread: &ThreadId, open: &OpenForm) -> Self {
        Self { form: FormView::new(thread, open) }
    }
}
