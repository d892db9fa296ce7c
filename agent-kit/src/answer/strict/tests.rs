use rondo_protocol::canonical;

use super::*;

fn value(json: &str) -> Value {
    canonical::parse(json.as_bytes()).unwrap()
}

fn object(properties: &str, required: &str) -> String {
    format!(r#"{{"type":"object","properties":{{{properties}}},"required":[{required}],"additionalProperties":false}}"#)
}

fn one(schema: &str) -> String {
    object(&format!(r#""a":{schema}"#), r#""a""#)
}

#[test]
fn what_the_strict_mode_does_not_know_is_left_out_at_every_depth() {
    for (schema, wanted) in [
        (r#"{"type":"string","minLength":3,"default":"x","examples":["y"]}"#, r#"{"type":"string"}"#),
        (
            r#"{"type":"string","pattern":"^a+$","format":"date"}"#,
            r#"{"format":"date","pattern":"^a+$","type":"string"}"#,
        ),
        (r#"{"type":"string","pattern":"^(?!a)","format":"uri"}"#, r#"{"type":"string"}"#),
        (r#"{"type":"string","pattern":"(a)\\1"}"#, r#"{"type":"string"}"#),
        (r#"{"type":"integer","minimum":1,"multipleOf":2}"#, r#"{"minimum":1,"multipleOf":2,"type":"integer"}"#),
        (
            r#"{"type":"array","items":{"type":"string","maxLength":9},"uniqueItems":true,"maxItems":3}"#,
            r#"{"items":{"type":"string"},"maxItems":3,"type":"array"}"#,
        ),
        (
            r#"{"anyOf":[{"type":"string","minLength":1},{"type":"null"}]}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
        ),
        (r#"{"enum":["a","b"]}"#, r#"{"enum":["a","b"],"type":"string"}"#),
        (r#"{"enum":["a",1,null]}"#, r#"{"enum":["a",1,null],"type":["string","integer","null"]}"#),
        (r#"{"const":2.5}"#, r#"{"const":2.5,"type":"number"}"#),
        (r#"{"enum":[[1]]}"#, r#"{"enum":[[1]]}"#),
        (r#"{"allOf":[{"type":"string"}],"not":{"const":""}}"#, "{}"),
        // A keyword that closes a list or an object would restrict more without the keyword that it complements.
        (r#"{"type":"array","prefixItems":[{}],"items":false}"#, r#"{"type":"array"}"#),
        (
            r#"{"type":"object","properties":{},"patternProperties":{"^x":{}},"additionalProperties":false}"#,
            r#"{"properties":{},"type":"object"}"#,
        ),
    ] {
        assert_eq!(relaxed(&value(schema)).to_text(), wanted, "{schema}");
    }
}

#[test]
fn strictness_is_asked_for_only_where_it_can_be_had() {
    for strict in [
        one(r#"{"type":"string"}"#),
        one(r#"{"anyOf":[{"type":"integer"},{"type":"null"}]}"#),
        one(r#"{"type":"array","items":{"type":"string"},"maxItems":3}"#),
        one(r#"{"type":["string","null"],"enum":["a",null]}"#),
        one(&one(r#"{"type":"boolean"}"#)),
    ] {
        assert!(is_strict(&value(&strict)), "{strict}");
    }
    for loose in [
        object(r#""a":{"type":"string"}"#, ""),
        object(r#""a":{"type":"string"}"#, r#""b""#),
        one(r#"{"type":"string","minLength":3}"#),
        one(r#"{"type":"string","format":"uri"}"#),
        one(r#"{"enum":["a"]}"#),
        one("{}"),
        one("true"),
        one(r#"{"type":"object"}"#),
        one(r#"{"type":["object","null"]}"#),
        one(r#"{"type":"array"}"#),
        one(r#"{"type":"array","items":{}}"#),
        one(&object(r#""b":{"type":"string"}"#, "")),
        format!(r#"{{"anyOf":[{}]}}"#, object("", "")),
        r#"{"type":"string"}"#.to_owned(),
        r#"{"type":"object"}"#.to_owned(),
        r#"{"type":"object","properties":{},"required":[]}"#.to_owned(),
    ] {
        assert!(!is_strict(&value(&loose)), "{loose}");
    }
}

#[test]
fn a_schema_beyond_what_the_api_takes_is_not_strict() {
    let nested = |levels: usize| (1..levels).fold(one(r#"{"type":"string"}"#), |inner, _| one(&inner));
    assert!(is_strict(&value(&nested(MAX_DEPTH))));
    assert!(!is_strict(&value(&nested(MAX_DEPTH + 1))));

    let choices = |count: usize, chars: usize| {
        let values: Vec<String> = (0..count).map(|at| format!("\"{at:0chars$}\"")).collect();
        value(&one(&format!(r#"{{"type":"string","enum":[{}]}}"#, values.join(","))))
    };
    assert!(is_strict(&choices(MAX_ENUM_VALUES, 4)));
    assert!(!is_strict(&choices(MAX_ENUM_VALUES + 1, 4)));
    assert!(is_strict(&choices(LARGE_ENUM_VALUES, 100)));
    assert!(!is_strict(&choices(LARGE_ENUM_VALUES + 1, 100)));

    let wide = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("\"f{at:07}\"")).collect();
        let properties: Vec<String> = names.iter().map(|name| format!("{name}:{{\"type\":\"null\"}}")).collect();
        value(&object(&properties.join(","), &names.join(",")))
    };
    assert!(is_strict(&wide(MAX_PROPERTIES)));
    assert!(!is_strict(&wide(MAX_PROPERTIES + 1)));
    let long = format!(r#""{}""#, "x".repeat(MAX_CHARS + 1));
    assert!(!is_strict(&value(&object(&format!("{long}:{{\"type\":\"null\"}}"), &long))));
}
