//! What a store says that its runs used: tokens as the server counted them, each at one price, and nothing made up for
//! what it did not count.

use serde_json::{Value, json};

use super::client::Client;
use super::server::{Act, EVENTS, Server, delta, finish};
use crate::binary::{Place, fixture};

const PAIR: &str = "
rondo: 1
name: pair
models: { other: { model: fake-2 } }
roles:
  writer: { output: { drafted: {} } }
  editor: { model: other, output: { approved: {} } }
graph:
  start: { to: writer, prompt: Write. }
  writer: { drafted: { to: editor, prompt: Judge. } }
  editor: { approved: { to: end } }
";

/// Dollars per million tokens.
const PRICES: &str = "[model.default]\nprice = { input = 100, cached_input = 10, cache_write = 200, output = 1000 }\n";

/// An answer with those figures as its usage.
fn answer(status: &str, usage: &str) -> Act {
    let usage = format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\n");
    let text = format!("---\nstatus: {status}\n---\n\nText\n");
    let last = "data: [DONE]\n\n".to_owned();
    Act::Send(vec![EVENTS.to_owned(), delta("content", &text), finish("stop"), usage, last])
}

fn of<'a>(lines: &'a [Value], key: &Value) -> &'a Value {
    lines.iter().find(|line| line["key"] == *key).unwrap()
}

fn usage(client: &Client, words: &[&str]) -> Vec<Value> {
    client.lines(&[&["usage", "--json"], words].concat())
}

#[test]
fn each_token_has_one_price_and_a_call_without_a_price_is_not_free() {
    let written = r#"{"prompt_tokens":1000,"completion_tokens":10,
        "prompt_tokens_details":{"cached_tokens":600,"cache_write_tokens":100}}"#;
    let written = written.replace('\n', "");
    let server = Server::new(move |number| match number {
        0 => answer("drafted", &written),
        2 => answer("drafted", r#"{"prompt_tokens":"many"}"#),
        _ => answer("approved", r#"{"prompt_tokens":500,"completion_tokens":5}"#),
    });
    let client = server.client(PAIR);
    client.settings(PRICES);
    for _ in 0..2 {
        client.lines(&["run", "workflow.yaml", "--json"]);
    }
    let by_model = usage(&client, &["--by", "model"]);
    // 300 fresh, 600 cached, 100 written, 10 of output.
    let priced = (0.03 + 0.006 + 0.02) + 0.01;
    let known = of(&by_model, &json!("fake-1"));
    assert!((known["cost_usd"].as_f64().unwrap() - priced).abs() < 1e-9, "{known}");
    assert_eq!((&known["uncounted_calls"], &known["unpriced_calls"]), (&json!(1), &json!(1)), "{known}");
    assert_eq!(
        (&known["prompt_tokens"], &known["cached_tokens"], &known["cache_write_tokens"], &known["cached_share"]),
        (&json!(1000), &json!(600), &json!(100), &json!(0.6)),
    );
    let unpriced = of(&by_model, &json!("fake-2"));
    assert_eq!((&unpriced["cost_usd"], &unpriced["unpriced_calls"]), (&Value::Null, &json!(2)), "{unpriced}");
    assert_eq!((&unpriced["prompt_tokens"], &unpriced["uncounted_calls"]), (&json!(1000), &json!(0)), "{unpriced}");

    let [total] = usage(&client, &[]).try_into().unwrap();
    assert_eq!((&total["by"], &total["key"], &total["threads"]), (&Value::Null, &Value::Null, &json!(2)));
    assert_eq!((&total["model_calls"], &total["unpriced_calls"]), (&json!(4), &json!(3)));
    let shown: f64 =
        client.lines(&["threads", "--json"]).iter().filter_map(|line| line["totals"]["cost_usd"].as_f64()).sum();
    assert!((total["cost_usd"].as_f64().unwrap() - shown).abs() < 1e-9, "{total}");

    let text = client.run(&["usage", "--by", "role"]).exits(0).text();
    for part in [
        "ROLE",
        "editor",
        "writer",
        "1 of 4 model calls have no token counts",
        "3 of 4 model calls have no known price",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(usage(&client, &["--by", "day", "--since", "1h"]), usage(&client, &["--by", "day"]));
    assert_eq!(usage(&client, &["--by", "day", "--since", "2999-01-01"]), [] as [Value; 0]);
    assert_eq!(client.run(&["usage", "--since", "last week"]).code, Some(2));
}

#[test]
fn a_tree_of_threads_is_counted_once() {
    let place = Place::new();
    assert_eq!(place.run(["usage"]).exits(0).lines.len(), 2, "a title and a line of zeros");
    assert!(!place.store().exists(), "looking makes nothing");
    place.run(["run", &fixture("children"), "--offline", "-i", "topic=tea", "--json"]).exits(0);
    let ids: Vec<Value> = place.run(["threads", "--json"]).exits(0).json();
    let mut steps = 0;
    let mut calls = 0;
    for line in &ids {
        for step in place.run(["show", line["thread"].as_str().unwrap(), "--json"]).exits(0).events("step") {
            steps += 1;
            let entries = step["transcript"]["entries"].as_array().cloned().unwrap_or_default();
            calls += entries.iter().filter(|entry| entry["kind"] == "model").count();
        }
    }
    let [total] = place.run(["usage", "--json"]).exits(0).json().try_into().unwrap();
    assert_eq!((&total["steps"], &total["model_calls"]), (&json!(steps), &json!(calls)));
    assert_eq!(total["threads"], ids.len());
    let by_role = place.run(["usage", "--by", "role", "--json"]).exits(0).json();
    assert_eq!(of(&by_role, &json!("section"))["model_calls"], 0, "the children have these calls");
    let by_workflow = place.run(["usage", "--by", "workflow", "--json"]).exits(0).json();
    assert_eq!(of(&by_workflow, &json!("report"))["threads"], 1);
    assert_eq!(by_workflow.iter().filter_map(|line| line["model_calls"].as_u64()).sum::<u64>(), calls as u64);
}

#[test]
fn a_sum_over_calls_with_and_without_a_price_is_never_shown_as_whole() {
    let server = Server::new(|number| {
        let status = if number % 2 == 0 { "drafted" } else { "approved" };
        answer(status, r#"{"prompt_tokens":1000,"completion_tokens":10}"#)
    });
    let client = server.client(PAIR);
    client.settings(PRICES);
    client.file("in.jsonl", "{}\n");
    client.file("edited.yaml", &PAIR.replace("prompt: Write.", "prompt: Write it."));
    let run = client.run(&["run", "workflow.yaml"]).exits(0);
    let batch = client.run(&["run", "workflow.yaml", "--input-file", "in.jsonl"]).exits(0);
    let [old, new] = client.lines(&["threads", "--json"]).try_into().unwrap();
    let [old, new] = [&old, &new].map(|line| line["thread"].as_str().unwrap());
    let words: [&[&str]; 4] =
        [&["show", old], &["usage"], &["fork", old, "--with", "edited.yaml", "--dry-run"], &["diff", old, new]];
    let shown = words.map(|words| client.run(words).exits(0).text());
    for (text, cost) in [&run.stderr, &batch.stderr].into_iter().chain(&shown).zip([0.11, 0.11, 0.11, 0.22, 0.11, 0.11])
    {
        assert!(text.contains(&format!("≥ ${cost:.4}")), "{text}");
        assert!(!text.contains("$0.0000"), "{text}");
    }
    for text in [&run.stderr, &batch.stderr, &shown[0], &shown[2]] {
        assert!(text.contains("≥ $0.1100, 1 call without a price"), "{text}");
    }
    for totals in [
        &client.lines(&["diff", old, new, "--json"]).pop().unwrap()["a"],
        &client.lines(&["show", old, "--json"])[0]["totals"],
    ] {
        assert_eq!(totals["unpriced_calls"], 1);
    }
    let visits = client.lines(&["prefix", old, "--json"]);
    let costs = visits.iter().map(|visit| (visit["cost_usd"].as_f64(), visit["unpriced_calls"].clone()));
    assert_eq!(costs.collect::<Vec<_>>(), [(Some(0.11), json!(0)), (None, json!(1))]);
}

#[test]
fn attempts_that_failed_and_were_billed_count_also_after_a_stop() {
    let billed = |prompt: u64| format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":1}}");
    let counted = move |prompt: u64| format!("data: {{\"choices\":[],\"usage\":{}}}\n\n", billed(prompt));
    let server = Server::new(move |number| match number {
        0 => Act::Send(vec![EVENTS.to_owned(), delta("content", "x"), finish("weary"), counted(1)]),
        1 => Act::Send(vec![EVENTS.to_owned(), counted(5), counted(10), delta("content", "x")]),
        2 => Act::Send(vec![EVENTS.to_owned(), counted(100), "data: {\"error\":{\"code\":500}}\n\n".to_owned()]),
        3 => Act::refusal(500, "content-type: application/json\r\n", &format!("{{\"usage\":{}}}", billed(1000))),
        4 => Act::refusal(401, "", "no"),
        5 => answer("drafted", &billed(10_000)),
        _ => answer("approved", &billed(100_000)),
    });
    let client = server.client(&PAIR.replacen("writer: {", "writer: { retry: { attempts: 9, backoff: 1ms },", 1));
    client.settings(PRICES);
    assert_eq!(client.run(&["run", "workflow.yaml", "--json"]).code, Some(5));
    client.run(&["resume", "last", "--json"]).exits(0);
    let [total] = usage(&client, &[]).try_into().unwrap();
    assert_eq!((&total["prompt_tokens"], &total["output_tokens"]), (&json!(111_111), &json!(6)), "{total}");
    let known = of(&usage(&client, &["--by", "model"]), &json!("fake-1")).clone();
    let dollars = (11_111.0 * 100.0 + 5.0 * 1000.0) / 1e6;
    assert!((known["cost_usd"].as_f64().unwrap() - dollars).abs() < 1e-9, "{known}");
}
