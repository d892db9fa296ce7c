//! The part of JSON Schema that `responseJsonSchema` supports
//! (<https://ai.google.dev/api/generate-content#FIELDS.response_json_schema>).
//!
//! Laws:
//! - The result accepts every value that the schema accepts: only keywords that narrow, and annotations, are left out.
//!   The check of the answer covers what is left out.
//! - Members keep their order, because a model writes the properties in it.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::bounded::each_member;

const KEPT: [&str; 9] =
    ["type", "title", "description", "required", "minimum", "maximum", "minItems", "maxItems", "propertyOrdering"];

const FORMATS: [&str; 3] = ["date-time", "date", "time"];

/// The members of an object in their order.
#[derive(Debug)]
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Vec::new();
        each_member(deserializer, format_args!("an object"), |name, value| {
            members.push((name, value));
            Ok(())
        })?;
        Ok(Self(members))
    }
}

impl<'a> Members<'a> {
    fn of(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Writes the members that `change` leaves.
    fn write(&self, mut change: impl FnMut(&str, &'a str) -> Option<(&'static str, String)>) -> Option<String> {
        let mut written = Vec::with_capacity(self.0.len());
        for (key, value) in &self.0 {
            if let Some((other, value)) = change(key, value.get()) {
                let key = if other.is_empty() { key } else { other };
                written.push(format!("{}:{value}", serde_json::to_string(key).ok()?));
            }
        }
        Some(format!("{{{}}}", written.join(",")))
    }
}

/// The schema without what is not supported; `None` if it is no object.
pub(super) fn supported(schema: &str) -> Option<String> {
    written(schema, &mut true)
}

/// Whether nothing is left out of a schema that narrows.
pub(super) fn is_whole(schema: &str) -> bool {
    let mut is_whole = true;
    written(schema, &mut is_whole).is_some() && is_whole
}

fn written(schema: &str, is_whole: &mut bool) -> Option<String> {
    let members = Members::of(schema)?;
    members.write(|key, value| {
        let kept = kept(&members, key, value, is_whole);
        let is_annotation = matches!(key, "$schema" | "default" | "examples" | "propertyOrdering");
        *is_whole &= kept.is_some() || is_annotation || key == "const" && members.has("enum");
        kept
    })
}

/// What stands for a member in a schema with these members, with another name unless that is empty.
fn kept(members: &Members<'_>, key: &str, value: &str, is_whole: &mut bool) -> Option<(&'static str, String)> {
    let same = |value: String| Some(("", value));
    match key {
        // Alone it would also forbid the properties that the other keyword allows.
        "additionalProperties" if members.has("patternProperties") => None,
        "additionalProperties" => same(written(value, is_whole).unwrap_or_else(|| value.to_owned())),
        _ if KEPT.contains(&key) => same(value.to_owned()),
        "format" => FORMATS.contains(&text(value)?.as_str()).then(|| ("", value.to_owned())),
        "enum" => are_words(value).then(|| ("", value.to_owned())),
        "const" if !members.has("enum") => {
            let only = format!("[{value}]");
            are_words(&only).then_some(("enum", only))
        }
        "items" => same(written(value, is_whole)?),
        // Each list is whole or left out: without one of its schemas it would mean another.
        "anyOf" | "oneOf" | "prefixItems" => {
            let schemas: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            let schemas = schemas.into_iter().map(|schema| written(schema.get(), is_whole));
            same(format!("[{}]", schemas.collect::<Option<Vec<_>>>()?.join(",")))
        }
        "properties" => same(Members::of(value)?.write(|_, schema| {
            let written = written(schema, is_whole);
            *is_whole &= written.is_some();
            Some(("", written.unwrap_or_else(|| "{}".to_owned())))
        })?),
        _ => None,
    }
}

fn text(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Whether a list holds only texts and numbers; an enum of anything else is not supported.
fn are_words(list: &str) -> bool {
    let values: Option<Vec<serde_json::Value>> = serde_json::from_str(list).ok();
    values.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_number()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_an_answer_is_kept_as_it_is() {
        let schema = r#"{"type":"object","properties":{"status":{"type":"string","enum":["revise","done"]},"title":{"anyOf":[{"type":"string"},{"type":"null"}]},"zebras":{"minimum":1,"type":"integer"},"apples":{"type":"array","items":{"type":["string","null"]}},"body":{"type":"string","format":"date"}},"required":["status","title","zebras","apples","body"],"additionalProperties":false}"#;
        assert_eq!(supported(schema).as_deref(), Some(schema));
    }

    #[test]
    fn a_schema_of_which_a_part_is_left_out_is_not_whole() {
        let of = |field: &str| format!(r#"{{"properties":{{"default":{field}}},"type":"object"}}"#);
        for whole in [r#"{"const":"a"}"#, r#"{"enum":["a","b"]}"#, r#"{"minimum":1,"type":"integer"}"#] {
            assert!(is_whole(&of(whole)), "{whole}");
        }
        for cut in [r#"{"pattern":"^a"}"#, r#"{"const":true}"#, r#"{"exclusiveMinimum":1}"#, r#"{"format":"uuid"}"#] {
            assert!(!is_whole(&of(cut)), "{cut}");
        }
    }

    #[test]
    fn what_only_narrows_is_left_out() {
        for (schema, wanted) in [
            (r#"{"type":"string","minLength":3,"pattern":"^a"}"#, r#"{"type":"string"}"#),
            (r#"{"const":"a","type":"string"}"#, r#"{"enum":["a"],"type":"string"}"#),
            (r#"{"const":true}"#, "{}"),
            (r#"{"enum":["a",null]}"#, "{}"),
            (r#"{"format":"email"}"#, "{}"),
            (r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}"##, "{}"),
            (r#"{"anyOf":[{"type":"string","minLength":1},true]}"#, "{}"),
            (r#"{"oneOf":[{"exclusiveMinimum":1,"type":"integer"}]}"#, r#"{"oneOf":[{"type":"integer"}]}"#),
            (r#"{"patternProperties":{"^a":{}},"additionalProperties":false}"#, "{}"),
            (
                r#"{"additionalProperties":{"type":"string","maxLength":1}}"#,
                r#"{"additionalProperties":{"type":"string"}}"#,
            ),
            (r#"{"properties":{"not":true,"z":{"not":{}}},"not":{}}"#, r#"{"properties":{"not":{},"z":{}}}"#),
            (r#"{"items":false,"prefixItems":[{"type":"string"}]}"#, r#"{"prefixItems":[{"type":"string"}]}"#),
        ] {
            assert_eq!(supported(schema).as_deref(), Some(wanted), "{schema}");
        }
        for schema in ["true", "[]", "7", "{", ""] {
            assert_eq!(supported(schema), None, "{schema}");
        }
    }
}
