use std::collections::BTreeMap;

use super::*;
use crate::diagnostic::Code;
use crate::id::FieldName;
use crate::source;
use crate::workflow::{Policy, Workflow};

fn schema(text: &str) -> String {
    let (schema, faults) = expand(&source::yaml(text).unwrap(), "field");
    assert_eq!(faults, [], "{text}");
    schema.to_text()
}

fn codes(text: &str) -> Vec<Code> {
    expand(&source::yaml(text).unwrap(), "field").1.into_iter().map(|fault| fault.code).collect()
}

#[test]
fn shorthands_become_json_schema() {
    for (text, wanted) in [
        ("string", r#"{"type":"string"}"#),
        ("\"integer[]\"", r#"{"items":{"type":"integer"},"type":"array"}"#),
        ("\" low |mid | high\"", r#"{"enum":["low","mid","high"],"type":"string"}"#),
        ("\"1 | 2\"", r#"{"enum":["1","2"],"type":"string"}"#),
        (
            "{ a: string, \"b?\": \"x | y\" }",
            r#"{"additionalProperties":false,"properties":{"a":{"type":"string"},"b":{"enum":["x","y"],"type":"string"}},"required":["a"],"type":"object"}"#,
        ),
        (
            "{ a: { b: boolean } }",
            r#"{"additionalProperties":false,"properties":{"a":{"additionalProperties":false,"properties":{"b":{"type":"boolean"}},"required":["b"],"type":"object"}},"required":["a"],"type":"object"}"#,
        ),
        // Without `type`, a map whose values are shorthands is an object even when its keys are keywords.
        (
            "{ title: string, format: string }",
            r#"{"additionalProperties":false,"properties":{"format":{"type":"string"},"title":{"type":"string"}},"required":["title","format"],"type":"object"}"#,
        ),
        ("[string]", r#"{"items":{"type":"string"},"type":"array"}"#),
        ("[\"low | mid\"]", r#"{"items":{"enum":["low","mid"],"type":"string"},"type":"array"}"#),
        (
            "[[\"integer[]\"]]",
            r#"{"items":{"items":{"items":{"type":"integer"},"type":"array"},"type":"array"},"type":"array"}"#,
        ),
        (
            "[{ path: string, \"line?\": integer }]",
            r#"{"items":{"additionalProperties":false,"properties":{"line":{"type":"integer"},"path":{"type":"string"}},"required":["path"],"type":"object"},"type":"array"}"#,
        ),
        (
            "{ items: [{ title: string }] }",
            r#"{"additionalProperties":false,"properties":{"items":{"items":{"additionalProperties":false,"properties":{"title":{"type":"string"}},"required":["title"],"type":"object"},"type":"array"}},"required":["items"],"type":"object"}"#,
        ),
        ("{ enum: [string] }", r#"{"enum":["string"]}"#),
        ("{ type: integer, default: 300 }", r#"{"default":300,"type":"integer"}"#),
        ("{ enum: [1, two, 3.0] }", r#"{"enum":[1,"two",3]}"#),
        ("{ anyOf: [{ type: string }, { type: \"null\" }] }", r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#),
        (
            "{ type: object, properties: { type: { type: string } }, additionalProperties: false }",
            r#"{"additionalProperties":false,"properties":{"type":{"type":"string"}},"type":"object"}"#,
        ),
    ] {
        assert_eq!(schema(text), wanted, "{text}");
    }
}

#[test]
fn what_is_no_type_is_refused_with_one_code_a_kind() {
    for (text, wanted) in [
        ("text", Code::UnknownType),
        ("\"string[][]\"", Code::UnknownType),
        ("\"a | | b\"", Code::UnknownType),
        ("\"a | a\"", Code::UnknownType),
        ("{ type: strin }", Code::UnknownType),
        ("{ type: integer, minumum: 1 }", Code::UnknownKeyword),
        ("{ type: string, name: string }", Code::FieldCalledType),
        ("{ type: \"a | b\", name: string }", Code::FieldCalledType),
        ("{ type: array, items: string }", Code::InvalidSchema),
        ("{ type: array, items: { type: { a: string } , b: 1 } }", Code::UnknownKeyword),
        ("{ $ref: \"#\" }", Code::SchemaReference),
        ("{ type: object, properties: { a: { $dynamicRef: \"#a\" } } }", Code::SchemaReference),
        ("{ type: object, $defs: {} }", Code::SchemaReference),
        ("{ enum: [a, null] }", Code::NullValue),
        ("[text]", Code::UnknownType),
        ("[{ a: strin, b: string }]", Code::UnknownType),
        ("[string, integer]", Code::WrongType),
        ("[{ type: string }]", Code::WrongType),
        ("[]", Code::WrongType),
        ("3", Code::WrongType),
    ] {
        assert_eq!(codes(text).first(), Some(&wanted), "{text}");
    }
}

#[test]
fn schemas_are_bounded() {
    let words: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    assert_eq!(codes(&format!("\"{}\"", words.join("|"))), [Code::SchemaTooLarge]);
    assert_eq!(codes(&format!("{{ enum: [{}] }}", words.join(", "))), [Code::SchemaTooLarge]);
    assert_eq!(codes(&format!("{{ type: string, pattern: {} }}", "a".repeat(2_000))), [Code::SchemaTooLarge]);
    let nested = format!("{}{{ type: string }}{}", "{ type: array, items: ".repeat(20), " }".repeat(20));
    assert_eq!(codes(&nested), [Code::SchemaTooLarge]);
    // A pattern that is short but large when compiled.
    let large = crate::canonical::parse(br#"{"type":"string","pattern":"((a{100}){100}){100}"}"#).unwrap();
    assert!(Validator::of_schema(&large).is_err());
}

fn workflow(input: &str) -> Workflow {
    let text = format!(
        "rondo: 1\nname: t\ninput: {input}\nroles: {{ a: {{ system: x }} }}\n\
         graph: {{ start: {{ to: a, prompt: x }}, a: {{ done: {{ to: end }} }} }}\n"
    );
    let files: BTreeMap<String, String> = BTreeMap::new();
    let checked = crate::workflow::read("w.yaml", &text, &files);
    let Policy { .. } = checked.as_ref().unwrap().policy;
    checked.unwrap().workflow
}

fn given(json: &str) -> BTreeMap<String, Value> {
    match crate::canonical::parse(json.as_bytes()).unwrap() {
        Value::Object(members) => members,
        _ => panic!("not an object"),
    }
}

#[test]
fn defaults_are_filled_in_and_optional_inputs_may_be_left_out() {
    let workflow = workflow("{ topic: string, words: { type: integer, default: 300 }, \"note?\": string }");
    let input = check_input(&workflow, given(r#"{"topic":"tides"}"#)).unwrap();
    assert_eq!(input.to_text(), r#"{"topic":"tides","words":300}"#);
    let input = check_input(&workflow, given(r#"{"note":"n","topic":"tides","words":3.0}"#)).unwrap();
    assert_eq!(input.to_text(), r#"{"note":"n","topic":"tides","words":3}"#);
}

#[test]
fn all_faults_of_an_input_are_told_without_its_values() {
    let workflow =
        workflow("{ topic: string, words: integer, key: { type: string, maxLength: 4 }, tags: \"string[]\" }");
    let faults = check_input(&workflow, given(r#"{"topc":"x","words":"secret-1","key":"secret-2","tags":["a",2]}"#))
        .unwrap_err();
    let text: String = faults
        .iter()
        .map(|f| [f.code.as_str(), " ", &f.message, "; ", f.hint.as_deref().unwrap_or("-"), "\n"].concat())
        .collect();
    assert!(!text.contains("secret"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_text_is_taken_as_the_type_wants_it() {
    let workflow = workflow(
        "{ s: string, e: \"1 | 2\", n: integer, l: \"string[]\", any: { enum: [a, 1] }, free: {}, b: boolean }",
    );
    let parse = |name: &str, text: &str| {
        let field = &workflow.input.iter().find(|(known, _)| known.as_str() == name).unwrap().1;
        parse_input_text(name, field, text).map(|value| value.to_text()).map_err(|fault| fault.code)
    };
    assert_eq!(parse("s", "[1"), Ok("\"[1\"".to_owned()));
    assert_eq!(parse("e", "1"), Ok("\"1\"".to_owned()));
    assert_eq!(parse("n", "12"), Ok("12".to_owned()));
    assert_eq!(parse("n", "twelve"), Err(Code::InvalidInput));
    assert_eq!(parse("n", "18446744073709551616"), Err(Code::InvalidInput));
    assert_eq!(parse("l", "[\"a\"]"), Ok("[\"a\"]".to_owned()));
    assert_eq!(parse("l", "a"), Err(Code::InvalidInput));
    assert_eq!(parse("free", "not json"), Ok("\"not json\"".to_owned()));
    assert_eq!(parse("b", "yes"), Err(Code::InvalidInput));
}

#[test]
fn an_input_may_be_nested_as_deep_as_a_value_that_enters_a_thread() {
    let workflow = workflow("{ any: {}, list: \"string[]\" }");
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let field = &workflow.input[0].1;
    let fault = parse_input_text("any", field, &deep(crate::canonical::MAX_VALUE_DEPTH + 1)).unwrap_err();
    assert_eq!(fault.code, Code::InvalidInput);
    assert!(fault.message.ends_with("nested deeper than 64 levels"), "{fault}");
    // The object of all inputs adds a level.
    let check = |levels: usize| {
        let nested = (0..levels).fold(Value::from("x"), |value, _| Value::List(vec![value]));
        let given = BTreeMap::from([("any".to_owned(), nested), ("list".to_owned(), Value::List(Vec::new()))]);
        check_input(&workflow, given)
            .map_err(|faults| faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>())
    };
    assert!(check(crate::canonical::MAX_VALUE_DEPTH - 1).unwrap().check_depth().is_ok());
    assert_eq!(
        check(crate::canonical::MAX_VALUE_DEPTH),
        Err(vec!["the input `any` does not fit: lists and objects are nested deeper than 64 levels".to_owned()])
    );
}

#[test]
fn an_object_is_held_to_its_fields() {
    let field =
        |schema: &str, optional| Field { optional, schema: crate::canonical::parse(schema.as_bytes()).unwrap() };
    let fields = vec![
        (FieldName::new("title").unwrap(), field(r#"{"type":"string"}"#, false)),
        (FieldName::new("score").unwrap(), field(r#"{"type":"integer"}"#, true)),
    ];
    let validator = Validator::of_fields(&fields).unwrap();
    let violations = |json: &str| {
        let value = crate::canonical::parse(json.as_bytes()).unwrap();
        validator.violations(&value).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(violations(r#"{"title":"x","score":18446744073709551615}"#), Vec::<String>::new());
    assert_eq!(violations(r#"{"title":"x","score":"high"}"#), ["/score: it is not of type \"integer\""]);
    assert_eq!(violations(r#"{"score":1}"#).len(), 1);
    assert_eq!(violations(r#"{"title":"x","other":1}"#).len(), 1);
}
