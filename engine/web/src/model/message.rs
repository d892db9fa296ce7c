//! A client's message: as the input of a workflow, or as the answer to a form.

use std::collections::BTreeMap;

use rondo::core::thread::OpenForm;
use rondo::core::{FilledForm, PersonSaid};
use rondo::failure::Failure;
use rondo::host::answering::{declared, role, statuses as statuses_of};
use rondo::protocol::diagnostic::Code;
use rondo::protocol::workflow::{Policy, Workflow};
use rondo::protocol::{Value, canonical};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message of a conversation. What it has besides is ignored.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AskedMessage")]
pub struct Message {
    pub role: String,
    content: Option<Content>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "AskedContent")]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// A part of a message; only texts are read.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AskedPart")]
struct ContentPart {
    #[serde(default)]
    text: String,
}

impl Message {
    pub fn new(role: &str, text: &str) -> Self {
        Self { role: role.to_owned(), content: Some(Content::Text(text.to_owned())) }
    }

    pub fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => parts.iter().map(|part| part.text.as_str()).collect(),
        }
    }
}

/// The name of the input that a message fills.
pub fn input_name(workflow: &Workflow, policy: &Policy) -> Result<String, Failure> {
    if let Some(name) = &policy.serve.message {
        return Ok(name.clone());
    }
    let required = workflow.input.iter().filter(|(_, field)| !field.optional && field.default_value().is_none());
    let mut meant: Vec<_> = required.collect();
    if meant.is_empty() {
        meant = workflow.input.iter().filter(|(_, field)| field.takes_text()).collect();
    }
    if let [(name, field)] = meant.as_slice()
        && field.takes_text()
    {
        return Ok(name.to_string());
    }
    let what = format!("the workflow {} does not say which input a message fills", workflow.name);
    Err(Failure::new(Code::MessageUnplaced, what).with_hint("add `serve: { message: INPUT }` to its file"))
}

/// The statuses of a form, each with the names of its fields.
pub fn statuses(form: &Value) -> Vec<(String, Vec<String>)> {
    let list = |value: Option<&Value>| match value {
        Some(Value::List(items)) => items.clone(),
        _ => Vec::new(),
    };
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of = |status: &Value| {
        let fields = list(status.get("fields"));
        (text(status, "status"), fields.iter().map(|field| text(field, "name")).collect())
    };
    list(form.get("statuses")).iter().map(of).collect()
}

/// What a message says to a form: JSON with a status, fields and body; a status alone on the first line, and a text below
/// it; or a text where the form has only one status. A word is none of these because a message begins with it.
pub fn said(text: &str, open: &OpenForm, workflow: &Workflow) -> Result<PersonSaid, Failure> {
    let text = text.trim();
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let word = first.trim().trim_matches(|c: char| matches!(c, '`' | '.' | ',' | ':' | '!')).to_lowercase();
    let role = role(workflow, &open.visit)?;
    if let Ok(Value::Object(mut members)) = canonical::parse(text.as_bytes()) {
        let mut take =
            |key| members.remove(key).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
        let (status, body): (String, String) = (take("status"), take("body"));
        let (status, _) = declared(role, &status)?;
        return Ok(PersonSaid::Form(FilledForm { status: status.clone(), fields: Value::Object(members), body }));
    }
    let chosen = role.output.iter().find(|(status, _)| status.as_str() == word);
    let (status, body) = match (chosen, role.output.as_slice()) {
        (Some((status, _)), _) => (status, rest.trim()),
        (None, [(status, _)]) => (status, text),
        (None, _) => {
            let what = "the first line of the message is no status of the form";
            return Err(Failure::new(Code::AnswerInvalid, what).with_hint(statuses_of(role)));
        }
    };
    let fields = Value::Object(BTreeMap::new());
    Ok(PersonSaid::Form(FilledForm { status: status.clone(), fields, body: body.to_owned() }))
}
