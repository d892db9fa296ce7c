//! An outsider recomputes digests from the page `engine/docs/digests.md` alone: the first part of this file shares no
//! code with rondo, and the second compares.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::binary::{Place, json};

fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let sorted: std::collections::BTreeMap<_, _> = members.iter().collect();
            let members: Vec<String> =
                sorted.iter().map(|(key, value)| format!("{}:{}", canonical(&json!(key)), canonical(value))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => serde_json::to_string(other).unwrap(),
    }
}

fn hash(kind: &str, bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(format!("rondo/{kind}/v1\n")).chain_update(bytes).finalize().into()
}

fn hex(digest: [u8; 32]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap();
    digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The digest of the step that a line of `rondo show --json` tells of.
fn step_digest(line: &Value) -> String {
    let mut step = Map::new();
    for field in ["answer", "edge", "lane", "observations", "output", "prev", "role", "start", "status"] {
        step.insert(field.to_owned(), line[field].clone());
    }
    step.insert("kind".to_owned(), json!("step"));
    let transcript = &line["transcript"];
    let named = if transcript.is_null() {
        Value::Null
    } else {
        json!(hex(hash("transcript", canonical(transcript).as_bytes())))
    };
    step.insert("transcript".to_owned(), named);
    hex(hash("step", canonical(&Value::Object(step)).as_bytes()))
}

/// The digest of the request that a line of `rondo messages --json` tells of.
fn request_digest(line: &Value) -> String {
    let mut chain = hash("messages", b"");
    for message in line["messages"].as_array().unwrap() {
        let message = hash("message", canonical(message).as_bytes());
        chain = hash("messages", &[chain, message].concat());
    }
    let head = hash("head", canonical(&line["head"]).as_bytes());
    hex(hash("request", &[head, chain].concat()))
}

#[test]
fn an_outsider_recomputes_every_step_and_request_of_a_thread() {
    let place = Place::new();
    let triage = concat!(env!("CARGO_MANIFEST_DIR"), "/../workflows/triage");
    let run = place.run(["run", triage, "--offline", "--input-file", &format!("{triage}/input.json")]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let lines = |words: &[&str]| -> Vec<Value> { place.run(words).lines.iter().map(|line| json(line)).collect() };
    let steps: Vec<Value> =
        lines(&["show", "last", "--json"]).into_iter().filter(|line| line["event"] == "step").collect();
    assert!(steps.len() >= 5);
    for step in &steps {
        assert_eq!(step["step"], json!(step_digest(step)), "{step}");
        let (role, visit) = (step["role"].as_str().unwrap(), step["visit"].to_string());
        let requests = lines(&["messages", "last", "--role", role, "--visit", &visit, "--json"]);
        assert!(!requests.is_empty());
        for request in requests {
            assert_eq!(request["digest"], json!(request_digest(&request)), "{request}");
        }
    }
}
