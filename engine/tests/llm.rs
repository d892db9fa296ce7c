//! Against a real model server, which nobody here wrote: `make test-llm` builds and starts one, or takes the one that
//! `RONDO_TEST_LLM_URL` names. Kept apart from the other tests by `#[ignore]`.

#![expect(clippy::expect_used, reason = "a test says what is wrong by panicking")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Two roles that take turns. Their system texts are long, as real ones are, and differ from the first word: the server
/// keeps one conversation in each of its slots, and takes a slot whose beginning is alike. The penalty ends the small
/// model's repetitions.
const WORKFLOW: &str = r#"
rondo: 1
name: cached-prefix
models:
  default: { temperature: 0, seed: 7, frequency_penalty: 0.6, max_output_tokens: 500 }
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
graph:
  start: { to: asker, prompt: "Ask your first question." }
  asker:
    asked: { to: answerer, prompt: "{{ output.question }}" }
  answerer:
    answered:
      to: asker
      max: 3
      on_max: { to: end }
      prompt: "{{ output.answer }} Ask the next question."
result: { turns: "{{ steps.asker.visits }}" }
"#;

fn rondo(folder: &Path, words: &[&str]) -> Output {
    let url = std::env::var("RONDO_TEST_LLM_URL").expect("RONDO_TEST_LLM_URL names a server; see `make test-llm`");
    Command::new(env!("CARGO_BIN_EXE_rondo"))
        .args(words)
        .current_dir(folder)
        .env_clear()
        .env("OPENAI_BASE_URL", url)
        .env("OPENAI_API_KEY", "none")
        .env("RONDO_MODEL", "smollm2-135m")
        .output()
        .expect("the binary starts")
}

fn lines(output: &Output) -> Vec<Value> {
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// What share of a role's prompt tokens the server had cached, and what a perfect prefix cache would have served.
struct Shares {
    /// A row a visit, and one for all of them.
    table: String,
    /// Over all visits. What the first one found there is from other threads and does not count.
    reached: f64,
    /// 1 - F/P: P is the sum of all requests, F the tokens that no request before has sent, which are those of the last
    /// request, because each begins with the one before.
    closed_form: f64,
}

impl Shares {
    fn of(role: &str, steps: &[&Value]) -> Self {
        let tokens = |step: &Value, name: &str| {
            let count = step.pointer(&format!("/note/usage/{name}")).and_then(Value::as_u64);
            let count = count.and_then(|count| u32::try_from(count).ok());
            f64::from(count.expect("the server counts"))
        };
        let mut table = String::new();
        let (mut sent, mut cached) = (0.0, 0.0);
        let mut closed_form = 0.0;
        for (at, step) in steps.iter().enumerate() {
            let (prompt, served) = (tokens(step, "prompt_tokens"), tokens(step, "cached_tokens"));
            sent += prompt;
            cached += if at == 0 { 0.0 } else { served };
            closed_form = 1.0 - prompt / sent;
            let (visit, share) = (&step["visit"], 100.0 * served / prompt);
            let _ = writeln!(table, "| {role} | {visit} | {prompt} | {served} | {share:.1}% | |");
        }
        let reached = cached / sent;
        let (share, most) = (100.0 * reached, 100.0 * closed_form);
        let _ = writeln!(table, "| {role} | all | {sent} | {cached} | {share:.1}% | {most:.1}% |");
        Self { table, reached, closed_form }
    }
}

#[test]
#[ignore = "needs a model server: make test-llm"]
fn a_role_that_comes_back_finds_its_prefix_in_the_cache() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("workflow.yaml"), WORKFLOW).expect("the folder can be written");

    let run = rondo(folder.path(), &["run", "workflow.yaml", "--json"]);
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let told = lines(&run);
    let thread = told[0]["thread"].as_str().expect("an event names its thread").to_owned();

    let shown = lines(&rondo(folder.path(), &["show", &thread, "--json"]));
    let steps: Vec<&Value> = shown.iter().filter(|line| line["event"] == "step").collect();
    assert_eq!(steps.len(), 8, "four turns of two roles");
    println!("| role | visit | prompt tokens | cached tokens | share | 1 - F/P |\n|---|--:|--:|--:|--:|--:|");
    for role in ["asker", "answerer"] {
        let own: Vec<&Value> = steps.iter().copied().filter(|step| step["role"] == role).collect();
        let shares = Shares::of(role, &own);
        print!("{}", shares.table);
        assert!(shares.reached >= 0.98 * shares.closed_form, "{role}: less than a perfect prefix cache serves");
        for pair in own.windows(2) {
            let before = pair[0]["note"]["usage"]["prompt_tokens"].as_u64().expect("the server counts");
            let cached = pair[1]["note"]["usage"]["cached_tokens"].as_u64().expect("the server counts");
            let visit = &pair[1]["visit"];
            // A request that took two attempts counts twice, so only what is certain is asked for.
            assert!(cached * 10 >= before * 8, "{role}, visit {visit}: {cached} of {before} tokens were cached");
        }
    }

    let verified = rondo(folder.path(), &["verify", &thread]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stderr));
}
