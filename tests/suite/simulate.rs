//! `rondo simulate` from outside: what ships is clean, what is faulty is found, and both say so in the way of
//! `validate`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::binary::Place;

const SHIPPED: [&str; 11] = [
    "approve-release",
    "debate",
    "fix-failing-test",
    "interview",
    "map-files",
    "panel",
    "repo-report",
    "research-report",
    "review-diff",
    "review-loop",
    "triage",
];

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_ships_simulates_clean_and_whole() {
    let place = Place::new();
    for name in SHIPPED {
        let simulating = place.start(["simulate", &shipped(name), "--routes", "3", "--json"]);
        // An unoptimised program tries 140,000 answers of `debate`, which takes a slow machine a minute.
        let finished = simulating.finish_within(Duration::from_mins(5)).exits(0);
        assert_eq!(finished.events("diagnostic"), Vec::<Value>::new(), "{name}");
        let coverage = finished.event("coverage");
        assert_eq!(coverage["edges"], coverage["taken"], "{name}: {coverage}");
        let worst = finished.event("worst");
        assert_eq!(worst["exact"], true, "{name}: {worst}");
        assert!(worst["steps"].as_u64() > Some(0) && worst["prompt_tokens"].as_u64() > Some(0), "{name}: {worst}");
        let routes = finished.events("route");
        assert_eq!(routes.len(), 3, "{name}");
        let lengths: Vec<u64> = routes.iter().map(|route| route["step_count"].as_u64().unwrap()).collect();
        assert!(lengths.is_sorted(), "{name}: {lengths:?}");
    }
    assert!(!place.store().exists(), "nothing is stored");
}

const FAULTY: &str = r#"
rondo: 1
name: faulty
input: { topic: string }
roles:
  counter: { system: Count., output: { counted: { done: integer, all: { type: integer, minimum: 0, maximum: 9 } } } }
graph:
  start: { to: counter, prompt: "Count {{ input.topic }}." }
  counter:
    counted:
      - { when: output.all > 9, to: fail, reason: never }
      - else: { to: end, say: "{{ output.done / output.all }}" }
"#;

#[test]
fn a_fault_that_only_a_run_would_meet_is_found_before_one() {
    let place = Place::new();
    let file = place.file("faulty.yaml", FAULTY);
    place.run(["validate", &file]).exits(0);
    let finished = place.run(["simulate", "faulty.yaml", "--json"]).exits(2);
    let found: Vec<String> = finished
        .events("diagnostic")
        .iter()
        .map(|told| format!("{} {}:{}", told["code"].as_str().unwrap(), told["line"], told["column"]))
        .collect();
    assert_eq!(found, ["RN1912 11:9", "RN1911 12:35"]);
    assert_eq!(finished.event("coverage")["never"][0], "graph.counter.counted[0]");
    let told = place.run(["simulate", "faulty.yaml"]).exits(2).text();
    assert!(told.contains("faulty.yaml:12:35: RN1911: "), "{told}");
    assert!(told.contains("counter.counted -> end"), "{told}");
}

#[test]
fn what_was_not_looked_at_is_not_told_as_a_fact() {
    use std::fmt::Write as _;
    let mut text = "rondo: 1\nname: large\nroles:\n".to_owned();
    for role in 0..6 {
        let _ = writeln!(text, "  r{role}: {{ system: R., output: {{ s0: null, s1: null, s2: null }} }}");
    }
    text.push_str("graph:\n  start: { to: r0, prompt: Go. }\n");
    for role in 0..6 {
        let _ = writeln!(text, "  r{role}:");
        for status in 0..3 {
            let to = (role + status + 1) % 6;
            let _ = writeln!(text, "    s{status}: {{ to: r{to}, prompt: On., max: 4, on_max: {{ to: end }} }}");
        }
    }
    let place = Place::new();
    place.file("large.yaml", &text);
    let finished = place.run(["simulate", "large.yaml", "--routes", "2", "--json"]).exits(0);
    let (worst, coverage) = (finished.event("worst"), finished.event("coverage"));
    assert_eq!((&worst["exact"], &worst["all_weighed"]), (&Value::Bool(false), &Value::Bool(false)));
    assert_eq!((&coverage["never"], &coverage["all_routes"]), (&Value::Null, &Value::Bool(false)));
    assert!(finished.events("diagnostic").iter().any(|told| told["code"] == "RN1914"));
    let told = place.run(["simulate", "large.yaml", "--routes", "2"]).exits(0).text();
    assert!(told.contains("the 2 shortest routes of those found, of "), "{told}");
    assert!(told.contains("worst case: at least ") && told.contains(" steps; at least about "), "{told}");
    assert!(!told.contains("never:"), "{told}");
}

#[test]
fn inputs_that_are_given_are_held_to_what_the_workflow_declares() {
    let place = Place::new();
    place.file("faulty.yaml", FAULTY);
    place.run(["simulate", "faulty.yaml", "-i", "topic=tides", "--routes", "0"]).exits(2);
    let unknown = place.run(["simulate", "faulty.yaml", "-i", "topik=tides", "--json"]).exits(2);
    assert_eq!(unknown.event("error")["code"], "RN0601");
    place.run(["simulate", "nowhere"]).exits(2);
}
