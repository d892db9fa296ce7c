//! Checks values against a schema.

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError};

use super::{Field, closed_object};
use crate::canonical::Value;
use crate::id::FieldName;
use crate::workflow::Ordered;

const MAX_VIOLATIONS: usize = 20;
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_MESSAGE: usize = 200;

#[derive(Debug, Clone)]
pub struct Validator(jsonschema::Validator);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(String);

/// One way in which a value violates a schema. It never repeats the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The location in the value, as a JSON pointer (RFC 6901); empty for the whole.
    pub pointer: String,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, message } = self;
        if pointer.is_empty() { f.write_str(message) } else { write!(f, "{pointer}: {message}") }
    }
}

/// The schema of an object with exactly these fields.
pub fn object_schema(fields: &Ordered<FieldName, Field>) -> Value {
    let properties = fields.iter().map(|(name, field)| (name.as_str(), field.schema.clone())).collect();
    let required = fields.iter().filter(|(_, field)| !field.optional).map(|(name, _)| Value::from(name.as_str()));
    closed_object(properties, required.collect())
}

impl Validator {
    /// Compiles the schema of objects with these fields: all that are not optional, and no others.
    ///
    /// # Errors
    /// [`SchemaError`], which cannot happen for a checked workflow.
    pub fn of_fields(fields: &Ordered<FieldName, Field>) -> Result<Self, SchemaError> {
        Self::of_schema(&object_schema(fields))
    }

    /// Compiles `schema`, JSON Schema 2020-12. Patterns are matched in linear time.
    ///
    /// # Errors
    /// [`SchemaError`] when it is not a schema, or a pattern is too large or has look-around.
    pub fn of_schema(schema: &Value) -> Result<Self, SchemaError> {
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES))
            .build(&to_serde(schema))
            .map(Self)
            .map_err(|error| SchemaError(violation(&error).to_string()))
    }

    pub fn is_valid(&self, value: &Value) -> bool {
        self.0.is_valid(&to_serde(value))
    }

    /// The violations of a value, at most 20, in the schema's order.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.0.iter_errors(&to_serde(value)).take(MAX_VIOLATIONS).map(|error| violation(&error)).collect()
    }
}

/// The library's message, without the value and with a maximum length.
fn violation(error: &ValidationError<'_>) -> Violation {
    let message = match error.kind() {
        // The library's message hides the fault: that the value matches none of several schemas.
        ValidationErrorKind::AnyOf { .. } => "it is none of what is allowed here".to_owned(),
        ValidationErrorKind::OneOfNotValid { .. } => "it is none of what is allowed here, or more than one".to_owned(),
        _ => error.masked().to_string(),
    };
    let message: String = message.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect();
    let message = message.strip_prefix("value is ").map(|rest| format!("it is {rest}")).unwrap_or(message);
    Violation { pointer: error.instance_path().to_string(), message }
}

/// Converts a value for the library. Values are never converted back.
fn to_serde(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => match (u64::try_from(*number), i64::try_from(*number)) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            #[expect(clippy::cast_precision_loss, reason = "the library has no such integers; it is still integral")]
            _ => (*number as f64).into(),
        },
        Value::Float(number) => (*number).into(),
        Value::Str(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(to_serde).collect::<Vec<_>>().into(),
        Value::Object(members) => {
            serde_json::Value::Object(members.iter().map(|(key, value)| (key.clone(), to_serde(value))).collect())
        }
    }
}
