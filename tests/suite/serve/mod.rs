//! `rondo serve`, from outside: its API, its event streams, and what it refuses.

mod access;
pub mod client;
mod model;
mod openapi;
mod shared;
mod streams;
mod threads;
mod tools;

use crate::binary::Place;

/// Two roles; the second may answer slowly, by its script.
const PAIR: &str = r#"
rondo: 1
name: pair
description: Two speakers.
input: { topic: string, words: { type: integer, default: 20 } }
roles:
  first: { system: You speak. }
  second: { system: You answer., output: { again: {}, done: {} } }
graph:
  start: { to: first, prompt: "{{ input.topic }}" }
  first: { done: { to: second, prompt: "{{ body }}" } }
  second: { again: { to: first, prompt: "{{ body }}", max: 3, on_max: { to: end } }, done: { to: end } }
result: { text: "{{ steps.second.body }}" }
"#;

const SCRIPT: &str = r"
first:
  - { status: done, body: one }
  - { status: done, body: three }
second:
  - { delay_ms: 150, status: again, body: two }
  - { delay_ms: 150, status: done, body: four }
";

/// A person decides.
const ASK: &str = r#"
rondo: 1
name: ask
roles:
  draft: { system: You draft. }
  person:
    kind: human
    output: { accept: { grade: { type: integer, minimum: 1 } }, refuse: {} }
graph:
  start: { to: draft, prompt: Write. }
  draft: { done: { to: person, prompt: "Is this good? {{ body }}" } }
  person: { accept: { to: end }, refuse: { to: fail, reason: "{{ body }}" } }
result: { grade: "{{ steps.person.output.grade }}" }
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("workflows/pair/workflow.yaml", PAIR);
    place.file("workflows/pair/script.yaml", SCRIPT);
    place.file("workflows/ask/workflow.yaml", ASK);
    place.file("workflows/ask/script.yaml", "draft: [ { status: done, body: a text } ]\n");
    place
}

/// A tool call that a person must allow.
const CLERK: &str = r#"
rondo: 1
name: clerk
input: { text?: string }
roles:
  clerk: { system: You file notes., tools: [write_file] }
graph:
  start: { to: clerk, prompt: File it. }
  clerk: { done: { to: end } }
result: "{{ steps.clerk.body }}"
"#;

const CLERK_SCRIPT: &str = r#"
clerk:
  - tools: [ { name: write_file, args: { path: note.txt, text: "a note" } } ]
    then: { body: filed }
"#;

/// A place where a person must allow what the clerk writes.
fn place_of_clerk() -> Place {
    let place = Place::new();
    place.file("workflows/clerk/workflow.yaml", CLERK);
    place.file("workflows/clerk/script.yaml", CLERK_SCRIPT);
    place.settings("[grant]\ntools = [\"*\"]\napprove = [\"write_file\"]\n");
    place.trust(&["clerk"]);
    place
}
