//! `events.md` and `lines.md`: the fields of each JSON line. The tables are compared with the types of events and with
//! what the program prints.

use std::collections::{BTreeMap, BTreeSet};

use rondo::tell;
use rondo_protocol::event::{Event, What};
use serde_json::Value;
use strum::VariantNames as _;

use super::page;
use crate::binary::{Place, fixture};
use crate::frozen;

/// What a page says under one heading.
#[derive(Debug, Default)]
struct Section {
    text: String,
    examples: Vec<Value>,
    /// The type of each field, by its path: `a`, `a.b`, `a[].b`.
    types: BTreeMap<String, String>,
}

/// The sections of a page by their headings.
fn sections(page: &str) -> BTreeMap<String, Section> {
    let mut sections = BTreeMap::new();
    for part in page.split("\n#").map(|part| part.trim_start_matches('#')) {
        let (heading, text) = part.split_once('\n').unwrap();
        let mut section = Section { text: text.to_owned(), ..Section::default() };
        let blocks = text.split("\n```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("json\n"));
        section.examples = blocks.map(|block| serde_json::from_str(block).unwrap()).collect();
        for row in text.lines().filter_map(|line| line.strip_prefix("| `")) {
            let Some((field, rest)) = row.split_once("` | ") else { continue };
            section.types.insert(field.to_owned(), rest.split(" | ").next().unwrap().to_owned());
        }
        sections.insert(heading.trim().to_owned(), section);
    }
    sections
}

/// The events of `events.md` with the types of all their fields.
fn documented_events() -> BTreeMap<String, Section> {
    let mut events = sections(&page("events.md"));
    let every = events.remove("Events").unwrap();
    let visit = ["role", "visit", "lane"];
    for section in events.values_mut() {
        let Some(example) = section.examples.first() else { continue };
        for (field, kind) in &every.types {
            if !visit.contains(&&**field) || example.get(field).is_some() {
                section.types.entry(field.clone()).or_insert_with(|| kind.clone());
            }
        }
    }
    events.retain(|_, section| !section.examples.is_empty());
    events
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    kind.split(" or ").any(|kind| match kind {
        "text" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "list" => value.is_array(),
        "null" => value.is_null(),
        "value" => true,
        other => panic!("the pages know no type {other:?}"),
    })
}

impl Section {
    /// The paths of the fields of a line, without those in a field of type `value`. A field without a type, or of another
    /// type, is a failure.
    fn paths(&self, line: &Value) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.walk(line, "", &mut found);
        found
    }

    fn walk(&self, value: &Value, at: &str, found: &mut BTreeSet<String>) {
        let members: Vec<(String, &Value)> = match value {
            Value::Object(members) => {
                let dot = if at.is_empty() { "" } else { "." };
                members.iter().map(|(name, member)| (format!("{at}{dot}{name}"), member)).collect()
            }
            Value::Array(items) => items.iter().map(|item| (format!("{at}[]"), item)).collect(),
            _ => return,
        };
        for (path, member) in members {
            match self.types.get(&path) {
                Some(kind) => {
                    assert!(is_of_type(member, kind), "`{path}` is {member}, and {kind} on the page");
                    found.insert(path.clone());
                    if kind == "value" {
                        continue;
                    }
                }
                None => assert!(path.ends_with("[]") && member.is_object(), "no row for `{path}`: {member}"),
            }
            self.walk(member, &path, found);
        }
    }

    /// Holds a line of the program to the section.
    fn holds(&self, line: &Value) {
        self.paths(line);
        let missing = |path: &&String| !path.contains(['.', '[']) && line.get(path).is_none();
        let missing: Vec<&String> = self.types.keys().filter(missing).collect();
        assert!(missing.is_empty(), "{missing:?} are not in {line}");
    }

    /// Holds the rows to the examples.
    fn shows_every_field(&self, heading: &str) {
        let shown: BTreeSet<String> = self.examples.iter().flat_map(|example| self.paths(example)).collect();
        let rows: BTreeSet<String> = self.types.keys().cloned().collect();
        assert_eq!(rows, shown, "the rows of {heading} and its examples");
    }
}

/// The names of all events.
fn names() -> BTreeSet<String> {
    What::VARIANTS.iter().map(|name| (*name).to_owned()).collect()
}

/// `line` with null in place of the field at `path`; `None` where the line has no such field.
fn without(line: &Value, path: &str) -> Option<Value> {
    let mut line = line.clone();
    *line.pointer_mut(&format!("/{}", path.replace("[]", "/0").replace('.', "/")))? = Value::Null;
    Some(line)
}

#[test]
fn every_event_stands_with_its_fields_and_an_example_of_its_shape() {
    let events = documented_events();
    let mut named: BTreeSet<String> = events.keys().cloned().collect();
    assert!(named.remove("batch_started"), "an event of the command line, held below");
    assert_eq!(named, names());
    for name in named {
        let section = &events[&name];
        section.shows_every_field(&name);
        for example in &section.examples {
            assert_eq!(example["event"], *name);
            if example["thread"].is_null() {
                // An error of a command without a thread is no event of a thread; the program's own are compared below.
                continue;
            }
            let event: Event = serde_json::from_value(example.clone()).unwrap();
            assert_eq!(serde_json::to_value(event.line(tell::hint)).unwrap(), *example, "{name}");
            assert_eq!(event.what.is_durable(), section.text.contains("Durable"), "{name}");
            assert_eq!(event.what.is_durable(), event.id.is_some(), "{name}");
            // A form is any JSON to its type; the program's own are compared below.
            for (path, kind) in section.types.iter().filter(|(path, _)| !path.starts_with("form")) {
                let Some(null) = without(example, path) else { continue };
                let of_command = name == "error" && ["thread", "durability"].contains(&path.as_str());
                let may_be_null = is_of_type(&Value::Null, kind) && !of_command;
                let reads = serde_json::from_value::<Event>(null).is_ok();
                assert_eq!(reads, may_be_null, "{name}: `{path}` is {kind} on the page");
            }
        }
    }
}

/// A workflow whose run has lanes, a form, a retry, a refused answer, hooks, tools and a line for the user.
const BUSY: &str = r#"
rondo: 1
name: busy
roles:
  writer: { system: You write., tools: [list_files], output: { drafted: { title: string } } }
  critic: { system: You criticize. }
  approver: { kind: human, output: { approved: { "note?": string } }, timeout: 3d }
graph:
  start: { to: writer, prompt: Write., say: It begins. }
  writer:
    drafted: { to: [critic, critic], prompt: "{{ body }}", join: approver }
  critic:
    done: { to: approver }
  approver:
    approved: { to: end }
hooks: [{ use: log }, { use: tool_cache }]
"#;

const SCRIPT: &str = r#"
writer:
  - { error: { http: 503 } }
  - { raw: "no front matter" }
  - tools: [{ name: list_files, args: {} }, { name: list_files, args: {} }]
    then: { status: drafted, fields: { title: Tides }, body: The sea comes. }
critic: [{ body: Good. }]
"#;

#[test]
fn what_a_run_prints_is_on_the_page_of_events() {
    let events = documented_events();
    let place = Place::new();
    place.file("workflow.yaml", BUSY);
    place.file("script.yaml", SCRIPT);
    let mut lines = place.run(["run", "workflow.yaml", "--offline", "--trust", "--json"]).exits(75).json();
    let answer = ["answer", "last", "--status", "approved", "--offline", "--trust", "--json"];
    lines.extend(place.run(answer).exits(0).json());
    lines.extend(place.run(["run", "nothing", "--offline", "--json"]).exits(2).json());
    place.file("fails.yaml", BUSY.replace("hooks:", "limits: { steps: 1 }\nhooks:"));
    let fails = ["run", "fails.yaml", "--script", "script.yaml", "--trust", "--json"];
    lines.extend(place.run(fails).exits(4).json());
    let mut seen = BTreeSet::new();
    for line in &lines {
        let name = line["event"].as_str().unwrap();
        events[name].holds(line);
        seen.insert(name);
    }
    let rare = ["batch_started"];
    let unseen: Vec<&String> =
        events.keys().filter(|name| !seen.contains(name.as_str()) && !rare.contains(&name.as_str())).collect();
    assert!(unseen.is_empty(), "no run here prints {unseen:?}");
}

#[test]
fn what_a_batch_prints_is_on_the_pages() {
    let events = documented_events();
    let results = sections(&page("batches.md")).remove("Results").unwrap();
    let place = Place::new();
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n{\"topics\": \"dunes\"}\n");
    let batch = ["run", "review-loop", "--offline", "--input-file", "topics.jsonl", "--json"];
    let lines = place.run(batch).exits(2).json();
    assert_eq!(lines[0]["event"], "batch_started");
    let (ended, others): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(|line| line["event"] == "line");
    assert_eq!(ended.len(), 2);
    let members: BTreeSet<&str> = results.types.keys().map(String::as_str).chain(["event"]).collect();
    for line in ended {
        assert_eq!(line.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>(), members);
    }
    for line in others {
        let mut line = line.clone();
        let section = &events[line["event"].as_str().unwrap()];
        if line["event"] != "batch_started" {
            assert!(line.as_object_mut().unwrap().remove("line").unwrap().is_u64());
        }
        section.holds(&line);
    }
}

#[test]
fn what_the_reading_verbs_print_is_on_the_page_of_lines() {
    let mut documented = sections(&page("lines.md"));
    documented.retain(|_, section| !section.examples.is_empty());
    for (heading, section) in &mut documented {
        if !["request", "fault"].contains(&heading.as_str()) {
            section.types.insert("event".to_owned(), "text".to_owned());
        }
        section.shows_every_field(heading);
    }
    let place = frozen::place();
    let threads = place.run(["threads", "--json"]).exits(0).json();
    let ids: Vec<&str> = threads.iter().map(|thread| thread["thread"].as_str().unwrap()).collect();
    let whole = threads.iter().zip(&ids).filter(|(thread, _)| thread["name"] == "everything");
    let whole: Vec<&str> = whole.map(|(_, id)| *id).collect();
    place.file("faulty.yaml", "rondo: 1\nnme: x\n");
    let waiting = place.run(["run", &fixture("people"), "--offline", "-i", "topic=tea", "--trust", "--json"]).exits(75);
    let waiting = waiting.event("thread_started")["thread"].as_str().unwrap().to_owned();
    // A run that stops in a visit with refused answers and a tool call.
    place.file("busy.yaml", BUSY);
    let broken = [
        "writer:",
        "  - { raw: no front matter }",
        "  - tools: [{ name: list_files, args: {} }]",
        "    then: { raw: no }",
    ];
    place.file("broken.yaml", broken.join("\n"));
    place.run(["run", "busy.yaml", "--script", "broken.yaml", "--trust", "--json"]).exits(5);

    let mut words: Vec<Vec<&str>> =
        vec![vec!["threads"], vec!["usage"], vec!["usage", "--by", "role"], vec!["validate", "faulty.yaml"]];
    words.extend(ids.iter().flat_map(|id| [vec!["show", id], vec!["messages", id]]));
    words.extend([vec!["show", "last"], vec!["messages", "last"], vec!["show", &waiting]]);
    words.push(vec!["diff", whole[0], whole[1]]);
    words.push(vec!["fork", whole[0], "--with", "edited.yaml", "--dry-run"]);
    words.push(vec!["tools", "busy.yaml"]);
    words.push(vec!["rm", whole[whole.len() - 1], "--dry-run"]);
    let cut = place.path().join("cut");
    frozen::copy(&place.store(), &cut);
    std::fs::write(cut.join("db/CURRENT"), "").unwrap();
    words.push(vec!["fsck", "--store", cut.to_str().unwrap()]);
    words.push(vec!["repair"]);
    let torn = place.path().join("torn");
    frozen::copy(&place.store(), &torn);
    // The largest table is that of the objects.
    let tables = std::fs::read_dir(torn.join("db")).unwrap().map(|entry| entry.unwrap().path());
    let tables = tables.filter(|path| path.extension().is_some_and(|ending| ending == "sst"));
    let table = tables.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    words.push(vec!["repair", "--store", torn.to_str().unwrap()]);
    words.push(vec!["backup", "copy"]);
    place.file("all.jsonl", place.run(["export", "--all"]).exits(0).text() + "\n");
    words.push(vec!["import", "all.jsonl", "--store", "other"]);
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n");
    place.run(["run", "review-loop", "--offline", "--input-file", "topics.jsonl", "--store", "another"]).exits(0);
    words.push(vec!["batches", "--store", "another"]);
    words.extend([vec!["gc", "--dry-run", "--store", "other"], vec!["gc", "--store", "other"]]);
    let mut seen = BTreeSet::new();
    for words in words {
        for line in place.run(words.iter().chain(&["--json"])).json() {
            let without_name = if words[0] == "fsck" { "fault" } else { "request" };
            let heading = line["event"].as_str().unwrap_or(without_name).to_owned();
            let section = documented.get(&heading).unwrap_or_else(|| panic!("{words:?}: {line}"));
            section.holds(&line);
            seen.insert(heading);
        }
    }
    let all: BTreeSet<String> = documented.into_keys().collect();
    assert_eq!(seen, all);
}
