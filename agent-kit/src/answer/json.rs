//! Answers as one JSON object `{status, fields.., body}`.

use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::canonical;

use super::field::DeclaredField;
use super::words::excerpt;
use super::{Answer, Contract, ContractFault, Given, fence, quote, settle};

/// How many bytes around a fault are shown.
const NEAR_BYTES: usize = 32;

pub(super) fn parse(contract: &Contract, text: &str) -> Result<Answer, ContractFault> {
    let text = fence::strip(text);
    let value = canonical::parse(text.as_bytes()).map_err(|error| not_json(text, &error))?;
    let Value::Object(mut members) = value else {
        return Err(ContractFault::new("the answer is JSON, but not an object: it must begin with `{`"));
    };
    let (status, declared) = match (members.remove("status"), contract.output.as_slice()) {
        (Some(Value::Str(word)), _) => contract.find(&word)?,
        (Some(_), _) => return Err(ContractFault::new("`status` must be a text")),
        (None, [(status, declared)]) => (status, declared.as_slice()),
        (None, _) => return Err(contract.missing_status()),
    };
    let body = match members.remove("body") {
        None => Ok(String::new()),
        Some(Value::Str(body)) => Ok(body),
        Some(_) => Err("`body` must be a text".to_owned()),
    };
    let given: Given = members.into_iter().map(|(name, value)| (name, Ok(value))).collect();
    match (settle(status.as_str(), declared, given), body) {
        (Ok(output), Ok(body)) => Ok(Answer { status: status.clone(), output, body }),
        (Ok(_), Err(fault)) => Err(ContractFault::new(fault)),
        (Err(fault), Ok(_)) => Err(fault),
        (Err(fault), Err(body)) => Err(ContractFault::new(format!("{}\n{body}", fault.words))),
    }
}

fn not_json(text: &str, error: &canonical::Error) -> ContractFault {
    let words = match error {
        _ if text.trim().is_empty() => "the answer is empty".to_owned(),
        canonical::Error::Syntax { at, what } => {
            let from = (at.saturating_sub(NEAR_BYTES)..=*at).find(|from| text.is_char_boundary(*from)).unwrap_or(0);
            let to = (*at..at.saturating_add(NEAR_BYTES)).rev().find(|to| text.is_char_boundary(*to));
            let near = text.get(from..to.unwrap_or(*at)).unwrap_or_default();
            format!("the answer is not one JSON object: {what}, near `{}`", excerpt(near))
        }
        canonical::Error::DuplicateKey(key) => format!("`{}` stands twice in one object", excerpt(key)),
        other => format!("the answer is not one JSON object that can be read: {other}"),
    };
    ContractFault::new(words)
}

pub(super) fn render(status: &str, fields: &[(&str, &Value)], body: &str) -> String {
    let mut text = "{\"status\": ".to_owned();
    quote::quoted(&mut text, status);
    for (name, value) in fields {
        text.push_str(", ");
        quote::quoted(&mut text, name);
        text.push_str(": ");
        quote::flow(&mut text, value);
    }
    text.push_str(", \"body\": ");
    quote::quoted(&mut text, body);
    text.push('}');
    text
}

/// The schema of every answer. Every key is required and an optional field may be `null` instead, as providers with a
/// strict mode demand it; [`parse`] asks for less.
pub(super) fn schema(contract: &Contract) -> String {
    match contract.output.as_slice() {
        [(status, fields)] => status_schema(status.as_str(), fields),
        several => {
            let branches: Vec<String> =
                several.iter().map(|(status, fields)| status_schema(status.as_str(), fields)).collect();
            format!("{{\"anyOf\":[{}]}}", branches.join(","))
        }
    }
}

fn status_schema(status: &str, fields: &[DeclaredField]) -> String {
    let mut properties = "\"status\":{\"type\":\"string\",\"enum\":[".to_owned();
    quote::quoted(&mut properties, status);
    properties.push_str("]}");
    let mut required = "\"status\"".to_owned();
    for field in fields {
        let schema = without_default(&field.schema).to_text();
        let schema = if field.optional { format!("{{\"anyOf\":[{schema},{{\"type\":\"null\"}}]}}") } else { schema };
        let name = field.name.as_str();
        properties.extend([",\"", name, "\":", &schema]);
        required.extend([",\"", name, "\""]);
    }
    format!(
        "{{\"type\":\"object\",\"properties\":{{{properties},\"body\":{{\"type\":\"string\"}}}},\
         \"required\":[{required},\"body\"],\"additionalProperties\":false}}"
    )
}

/// A default means nothing in an answer, and strict modes refuse it.
fn without_default(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept: BTreeMap<String, Value> =
                members.iter().filter(|(key, _)| *key != "default").map(|(k, v)| (k.clone(), v.clone())).collect();
            Value::Object(kept)
        }
        other => other.clone(),
    }
}
