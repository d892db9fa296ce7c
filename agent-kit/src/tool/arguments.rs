//! The arguments of a model's call, checked before use.

use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::types::Validator;
use rondo_protocol::{Value, canonical};

use super::Error;

const MAX_BYTES: usize = 4 << 20;

/// Parses arguments. A blank text is an empty object, because models leave out empty arguments.
///
/// # Errors
/// What is wrong with them, in words that a model can act on.
pub(super) fn read(text: &str, schema: Option<&Validator>) -> Result<Value, Error> {
    let fault = |message: String| Error::new(Code::ToolArguments, message);
    if text.len() > MAX_BYTES {
        return Err(fault(format!("the arguments are longer than {} MiB", MAX_BYTES >> 20)));
    }
    let value: Value = if text.trim().is_empty() {
        Value::empty_object()
    } else {
        canonical::from_slice(text.as_bytes())
            .map_err(|error| fault(format!("the arguments are not valid JSON: {error}")))?
    };
    value.check_depth().map_err(|error| fault(format!("the arguments cannot be taken: {error}")))?;
    if !matches!(value, Value::Object(_)) {
        return Err(fault("the arguments are not a JSON object".to_owned()));
    }
    let violations = schema.map(|schema| schema.violations(&value)).unwrap_or_default();
    if violations.is_empty() {
        return Ok(value);
    }
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    Err(fault(format!("the arguments do not fit the tool's schema: {}", lines.join("; "))))
}
