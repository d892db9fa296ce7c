//! Against a real model server, which nobody here wrote: `make test-llm` builds and starts one, or takes the one that
//! `RONDO_TEST_LLM_URL` names. Kept apart from the other tests by `#[ignore]`.
//!
//! A loop of three roles with ten visits each is run, and what the server had cached is held to the closed form of a
//! perfect prefix. Then the same requests are sent again in the ways in which other engines put them together, and
//! measured beside it.

#![expect(clippy::expect_used, reason = "a test says what is wrong by panicking")]

mod rebuilt;
mod server;
mod share;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use rebuilt::Variant;
use share::{Role, Shares};

/// Visits of each role.
const VISITS: usize = 10;

const ROLES: [&str; 3] = ["asker", "answerer", "keeper"];

/// Three roles that take turns. Their system texts are long, as real ones are, and differ from the first word: the server
/// keeps one conversation in each of its slots, and takes a slot whose beginning is alike. The penalty ends the small
/// model's repetitions.
const WORKFLOW: &str = r#"
rondo: 1
name: cached-prefix
models:
  default: { temperature: 0, seed: 7, frequency_penalty: 0.6, max_output_tokens: 300 }
roles:
  asker:
    system: |
      Interviews for the newsletter of a small aquarium on a rocky coast are what you do. Your readers are families who
      come on Sundays, and a few who have come for thirty years. They know the names of the animals in the touch pool
      and want to hear what those animals do when nobody looks. Ask one short question at a time about tide pools: how
      warm they get, how salt, who lives high on the shore and who lives low, who eats whom, and what changes when the
      tide comes back. Do not greet, do not thank, do not say who you are. Leave the body empty.
    format: json
    context: none
    output:
      asked: { question: { type: string, minLength: 10, maxLength: 80 } }
  answerer:
    system: |
      You look after the touch pool of an aquarium and have done so since it was built. You answer questions of its
      newsletter about tide pools from what you have seen yourself: limpets that come home before the water leaves,
      barnacles that close, crabs under the weed, sea stars that climb down with the tide. Speak plainly, name one
      animal at a time, and give each answer in one short sentence. Do not greet, do not thank, do not ask anything
      back, and never say that something is fascinating. Leave the body empty.
    format: json
    context: none
    output:
      answered: { answer: { type: string, minLength: 10, maxLength: 80 } }
  keeper:
    system: |
      Notes are kept by you for the people who lay the newsletter out. Of each question and answer that you are given
      you write one short note, as it would stand under a photograph: which animal, what it does, and when. You leave
      out who asked and who answered. You do not judge what was said and add nothing of your own. You write whole
      words and no abbreviations, because the notes are set as they are. Leave the body empty.
    format: json
    context: none
    output:
      noted: { note: { type: string, minLength: 10, maxLength: 80 } }
graph:
  start: { to: asker, prompt: "Ask your first question." }
  asker:
    asked: { to: answerer, prompt: "Question {{ steps.asker.visits }}: {{ output.question }}" }
  answerer:
    answered: { to: keeper, prompt: "Note {{ steps.asker.visits }}. Question: {{ steps.asker.output.question }} Answer: {{ output.answer }}" }
  keeper:
    noted:
      to: asker
      max: 9
      on_max: { to: end }
      prompt: "Answer {{ steps.asker.visits }} was: {{ steps.answerer.output.answer }} Ask the next question."
result: { turns: "{{ steps.asker.visits }}" }
"#;

fn rondo(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rondo"))
        .args(words)
        .current_dir(folder)
        .env_clear()
        .env("OPENAI_BASE_URL", server::url())
        .env("OPENAI_API_KEY", "none")
        .env("RONDO_MODEL", "smollm2-135m")
        .output()
        .expect("the binary starts")
}

fn lines(output: &Output) -> Vec<Value> {
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[test]
#[ignore = "needs a model server: make test-llm"]
fn a_role_that_comes_back_finds_its_prefix_in_the_cache() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = folder.path();
    std::fs::write(folder.join("workflow.yaml"), WORKFLOW).expect("the folder can be written");

    let run = rondo(folder, &["run", "workflow.yaml", "--json"]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let thread = lines(&run)[0]["thread"].as_str().expect("an event names its thread").to_owned();
    let shown = lines(&rondo(folder, &["show", &thread, "--json"]));
    let steps: Vec<&Value> = shown.iter().filter(|line| line["event"] == "step").collect();
    assert_eq!(steps.len(), ROLES.len() * VISITS, "{VISITS} turns of three roles");

    let mut shares = Shares::default();
    for step in &steps {
        shares.add(role_of(step), share::of_note(step));
    }
    println!("{}", shares.by_visit());
    let mut table = vec![("as rondo sends it".to_owned(), shares.clone())];

    // A small model repeats itself, and a prompt that is the same on every visit would be found wherever it stands.
    let prompts: BTreeSet<String> = steps.iter().map(|step| step["edge"]["prompt"].to_string()).collect();
    assert_eq!(prompts.len(), steps.len(), "every visit has a prompt of its own");
    let requests: Vec<(Role, Value)> =
        steps.iter().map(|step| (role_of(step), request(folder, &thread, step))).collect();
    for variant in Variant::ALL {
        let mut shares = Shares::default();
        for (number, (role, request)) in requests.iter().enumerate() {
            // The roles take turns.
            let visit = number / ROLES.len() + 1;
            shares.add(*role, server::ask(&variant.rebuilt(request, *role, visit)));
        }
        table.push((variant.name().to_owned(), shares));
    }
    println!("{}", share::table(&table));

    for role in ROLES.map(Role::named) {
        let (reached, most) = (shares.reached(Some(role)), shares.closed_form(Some(role)));
        assert!(reached >= 0.98 * most, "{}: {reached:.3} of {most:.3}", role.name());
    }
    let of_form = |name: &str| {
        let (_, shares) = table.iter().find(|(variant, _)| variant == name).expect("the variant was measured");
        shares.reached(None) / shares.closed_form(None)
    };
    assert!(of_form("as rondo sends it") >= 0.98, "less than a perfect prefix cache serves");
    assert!(of_form(Variant::Same.name()) >= 0.98, "the way of measuring the others costs something itself");
    for broken in [Variant::Flattened, Variant::Path] {
        assert!(of_form(broken.name()) < 0.9, "{}: nothing was broken", broken.name());
    }

    let verified = rondo(folder, &["verify", &thread]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stderr));
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
