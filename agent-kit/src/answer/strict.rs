//! The part of JSON Schema that the strict mode of providers supports
//! (<https://platform.openai.com/docs/guides/structured-outputs#supported-schemas>).
//!
//! Laws:
//! - The result of [`relaxed`] accepts every value that the schema accepts. The contract checks what it leaves out.
//! - [`is_strict`] accepts no schema that the API refuses: a refused request costs more than an answer that needs a
//!   repair.

use std::collections::BTreeMap;

use rondo_protocol::Value;

/// The maximum nesting of objects and lists; the root is the first level.
const MAX_DEPTH: usize = 10;

const MAX_PROPERTIES: usize = 5000;

/// The maximum characters of all property names and all values of `enum` and `const` together.
const MAX_CHARS: usize = 120_000;

const MAX_ENUM_VALUES: usize = 1000;

/// An enum with more texts than this also has a limit on its characters.
const LARGE_ENUM_VALUES: usize = 250;

const MAX_LARGE_ENUM_CHARS: usize = 15_000;

const KEPT: [&str; 13] = [
    "type",
    "required",
    "enum",
    "const",
    "description",
    "title",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

const FORMATS: [&str; 9] = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// A schema without what the strict mode does not support: constraints, defaults and annotations. An `enum` or `const`
/// without a type gets the type of its values, because the API requires one.
pub(super) fn relaxed(schema: &Value) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let mut kept = BTreeMap::new();
    for (key, member) in members {
        let known = match (key.as_str(), member) {
            (key, _) if KEPT.contains(&key) => Some(member.clone()),
            ("properties", Value::Object(properties)) => {
                Some(Value::Object(properties.iter().map(|(name, schema)| (name.clone(), relaxed(schema))).collect()))
            }
            ("anyOf", Value::List(branches)) => Some(Value::List(branches.iter().map(relaxed).collect())),
            // Without the other keyword these would restrict more than both did together.
            ("items", _) if members.contains_key("prefixItems") => None,
            ("additionalProperties", _) if members.contains_key("patternProperties") => None,
            ("items" | "additionalProperties", schema) => Some(relaxed(schema)),
            ("format", Value::Str(format)) => FORMATS.contains(&format.as_str()).then(|| member.clone()),
            ("pattern", Value::Str(pattern)) => is_plain(pattern).then(|| member.clone()),
            _ => None,
        };
        kept.extend(known.map(|known| (key.clone(), known)));
    }
    if !kept.contains_key("type")
        && let Some(types) = types_of_values(&kept)
    {
        kept.insert("type".to_owned(), types);
    }
    Value::Object(kept)
}

/// Whether a pattern has neither look-around nor a backreference.
fn is_plain(pattern: &str) -> bool {
    let refers_back = |pair: &[u8]| matches!(pair, [b'\\', b'1'..=b'9' | b'k']);
    !["(?=", "(?!", "(?<"].iter().any(|look| pattern.contains(look)) && !pattern.as_bytes().windows(2).any(refers_back)
}

/// The type or types of the values of an `enum` or `const`; `None` if one is a list or an object.
fn types_of_values(members: &BTreeMap<String, Value>) -> Option<Value> {
    let values = match (members.get("enum"), members.get("const")) {
        (Some(Value::List(values)), _) => values.as_slice(),
        (None, Some(value)) => std::slice::from_ref(value),
        _ => return None,
    };
    let mut types: Vec<&str> = Vec::new();
    for value in values {
        let name = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Float(_) => "number",
            Value::Str(_) => "string",
            Value::List(_) | Value::Object(_) => return None,
        };
        if !types.contains(&name) {
            types.push(name);
        }
    }
    match types.as_slice() {
        [] => None,
        [one] => Some(Value::from(*one)),
        several => Some(several.iter().map(|name| Value::from(*name)).collect::<Vec<_>>().into()),
    }
}

pub fn is_strict(schema: &Value) -> bool {
    let mut size = Size::default();
    is_type(schema, "object")
        && schema.get("anyOf").is_none()
        && fits(schema, 1, &mut size)
        && size.properties <= MAX_PROPERTIES
        && size.chars <= MAX_CHARS
        && size.enum_values <= MAX_ENUM_VALUES
}

#[derive(Default)]
struct Size {
    properties: usize,
    chars: usize,
    enum_values: usize,
}

fn is_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::List(types)) => types.iter().any(|one| one.as_str() == Some(name)),
        Some(one) => one.as_str() == Some(name),
        None => false,
    }
}

fn fits(schema: &Value, depth: usize, size: &mut Size) -> bool {
    let Value::Object(members) = schema else { return false };
    let (is_object, is_list) = (is_type(schema, "object"), is_type(schema, "array"));
    let deeper = depth + usize::from(is_object || is_list);
    // An empty schema allows everything.
    (members.contains_key("type") || members.contains_key("anyOf"))
        && deeper <= MAX_DEPTH + 1
        && (!is_object || is_closed(schema))
        && (!is_list || members.contains_key("items"))
        && members.iter().all(|(key, member)| match (key.as_str(), member) {
            ("properties", Value::Object(properties)) => {
                size.properties += properties.len();
                properties.iter().all(|(name, property)| {
                    size.chars += name.chars().count();
                    fits(property, deeper, size)
                })
            }
            ("items", items) => fits(items, deeper, size),
            ("anyOf", Value::List(branches)) => branches.iter().all(|branch| fits(branch, depth, size)),
            ("enum", Value::List(values)) => is_enum(values, size),
            ("const", value) => is_enum(std::slice::from_ref(value), size),
            ("format", Value::Str(format)) => FORMATS.contains(&format.as_str()),
            ("pattern", Value::Str(pattern)) => is_plain(pattern),
            (key, _) => key == "additionalProperties" || KEPT.contains(&key),
        })
}

/// Whether an object allows and requires exactly its named properties.
fn is_closed(schema: &Value) -> bool {
    let (Some(Value::Object(properties)), Some(Value::List(required))) =
        (schema.get("properties"), schema.get("required"))
    else {
        return false;
    };
    let required: std::collections::BTreeSet<&str> = required.iter().filter_map(Value::as_str).collect();
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.len() == required.len()
        && properties.keys().all(|name| required.contains(name.as_str()))
}

fn is_enum(values: &[Value], size: &mut Size) -> bool {
    let texts = values.iter().filter_map(Value::as_str);
    let chars: usize = texts.map(|text| text.chars().count()).sum();
    size.enum_values += values.len();
    size.chars += chars;
    (values.len() <= LARGE_ENUM_VALUES || chars <= MAX_LARGE_ENUM_CHARS)
        && !values.iter().any(|value| matches!(value, Value::List(_) | Value::Object(_)))
}

#[cfg(test)]
mod tests;
