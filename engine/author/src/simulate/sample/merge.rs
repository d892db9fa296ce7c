//! Expands `allOf`, `anyOf`, `oneOf` and `if` of a schema into plain alternatives.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::Value;

use super::{MAX_ITEMS, UNNAMED_MEMBERS, pattern};

const MAX_ALTERNATIVES: usize = 16;
const COMBINING: [&str; 6] = ["allOf", "anyOf", "else", "if", "oneOf", "then"];
/// Of two values, the larger applies.
const LOWER_BOUNDS: [&str; 6] =
    ["exclusiveMinimum", "minContains", "minItems", "minLength", "minProperties", "minimum"];
/// Of two values, the smaller applies.
const UPPER_BOUNDS: [&str; 6] =
    ["exclusiveMaximum", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum"];

/// One alternative of a schema: its keywords.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Plain(BTreeMap<String, Value>);

/// The alternatives of `schema`, in the order in which it lists them.
pub(super) fn alternatives(schema: &Value) -> Vec<Plain> {
    written_out(schema).into_iter().map(Plain).collect()
}

/// A schema that requires both, as far as keywords can express it.
pub(super) fn both(first: &Value, second: &Value) -> Value {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => Value::Object(merged(first.clone(), second)),
        (Value::Bool(true), other) | (other, Value::Bool(true)) => other.clone(),
        (_, refusing) => refusing.clone(),
    }
}

fn written_out(schema: &Value) -> Vec<BTreeMap<String, Value>> {
    let keywords = match schema {
        Value::Object(keywords) => keywords,
        Value::Bool(false) => return Vec::new(),
        _ => return vec![BTreeMap::new()],
    };
    let mut base = keywords.clone();
    base.retain(|key, _| !COMBINING.contains(&key.as_str()));
    let mut ways = vec![base];
    let parts = |key: &str| match keywords.get(key) {
        Some(Value::List(parts)) => parts.as_slice(),
        _ => &[],
    };
    for part in parts("allOf") {
        ways = crossed(&ways, &written_out(part));
    }
    for key in ["anyOf", "oneOf"] {
        if !parts(key).is_empty() {
            let branches: Vec<_> = parts(key).iter().flat_map(written_out).collect();
            ways = crossed(&ways, &branches);
        }
    }
    if let Some(condition) = keywords.get("if") {
        let then = keywords.get("then").map_or_else(|| condition.clone(), |then| both(condition, then));
        let otherwise = keywords.get("else").cloned().unwrap_or(Value::Bool(true));
        let branches: Vec<_> = [then, otherwise].iter().flat_map(written_out).collect();
        ways = crossed(&ways, &branches);
    }
    ways
}

fn crossed(ways: &[BTreeMap<String, Value>], branches: &[BTreeMap<String, Value>]) -> Vec<BTreeMap<String, Value>> {
    let pairs = ways.iter().flat_map(|way| branches.iter().map(move |branch| merged(way.clone(), branch)));
    pairs.take(MAX_ALTERNATIVES).collect()
}

fn merged(mut first: BTreeMap<String, Value>, second: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for (key, value) in second {
        let value = match first.get(key) {
            Some(known) => one_of_two(key, known, value),
            None => value.clone(),
        };
        first.insert(key.clone(), value);
    }
    first
}

/// Combines a keyword of two schemas.
fn one_of_two(key: &str, first: &Value, second: &Value) -> Value {
    match (key, first, second) {
        ("type", first, second) => narrower_type(first, second),
        ("enum", Value::List(first), Value::List(second)) => {
            Value::List(first.iter().filter(|value| second.contains(value)).cloned().collect())
        }
        ("required", Value::List(first), Value::List(second)) => {
            let more = second.iter().filter(|name| !first.contains(name));
            Value::List(first.iter().chain(more).cloned().collect())
        }
        ("properties", Value::Object(first), Value::Object(second)) => {
            let mut members = first.clone();
            for (name, schema) in second {
                let schema = members.get(name).map_or_else(|| schema.clone(), |known| both(known, schema));
                members.insert(name.clone(), schema);
            }
            Value::Object(members)
        }
        ("items" | "additionalProperties" | "contains", first, second) => both(first, second),
        (key, first, second) => {
            let first_is_less = super::number::is_less(first, second);
            let keeps_first =
                (LOWER_BOUNDS.contains(&key) && !first_is_less) || (UPPER_BOUNDS.contains(&key) && first_is_less);
            if keeps_first { first.clone() } else { second.clone() }
        }
    }
}

fn narrower_type(first: &Value, second: &Value) -> Value {
    let words = |value: &Value| match value {
        Value::List(words) => words.clone(),
        word => vec![word.clone()],
    };
    let (first, second) = (words(first), words(second));
    let allows = |words: &[Value], word: &Value| {
        words.contains(word) || (word.as_str() == Some("integer") && words.contains(&Value::from("number")))
    };
    let kept = first.iter().filter(|word| allows(&second, word));
    let more = second.iter().filter(|word| !first.contains(word) && allows(&first, word));
    Value::List(kept.chain(more).cloned().collect())
}

impl Plain {
    pub(super) fn allows_anything(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn constants(&self) -> &[Value] {
        self.get("const").map_or_else(|| self.list("enum"), std::slice::from_ref)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub(super) fn is(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(true))
    }

    pub(super) fn count(&self, key: &str) -> Option<usize> {
        match self.get(key)? {
            Value::Int(count) => usize::try_from(*count).ok(),
            _ => None,
        }
    }

    pub(super) fn list(&self, key: &str) -> &[Value] {
        match self.get(key) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// The possible types of a value, those with keywords in the schema first.
    pub(super) fn kinds(&self) -> Vec<&str> {
        const ALL: [&str; 6] = ["string", "integer", "boolean", "array", "object", "null"];
        const SPEAKING: [(&str, &[&str]); 4] = [
            ("object", &["properties", "required", "additionalProperties", "minProperties", "patternProperties"]),
            ("array", &["items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"]),
            ("string", &["minLength", "maxLength", "pattern", "format"]),
            ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
        ];
        match self.get("type") {
            Some(Value::Str(word)) => vec![word],
            Some(Value::List(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => {
                let speaks = |words: &[&str]| words.iter().any(|word| self.0.contains_key(*word));
                let spoken: Vec<&str> =
                    SPEAKING.iter().filter(|(_, words)| speaks(words)).map(|(kind, _)| *kind).collect();
                let others = ALL.into_iter().filter(|kind| !spoken.contains(kind));
                spoken.iter().copied().chain(others).collect()
            }
        }
    }

    pub(super) fn element(&self, index: usize) -> Option<Value> {
        self.list("prefixItems").get(index).cloned().or_else(|| self.of_others("items"))
    }

    pub(super) fn member(&self, name: &str) -> Option<Value> {
        let is_its = |pattern: &str| pattern::text(pattern, 0).is_some_and(|example| example == name);
        let own = self.get("properties").and_then(|properties| properties.get(name));
        let by_pattern = || self.members_of("patternProperties").find(|(pattern, _)| is_its(pattern));
        let own = own.or_else(|| by_pattern().map(|(_, schema)| schema)).cloned();
        own.or_else(|| self.of_others("additionalProperties"))
    }

    /// The schema of those that no other keyword names; `None` if there may be none.
    fn of_others(&self, key: &str) -> Option<Value> {
        let schema = self.get(key).unwrap_or(&Value::Bool(true));
        (*schema != Value::Bool(false)).then(|| schema.clone())
    }

    /// The members of a keyword that is an object.
    fn members_of(&self, key: &str) -> impl Iterator<Item = (&String, &Value)> {
        let members = if let Some(Value::Object(members)) = self.get(key) { Some(members) } else { None };
        members.into_iter().flatten()
    }

    /// The names of members: the required ones, or all that the schema mentions.
    pub(super) fn members(&self, all: bool) -> Vec<String> {
        let mut names: BTreeSet<String> =
            self.list("required").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let declared = self.members_of("properties").map(|(name, _)| name.clone());
        let patterns = self.members_of("patternProperties").filter_map(|(pattern, _)| pattern::text(pattern, 0));
        let declared: Vec<String> = declared.chain(patterns).collect();
        let least = self.count("minProperties").unwrap_or(0).min(MAX_ITEMS);
        let unnamed = if declared.is_empty() && names.is_empty() { UNNAMED_MEMBERS } else { 0 };
        let wanted = if all { least.max(unnamed) } else { least };
        let most = self.count("maxProperties").unwrap_or(usize::MAX);
        for name in declared {
            if (all || names.len() < wanted) && names.len() < most {
                names.insert(name);
            }
        }
        if !matches!(self.get("additionalProperties"), Some(Value::Bool(false))) {
            for number in 1..=MAX_ITEMS {
                if names.len() >= wanted.min(most) {
                    break;
                }
                names.insert(format!("key{number}"));
            }
        }
        names.into_iter().collect()
    }
}
