//! `workflow.md`: every key, filter and test has a row, and every example is run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use rondo_protocol::{canonical, source};
use serde_json::{Map, Value};

use super::{blocks, page};
use crate::binary::{Place, fixture};

fn yaml(text: &str) -> Map<String, Value> {
    let value = source::yaml(text).unwrap().to_value();
    serde_json::from_slice(&canonical::to_bytes(&value).unwrap()).unwrap()
}

/// An example as a whole file, by the rule that the page states.
fn whole(frame: &Map<String, Value>, part: Map<String, Value>) -> Value {
    if part.contains_key("rondo") {
        return part.into();
    }
    let mut file = frame.clone();
    let kept: Option<BTreeSet<String>> =
        part.get("graph").map(|graph| graph.as_object().unwrap().keys().cloned().collect());
    for (key, value) in part {
        match (file.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) if ["input", "roles", "graph"].contains(&&*key) => {
                known.extend(more);
            }
            (_, value) => {
                file.insert(key, value);
            }
        }
    }
    if let Some(kept) = kept {
        for key in ["roles", "graph"] {
            let names = file[key].as_object_mut().unwrap();
            names.retain(|name, _| name == "start" || kept.contains(name));
        }
    }
    file.into()
}

/// The rows of the table under a heading: the names in the first cell, and the code in the cells after it.
fn rows(page: &str, heading: &str) -> BTreeMap<Vec<String>, Vec<String>> {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let section = section.split("\n#").next().unwrap();
    let code = |text: &str| text.split('`').skip(1).step_by(2).map(|code| code.replace("\\|", "|")).collect();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    rows.map(|(first, rest)| (code(&format!("`{first}")), code(rest))).collect()
}

#[test]
fn every_example_of_the_reference_is_accepted() {
    let page = page("workflow.md");
    let place = Place::new();
    let blocks = blocks(&page, "yaml");
    let frame = yaml(&blocks[0]);
    place.file("section.yaml", &blocks[0]);
    assert!(blocks.len() > 12);
    for block in &blocks {
        let file = place.file("example.json", whole(&frame, yaml(block)).to_string());
        let told = place.run(["validate", &file]);
        assert_eq!(told.code, Some(0), "{block}\n{}", told.text());
    }
}

/// `fixtures/constructs` was written from `workflow.md` alone.
#[test]
fn each_construct_of_the_reference_is_accepted_and_walked_without_a_fault() {
    let place = Place::new();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(fixture("constructs")).unwrap() {
        let file = entry.unwrap().path();
        names.push(file.file_stem().unwrap().to_str().unwrap().to_owned());
        let validated = place.run([OsStr::new("validate"), file.as_os_str()]).exits(0);
        assert_eq!(validated.text(), "", "{}", file.display());
        let walk = place.run([OsStr::new("simulate"), file.as_os_str(), OsStr::new("--json")]).exits(0);
        assert_eq!(walk.events("diagnostic"), [] as [Value; 0], "{}", file.display());
    }
    names.sort();
    let constructs = ["approval", "chain", "child", "loop", "map", "panel", "router", "selector"];
    assert_eq!(names, constructs);
}

#[test]
fn filters_and_tests_do_what_their_rows_say() {
    let page = page("workflow.md");
    let (filters, tests) = (rows(&page, "### Filters"), rows(&page, "### Tests"));
    let mut results = Map::new();
    let mut wanted = Map::new();
    for (names, code) in &filters {
        results.insert(names[0].clone(), format!("={}", code[0]).into());
        wanted.insert(names[0].clone(), format!("={}", code[1]).into());
    }
    for (names, code) in &tests {
        let name = format!("is_{}", names[0]);
        results.insert(name.clone(), format!("{{{{ 'yes' if {} else 'no' }}}}", code.last().unwrap()).into());
        wanted.insert(name, "yes".into());
    }
    let mut file = yaml(&blocks(&page, "yaml")[0]);
    file.insert("result".to_owned(), results.into());
    let place = Place::new();
    let file = place.file("example.json", Value::from(file).to_string());
    let script =
        place.file("script.yaml", "writer: [{ status: done, body: A text. }]\neditor: [{ status: approved }]\n");
    let run = place.run(["run", &file, "--script", &script, "--json"]).exits(0);
    assert_eq!(run.event("thread_finished")["result"], Value::from(wanted));
}

/// The names of all properties of a schema.
fn properties(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::Object(properties)) = keywords.get("properties") {
                found.extend(properties.keys().cloned());
            }
            keywords.values().for_each(|value| properties(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_schema_can_be_explained() {
    let place = Place::new();
    let schema: Value = serde_json::from_str(&place.run(["schema"]).exits(0).text()).unwrap();
    let mut keys = BTreeSet::new();
    properties(&schema, &mut keys);
    let page = page("workflow.md");
    let missing: Vec<&String> =
        keys.iter().filter(|key| !page.lines().any(|line| line.starts_with(&format!("| `{key}`")))).collect();
    assert!(missing.is_empty(), "no row in workflow.md: {missing:?}");
}

#[test]
fn a_shipped_workflow_is_copied_and_runs_and_the_schema_is_written_where_a_new_one_points() {
    let place = Place::new();
    let listed = place.run(["init", "--list"]).exits(0).text();
    assert!(listed.lines().any(|line| line.starts_with("review-loop ")), "{listed}");
    place.run(["init", "--from", "review-loop", "mine"]).exits(0);
    place.run(["init", "--from", "review-loop", "mine"]).exits(2);
    place.run(["init", "--from", "review-lop", "other"]).exits(2);
    place.run(["run", "mine", "--offline", "--input-file", "mine/input.json"]).exits(0);

    place.run(["init", "new"]).exits(0);
    let first = std::fs::read_to_string(place.path().join("new/workflow.yaml")).unwrap();
    assert!(first.starts_with("# yaml-language-server: $schema=./workflow.schema.json\n"));
    for _ in 0..2 {
        place.run(["schema", "--write", "new/workflow.schema.json"]).exits(0);
    }
    let written = std::fs::read_to_string(place.path().join("new/workflow.schema.json")).unwrap();
    assert_eq!(written.trim_end(), place.run(["schema"]).exits(0).text());
    place.file("workflow.schema.json", "mine");
    place.run(["schema", "--write"]).exits(2);
}

/// The files below a folder.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

#[test]
fn every_shipped_workflow_is_copied_whole_and_its_copy_passes_its_tests() {
    let place = Place::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    let listed = place.run(["init", "--list"]).exits(0);
    assert!(!listed.lines.is_empty());
    for name in listed.lines.iter().map(|line| line.split(' ').next().unwrap()) {
        let copy = format!("my-{name}");
        let told = place.run(["init", "--from", name, &copy]).exits(0).stderr;
        assert!(told.contains(&format!("Test it: rondo test {copy}\n")), "{told}");
        let folder = place.path().join(&copy);
        assert_eq!(files(&folder), files(&shipped.join(name)), "{name}");
        let text = std::fs::read_to_string(folder.join("workflow.yaml")).unwrap();
        let (comment, _) = text.split_once("\nrondo: 1").unwrap();
        assert!(comment.starts_with("# yaml-language-server: $schema=./workflow.schema.json\n"), "{comment}");
        assert!(comment.contains(&format!("rondo run {copy}")) || comment.contains(&format!("../{copy}")), "{comment}");
        assert!(!comment.contains("workflows/"), "{comment}");
        place.run(["validate", &copy]).exits(0);
        let tested = place.run(["test", &copy, "--check"]);
        assert_eq!(tested.code, Some(0), "{name}: {}", tested.text());
    }
}
