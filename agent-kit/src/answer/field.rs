//! A declared field: its name, its type and the validator of its values.

use rondo_protocol::Value;
use rondo_protocol::id::{FieldName, Status};
use rondo_protocol::workflow::Field;
use rondo_protocol::workflow::types::{Validator, Violation};

use super::quote;
use super::words::{self, excerpt};

/// The maximum length of a schema that a contract writes out.
const MAX_SCHEMA_WORDS_BYTES: usize = 4096;

/// The words for a list of texts, which a front matter shows in block style.
pub(super) const TEXTS: &str = "a list of texts";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` of status `{status}` has a schema that cannot be used: {reason}")]
pub struct InvalidSchema {
    pub status: Status,
    pub field: FieldName,
    pub reason: String,
}

#[derive(Debug, Clone)]
pub(super) struct DeclaredField {
    pub(super) name: FieldName,
    pub(super) optional: bool,
    pub(super) schema: Value,
    pub(super) shape: Shape,
    validator: Validator,
}

/// How a field is parsed and shown. Models write poor YAML, so texts are parsed by their declared type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Texts,
    Other,
}

impl DeclaredField {
    pub(super) fn new(status: &Status, name: &FieldName, field: &Field) -> Result<Self, InvalidSchema> {
        let invalid = |reason: String| InvalidSchema { status: status.clone(), field: name.clone(), reason };
        let validator = Validator::of_schema(&field.schema).map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            name: name.clone(),
            optional: field.optional,
            schema: field.schema.clone(),
            shape: Shape::of(&field.schema),
            validator,
        })
    }

    /// The value as it enters the thread; `None` for an optional field that is `null`: models write `null` to leave out
    /// a field that a strict schema requires.
    pub(super) fn accept(&self, value: Value) -> Result<Option<Value>, String> {
        if self.optional && value.is_null() {
            return Ok(None);
        }
        let Some(violation) = self.validator.violations(&value).into_iter().next() else {
            return Ok(Some(value));
        };
        let (name, words) = (&self.name, self.type_words());
        let Violation { pointer, message } = violation;
        let is_type = ["it is not of type", "it is not one of"].iter().any(|start| message.starts_with(start));
        Err(match pointer.as_str() {
            "" if is_type => format!("`{name}` must be {words}, not {}", found(&value)),
            "" => format!("`{name}` must be {words}: {message}"),
            pointer => format!("`{name}` must be {words}; at `{}` {message}", excerpt(pointer)),
        })
    }

    pub(super) fn type_words(&self) -> String {
        type_words(&self.schema)
    }

    /// The placeholder for the value in the form of a status, in angle brackets.
    pub(super) fn placeholder(&self) -> String {
        // The choices are not quoted, because a model would copy the quotes.
        let words = texts_of(&self.schema).map_or_else(|| self.type_words(), |choices| choices.join(" or "));
        self.place(&words)
    }

    /// Those words for a value, in angle brackets.
    pub(super) fn place(&self, words: &str) -> String {
        let description = match self.schema.get("description") {
            Some(Value::Str(text)) => format!(": {}", text.split_whitespace().collect::<Vec<_>>().join(" ")),
            _ => String::new(),
        };
        let optional = if self.optional { ", may be left out" } else { "" };
        format!("<{words}{optional}{description}>")
    }
}

impl Shape {
    fn of(schema: &Value) -> Self {
        if is_text(schema) {
            Self::Text
        } else if has_type(schema, "array") && schema.get("items").is_some_and(is_text) {
            Self::Texts
        } else {
            Self::Other
        }
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => format!("the number {number}"),
        Value::Float(number) => format!("the number {number}"),
        Value::Str(text) => format!("the text `{}`", excerpt(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn has_type(schema: &Value, name: &str) -> bool {
    schema.get("type").and_then(Value::as_str) == Some(name)
}

pub(super) fn is_text(schema: &Value) -> bool {
    has_type(schema, "string") || (schema.get("type").is_none() && texts_of(schema).is_some())
}

fn texts_of(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("enum") {
        Some(Value::List(items)) => items.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn type_words(schema: &Value) -> String {
    if let Some(choices) = texts_of(schema) {
        return words::join(choices.into_iter(), " or ");
    }
    let type_of = |schema: &'_ Value| schema.get("type").and_then(Value::as_str).map(str::to_owned);
    let simple = match (type_of(schema).as_deref(), schema.get("items")) {
        (Some("string"), _) => "a text",
        (Some("integer"), _) => "a whole number",
        (Some("number"), _) => "a number",
        (Some("boolean"), _) => "true or false",
        (Some("array"), Some(items)) if is_bare(items) => match type_of(items).as_deref() {
            Some("string") => TEXTS,
            Some("integer") => "a list of whole numbers",
            Some("number") => "a list of numbers",
            _ => "a list",
        },
        (Some("array"), _) => "a list",
        (Some("object"), _) => "an object",
        _ => "a value",
    };
    if is_bare(schema) && simple != "a list" && simple != "a value" {
        return simple.to_owned();
    }
    let mut json = String::new();
    quote::flow(&mut json, schema);
    if json.len() > MAX_SCHEMA_WORDS_BYTES {
        return "a value of the declared type".to_owned();
    }
    format!("{simple} that fits the JSON Schema {json}")
}

/// Whether the words for its type describe a schema completely; otherwise it is written out as JSON.
fn is_bare(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(key, member)| match key.as_str() {
            "type" => matches!(member.as_str(), Some("string" | "integer" | "number" | "boolean" | "array")),
            "items" => is_bare(member),
            "description" | "default" => true,
            _ => false,
        }),
        _ => false,
    }
}
