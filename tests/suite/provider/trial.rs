//! `rondo doctor --ask` and what needs no key: what is asked of whom, what is told of the answers, and that nobody is asked
//! unless that was typed.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::client::Client;
use super::server::{Act, EVENTS, JSON, Request, Server, delta, finish};
use crate::binary::{Finished, Place};

const KEY: &str = "sk-test-0123456789abcdef-XYZW";

const WORKFLOW: &str = "rondo: 1\nname: x\nroles: { a: { system: x } }\ngraph:\n  start: { to: a, prompt: go }\n  a: { done: { to: end } }\n";

/// A server that supports everything, as a request of it asks.
fn capable(request: &Request) -> Act {
    if request.head.starts_with("get /v1/models ") {
        return Act::text(format!(r#"{JSON}{{"object":"list","data":[{{"id":"listed-1"}},{{"id":"listed-2"}}]}}"#));
    }
    let body: Value = serde_json::from_str(&request.body).unwrap();
    if body.get("tools").is_some() {
        let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"note","arguments":"{\"word\":\"hello\"}"}}]},"finish_reason":null}]}"#;
        return Act::Send(vec![EVENTS.to_owned(), format!("data: {call}\n\n"), finish("tool_calls")]);
    }
    let text = if body.get("response_format").is_some() { r#"{"ok": true}"# } else { "Hello" };
    Act::answer(text, [12, 0, 3])
}

/// A folder in which that server has this key.
fn client(server: &Server) -> Client {
    server.client(WORKFLOW).with("OPENAI_API_KEY", KEY)
}

/// What is told of the one provider.
fn trial(said: &Finished) -> Value {
    said.event("provider").clone()
}

fn without_times(mut trial: Value) -> Value {
    for time in ["first_event_ms", "whole_ms"] {
        assert!(trial[time].is_u64(), "{trial}");
        trial.as_object_mut().unwrap().remove(time);
    }
    trial
}

#[test]
fn a_provider_is_asked_three_times_and_only_when_that_is_typed() {
    let server = Server::reading(|_, request| capable(request));
    let client = client(&server).with("RONDO_MODEL", "gpt-4.1-mini");
    client.run(&["doctor"]).exits(0);
    client.run(&["doctor", "--json"]).exits(0);
    assert!(server.requests().is_empty());

    let told = without_times(trial(&client.run(&["doctor", "--ask", "--json"]).exits(0)));
    let wanted = json!({
        "event": "provider", "provider": "openai", "protocol": "openai_chat", "base_url": server.base_url(),
        "model": "gpt-4.1-mini", "is_model_listed": false, "reachable": true, "fault": null,
        "usage": {"prompt_tokens": 24, "cached_tokens": 0, "output_tokens": 6}, "reports_cached": true,
        "response_format": "json_schema",
        "schema": {"verdict": "yes", "fault": null}, "tools": {"verdict": "yes", "fault": null},
        "cost_usd": told["cost_usd"],
    });
    assert_eq!(told, wanted);
    assert!((told["cost_usd"].as_f64().unwrap() - 0.000_019_2).abs() < 1e-9, "{told}");

    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.head.contains(&format!("bearer {}", KEY.to_lowercase()))));
    let bodies: Vec<Value> = requests.iter().map(|request| serde_json::from_str(&request.body).unwrap()).collect();
    let ceilings: Vec<u64> = bodies
        .iter()
        .map(|body| body.get("max_completion_tokens").or_else(|| body.get("max_tokens")).unwrap().as_u64().unwrap())
        .collect();
    assert_eq!(ceilings, [16, 256, 256]);
    assert_eq!(bodies[0]["messages"][1]["content"], "Hello");

    let text = client.run(&["doctor", "--ask"]).exits(0);
    assert!(text.stderr.contains("asking openai: up to three tiny requests each, which cost a few tokens"));
    for line in ["provider.openai schema   held", "provider.openai tools    called", "24 in, 0 cached, 6 out"] {
        assert!(text.text().contains(line), "{line}: {}", text.text());
    }
    assert!(!text.text().contains(KEY) && !text.stderr.contains(KEY));
}

#[test]
fn a_refusal_is_told_in_the_providers_words_without_the_key_and_ends_the_trial() {
    let refusal = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}","code":"invalid_api_key"}}}}"#);
    let server = Server::new(move |_| Act::refusal(401, "", &refusal));
    let client = client(&server);
    let told = trial(&client.run(&["doctor", "--ask", "--json"]).exits(0));
    assert_eq!((&told["reachable"], &told["fault"]["code"]), (&json!(true), &json!("RN1007")), "{told}");
    assert_eq!(
        told["fault"]["message"],
        "the provider answered 401: Incorrect API key provided: [redacted:OPENAI_API_KEY]; check the key in OPENAI_API_KEY"
    );
    assert_eq!(told["tools"]["verdict"], "not_asked");
    assert_eq!(server.requests().len(), 1);
    let text = client.run(&["doctor", "--ask"]).exits(0).text();
    assert!(text.contains("! provider.openai answers  it answers, and refuses: RN1007: "), "{text}");
    assert!(!text.contains(KEY));
}

#[test]
fn what_a_server_does_not_support_is_told() {
    let server = Server::reading(|_, request| {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        match (body.get("response_format"), body.get("tools")) {
            (Some(_), _) => Act::refusal(400, "", r#"{"error":"response_format is not supported"}"#),
            (None, Some(_)) => Act::Send(vec![EVENTS.to_owned(), delta("content", "note(hello)"), finish("stop")]),
            (None, None) => Act::Send(vec![EVENTS.to_owned(), delta("content", "Hello"), finish("length")]),
        }
    });
    let told = trial(&client(&server).run(&["doctor", "--ask", "--json"]).exits(0));
    assert_eq!(
        (&told["usage"], &told["reports_cached"], &told["cost_usd"]),
        (&json!(null), &json!(false), &json!(null))
    );
    assert_eq!(told["schema"]["verdict"], "failed");
    assert_eq!(told["schema"]["fault"]["message"], "the provider answered 400: response_format is not supported");
    assert_eq!(told["tools"], json!({"verdict": "no", "fault": null}));

    let unsent = trial(
        &client(&server).run(&["doctor", "--ask", "--json", "--set", "provider.openai.response_format=off"]).exits(0),
    );
    assert_eq!(unsent["schema"]["verdict"], "not_asked");
}

#[test]
fn without_a_model_in_the_settings_the_first_that_is_listed_is_asked() {
    let server = Server::reading(|_, request| capable(request));
    let told = trial(&client(&server).without("RONDO_MODEL").run(&["doctor", "--ask", "--json"]).exits(0));
    assert_eq!((&told["model"], &told["is_model_listed"]), (&json!("listed-1"), &json!(true)), "{told}");
    assert!(server.requests()[0].head.contains("authorization: bearer "));

    let server = Server::new(|_| Act::refusal(404, "", ""));
    let told = trial(&client(&server).without("RONDO_MODEL").run(&["doctor", "--ask", "--json"]).exits(0));
    assert_eq!((&told["reachable"], &told["fault"]["code"]), (&json!(null), &json!("RN1001")), "{told}");
    assert!(told["fault"]["hint"].as_str().unwrap().starts_with("set RONDO_MODEL, or `model`"), "{told}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_provider_of_a_project_is_asked_only_after_consent() {
    let server = Server::reading(|_, request| capable(request));
    let place = Place::new();
    let settings =
        format!("[provider.corp]\nbase_url = \"{}\"\n[model.default]\nprovider = \"corp\"\n", server.base_url());
    place.file("rondo.toml", &settings);
    let told = place.run(["doctor", "--ask"]).exits(0);
    assert!(told.text().contains("! not asked  corp, as "), "{}", told.text());
    assert!(server.requests().is_empty());

    place.trust(&[]);
    let told = trial(&place.run(["doctor", "--ask", "--json"]).exits(0));
    assert_eq!((&told["provider"], &told["model"]), (&json!("corp"), &json!("listed-1")));
    assert_eq!(server.requests().len(), 4);
}

/// A usual port of a server on this machine that is free: LM Studio's.
const LOCAL: &str = "127.0.0.1:1234";

#[test]
fn a_server_of_this_machine_is_named_with_the_line_to_type_and_a_run_asks_it_only_on_a_terminal() {
    // A real one may run here.
    let Ok(free) = TcpListener::bind(LOCAL) else {
        println!("skipped: {LOCAL} is in use");
        return;
    };
    drop(free);
    let server = Server::at(LOCAL, |_, request| capable(request));
    let client = server.client(WORKFLOW).without("OPENAI_BASE_URL").without("RONDO_MODEL");

    // Other tests look there as well, so that no request is counted.
    let piped = client.run(&["run", "workflow.yaml"]).exits(5);
    assert!(piped.stderr.contains("no model is set for `default`") && !piped.stderr.contains("LM Studio"));

    let told = client.run(&["doctor"]).exits(0).text();
    assert!(told.contains("LM Studio at http://127.0.0.1:1234/v1: listed-1, listed-2"), "{told}");
    assert!(told.contains("OPENAI_BASE_URL=http://127.0.0.1:1234/v1 RONDO_MODEL=listed-1 rondo run ..."), "{told}");
    let told = client.run(&["doctor", "--json"]).exits(0);
    let found = told.events("local_server").into_iter().find(|found| found["program"] == "LM Studio").unwrap().clone();
    assert_eq!((&found["models"][0], &found["base_url"]), (&json!("listed-1"), &json!("http://127.0.0.1:1234/v1")));

    let terminal = client.terminal((20, 200));
    terminal.types("rondo run workflow.yaml\n");
    let line = "OPENAI_BASE_URL=http://127.0.0.1:1234/v1 rondo run workflow.yaml --model listed-1";
    terminal.until(|screen| screen.contents().contains(line));
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.head.starts_with("get /v1/models ")), "{requests:?}");
    assert!(requests.iter().all(|request| !request.head.contains("authorization")), "{requests:?}");

    terminal.types(&format!("{line}\n"));
    let is_chat = |request: &Request| request.head.starts_with("post /v1/chat/completions ");
    terminal.until(|_| server.requests().iter().any(is_chat));
}
