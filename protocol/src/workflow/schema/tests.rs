use serde_json::Value;

use super::*;
use crate::canonical;
use crate::source;
use crate::workflow::types::Validator;

const GOOD: [&str; 2] = [
    include_str!("../../../../tests/fixtures/good/review-loop.yaml"),
    include_str!("../../../../tests/fixtures/good/everything.yaml"),
];

/// The schema as an editor uses it: with a look-around pattern, which the engine itself never compiles.
fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    jsonschema::draft202012::options().build(&schema).unwrap()
}

fn as_json(text: &str) -> Value {
    serde_json::from_slice(&canonical::to_bytes(&source::yaml(text).unwrap().to_value()).unwrap()).unwrap()
}

#[test]
fn what_the_reader_takes_follows_the_schema() {
    let validator = validator();
    for text in GOOD {
        let faults: Vec<String> =
            validator.iter_errors(&as_json(text)).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

#[test]
fn what_the_reader_refuses_for_its_shape_the_schema_refuses() {
    let validator = validator();
    for name in ["edges", "files", "hooks", "names", "nulls", "top_keys", "trap_else", "types", "wrong_types"] {
        let path = format!("{}/../tests/fixtures/bad/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let Ok(node) = source::yaml(&std::fs::read_to_string(path).unwrap()) else { continue };
        let value = serde_json::from_slice(&canonical::to_bytes(&node.to_value()).unwrap()).unwrap();
        assert!(!validator.is_valid(&value), "{name}");
    }
    for (from, to) in [
        ("max: 3", "max: 0"),
        ("wall_time: 30m", "wall_time: 30"),
        ("temperature: 0.2", "temprature: 0.2"),
        ("to: editor", "too: editor"),
        ("ttl: 24h", "ttl: soon"),
        ("rondo: 1", "rondo: 2"),
        ("approved: { summary: string }", "approved: [summary]"),
    ] {
        let text = GOOD[0].replacen(from, to, 1);
        assert_ne!(text, GOOD[0], "{from}");
        assert!(!validator.is_valid(&as_json(&text)), "{to}");
    }
}

#[test]
fn a_value_is_held_to_a_schema_that_looks_ahead_nowhere() {
    // Fields of workflows are compiled without look-around; only the schema of workflow files, for editors, uses it.
    assert!(Validator::of_schema(&canonical::parse(br#"{"type":"string","pattern":"(?!a)"}"#).unwrap()).is_err());
}

#[test]
fn what_is_no_duration_size_or_price_is_refused_wherever_it_stands() {
    let validator = validator();
    for (from, to) in [("ttl: 24h", "ttl: 24"), ("ttl: 24h", "bytes: soon"), ("cost_usd: 1.00", "cost_usd: 0")] {
        let text = GOOD[0].replacen(from, to, 1);
        assert_ne!(text, GOOD[0], "{from}");
        assert!(!validator.is_valid(&as_json(&text)), "{to}");
    }
}

#[test]
fn each_word_of_the_table_is_one_of_its_type() {
    fn holds<T: serde::de::DeserializeOwned>(named: &Named) {
        let Form::Words(words) = named.form else { panic!("{} has no words", named.name) };
        assert!(!words.is_empty());
        for (word, _) in words {
            assert!(canonical::from_value::<T>((*word).into()).is_ok(), "{} of {}", word, named.name);
        }
    }
    holds::<crate::workflow::AnswerFormat>(&format::FORMAT);
    holds::<crate::workflow::History>(&format::HISTORY);
    holds::<crate::workflow::ContextWhat>(&format::CONTEXT_WHAT);
    holds::<crate::call::FaultClass>(&format::RETRY_FAULT);
    holds::<crate::workflow::SelectBy>(&format::SELECT_WORD);
    holds::<crate::workflow::FailedLanes>(&format::FAILED_LANES);
}

/// The paths of properties and definitions below `schema` that lack a description.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                let path = format!("{path}/{keyword}");
                if let ("properties" | "$defs", Value::Object(properties)) = (keyword.as_str(), value) {
                    let bare = properties.iter().filter(|(_, property)| {
                        property["description"].as_str().is_none_or(|description| description.trim().is_empty())
                    });
                    found.extend(bare.map(|(name, _)| format!("{path}/{name}")));
                }
                undescribed(value, &path, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| undescribed(item, path, found)),
        _ => {}
    }
}

#[test]
fn every_property_says_what_it_is_for() {
    let mut found = Vec::new();
    undescribed(&serde_json::from_str(&schema()).unwrap(), "", &mut found);
    assert!(found.is_empty(), "without a description:\n{}", found.join("\n"));
}
