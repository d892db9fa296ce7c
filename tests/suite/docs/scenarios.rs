//! `scenarios.md`: every example is run, and passes.

use rondo_protocol::source;
use serde_json::{Map, Value};

use super::{blocks, page};
use crate::binary::Place;

fn yaml(text: &str) -> Map<String, Value> {
    serde_json::from_str(&source::yaml(text).unwrap().to_value().to_text()).unwrap()
}

#[test]
fn every_example_of_a_scenario_passes() {
    let place = Place::new();
    let blocks = blocks(&page("scenarios.md"), "yaml");
    let [workflow, whole, parts @ ..] = blocks.as_slice() else { panic!("there are no examples") };
    place.file("article/workflow.yaml", workflow);
    place.file("article/input.json", r#"{ "topic": "rivers", "words": 50 }"#);
    place.file("article/fixture/notes.md", "The moon pulls.\n");
    place.file("article/tests/example-0.yaml", whole);
    assert!(parts.len() >= 4);
    for (number, part) in parts.iter().enumerate() {
        let mut scenario = yaml(whole);
        scenario.extend(yaml(part));
        place.file(&format!("article/tests/example-{}.json", number + 1), Value::from(scenario).to_string());
    }
    let tested = place.run(["test", "article", "--accept"]).exits(0);
    assert!(tested.text().contains(&format!("{} passed", parts.len() + 1)), "{}", tested.text());
}

#[test]
fn the_page_and_its_rows_are_printed() {
    let place = Place::new();
    assert_eq!(place.run(["explain", "scenarios"]).exits(0).text().trim_end(), page("scenarios.md").trim_end());
    let told = place.run(["explain", "request_contains"]).exits(0).text();
    assert!(told.contains("a request to the role contains this text"), "{told}");
}
