//! Answers as one JSON object `{status, fields.., body}`.

use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::canonical;

use super::strict::relaxed;
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
    // The schema makes a model write the fields of all statuses; those of other statuses are `null`.
    let is_declared = |name: &str| declared.iter().any(|field| field.name.as_str() == name);
    members.retain(|name, value| !value.is_null() || is_declared(name));
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

/// The schema of every answer, for providers' strict modes: one object with every key required and no alternatives at
/// its root. A field that a status does not have, or may leave out, may be `null`; [`parse`] treats that as missing.
pub(super) fn schema(contract: &Contract) -> String {
    let mut statuses = String::new();
    for status in contract.statuses() {
        statuses.push_str(if statuses.is_empty() { "" } else { "," });
        quote::quoted(&mut statuses, status.as_str());
    }
    let mut properties = format!("\"status\":{{\"type\":\"string\",\"enum\":[{statuses}]}}");
    let mut required = "\"status\"".to_owned();
    for (name, schemas) in fields(contract) {
        let schema = match schemas.as_slice() {
            [one] => one.clone(),
            several => format!("{{\"anyOf\":[{}]}}", several.join(",")),
        };
        properties.extend([",\"", name, "\":", &schema]);
        required.extend([",\"", name, "\""]);
    }
    format!(
        "{{\"type\":\"object\",\"properties\":{{{properties},\"body\":{{\"type\":\"string\"}}}},\
         \"required\":[{required},\"body\"],\"additionalProperties\":false}}"
    )
}

/// Each field name once, in order of first declaration, with its distinct schemas in declared order, plus the schema of
/// `null` unless every status requires it.
fn fields(contract: &Contract) -> Vec<(&str, Vec<String>)> {
    const NULL: &str = "{\"type\":\"null\"}";
    let mut fields: Vec<(&str, Vec<String>)> = Vec::new();
    let mut places: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for field in contract.output.iter().flat_map(|(_, declared)| declared) {
        let name = field.name.as_str();
        let (place, required) = places.entry(name).or_insert((fields.len(), 0));
        *required += usize::from(!field.optional);
        if *place == fields.len() {
            fields.push((name, Vec::new()));
        }
        let schema = relaxed(&field.schema).to_text();
        if let Some((_, schemas)) = fields.get_mut(*place).filter(|(_, schemas)| !schemas.contains(&schema)) {
            schemas.push(schema);
        }
    }
    for (name, schemas) in &mut fields {
        let is_required = places.get(name).is_some_and(|(_, statuses)| *statuses == contract.output.len());
        if !is_required && !schemas.iter().any(|schema| schema == NULL) {
            schemas.push(NULL.to_owned());
        }
    }
    fields
}
