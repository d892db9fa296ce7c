//! Checks the input of a thread against the declarations of its workflow.

use std::collections::BTreeMap;

use super::{Field, Validator, Violation, file};
use crate::canonical::{self, MAX_VALUE_DEPTH, Value};
use crate::diagnostic::{Code, did_you_mean};
use crate::file::FileError;
use crate::source::excerpt;
use crate::workflow::Workflow;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InputFault {
    pub code: Code,
    pub name: String,
    /// What is wrong, in one sentence without a full stop. It never repeats the value.
    pub message: String,
    pub hint: Option<String>,
    /// Where in the value, as a JSON pointer (RFC 6901); empty for the whole.
    pub pointer: String,
    /// Whether a text was wanted there.
    pub wants_text: bool,
}

impl InputFault {
    fn new(code: Code, name: &str, message: String) -> Self {
        Self { code, name: name.to_owned(), message, hint: None, pointer: String::new(), wants_text: false }
    }

    fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The input of a thread: `given` with defaults filled in. Leaves out optional inputs that are not given.
///
/// # Errors
/// All faults: first undeclared names, in their order, then missing or invalid inputs, in declared order.
pub fn check_input(workflow: &Workflow, mut given: BTreeMap<String, Value>) -> Result<Value, Vec<InputFault>> {
    let is_declared = |name: &str| workflow.input.iter().any(|(declared, _)| declared.as_str() == name);
    let unknown_names = given.keys().filter(|name| !is_declared(name));
    let mut faults: Vec<InputFault> = unknown_names.map(|name| unknown(workflow, name)).collect();
    let mut input = BTreeMap::new();
    for (name, field) in &workflow.input {
        let name = name.as_str();
        let Some(value) = given.remove(name).or_else(|| field.default_value().cloned()) else {
            if !field.optional {
                faults.push(InputFault::new(Code::MissingInput, name, format!("the input `{name}` is missing")));
            }
            continue;
        };
        match checked(name, field, value) {
            Ok(value) => drop(input.insert(name.to_owned(), value)),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(Value::Object(input)) } else { Err(faults) }
}

/// Checks the value of one input. A file in it then has its media type.
pub(in crate::workflow) fn checked(name: &str, field: &Field, value: Value) -> Result<Value, InputFault> {
    let value = files(name, field, value)?;
    // The object of all inputs adds a level.
    let is_flat = value.is_within(MAX_VALUE_DEPTH - 1);
    let fault = if is_flat { violation(name, field, &value) } else { Some(too_deep(name)) };
    fault.map_or(Ok(value), Err)
}

/// The value of an input that takes files: each with its media type.
fn files(name: &str, field: &Field, value: Value) -> Result<Value, InputFault> {
    let fault = |pointer: String, error: FileError| {
        let message = format!("the input `{name}` does not fit: {error}");
        let fault = InputFault::new(Code::InvalidInput, name, message);
        InputFault { pointer, ..fault }.with_hint(format!("on the command line: -i {name}=@FILE"))
    };
    match value {
        Value::List(items) if file::is_files(&field.schema) => {
            let checked =
                |(at, item): (usize, &Value)| file::checked(item).map_err(|error| fault(format!("/{at}"), error));
            items.iter().enumerate().map(checked).collect::<Result<_, _>>().map(Value::List)
        }
        value if file::is_file(&field.schema) => file::checked(&value).map_err(|error| fault(String::new(), error)),
        value => Ok(value),
    }
}

/// The value of an input given as text: the text itself if the type allows one, else JSON.
///
/// # Errors
/// [`InputFault`] when the type requires JSON and the text is not JSON.
pub fn parse_input_text(name: &str, field: &Field, text: &str) -> Result<Value, InputFault> {
    if field.takes_text() {
        return Ok(Value::from(text));
    }
    match canonical::parse(text.as_bytes()) {
        Ok(value) => Ok(value),
        Err(canonical::Error::ValueTooDeep) => Err(too_deep(name)),
        // For a type that allows anything, text that is not JSON is a text.
        Err(_) if field.schema.get("type").is_none() && field.schema.get("enum").is_none() => Ok(Value::from(text)),
        Err(error) => {
            let wanted = field.schema.get("type").and_then(Value::as_str).unwrap_or("value");
            let message = format!("the input `{}` wants JSON for its type `{wanted}`: {error}", excerpt(name));
            let hint = match wanted {
                "array" => Some(format!("such as `-i {name}='[\"a\", \"b\"]'`")),
                "object" => Some(format!("such as `-i {name}='{{\"key\": 1}}'`")),
                "boolean" => Some("write `true` or `false`".to_owned()),
                _ => None,
            };
            Err(InputFault { hint, ..InputFault::new(Code::InvalidInput, name, message) })
        }
    }
}

fn too_deep(name: &str) -> InputFault {
    let message = format!("the input `{}` does not fit: {}", excerpt(name), canonical::Error::ValueTooDeep);
    InputFault::new(Code::InvalidInput, name, message).with_hint("give it as a text, or with fewer levels")
}

fn unknown(workflow: &Workflow, name: &str) -> InputFault {
    let message = format!("the workflow declares no input `{}`", excerpt(name));
    let declared: Vec<&str> = workflow.input.iter().map(|(name, _)| name.as_str()).collect();
    let hint = did_you_mean(name, declared.iter().copied()).unwrap_or_else(|| match declared.as_slice() {
        [] => "it declares none at all".to_owned(),
        declared => format!("it declares `{}`", declared.join("`, `")),
    });
    InputFault::new(Code::UnknownInput, name, message).with_hint(hint)
}

fn violation(name: &str, field: &Field, value: &Value) -> Option<InputFault> {
    // The schema is that of a file whose contents were taken out.
    if file::is_file(&field.schema) || (file::is_files(&field.schema) && matches!(value, Value::List(_))) {
        return None;
    }
    let violations = match Validator::of_schema(&field.schema) {
        Ok(validator) => validator.violations(value),
        // A checked workflow has no such schema; a manually built one may.
        Err(error) => vec![Violation { pointer: String::new(), message: error.to_string() }],
    };
    let words: Vec<String> = violations.iter().map(ToString::to_string).collect();
    violations.into_iter().next().map(|Violation { pointer, message }| {
        let what = format!("the input `{name}` does not fit: {}", words.join("; "));
        let wants_text = message.ends_with("\"string\"");
        InputFault { pointer, wants_text, ..InputFault::new(Code::InvalidInput, name, what) }
    })
}
