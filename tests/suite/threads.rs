//! Names, tags and shortened ids of threads, and the list of `rondo threads`.

use crate::binary::{Finished, Place};

const WORKFLOW: &str = r#"
rondo: 1
name: writer
input: { topic: string }
roles: { writer: { system: You write. } }
graph: { start: { to: writer, prompt: "{{ input.topic }}" }, writer: { done: { to: end } } }
result: { text: "{{ steps.writer.body }}" }
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("writer/workflow.yaml", WORKFLOW);
    place.file("writer/script.yaml", "writer: [ { status: done, body: text } ]\n");
    place
}

fn start(place: &Place, words: &[&str]) -> Finished {
    place.run([&["run", "writer", "--offline", "-i", "topic=tides", "--json"], words].concat())
}

fn run(place: &Place, words: &[&str]) -> String {
    start(place, words).exits(0).event("thread_started")["thread"].as_str().unwrap().to_owned()
}

fn shown(place: &Place, word: &str) -> String {
    place.run(["show", word, "--json"]).exits(0).event("thread")["thread"].as_str().unwrap().to_owned()
}

#[test]
fn a_name_stands_for_the_id_while_no_other_thread_has_it() {
    let place = place();
    let first = run(&place, &["--name", "tides 1", "--tag", "draft", "--tag", "sea", "--tag", "draft"]);
    let second = run(&place, &["--name", "tides 2", "--tag", "draft"]);
    run(&place, &[]);
    let line = place.run(["show", "tides 1", "--json"]).exits(0).event("thread");
    assert_eq!((&line["thread"], &line["label"]), (&first.as_str().into(), &"tides 1".into()));
    assert_eq!(line["tags"], serde_json::json!(["draft", "sea"]));
    assert!(place.run(["show", "tides 1"]).exits(0).text().contains("tides 1  (draft, sea)"));
    place.run(["messages", "tides 2", "--role", "writer", "--visit", "1"]).exits(0);
    place.run(["verify", "tides 2"]).exits(0);

    let named = |words: &[&str]| {
        let lines = place.run([&["threads", "--json"], words].concat()).exits(0).json();
        lines.iter().map(|line| line["thread"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(named(&["--tag", "draft"]), [first.clone(), second.clone()]);
    assert_eq!(named(&["--tag", "draft", "--tag", "sea"]), std::slice::from_ref(&first));
    assert_eq!(named(&["--name", "tides 2"]), std::slice::from_ref(&second));
    assert_eq!(named(&["--tag", "draft", "-n", "1"]), [second]);

    let again = run(&place, &["--name", "tides 1"]);
    let ambiguous = place.run(["show", "tides 1"]).exits(2);
    assert!(ambiguous.stderr.contains("RN1402"), "{}", ambiguous.stderr);
    assert!(ambiguous.stderr.contains(&first) && ambiguous.stderr.contains(&again), "{}", ambiguous.stderr);
}

#[test]
fn a_name_is_seen_and_cannot_be_taken_for_an_id() {
    let place = place();
    for (option, text) in [
        ("--name", "last"),
        ("--name", "01k9"),
        ("--name", "2024"),
        ("--name", ""),
        ("--name", " tides"),
        ("--name", "a\nb"),
        ("--name", "a\u{202e}b"),
        ("--name=-x", ""),
        ("--tag", "two words"),
        ("--tag", "\u{7}"),
    ] {
        let words = if option.contains('=') { vec![option] } else { vec![option, text] };
        let refused = start(&place, &words).exits(2);
        assert_eq!(refused.event("error")["code"], "RN1423", "{option} {text:?}");
    }
    let long = "x".repeat(81);
    assert_eq!(start(&place, &["--name", &long]).exits(2).event("error")["code"], "RN1423");
    place.file("in.jsonl", "{\"topic\": \"a\"}\n");
    let batch = ["run", "writer", "--offline", "--input-file", "in.jsonl", "--json", "--name", "tides"];
    assert_eq!(place.run(batch).exits(2).event("error")["code"], "RN1423");
    assert!(place.run(["threads", "--json"]).exits(0).lines.is_empty());
}

#[test]
fn the_newest_thread_stands_first_and_a_shortened_id_names_its_thread() {
    let place = place();
    let threads: Vec<String> = (0..3).map(|number| run(&place, &["--name", ["one", "two", "three"][number]])).collect();
    let text = place.run(["threads"]).exits(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["THREAD", "NAME", "WORKFLOW", "STATUS", "STEPS", "AGE"]
    );
    for (line, (thread, name)) in lines[1..].iter().zip(threads.iter().rev().zip(["three", "two", "one"])) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..5], [thread, name, "writer", "done", "1"]);
    }
    let unique = |thread: &String| {
        let is_unique = |start: &str| threads.iter().filter(|other| other.starts_with(start)).count() == 1;
        (1..26).map(|chars| thread[..chars].to_owned()).find(|start| is_unique(start)).unwrap()
    };
    for thread in &threads {
        let start = unique(thread);
        assert_eq!(shown(&place, &start), *thread);
        assert_eq!(shown(&place, &start.to_uppercase()), *thread);
        let ambiguous = place.run(["show", &start[..start.len() - 1]]).exits(2);
        let named = threads.iter().filter(|other| ambiguous.stderr.contains(*other)).count();
        assert!(named >= 2 && ambiguous.stderr.contains(thread), "{}", ambiguous.stderr);
    }
}
