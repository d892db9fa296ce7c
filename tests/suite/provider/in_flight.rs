//! Answers that were paid for, while the step that they belong to is not committed: each is shown, with what refused it,
//! and counted.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::Client;
use super::server::{Act, EVENTS, Server, delta, finish};

const GOOD: &str = "---\nstatus: drafted\n---\n\nLow tide.\n";
const BROKEN: &str = "Here is the draft:\nLow tide.\n";

/// One role, which is asked again twice.
const WRITER: &str = "
rondo: 1
name: writer
roles: { writer: { system: You write., output: { drafted: {}, stuck: {} } } }
graph: { start: { to: writer, prompt: Write. }, writer: { drafted: { to: end }, stuck: { to: end } } }
";

/// Dollars per million tokens: an answer of [`answer`] costs 0.1 dollars.
const PRICES: &str = "[model.default]\nprice = { input = 1000, output = 5000 }\n";

fn answer(text: &str) -> Act {
    Act::answer(text, [50, 0, 10])
}

/// An answer whose tokens nobody counted, so that its price is not known.
fn uncounted(text: &str) -> Act {
    Act::Send(vec![EVENTS.to_owned(), delta("content", text), finish("stop"), "data: [DONE]\n\n".to_owned()])
}

fn client(server: &Server, workflow: &str) -> Client {
    let client = server.client(workflow);
    client.own_settings(PRICES);
    client
}

/// What is shown of the only thread, without its id, digests and times.
fn shown(client: &Client, words: &[&str]) -> String {
    let text = client.run(words).exits(0).text();
    let id = client.lines(&["threads", "--json"])[0]["thread"].as_str().unwrap().to_owned();
    let is_digest = |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let line = |line: &str| {
        let words = line.split(' ').map(|word| if is_digest(word) { "[digest]" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    text.replace(&id, "[thread]").lines().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn is_about(figure: &Value, expected: f64) {
    assert!((figure.as_f64().unwrap() - expected).abs() < 1e-9, "{figure} is not {expected}");
}

#[test]
fn refused_answers_are_shown_while_the_run_goes_on_and_when_it_was_killed() {
    let server = Server::new(|number| match number {
        0 => answer(BROKEN),
        1 => uncounted("---\nstatus: done\n---\n"),
        2 => Act::Hang(EVENTS.to_owned()),
        _ => answer(GOOD),
    });
    let client = client(&server, WRITER);
    let running = client.start(&["run", "workflow.yaml", "--json"]);
    let begun = Instant::now();
    // With the third request the first two answers are in the journal.
    while server.requests().len() < 3 {
        assert!(begun.elapsed() < crate::binary::PATIENCE, "no third request came");
        std::thread::sleep(Duration::from_millis(5));
    }
    let figures = |line: &Value| {
        let of = &line["in_flight"];
        is_about(&of["cost_usd"], 0.1);
        assert_eq!((&line["totals"]["model_calls"], &line["totals"]["cost_usd"]), (&json!(0), &Value::Null));
        [&of["model_calls"], &of["refused"], &of["prompt_tokens"], &of["unpriced_calls"]].map(Clone::clone)
    };
    let expected = [json!(2), json!(2), json!(50), json!(1)];
    let line = client.lines(&["show", "--json"])[0].clone();
    assert_eq!((&line["status"], figures(&line)), (&json!("running"), expected.clone()));
    running.kill();

    let lines = client.run(&["show", "--json"]).exits(0);
    assert_eq!(lines.lines, client.run(&["show", "--json"]).exits(0).lines, "the thread stands still");
    let [thread, visit] = lines.json().try_into().unwrap();
    assert_eq!((&thread["status"], figures(&thread)), (&json!("stopped"), expected));
    assert_eq!(client.lines(&["threads", "--json"]), [thread]);
    assert_eq!(
        [&visit["event"], &visit["role"], &visit["visit"], &visit["lane"]],
        [&json!("in_flight"), &json!("writer"), &json!(1), &json!("")]
    );
    let calls = visit["calls"].as_array().unwrap();
    assert_eq!(calls[0]["reply"]["parts"][0]["text"], BROKEN);
    is_about(&calls[0]["cost_usd"], 0.1);
    assert_eq!((&calls[1]["usage"], &calls[1]["cost_usd"]), (&Value::Null, &Value::Null));
    for call in calls {
        let why = call["refused"].as_str().unwrap();
        assert!(call["repair"].as_str().unwrap().contains(why) && call["given_up"] == false, "{call}");
    }
    assert_eq!(client.lines(&["messages", "--json"]), std::slice::from_ref(&visit));
    assert_eq!(client.lines(&["messages", "--role", "writer", "--visit", "1", "--json"]), [visit]);
    assert_eq!(client.run(&["messages", "--role", "writer", "--visit", "2"]).code, Some(2));
    insta::assert_snapshot!(shown(&client, &["show"]));
    let listed = client.run(&["threads"]).exits(0).text();
    assert!(listed.contains("≥ $0.1000, 2 calls, 2 refused"), "{listed}");
    assert!(client.run(&["show", "--status", "drafted"]).exits(0).text().contains("no step is like that"));

    client.run(&["resume", "--json"]).exits(0);
    let [thread, step] = client.lines(&["show", "--json"]).try_into().unwrap();
    assert_eq!((&thread["in_flight"], &thread["totals"]["model_calls"]), (&Value::Null, &json!(3)));
    for figures in [&thread["totals"], &step["note"]] {
        is_about(&figures["cost_usd"], 0.2);
        assert_eq!(figures["unpriced_calls"], 1);
    }
    let text = client.run(&["show"]).exits(0).text();
    assert_eq!(text.matches("≥ $0.2000, 1 call without a price").count(), 2, "{text}");
    assert_eq!(client.lines(&["usage", "--json"])[0]["unpriced_calls"], 1);
}

#[test]
fn the_answer_that_ended_a_run_stays_paid_for() {
    let server = Server::new(|number| answer(if number < 3 { BROKEN } else { GOOD }));
    let client = client(&server, WRITER);
    client.run(&["run", "workflow.yaml", "--json"]).exits(5);
    let [thread, visit] = client.lines(&["show", "--json"]).try_into().unwrap();
    assert_eq!((&thread["in_flight"]["model_calls"], &thread["in_flight"]["refused"]), (&json!(3), &json!(3)));
    is_about(&thread["in_flight"]["cost_usd"], 0.3);
    let last = visit["calls"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["given_up"], &last["repair"]), (&json!(true), &Value::Null));
    insta::assert_snapshot!(shown(&client, &["show"]));

    client.run(&["resume", "--json"]).exits(0);
    let [thread, step] = client.lines(&["show", "--json"]).try_into().unwrap();
    assert_eq!((&thread["in_flight"], &thread["totals"]["model_calls"]), (&Value::Null, &json!(4)));
    is_about(&thread["totals"]["cost_usd"], 0.4);
    is_about(&step["note"]["cost_usd"], 0.4);
}

#[test]
fn the_answer_that_ended_a_run_counts_towards_the_limit() {
    let server = Server::new(|number| answer(if number < 3 { BROKEN } else { GOOD }));
    let client = client(&server, &format!("{WRITER}limits: {{ cost_usd: 0.25 }}\n"));
    client.run(&["run", "workflow.yaml", "--json"]).exits(5);
    client.run(&["resume", "--json"]).exits(4);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn what_a_cancelled_thread_was_answered_stays_visible() {
    let server = Server::new(|_| answer(BROKEN));
    let client = client(&server, WRITER);
    client.run(&["run", "workflow.yaml", "--json"]).exits(5);
    client.run(&["cancel", "last"]).exits(0);
    let [thread, visit] = client.lines(&["show", "--json"]).try_into().unwrap();
    assert_eq!(thread["status"], "cancelled");
    is_about(&thread["in_flight"]["cost_usd"], 0.3);
    assert_eq!(visit["calls"].as_array().unwrap().len(), 3);
}
