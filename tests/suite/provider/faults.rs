//! Servers that fail in every way: one clear error with its code, bounded memory, and a thread that continues once the
//! server is well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Act, EVENTS, JSON, Server, delta, finish};
use crate::binary::Finished;

const GOOD: &str = "---\nstatus: done\n---\n\nAll is well.";

/// No run below takes as long unless something waits for ever.
const HANGS: Duration = Duration::from_secs(20);

/// One role that tries `attempts` times.
fn workflow(attempts: u32, edges: &str) -> String {
    format!(
        "rondo: 1\nname: fragile\nroles:\n  a: {{ system: x, retry: {{ attempts: {attempts}, backoff: 1ms }} }}\n\
         graph:\n  start: {{ to: a, prompt: go }}\n  a:\n    done: {{ to: end }}\n{edges}"
    )
}

fn good() -> Act {
    Act::answer(GOOD, [3, 2, 1])
}

/// What a failed run says: it ends with exit 5 and one error, and with a server that is well it can be resumed.
fn fails(act: impl Fn() -> Act + Send + Sync + 'static) -> Value {
    fails_with(&[], act)
}

fn fails_with(variables: &[(&str, &str)], act: impl Fn() -> Act + Send + Sync + 'static) -> Value {
    let is_well = Arc::new(AtomicBool::new(false));
    let healed = Arc::clone(&is_well);
    let server = Server::new(move |_| if healed.load(Ordering::SeqCst) { good() } else { act() });
    let mut client = server.client(&workflow(1, "")).with("RONDO_IDLE_TIMEOUT", "300ms");
    for (name, value) in variables {
        client = client.with(name, value);
    }
    let started = Instant::now();
    let said = client.run(&["run", "workflow.yaml", "--json"]);
    assert!(started.elapsed() < HANGS, "{said:?}");
    let error = only_error(&said);
    assert_eq!(error["where"]["role"], "a", "{error}");
    assert_eq!(client.lines(&["show", "last", "--json"])[0]["status"], "stopped");

    is_well.store(true, Ordering::SeqCst);
    let resumed = client.run(&["resume", "last", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(resumed.events("thread_finished")[0]["result"]["body"], "All is well.");
    error
}

fn only_error(said: &Finished) -> Value {
    assert_eq!(said.code, Some(5), "{said:?}");
    let errors = said.events("error");
    assert_eq!(errors.len(), 1, "{said:?}");
    assert_eq!(said.json().last(), errors.last(), "the error is not the last word: {said:?}");
    errors[0].clone()
}

/// Code and words of an error.
fn told(error: &Value) -> (&str, &str) {
    (error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

#[test]
fn a_server_that_is_silent_or_slow_is_given_up() {
    let silent =
        ("RN1003", "the provider sent nothing for 300ms; `idle_timeout` of [provider.openai] sets how long to wait");
    assert_eq!(told(&fails(|| Act::Hang(String::new()))), silent);
    assert_eq!(told(&fails(|| Act::Hang("HTTP/1.1 200 OK\r\ncontent-".to_owned()))), silent);
    assert_eq!(told(&fails(|| Act::Hang([EVENTS, &delta("content", "x")].concat()))), silent);
    assert_eq!(told(&fails(|| Act::Hang(format!("{JSON}{{")))), silent);

    let total = [("RONDO_TOTAL_TIMEOUT", "400ms"), ("RONDO_IDLE_TIMEOUT", "10s")];
    let wanted = ("RN1204", "the call took longer than the total timeout of 400ms");
    let pause = Duration::from_millis(20);
    let slow = fails_with(&total, move || Act::Drip(EVENTS.to_owned(), ": wait\n\n", pause));
    assert_eq!(told(&slow), wanted);
    let slow = fails_with(&total, move || Act::Drip("HTTP/1.1 200 OK\r\nx-slow: ".to_owned(), "x", pause));
    assert_eq!(told(&slow), wanted);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let server = Server::new(|_| good());
    let (client, url) = (server.client(&workflow(1, "")), server.base_url());
    drop(server);
    let error = only_error(&client.run(&["run", "workflow.yaml", "--json"]));
    assert_eq!(told(&error).0, "RN1002");
    assert!(told(&error).1.starts_with(&format!("could not reach {url}/chat/completions: ")), "{error}");

    let server = Server::new(|_| good());
    let resumed = client.with("OPENAI_BASE_URL", &server.base_url()).run(&["resume", "last", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
}

#[test]
fn a_reply_that_is_cut_is_not_used() {
    let cut = fails(|| Act::text([EVENTS, &delta("content", GOOD)].concat()));
    assert_eq!(told(&cut).0, "RN1008");
    let cut = fails(|| Act::text([EVENTS, &delta("content", GOOD), "data: [DONE]\n\n"].concat()));
    assert_eq!(told(&cut).0, "RN1008");
    let short = JSON.replace("connection", "content-length: 999\r\nconnection");
    assert_eq!(told(&fails(move || Act::text(format!("{short}{{")))).0, "RN1008");
    assert!(matches!(told(&fails(|| Act::text(""))).0, "RN1002" | "RN1008"));
}

#[test]
fn what_is_no_reply_is_told() {
    for body in [
        format!("{EVENTS}data: {{\n\n"),
        format!("{EVENTS}data: [1]\n\n"),
        format!("{EVENTS}data: \u{0}\n\n"),
        JSON.to_owned(),
        format!("{JSON}<html>"),
        format!("{JSON}{{\"hello\":1}}"),
        format!("{JSON}{}", "[".repeat(100_000)),
        EVENTS.replace("text/event-stream", "text/html") + "<html>no such page</html>",
        EVENTS.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n") + "\u{1f}\u{8b}packed\n\n",
    ] {
        let sent = body.clone();
        let error = fails(move || Act::text(sent.clone()));
        assert!(matches!(told(&error).0, "RN1009" | "RN1008"), "{error} after {body:.200}");
    }
    let page = fails(|| Act::text(EVENTS.replace("text/event-stream", "text/html") + "<html>"));
    let words = "the provider answered with text/html, not with an event stream; is the base URL right?";
    assert_eq!(told(&page), ("RN1009", words));
}

#[test]
fn endless_replies_end_at_a_limit_and_memory_stays_flat() {
    let chunk = delta("content", &"again ".repeat(1000));
    let reasoning = delta("reasoning_content", &"hm ".repeat(1000));
    for (head, piece) in [
        (EVENTS.to_owned(), chunk),
        (EVENTS.to_owned(), reasoning),
        (EVENTS.to_owned(), ": nothing\n".repeat(1000)),
        (EVENTS.to_owned(), "x".repeat(65_536)),
        (EVENTS.to_owned(), "data: \n".repeat(1000)),
        (JSON.to_owned(), " ".repeat(65_536)),
        (format!("{JSON}{{\"choices\":["), "{},".repeat(20_000)),
        (format!("{JSON}{{\"choices\":[{{\"delta\":{{\"tool_calls\":["), "{},".repeat(20_000)),
    ] {
        let shown = format!("{head}{piece:.40}");
        let error = fails(move || Act::Flood(head.clone(), piece.clone()));
        assert_eq!(told(&error).0, "RN1010", "{error} after {shown}");
    }
}

#[test]
fn json_that_is_much_larger_in_memory_than_on_the_wire_is_refused() {
    let many = |item: &str| vec![item; (7 << 20) / (item.len() + 1)].join(",");
    for body in [
        format!("{{\"choices\":[{}]}}", many("{}")),
        format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{}]}}}}]}}", many("{}")),
        format!("{{\"choices\":\"{}\"}}", "x".repeat(7 << 20)),
        format!("{{\"error\":[{}]}}", many("0")),
        format!("{{\"error\":{{\"message\":[{}]}}}}", many("[]")),
    ] {
        let shown: String = body.chars().take(60).collect();
        let error = fails(move || Act::text(format!("{JSON}{body}")));
        assert!(matches!(told(&error).0, "RN1005" | "RN1009"), "{error} after {shown}");
        assert!(told(&error).1.len() < 1000, "{error} after {shown}");
    }
}

#[test]
fn endless_heads_and_refusals_end() {
    for (head, piece) in [
        ("HTTP/1.1 500 No\r\n\r\n".to_owned(), "x".repeat(65_536)),
        ("HTTP/1.1 200 OK\r\n".to_owned(), "x-more: and more\r\n".repeat(1000)),
        ("HTTP/1.1 200 OK\r\nx-long: ".to_owned(), "x".repeat(65_536)),
        (String::new(), "HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
        (EVENTS.replace("connection", "transfer-encoding: chunked\r\nconnection"), "0".repeat(65_536)),
        (EVENTS.replace("connection", "transfer-encoding: chunked\r\nconnection") + "1;", "e".repeat(65_536)),
    ] {
        let shown = format!("{head}{piece:.40}");
        let error = fails(move || Act::Flood(head.clone(), piece.clone()));
        assert!(error["message"].as_str().unwrap().len() < 1000, "{error} after {shown}");
    }
}

#[test]
fn refusals_keep_their_status_and_say_what_to_do() {
    for (answer, wanted) in [
        (
            (401, "", r#"{"error":{"message":"who are you?"}}"#),
            (
                "RN1007",
                "the provider answered 401: who are you?; no key is set: OPENAI_API_KEY or key_env in rondo.toml gives it",
            ),
        ),
        ((500, "", "oops"), ("RN1005", "the provider answered 500: oops")),
        ((429, "retry-after: 1\r\n", "{}"), ("RN1004", "the provider answered 429")),
        (
            (302, "location: http://127.0.0.1:1/\r\n", ""),
            ("RN1006", "the provider answered 302; redirects are not followed: give the address that it leads to"),
        ),
        (
            (429, "", r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#),
            ("RN1011", "the provider's quota is used up: no credit"),
        ),
    ] {
        let (status, headers, body) = answer;
        assert_eq!(told(&fails(move || Act::refusal(status, headers, body))), wanted);
    }
    let missing = fails(|| Act::refusal(404, "", "no such model"));
    assert_eq!(told(&missing).0, "RN1006");
    assert!(told(&missing).1.starts_with("the provider answered 404: no such model; check the model and the base URL"));
    let inside = r#"data: {"error":{"message":"slow down","code":429}}"#;
    let error = fails(move || Act::text([EVENTS, &delta("content", "x"), inside, "\n\n"].concat()));
    assert_eq!(told(&error), ("RN1004", "the provider answered 429: slow down"));
    let error = fails(|| Act::text(format!(r#"{JSON}{{"error":{{"message":"overloaded","type":"server_error"}}}}"#)));
    assert_eq!(told(&error), ("RN1005", "the provider answered 500: overloaded"));
}

#[test]
fn answers_that_are_empty_cut_or_withheld_are_never_taken() {
    let broken = "the answer broke its contract 3 times, the last time: ";
    let empty = fails(|| Act::text([EVENTS, &finish("stop"), "data: [DONE]\n\n"].concat()));
    assert_eq!(told(&empty).0, "RN1108", "{empty}");
    let cut = fails(|| Act::text([EVENTS, &delta("content", GOOD), &finish("length")].concat()));
    let words = format!("{broken}it was cut at the output limit; answer again and be shorter");
    assert_eq!(told(&cut), ("RN1108", words.as_str()));
    let withheld = fails(|| Act::text([EVENTS, &delta("content", GOOD), &finish("content_filter")].concat()));
    let words = "the provider withheld the answer (finish reason content_filter)";
    assert_eq!(told(&withheld), ("RN1109", words));
}

/// A role without tools whose model asks for one is told so, and answers.
#[test]
fn a_tool_that_is_not_there_is_answered_for() {
    let tool = r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"rm","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let server = Server::new(move |n| if n == 0 { Act::text([EVENTS, tool, "\n\n"].concat()) } else { good() });
    let client = server.client(&workflow(1, ""));
    let said = client.run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let body: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let answered = json!({ "role": "tool", "tool_call_id": "t", "content": "error RN1601: there is no tool \"rm\"; answer without tools" });
    assert_eq!(messages.last(), Some(&answered));
    assert_eq!(said.events("tool_finished")[0]["failed"], true);

    // One that asks again and again is stopped.
    let endless = Server::new(move |_| Act::text([EVENTS, tool, "\n\n"].concat()));
    let said = endless.client(&workflow(1, "")).run(&["run", "workflow.yaml", "--json"]);
    assert_eq!((said.code, said.events("error").len()), (Some(4), 1), "{said:?}");
}

/// A file that a reply half names is not written.
#[test]
fn tools_that_a_cut_reply_asks_for_are_answered_for_and_not_called() {
    let call = r#"{"index":0,"id":"t","function":{"name":"rm","arguments":"{}"}}"#;
    let asks = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n");
    let cut = [EVENTS, &asks, &finish("length")].concat();
    let server = Server::new(move |n| if n == 0 { Act::text(cut.clone()) } else { good() });
    let said = server.client(&workflow(1, "")).run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let body: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
    let told = body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&told["role"], &told["tool_call_id"]), (&json!("tool"), &json!("t")));
    assert!(told["content"].as_str().unwrap().starts_with("error RN1606: "), "{told}");

    let withheld = [EVENTS, &asks, &finish("content_filter")].concat();
    let fault = fails(move || Act::text(withheld.clone()));
    assert_eq!(fault["code"], "RN1109");
}

#[test]
fn an_end_that_nobody_knows_is_asked_for_again_and_odd_figures_are_not() {
    let ended = |reason: &str| [EVENTS, &delta("content", GOOD), &finish(reason)].concat();
    let (odd, usage) = (ended("anything"), r#"{"prompt_tokens":-5,"completion_tokens":1180591620717411303424}"#);
    let counted = format!("{}data: {{\"choices\":[],\"usage\":{usage}}}\n\n", ended("stop"));
    let server = Server::new(move |n| Act::text(if n == 0 { odd.clone() } else { counted.clone() }));
    let client = server.client(&workflow(5, ""));
    let said = client.run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let retried: Vec<String> =
        said.events("call_retried").iter().map(|event| event["code"].as_str().unwrap().to_owned()).collect();
    assert_eq!((retried, server.requests().len()), (vec!["RN1009".to_owned()], 2));
    assert_eq!(client.lines(&["show", "last", "--json"])[1]["note"]["usage"], Value::Null);
}

#[test]
fn a_reply_that_is_too_large_is_asked_for_once_and_its_wrapping_does_not_count() {
    let endless = delta("content", &"again ".repeat(1000));
    let server = Server::new(move |_| Act::Flood(EVENTS.to_owned(), endless.clone()));
    let said = server.client(&workflow(5, "")).run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(only_error(&said)["code"], "RN1010");
    assert_eq!(server.requests().len(), 1);

    // 30,000 tokens, each in an event of about 300 bytes.
    let wrapped = delta("content", "word ").replacen('{', &format!("{{\"id\":\"{}\",", "x".repeat(230)), 1);
    let answer = [EVENTS, &delta("content", &format!("{GOOD} ")), &wrapped.repeat(30_000), &finish("stop")].concat();
    assert!(answer.len() > 8 << 20, "{}", answer.len());
    let server = Server::new(move |_| Act::text(answer.clone()));
    let said = server.client(&workflow(5, "")).run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let body = &said.events("thread_finished")[0]["result"]["body"];
    assert_eq!((body.as_str().unwrap().len() / 5, server.requests().len()), (30_002, 1));
}

#[test]
fn what_another_attempt_cures_is_tried_again_and_told() {
    let server = Server::new(|n| match n {
        0 => Act::refusal(429, "retry-after-ms: 5\r\n", "{}"),
        1 => Act::refusal(503, "", ""),
        2 => Act::text([EVENTS, &delta("content", "half an ans")].concat()),
        _ => good(),
    });
    let said = server.client(&workflow(4, "")).run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let retried = said.events("call_retried");
    let codes: Vec<&Value> = retried.iter().map(|event| &event["code"]).collect();
    assert_eq!(codes, ["RN1004", "RN1005", "RN1008"]);
    assert!(retried[0]["wait_ms"].as_u64() >= Some(5));
    let bodies: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "attempts differ");
}

#[test]
fn the_graph_can_route_a_fault() {
    let server = Server::new(|_| Act::refusal(401, "", "no"));
    let edges = "    on_error: { to: fail, reason: \"{{ output.code }}: {{ output.message }}\" }\n";
    let client = server.client(&workflow(1, edges));
    let said = client.run(&["run", "workflow.yaml", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(said.events("error"), Vec::<Value>::new());
    let finished = said.events("thread_finished").remove(0);
    assert_eq!((&finished["outcome"], &finished["status"]), (&json!("failed"), &json!("error")));
    assert!(finished["reason"].as_str().unwrap().starts_with("RN1007: the provider answered 401: no"), "{finished}");
}
