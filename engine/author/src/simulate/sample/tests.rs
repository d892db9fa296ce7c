use proptest::prelude::*;
use rondo_protocol::canonical;
use rondo_protocol::id::FieldName;
use rondo_protocol::source;
use rondo_protocol::workflow::Field;
use rondo_protocol::workflow::types::expand;

use super::*;

fn schema(yaml: &str) -> Value {
    let (schema, faults) = expand(&source::yaml(yaml).unwrap(), "field");
    assert_eq!(faults, [], "{yaml}");
    schema
}

fn made(yaml: &str) -> Vec<Value> {
    samples(&schema(yaml), &[])
}

fn json(text: &str) -> Value {
    canonical::from_slice(text.as_bytes()).unwrap()
}

fn follows((keyword, wanted): (&str, &str), text: &Value) -> bool {
    let schema = Value::from_iter([(keyword, Value::from(wanted))]);
    text.as_str().is_some() && Validator::of_schema(&schema).unwrap().is_valid(text)
}

#[test]
fn words_of_an_enum_booleans_and_bounds_are_all_there() {
    assert_eq!(
        made("\"low | mid | high\""),
        ["low", "high", "mid"].map(Value::from),
        "the shortest, the longest, others"
    );
    assert_eq!(made("boolean"), [false, true].map(Value::Bool));
    let bounded = made("{ type: integer, minimum: 2, maximum: 9 }");
    assert_eq!(bounded, [2, 9].map(Value::Int));
    let open = made("{ type: number, exclusiveMinimum: 0, exclusiveMaximum: 1 }");
    assert!(open.contains(&Value::Float(0.5)), "{open:?}");
}

#[test]
fn numbers_without_bounds_come_to_zero_and_to_the_largest() {
    let integers = made("integer");
    for wanted in [0, 1, -1, canonical::MAX_INTEGER, -canonical::MAX_INTEGER] {
        assert!(integers.contains(&Value::Int(wanted)), "{wanted}: {integers:?}");
    }
    assert!(made("{ type: integer, minimum: 3, multipleOf: 5 }").contains(&Value::Int(5)));
}

#[test]
fn texts_are_as_short_and_as_long_as_they_may_be() {
    let lengths = |yaml: &str| made(yaml).iter().map(|text| text.as_str().unwrap().len()).collect::<Vec<_>>();
    assert_eq!(lengths("string"), [0, text::USUAL_CHARS]);
    assert_eq!(lengths("{ type: string, minLength: 3, maxLength: 7 }"), [3, 7]);
    assert_eq!(lengths("{ type: string, minLength: 500 }"), [500]);
    assert_eq!(lengths("{ type: string, maxLength: 9000000 }"), [0, 64 * 1024], "there is a ceiling");
}

#[test]
fn lists_come_empty_with_one_of_each_and_full() {
    let lists = made("\"string[]\"");
    assert_eq!(lists.first(), Some(&Value::List(Vec::new())));
    assert!(lists.contains(&Value::List(vec![Value::from("")])), "{lists:?}");
    let few = made("{ type: array, items: { enum: [1, two] }, minItems: 1, maxItems: 4 }");
    assert!(few.contains(&json(r#"[1,"two"]"#)), "what stands in a list may be of several sorts: {few:?}");
    let apart = made("{ type: array, items: { type: string }, minItems: 3, uniqueItems: true }");
    assert!(apart.iter().all(|list| matches!(list, Value::List(items) if items.len() >= 3)), "{apart:?}");
    let is_from_50 = |item: &Value| matches!(item, Value::Int(number) if *number >= 50);
    let with = made("{ type: array, items: { type: integer }, contains: { minimum: 50 } }");
    let holds_one = |list: &Value| matches!(list, Value::List(items) if items.iter().any(is_from_50));
    assert!(!with.is_empty() && with.iter().all(holds_one), "{with:?}");
}

#[test]
fn a_length_that_is_asked_for_is_made() {
    let lists = samples(&schema("\"string[]\""), &[Value::Int(5)]);
    let lengths: Vec<usize> =
        lists.iter().map(|list| if let Value::List(items) = list { items.len() } else { 0 }).collect();
    for wanted in [4, 5, 6] {
        assert!(lengths.contains(&wanted), "{wanted}: {lengths:?}");
    }
    assert!(samples(&schema("string"), &[Value::from("open"), Value::Int(3)]).contains(&Value::from("open")));
}

#[test]
fn members_are_there_and_not_there() {
    let objects = made("{ a: string, \"b?\": \"x | y\" }");
    assert_eq!(objects.first(), Some(&json(r#"{"a":""}"#)));
    let b: Vec<Option<&str>> = objects.iter().map(|object| object.get("b").and_then(Value::as_str)).collect();
    assert!([None, Some("x"), Some("y")].iter().all(|wanted| b.contains(wanted)), "{b:?}");
}

#[test]
fn alternatives_are_all_tried() {
    let either = made("{ anyOf: [{ type: string }, { type: array, items: { type: integer } }, { type: \"null\" }] }");
    assert!(either.contains(&Value::from("")) && either.contains(&Value::Null), "{either:?}");
    assert!(either.contains(&Value::List(Vec::new())), "{either:?}");
    let together = made("{ allOf: [{ type: number, minimum: 3 }, { type: integer, maximum: 4 }] }");
    assert_eq!(together, [3, 4].map(Value::Int));
    let depending = made(
        "{ type: object, properties: { kind: { enum: [a, b] }, n: { type: integer } }, required: [kind], if: { properties: { kind: { const: b } } }, then: { required: [n] } }",
    );
    let with_n = |object: &Value| object.get("kind") == Some(&Value::from("b")) && object.get("n").is_some();
    assert!(depending.iter().any(with_n), "{depending:?}");
}

#[test]
fn patterns_and_formats_are_followed() {
    for pattern in [
        "^[A-Z]{2}-\\\\d+$",
        "^(draft|final)$",
        "^v?[0-9]+\\\\.[0-9]+(?:\\\\.[0-9]+)?$",
        "[^a-z]",
        "^\\\\S.*\\\\S$",
        "^#[0-9a-fA-F]{6}$",
        "^[\\\\w.-]+@example\\\\.org$",
        "^\\\\p{Greek}{3}$",
    ] {
        let found = made(&format!("{{ type: string, pattern: \"{pattern}\" }}"));
        assert!(!found.is_empty(), "{pattern}");
        for text in &found {
            assert!(follows(("pattern", &pattern.replace("\\\\", "\\")), text), "{pattern}: {text:?}");
        }
    }
    for format in ["date", "date-time", "email", "uri", "uuid", "ipv4", "duration"] {
        let found = made(&format!("{{ type: string, format: {format} }}"));
        assert!(!found.is_empty(), "{format}");
        for text in &found {
            assert!(follows(("format", format), text), "{format}: {text:?}");
        }
    }
}

#[test]
fn what_nothing_can_follow_gives_nothing() {
    for impossible in [
        "{ type: integer, minimum: 5, maximum: 4 }",
        "{ type: string, pattern: \"^(?=a)a$\" }",
        "{ type: string, minLength: 9000000 }",
        "{ not: {} }",
        "{ enum: [1, 2], type: string }",
        "{ type: array, minItems: 70 }",
    ] {
        assert_eq!(made(impossible), [], "{impossible}");
    }
    assert_eq!(samples(&Value::Int(3), &[]), [], "that is no schema");
}

/// Nested objects, with sixteen alternatives at each level.
#[test]
fn a_schema_with_very_many_ways_takes_a_bounded_time() {
    let mut schema = Value::from_iter([("type", Value::from("string"))]);
    for _ in 0..8 {
        let ways = (0..16).map(|way| Value::from_iter([("maxProperties", Value::from(way + 1))])).collect();
        schema = Value::from_iter([
            ("anyOf", Value::List(ways)),
            ("properties", Value::from_iter([("a", schema)])),
            ("required", Value::List(vec![Value::from("a")])),
            ("type", Value::from("object")),
        ]);
    }
    assert!(!samples(&schema, &[]).is_empty());
}

fn fields(declared: &[(&str, &str)]) -> Vec<(FieldName, Field)> {
    let field = |(name, yaml): &(&str, &str)| {
        let optional = name.ends_with('?');
        (FieldName::new(name.trim_end_matches('?')).unwrap(), Field { optional, schema: schema(yaml) })
    };
    declared.iter().map(field).collect()
}

#[test]
fn fields_come_shortest_longest_and_without_what_is_optional() {
    let found = objects(&fields(&[("title", "string"), ("note?", "string")]), &BTreeSet::new(), &[]);
    let long = text::words(text::USUAL_CHARS);
    let wanted = [
        json(r#"{"title":""}"#),
        Value::from_iter([("title", Value::from(long.as_str())), ("note", Value::from(long.as_str()))]),
        Value::from_iter([("title", Value::from(long.as_str()))]),
    ];
    assert_eq!(found.values.get(..3), Some(wanted.as_slice()));
    assert!(found.unmade.is_empty() && !found.is_cut);
}

#[test]
fn fields_that_decide_together_are_combined() {
    let declared = fields(&[("risk", "\"low | high\""), ("size", "\"s | m | l\""), ("text", "string")]);
    let crossed = ["risk", "size"].map(str::to_owned).into();
    let found = objects(&declared, &crossed, &[]).values;
    for risk in ["low", "high"] {
        for size in ["s", "m", "l"] {
            let both = |object: &Value| {
                object.get("risk").and_then(Value::as_str) == Some(risk)
                    && object.get("size").and_then(Value::as_str) == Some(size)
            };
            assert!(found.iter().any(both), "{risk} {size}");
        }
    }
}

#[test]
fn a_field_without_a_value_is_named() {
    let none = "{ type: integer, minimum: 5, maximum: 4 }";
    let optional = objects(&fields(&[("a", "string"), ("b?", none)]), &BTreeSet::new(), &[]);
    assert_eq!((optional.values.len(), optional.unmade.len()), (2, 1));
    let required = objects(&fields(&[("a", "string"), ("b", none)]), &BTreeSet::new(), &[]);
    assert_eq!((required.values.len(), required.unmade.len()), (0, 1));
}

/// Small schemas of any shape, meaningful or not.
fn any_schema() -> impl Strategy<Value = Value> {
    let number = (-20_i64..20).prop_map(|number| Value::Int(number.into()));
    let count = (0_u64..6).prop_map(Value::from);
    let words = prop::sample::subsequence(vec!["a", "b", "", "long word"], 1..4)
        .prop_map(|words| Value::List(words.into_iter().map(Value::from).collect()));
    let pattern = prop::sample::select(vec!["^[a-c]{2,4}$", "x+", "^(p|q)?$", "\\d{3}", "^$", "(?=a)b"]);
    let leaf = prop_oneof![
        Just(Value::Bool(true)),
        prop::sample::select(vec!["string", "integer", "number", "boolean", "null", "array", "object"])
            .prop_map(|word| Value::from_iter([("type", Value::from(word))])),
        words.prop_map(|words| Value::from_iter([("enum", words)])),
        (count.clone(), count.clone(), pattern).prop_map(|(least, most, pattern)| Value::from_iter([
            ("type", Value::from("string")),
            ("minLength", least),
            ("maxLength", most),
            ("pattern", Value::from(pattern)),
        ])),
        (number.clone(), number.clone(), 1_u64..5).prop_map(|(low, high, step)| Value::from_iter([
            ("type", Value::from("number")),
            ("minimum", low),
            ("exclusiveMaximum", high),
            ("multipleOf", Value::from(step)),
        ])),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let some = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            (inner.clone(), count.clone(), count.clone(), any::<bool>()).prop_map(|(items, least, most, unique)| {
                Value::from_iter([
                    ("type", Value::from("array")),
                    ("items", items),
                    ("minItems", least),
                    ("maxItems", most),
                    ("uniqueItems", Value::Bool(unique)),
                ])
            }),
            (some.clone(), any::<bool>(), any::<bool>()).prop_map(|(members, required, closed)| {
                let names = ["a", "b", "c"];
                let properties: Value = names.into_iter().zip(members).collect();
                let required = if required { vec![Value::from("a")] } else { Vec::new() };
                Value::from_iter([
                    ("type", Value::from("object")),
                    ("properties", properties),
                    ("required", Value::List(required)),
                    ("additionalProperties", Value::Bool(!closed)),
                ])
            }),
            (some.clone(), prop::sample::select(vec!["anyOf", "oneOf", "allOf"]))
                .prop_map(|(parts, key)| Value::from_iter([(key, Value::List(parts))])),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| Value::from_iter([
                ("if", a),
                ("then", b),
                ("else", c)
            ])),
            inner.prop_map(|inner| Value::from_iter([("not", inner)])),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_follows_its_schema(schema in any_schema()) {
        let Ok(validator) = Validator::of_schema(&schema) else { return Ok(()) };
        let found = samples(&schema, &[Value::Int(2), Value::from("a")]);
        prop_assert!(found.len() <= MAX_SAMPLES);
        for (index, value) in found.iter().enumerate() {
            prop_assert!(validator.is_valid(value), "{}: {}", schema.to_text(), value.to_text());
            prop_assert!(!found[..index].contains(value), "twice");
        }
        prop_assert_eq!(samples(&schema, &[Value::Int(2), Value::from("a")]), found, "the same schema, the same values");
    }

    #[test]
    fn no_pattern_makes_it_panic(pattern in "\\PC{0,40}", stretch in 0_usize..80) {
        let _ = pattern::text(&pattern, stretch);
    }
}
