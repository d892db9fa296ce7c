//! The JSON Schemas that answers can be held to
//! (<https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations>).
//!
//! A schema beyond them makes the request refused, so it is not sent: the role's contract in the system text, the check
//! of the answer and its repairs hold without it.

use rondo_protocol::{Value, canonical};

/// The most members of a schema that may be of one type or another.
const MAX_UNIONS: usize = 16;

const MAX_DEPTH: usize = 64;

/// The keywords that are supported besides those with a schema in them, and `minItems` for 0 and 1.
const KEYWORDS: [&str; 10] = [
    "$schema",
    "additionalProperties",
    "const",
    "default",
    "description",
    "enum",
    "format",
    "required",
    "title",
    "type",
];

pub(super) fn is_supported(schema: &str) -> bool {
    let mut unions = 0;
    canonical::parse(schema.as_bytes()).is_ok_and(|schema| fits(&schema, &mut unions, 0)) && unions <= MAX_UNIONS
}

fn fits(schema: &Value, unions: &mut usize, depth: usize) -> bool {
    let Value::Object(members) = schema else { return false };
    let types = match members.get("type") {
        Some(Value::List(types)) => types.len(),
        _ => 1,
    };
    *unions += usize::from(members.contains_key("anyOf") || types > 1);
    let is_object = members.get("type") == Some(&Value::from("object"));
    let mut fits_below = |below: &Value| fits(below, unions, depth + 1);
    depth <= MAX_DEPTH
        && (!is_object || members.get("additionalProperties") == Some(&Value::Bool(false)))
        && members.iter().all(|(keyword, member)| match (keyword.as_str(), member) {
            ("properties", Value::Object(properties)) => properties.values().all(&mut fits_below),
            ("anyOf", Value::List(branches)) => branches.iter().all(&mut fits_below),
            ("items", items) => fits_below(items),
            ("minItems", least) => [Value::from(0), Value::from(1)].contains(least),
            ("properties" | "anyOf", _) => false,
            (keyword, _) => KEYWORDS.contains(&keyword),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(properties: &str) -> String {
        format!(r#"{{"additionalProperties":false,"properties":{{{properties}}},"required":[],"type":"object"}}"#)
    }

    #[test]
    fn what_would_be_refused_is_not_sent() {
        assert!(is_supported(&of(r#""a":{"type":"string"},"b":{"items":{"type":"integer"},"type":"array"}"#)));
        assert!(is_supported(&of(r#""a":{"minItems":1,"type":"array"}"#)));
        for schema in [
            r#"{"type":"object"}"#.to_owned(),
            of(r#""a":{"type":"integer","minimum":3}"#),
            of(r#""a":{"type":"string","maxLength":3}"#),
            of(r#""a":{"minItems":2,"type":"array"}"#),
            of(r#""a":{"properties":{},"type":"object"}"#),
            of(r##""a":{"$ref":"#"}"##),
            of(r#""a":true"#),
            "[]".to_owned(),
            "{".to_owned(),
        ] {
            assert!(!is_supported(&schema), "{schema}");
        }
    }

    #[test]
    fn sixteen_fields_may_be_of_one_type_or_another() {
        let field = |at: usize| format!(r#""f{at}":{{"anyOf":[{{"type":"string"}},{{"type":"null"}}]}}"#);
        let with = |fields: usize| of(&(0..fields).map(field).collect::<Vec<_>>().join(","));
        assert!(is_supported(&with(16)));
        assert!(!is_supported(&with(17)));
    }
}
