//! One declared field: its name, its type and the validator of its values.

use std::fmt::Write as _;

use rondo_protocol::Value;
use rondo_protocol::id::{FieldName, Status};
use rondo_protocol::workflow::Field;

use super::quote;
use super::words::{self, excerpt};

/// The longest schema that is written out in the words of a contract.
const MAX_SCHEMA_WORDS_BYTES: usize = 4096;

/// The words for a list of texts, which a front matter shows in block style.
pub(super) const TEXTS: &str = "a list of texts";

/// The size of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A declared field whose JSON Schema cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` of status `{status}` has a schema that cannot be used: {reason}")]
pub struct InvalidSchema {
    /// The status.
    pub status: Status,
    /// The field.
    pub field: FieldName,
    /// Why, in the words of the validator.
    pub reason: String,
}

/// A declared field, ready to judge values.
#[derive(Debug, Clone)]
pub(super) struct DeclaredField {
    pub(super) name: FieldName,
    pub(super) optional: bool,
    pub(super) schema: Value,
    pub(super) shape: Shape,
    validator: jsonschema::Validator,
}

/// How a field is read and shown. Models write poor YAML, so texts are read by their declared type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text, perhaps one of several.
    Text,
    /// A list of texts.
    Texts,
    /// Anything else.
    Other,
}

impl DeclaredField {
    pub(super) fn new(status: &Status, name: &FieldName, field: &Field) -> Result<Self, InvalidSchema> {
        let invalid = |reason: String| InvalidSchema { status: status.clone(), field: name.clone(), reason };
        let schema = serde_json::to_value(&field.schema).map_err(|error| invalid(error.to_string()))?;
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES))
            .build(&schema)
            .map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            name: name.clone(),
            optional: field.optional,
            schema: field.schema.clone(),
            shape: Shape::of(&field.schema),
            validator,
        })
    }

    /// The value as it enters the thread; `None` for an optional field that is given as `null` and may not be `null`,
    /// which is how models leave out what a strict schema makes them write.
    pub(super) fn accept(&self, value: Value) -> Result<Option<Value>, String> {
        let name = &self.name;
        // An integer that JSON Schema's usual readers cannot hold is within no declared type.
        let Ok(instance) = serde_json::to_value(&value) else {
            return Err(format!("`{name}` holds a number that is too large"));
        };
        let Some(error) = self.validator.iter_errors(&instance).next() else {
            return Ok(Some(value));
        };
        if self.optional && value.is_null() {
            return Ok(None);
        }
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!(" at `{}`", excerpt(&place)) };
        Err(format!("`{name}` must be {}{place}: {}", self.type_words(), excerpt(&error.to_string())))
    }

    /// The type in words, such as `a whole number`.
    pub(super) fn type_words(&self) -> String {
        type_words(&self.schema)
    }

    /// What stands for a value of type `words` in the form of a status, in angle brackets.
    pub(super) fn placeholder(&self, words: &str) -> String {
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
        } else if is_list(schema) && schema.get("items").is_some_and(is_text) {
            Self::Texts
        } else {
            Self::Other
        }
    }
}

fn has_type(schema: &Value, name: &str) -> bool {
    schema.get("type").and_then(Value::as_str) == Some(name)
}

fn is_list(schema: &Value) -> bool {
    has_type(schema, "array")
}

fn is_text(schema: &Value) -> bool {
    has_type(schema, "string") || (schema.get("type").is_none() && texts_of(schema).is_some())
}

/// The choices of an enum of texts.
fn texts_of(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("enum") {
        Some(Value::List(items)) => items.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn type_words(schema: &Value) -> String {
    if let Some(choices) = texts_of(schema) {
        return words::choice(choices.into_iter());
    }
    let simple = match schema.get("type").and_then(Value::as_str) {
        Some("string") => "a text",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") if schema.get("items").is_some_and(|items| is_text(items) && texts_of(items).is_none()) => TEXTS,
        _ => "",
    };
    let plain = |key: &str| matches!(key, "type" | "items" | "description" | "default");
    let has_more = match schema {
        Value::Object(members) => members.keys().any(|key| !plain(key)),
        _ => true,
    };
    if !simple.is_empty() && !has_more {
        return simple.to_owned();
    }
    let mut json = String::new();
    quote::flow(&mut json, schema);
    if json.len() > MAX_SCHEMA_WORDS_BYTES {
        return "a value of the declared type".to_owned();
    }
    let mut text = if simple.is_empty() { "a value".to_owned() } else { simple.to_owned() };
    let _ = write!(text, " that fits the JSON Schema {json}");
    text
}
