//! The types of declared inputs and fields.
//!
//! A file contains a shorthand or JSON Schema; here only JSON Schema 2020-12 is left, without references, of bounded
//! size and depth. A [`Validator`] checks values, with messages that never repeat the value.

mod file;
mod input;
mod shorthand;
mod validator;

use serde::{Deserialize, Serialize};

use crate::canonical::Value;

pub(super) use file::holds_files;
pub use file::{file_ref, files_of, is_file, is_files, take_files, with_contents};
pub(super) use input::checked;
pub use input::{InputFault, check_input, parse_input_text};
pub use shorthand::expand;
pub use validator::{SchemaError, Validator, Violation, object_schema};

/// A declared input or field of a status: shorthands are expanded, so that only JSON Schema is left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Whether it may be absent: its name ended in `?`.
    pub optional: bool,
    /// JSON Schema 2020-12, including an input's default as `default`.
    pub schema: Value,
}

impl Field {
    pub fn default_value(&self) -> Option<&Value> {
        self.schema.get("default")
    }

    /// Whether it takes a file or a list of files.
    pub fn takes_files(&self) -> bool {
        is_file(&self.schema) || is_files(&self.schema)
    }

    /// Whether it allows a text, so that a text needs no conversion.
    pub fn takes_text(&self) -> bool {
        let is_text = |value: &Value| value.as_str() == Some("string");
        match (self.schema.get("type"), self.schema.get("enum")) {
            (Some(Value::List(types)), _) => types.iter().any(is_text),
            (Some(one), _) => is_text(one),
            (None, Some(Value::List(words))) => words.iter().all(|word| word.as_str().is_some()),
            (None, _) => self.schema.get("const").is_some_and(|value| value.as_str().is_some()),
        }
    }
}

/// The schema of values of a type.
pub(super) fn of_type(word: &str) -> Value {
    Value::from_iter([("type", Value::from(word))])
}

/// The schema of an object with these properties and no others.
fn closed_object(properties: Value, required: Vec<Value>) -> Value {
    Value::from_iter([
        ("additionalProperties", Value::Bool(false)),
        ("properties", properties),
        ("required", Value::List(required)),
        ("type", Value::from("object")),
    ])
}

/// Whether a schema is so simple that it is valid without compiling it, like the results of shorthands.
pub(super) fn is_simple(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return false };
    let known_type = |word: &str| matches!(word, "string" | "integer" | "number" | "boolean" | "array" | "object");
    members.iter().all(|(key, value)| match key.as_str() {
        "type" => value.as_str().is_some_and(known_type),
        "items" => is_simple(value),
        "description" | "title" => value.as_str().is_some(),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
