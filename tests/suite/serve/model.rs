//! A workflow as a model for chat clients.

use serde_json::{Value, json};

use super::client::Server;
use super::{place, place_of_clerk};
use crate::provider::server::{Act, EVENTS, Server as Provider, delta};

fn chat(server: &Server, model: &str, messages: &Value) -> Value {
    let body = json!({"model": model, "messages": messages, "temperature": 0.2});
    let lines = ["Content-Type: application/json"];
    server.request("POST", "/v1/chat/completions", &lines, &body.to_string()).is(200).json()
}

#[test]
fn a_message_fills_the_input_and_the_result_answers_it() {
    let place = place();
    let answering = format!("{}serve: {{ message: topic, answer: text }}\n", super::PAIR);
    place.file("workflows/chosen/workflow.yaml", answering.replace("name: pair", "name: chosen"));
    place.file("workflows/chosen/script.yaml", super::SCRIPT);
    let server = Server::start(&place, &[]);
    let models = server.request("GET", "/v1/models", &[], "").is(200).json();
    let has = |name: &str| models["data"].as_array().unwrap().iter().any(|model| model["id"] == name);
    assert!(has("pair") && has("chosen") && has("review-loop"), "{models}");
    assert!(has("map-files") && has("pair:offline"), "{models}");
    // It needs two texts.
    let asked = json!({"model": "map-files", "messages": [{"role": "user", "content": "x"}]}).to_string();
    let lines = ["Content-Type: application/json"];
    let told = server.request("POST", "/v1/chat/completions", &lines, &asked).is(422).json();
    assert!(told["error"]["message"].as_str().unwrap().contains("serve"), "{told}");

    let said =
        chat(&server, "chosen:offline", &json!([{"role": "user", "content": [{"type": "text", "text": "tides"}]}]));
    assert_eq!(said["choices"][0]["message"], json!({"role": "assistant", "content": "four"}));
    assert_eq!((&said["object"], &said["model"]), (&json!("chat.completion"), &json!("chosen:offline")));
    assert!(said["usage"]["prompt_tokens_details"]["cached_tokens"].is_u64(), "{said}");
    let thread = said["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap();
    assert_eq!(server.get(&format!("/threads/{thread}")).is(200).json()["input"]["topic"], "tides");
    // Without `serve` the result is JSON.
    let said = chat(&server, "pair:offline", &json!([{"role": "user", "content": "tides"}]));
    assert_eq!(said["choices"][0]["message"]["content"], r#"{"text":"four"}"#);

    // Clients of this API send what they leave out as null.
    let nulls = json!({"model": "chosen:offline", "messages": [{"role": "user", "content": "tides"}], "stream": null,
        "stream_options": null});
    let said = server.request("POST", "/v1/chat/completions", &lines, &nulls.to_string()).is(200).json();
    assert_eq!(said["choices"][0]["message"]["content"], "four");

    let body = json!({"model": "chosen:offline", "messages": [{"role": "user", "content": "tides"}], "stream": true,
        "stream_options": {"include_usage": true}});
    let mut streamed = server.chat("/chat/completions", &body);
    let chunks: Vec<Value> = std::iter::from_fn(|| streamed.answer()).collect();
    let [begun, told @ .., ended, usage] = chunks.as_slice() else { panic!("{chunks:?}") };
    assert_eq!(begun["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(told.iter().map(content).collect::<String>(), "four");
    assert_eq!(ended["choices"][0]["finish_reason"], "stop");
    assert!(usage["usage"]["total_tokens"].is_u64() && usage["choices"] == json!([]));
}

/// Every error is in the form that chat clients read, also where no handler saw the request.
#[test]
fn an_error_is_what_chat_clients_read() {
    let place = place();
    let server = Server::start(&place, &[]);
    assert_eq!(server.request("GET", "/v1/models/pair:offline", &[], "").is(200).json()["id"], "pair:offline");
    let lines = ["Content-Type: application/json"];
    let unknown = json!({"model": "gpt-none", "messages": [{"role": "user", "content": "x"}]}).to_string();
    for (method, path, body, status) in [
        ("GET", "/v1/models/none", "", 404),
        ("POST", "/v1/chat/completions", unknown.as_str(), 404),
        ("POST", "/v1/chat/completions", "{", 400),
        ("GET", "/v1/none", "", 404),
        ("DELETE", "/v1/models", "", 405),
    ] {
        let told = server.request(method, path, &lines, body).is(status).json();
        assert!(told["error"]["message"].as_str().is_some_and(|said| !said.is_empty()), "{path}: {told}");
        assert!(told["error"]["code"].as_str().unwrap().starts_with("RN"), "{path}: {told}");
    }
    let refused = server.request("DELETE", "/v1/models", &lines, "").is(405);
    assert!(refused.header("allow").is_some_and(|allowed| allowed.contains("get")));
    let stranger = format!("GET /v1/models HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address);
    let refused = server.send(stranger.as_bytes()).is(401);
    assert_eq!(refused.header("www-authenticate"), Some("bearer"));
    assert!(refused.json()["error"]["message"].is_string());
}

/// The text that a chunk of a streamed answer adds.
fn content(chunk: &Value) -> &str {
    chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default()
}

/// One role, which ends the run with its text.
const ONE: &str = r#"
rondo: 1
name: one
input: { topic: string }
roles:
  speaker: { system: You speak. }
graph:
  start: { to: speaker, prompt: "{{ input.topic }}" }
  speaker: { done: { to: end } }
result: "{{ steps.speaker.body }}"
"#;

#[test]
fn a_streamed_answer_has_the_text_of_the_last_role_while_it_is_written() {
    let place = place();
    place.file("workflows/one/workflow.yaml", ONE);
    let text = "---\nstatus: done\n---\n\nLow tide";
    let provider = Provider::new(move |_| Act::Hang(format!("{EVENTS}{}", delta("content", text))));
    let variables = [("OPENAI_BASE_URL", &*provider.base_url()), ("RONDO_MODEL", "fake-1"), ("OPENAI_API_KEY", "k")];
    let server = Server::start_with(&place, &[], &variables);
    let messages = json!([{"role": "user", "content": "tides"}]);

    let mut streamed = server.chat("/chat/completions", &json!({"model": "one", "messages": messages, "stream": true}));
    assert_eq!(content(&streamed.answer().unwrap()), "");
    assert_eq!(content(&streamed.answer().unwrap()), "Low tide");
    // The client is gone: nothing more is paid for.
    drop(streamed);
    let threads = server.get("/threads").is(200).json();
    server.wait(threads["threads"][0]["thread"].as_str().unwrap(), "stopped");
}

#[test]
fn an_answer_that_is_refused_is_followed_by_the_one_that_stands() {
    let place = place();
    place.file("workflows/one/workflow.yaml", ONE);
    place.file(
        "workflows/one/script.yaml",
        concat!(
            "speaker:\n",
            "  - raw: \"---\\nstatus: doubtful\\n---\\n\\nLow tide.\"\n",
            "  - { status: done, body: Low water. }\n",
        ),
    );
    let server = Server::start(&place, &[]);
    let messages = json!([{"role": "user", "content": "tides"}]);
    let body = json!({"model": "one:offline", "messages": messages, "stream": true});
    let mut streamed = server.chat("/chat/completions", &body);
    let told: String = std::iter::from_fn(|| streamed.answer()).map(|chunk| content(&chunk).to_owned()).collect();
    assert_eq!(told, "Low tide.\n\nLow water.");
}

#[test]
fn a_workflow_that_waits_goes_on_with_the_next_message() {
    let place = place();
    place.file("workflows/ask/workflow.yaml", super::ASK.replace("roles:", "input: { text?: string }\nroles:"));
    let server = Server::start(&place, &[]);
    let mut messages = vec![json!({"role": "user", "content": "please"})];
    let asked = chat(&server, "ask:offline", &json!(messages));
    let question = asked["choices"][0]["message"].clone();
    let text = question["content"].as_str().unwrap();
    assert!(text.starts_with("Is this good? a text") && text.contains("`accept` with grade"), "{text}");
    messages.push(question);
    let answered = |words: &str| {
        let mut messages = messages.clone();
        messages.push(json!({"role": "user", "content": words}));
        json!({"model": "ask:offline", "messages": messages}).to_string()
    };
    let lines = ["Content-Type: application/json"];
    let vague = server.request("POST", "/v1/chat/completions", &lines, &answered("well, maybe")).is(422).json();
    assert_eq!(vague["error"]["code"], "RN1414", "{vague}");
    let good = answered(r#"{"status": "accept", "grade": 3, "body": "fine"}"#);
    let done = server.request("POST", "/v1/chat/completions", &lines, &good).is(200).json();
    assert_eq!(done["choices"][0]["message"]["content"], r#"{"grade":3}"#);
    // One thread, which a person's two messages went into.
    assert_eq!(server.get("/threads").is(200).json()["threads"].as_array().unwrap().len(), 1);
}

/// The number of threads.
fn threads(server: &Server) -> usize {
    server.get("/threads").is(200).json()["threads"].as_array().unwrap().len()
}

/// Clients repeat a request by themselves when they lose its answer.
#[test]
fn an_answer_to_a_form_that_is_sent_again_gives_what_came_of_it() {
    let place = place();
    place.file(
        "workflows/ask/workflow.yaml",
        super::ASK
            .replace("roles:", "input: { text?: string }\nroles:\n  late: { system: You thank. }")
            .replace("accept: { to: end }", "accept: { to: late, prompt: Thank them. }")
            .replace("\nresult:", "\n  late: { done: { to: end } }\nresult:"),
    );
    let script = |late: &str| format!("draft: [ {{ body: a text }} ]\nlate: [ {{ {late} }} ]\n");
    place.file("workflows/ask/script.yaml", script("delay_ms: 600000, body: thanks"));
    let server = Server::start(&place, &[]);
    let mut messages = vec![json!({"role": "user", "content": "please"})];
    messages.push(chat(&server, "ask:offline", &json!(messages))["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": r#"{"status": "accept", "grade": 3}"#}));

    // The run stops after it has the answer.
    let body = json!({"model": "ask:offline", "messages": messages, "stream": true});
    let mut streamed = server.chat("/chat/completions", &body);
    let thread = streamed.answer().unwrap()["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().to_owned();
    let mut events = server.events(&format!("/threads/{thread}/events"), None);
    while events.until("step_committed").pop().unwrap().1["role"] != "person" {}
    server.post(&format!("/threads/{thread}/stop"), &json!({})).is(202);
    drop(streamed);
    server.wait(&thread, "stopped");
    // Sent again, the same answer resumes it, and then gives its result.
    place.file("workflows/ask/script.yaml", script("body: thanks"));
    for _ in 0..2 {
        let done = chat(&server, "ask:offline", &json!(messages));
        assert_eq!(done["choices"][0]["message"]["content"], r#"{"grade":3}"#, "{done}");
        assert_eq!(done["id"], format!("chatcmpl-{thread}"));
    }
    let mut streamed = server.chat("/chat/completions", &body);
    let told: String = std::iter::from_fn(|| streamed.answer()).map(|chunk| content(&chunk).to_owned()).collect();
    assert_eq!(told, r#"{"grade":3}"#);
    assert_eq!(threads(&server), 1);
}

#[test]
fn conversations_that_begin_alike_have_a_thread_each() {
    let place = place();
    // A form with one status, and one with a choice.
    let asking = super::ASK.replace("roles:", "input: { text?: string }\nroles:");
    place.file("workflows/ask/workflow.yaml", &asking);
    let one = asking.replace("name: ask", "name: tell").replace(", refuse: {}", "");
    let one = one.replace("accept: { grade: { type: integer, minimum: 1 } }", "accept: {}");
    let one = one.replace(", refuse: { to: fail, reason: \"{{ body }}\" }", "");
    let one = one.replace("grade: \"{{ steps.person.output.grade }}\"", "said: \"{{ steps.person.body }}\"");
    place.file("workflows/tell/workflow.yaml", one);
    place.file("workflows/tell/script.yaml", "draft: [ { body: a text } ]\n");
    let server = Server::start(&place, &[]);
    for (model, answers) in [
        ("ask:offline", [r#"{"status": "accept", "grade": 1}"#, r#"{"status": "accept", "grade": 2}"#]),
        ("tell:offline", ["one", "two"]),
    ] {
        let first = json!({"role": "user", "content": "please"});
        let asked = [(); 2].map(|()| chat(&server, model, &json!([first])));
        assert_ne!(asked[0]["id"], asked[1]["id"]);
        // The second conversation ends first.
        for (asked, answer) in asked.iter().zip(answers).rev() {
            let question = &asked["choices"][0]["message"];
            let messages = json!([first, question, {"role": "user", "content": answer}]);
            let done = chat(&server, model, &messages);
            assert_eq!(done["id"], asked["id"], "{model}: {done}");
        }
    }
    assert_eq!(threads(&server), 4);
}

#[test]
fn after_a_person_approved_in_a_terminal_the_conversation_goes_on_with_its_thread() {
    let place = place_of_clerk();
    let server = Server::start(&place, &[]);
    let mut messages = vec![json!({"role": "user", "content": "please"})];
    let asked = chat(&server, "clerk:offline", &json!(messages))["choices"][0]["message"].clone();
    assert!(asked["content"].as_str().unwrap().contains("rondo answer"), "{asked}");
    messages.extend([asked, json!({"role": "user", "content": "I have allowed it."})]);
    let body = json!({"model": "clerk:offline", "messages": messages}).to_string();
    let lines = ["Content-Type: application/json"];
    // Nobody has.
    server.request("POST", "/v1/chat/completions", &lines, &body).is(403);
    place.run(["answer", "last", "--approve"]).exits(0);
    let done = server.request("POST", "/v1/chat/completions", &lines, &body).is(200).json();
    assert_eq!(done["choices"][0]["message"]["content"], "filed", "{done}");
    assert_eq!(threads(&server), 1);
}

#[test]
fn what_a_client_gets_wrong_is_an_error_it_does_not_repeat() {
    let place = place();
    let server = Server::start(&place, &[]);
    let lines = ["Content-Type: application/json"];
    let refused = |body: Value| {
        let answer = server.request("POST", "/v1/chat/completions", &lines, &body.to_string());
        (answer.status, answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let user = json!([{"role": "user", "content": "x"}]);
    assert_eq!(refused(json!({"model": "none", "messages": user})), (404, "RN1403".to_owned()));
    assert_eq!(refused(json!({"model": "map-files", "messages": user})), (422, "RN2010".to_owned()));
    assert_eq!(refused(json!({"model": "pair:offline", "messages": []})), (400, "RN2005".to_owned()));
    // No provider is set up.
    assert_eq!(refused(json!({"model": "pair", "messages": user})).0, 422);
}
