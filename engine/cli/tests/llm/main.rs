//! Against a real model server, which nobody here wrote, in each of the three protocols that it speaks: `make test-llm`
//! builds and starts it, or takes what `RONDO_TEST_LLM_URL` and the like name. Kept apart from the other tests by
//! `#[ignore]`.
//!
//! A loop of three roles with ten visits each is run, and what the server had cached is held to the closed form of a
//! perfect prefix. Then its requests in chat completions are sent again in the ways in which other engines put them
//! together, and measured beside it. `review_loop` runs a shipped workflow; `tools` runs one with tools and thoughts.
//!
//! The server holds an answer to a schema in chat completions only. What it answers elsewhere is held to a grammar of
//! `tests/support/llm-server`, with which it is started: so small a model keeps to no form by itself. It does not choose well
//! between forms that begin alike either, so each of the tests has a server with a grammar of its own.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is wrong by panicking"
)]

mod forwarder;
mod rebuilt;
mod review_loop;
mod server;
mod share;
mod tools;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use rebuilt::Variant;
use share::{Role, Shares};

/// Visits of each role.
const VISITS: usize = 10;

const ROLES: [&str; 3] = ["asker", "answerer", "keeper"];

/// The protocols that the server speaks, by their names in settings.
const PROTOCOLS: [&str; 3] = ["openai_chat", "openai_responses", "anthropic"];

/// Leaves the form of answers to the server's grammar in chat completions too.
const WITHOUT_SCHEMA: [&str; 2] = ["--set", "provider.openai.response_format=off"];

/// Three roles that take turns. Their system texts are long, as real ones are, and differ from the first word: the server
/// keeps one conversation in each of its slots, and takes a slot whose beginning is alike. They name the protocol, so that
/// no protocol finds what another left in the cache. The penalty ends the small model's repetitions in chat completions;
/// the other protocols have none.
const WORKFLOW: &str = r#"
rondo: 1
name: cached-prefix
models:
  default: { temperature: 0, seed: 7, frequency_penalty: 0.6, max_output_tokens: 300 }
roles:
  asker:
    system: |
      Asker of {protocol}.
      Interviews for the newsletter of a small aquarium on a rocky coast are what you do. Your readers are families who
      come on Sundays, and a few who have come for thirty years. They know the names of the animals in the touch pool
      and want to hear what those animals do when nobody looks. Ask one short question at a time about tide pools: how
      warm they get, how salt, who lives high on the shore and who lives low, who eats whom, and what changes when the
      tide comes back. Do not greet, do not thank, do not say who you are. Leave the body empty.
    format: json
    context: none
    output:
      said: { text: { type: string, pattern: '^[A-Z][a-zA-Z ,]{9,70}[.?]$' } }
  answerer:
    system: |
      Answerer of {protocol}.
      You look after the touch pool of an aquarium and have done so since it was built. You answer questions of its
      newsletter about tide pools from what you have seen yourself: limpets that come home before the water leaves,
      barnacles that close, crabs under the weed, sea stars that climb down with the tide. Speak plainly, name one
      animal at a time, and give each answer in one short sentence. Do not greet, do not thank, do not ask anything
      back, and never say that something is fascinating. Leave the body empty.
    format: json
    context: none
    output:
      said: { text: { type: string, pattern: '^[A-Z][a-zA-Z ,]{9,70}[.?]$' } }
  keeper:
    system: |
      Keeper of {protocol}.
      Notes are kept by you for the people who lay the newsletter out. Of each question and answer that you are given
      you write one short note, as it would stand under a photograph: which animal, what it does, and when. You leave
      out who asked and who answered. You do not judge what was said and add nothing of your own. You write whole
      words and no abbreviations, because the notes are set as they are. Leave the body empty.
    format: json
    context: none
    output:
      said: { text: { type: string, pattern: '^[A-Z][a-zA-Z ,]{9,70}[.?]$' } }
graph:
  start: { to: asker, prompt: "Ask your first question." }
  asker:
    said: { to: answerer, prompt: "Question {{ steps.asker.visits }}: {{ output.text }}" }
  answerer:
    said: { to: keeper, prompt: "Note {{ steps.asker.visits }}. Question: {{ steps.asker.output.text }} Answer: {{ output.text }}" }
  keeper:
    said:
      to: asker
      max: 9
      on_max: { to: end }
      prompt: "Answer {{ steps.asker.visits }} was: {{ steps.answerer.output.text }} Ask the next question."
result: { turns: "{{ steps.asker.visits }}" }
"#;

fn rondo(folder: &Path, words: &[&str]) -> Output {
    rondo_at(&server::url(), folder, words)
}

/// The same, with another server.
fn rondo_at(url: &str, folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rondo"))
        .args(words)
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("OPENAI_BASE_URL", url)
        .env("OPENAI_API_KEY", "none")
        .env("RONDO_MODEL", "smollm2-135m")
        .output()
        .expect("the binary starts")
}

/// Runs a workflow in one of the protocols until it ends, with more words behind, and gives its thread. Whether it ends in
/// `end` or `fail` is the model's.
fn run(folder: &Path, protocol: &str, workflow: &str, more: &[&str]) -> String {
    run_at(&server::url(), folder, protocol, workflow, more)
}

/// The same, with another server.
fn run_at(url: &str, folder: &Path, protocol: &str, workflow: &str, more: &[&str]) -> String {
    let protocol = format!("provider.openai.protocol={protocol}");
    let words = ["run", workflow, "--json", "--trust", "--cache", "off", "--set", &protocol];
    let run = rondo_at(url, folder, &[&words, more].concat());
    let events = lines(&run);
    let has_ended = events.iter().any(|event| event["event"] == "thread_finished");
    assert!(has_ended, "{protocol}: {:?}{}", events.last(), String::from_utf8_lossy(&run.stderr));
    events[0]["thread"].as_str().expect("an event names its thread").to_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn steps(folder: &Path, thread: &str) -> Vec<Value> {
    let mut shown = lines(&rondo(folder, &["show", thread, "--json"]));
    shown.retain(|line| line["event"] == "step");
    shown
}

/// A thread that is whole, and whose requests begin with what was sent before.
fn check(folder: &Path, thread: &str) {
    let verified = rondo(folder, &["verify", thread]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stderr));
    for visit in lines(&rondo(folder, &["prefix", thread, "--json"])) {
        assert!(visit["broke"].is_null(), "{visit}");
    }
}

#[test]
#[ignore = "needs a model server: make test-llm"]
fn a_role_that_comes_back_finds_its_prefix_in_the_cache() {
    let mut by_protocol = Vec::new();
    let mut requests_in_chat = Vec::new();
    for protocol in PROTOCOLS {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = folder.path();
        let workflow = WORKFLOW.replace("{protocol}", protocol);
        std::fs::write(folder.join("workflow.yaml"), workflow).expect("the folder can be written");

        let thread = run(folder, protocol, "workflow.yaml", &[]);
        let steps = steps(folder, &thread);
        assert_eq!(steps.len(), ROLES.len() * VISITS, "{VISITS} turns of three roles");
        let mut shares = Shares::default();
        for step in &steps {
            shares.add(role_of(step), share::of_note(step));
        }
        by_protocol.push((format!("`{protocol}`"), shares));
        check(folder, &thread);
        // A small model repeats itself, and a prompt that is the same on every visit would be found wherever it stands.
        let prompts: BTreeSet<String> = steps.iter().map(|step| step["edge"]["prompt"].to_string()).collect();
        assert_eq!(prompts.len(), steps.len(), "every visit has a prompt of its own");
        if protocol == "openai_chat" {
            requests_in_chat = steps.iter().map(|step| (role_of(step), request(folder, &thread, step))).collect();
        }
    }
    println!("{}", share::by_visit(&by_protocol));
    println!("{}", share::table("protocol, thirty requests", &by_protocol));

    for (protocol, shares) in &by_protocol {
        for role in ROLES.map(Role::named) {
            let found = shares.found(role);
            assert!(found < 0.1, "{protocol}, {}: somebody else sent its first request: {found:.3}", role.name());
        }
    }
    // Nothing is subtracted. The server computes the last token of a prompt anew even if it has the whole, and the closed
    // form leaves that token out as well: no request of a role equals an earlier one, so its end is new.
    for (protocol, shares) in &by_protocol {
        for role in ROLES.map(Role::named) {
            let (reached, most) = (shares.reached(Some(role)), shares.closed_form(Some(role)));
            assert!(reached >= 0.98 * most, "{protocol}, {}: {reached:.3} of {most:.3}", role.name());
        }
    }
    compare(&requests_in_chat, by_protocol[0].1.clone());
}

/// The requests of a thread in chat completions, put together in other ways.
fn compare(requests: &[(Role, Value)], as_sent: Shares) {
    let mut table = vec![("as rondo sends it".to_owned(), as_sent)];
    for variant in Variant::ALL {
        let mut shares = Shares::default();
        for (number, (role, request)) in requests.iter().enumerate() {
            // The roles take turns.
            let visit = number / ROLES.len() + 1;
            shares.add(*role, server::ask(&variant.rebuilt(request, *role, visit)));
        }
        table.push((variant.name().to_owned(), shares));
    }
    println!("{}", share::table("the same workflow, thirty requests", &table));

    let of_form = |name: &str| {
        let (_, shares) = table.iter().find(|(variant, _)| variant == name).expect("the variant was measured");
        shares.reached(None) / shares.closed_form(None)
    };
    assert!(of_form("as rondo sends it") >= 0.98, "less than a perfect prefix cache serves");
    assert!(of_form(Variant::Same.name()) >= 0.98, "the way of measuring the others costs something itself");
    for broken in [Variant::Flattened, Variant::Path] {
        assert!(of_form(broken.name()) < 0.9, "{}: nothing was broken", broken.name());
    }
}

fn role_of(step: &Value) -> Role {
    Role::named(step["role"].as_str().expect("a step has a role"))
}

/// The first request of a step, as it was sent.
fn request(folder: &Path, thread: &str, step: &Value) -> Value {
    let (role, visit) = (step["role"].as_str().expect("a step has a role"), step["visit"].to_string());
    let told = rondo(folder, &["messages", thread, "--role", role, "--visit", &visit, "--json"]);
    lines(&told).into_iter().next().expect("a step has a request")
}
