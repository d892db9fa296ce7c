//! What a provider is sent is what `rondo messages` rebuilds, and each visit's request begins with the one before.

use serde_json::{Value, json};

use super::client::Client;
use super::server::{Act, Server};

const LOOP: &str = r#"
rondo: 1
name: loop
input: { topic: string }
models:
  default: { temperature: 0.5, max_output_tokens: 300, seed: 7, stop: ["END"], top_p: 1 }
roles:
  writer:
    system: "You write: \"short\" texts.\nÉtudes 😀"
    output: { drafted: { title: string } }
  editor:
    system: You edit.
    format: json
    output: { revise: { comment: string }, approved: { score: number } }
graph:
  start: { to: writer, prompt: "Write about {{ input.topic }}." }
  writer:
    drafted: { to: editor, prompt: "Judge {{ output.title }}:\n\n{{ body }}" }
  editor:
    revise: { to: writer, max: 3, prompt: "{{ output.comment }}", on_max: { to: fail } }
    approved: { to: end }
"#;

/// The answers of three rounds.
const ANSWERS: [&str; 6] = [
    "---\nstatus: drafted\ntitle: One\n---\n\nFirst \"draft\" \\ \u{7} \u{2028} é\n",
    r#"{"status":"revise","comment":"shorter }],\" please"}"#,
    "---\nstatus: drafted\ntitle: Two\n---\n\nSecond\n",
    r#"{ "comment" : "longer", "status" : "revise", "body": "spaced" }"#,
    "---\nstatus: drafted\ntitle: Three\n---\n\nThird\n",
    r#"{"status":"approved","score":1.50}"#,
];

/// The n-th request is answered with that answer and with usage that tells it apart.
fn play(number: usize) -> Act {
    let number_u64 = u64::try_from(number).unwrap();
    Act::answer(ANSWERS[number], [100 + number_u64, 10 * number_u64, number_u64])
}

struct Ran {
    client: Client,
    bodies: Vec<String>,
    events: Vec<Value>,
}

fn run() -> Ran {
    let server = Server::new(play);
    let client = server.client(LOOP);
    let said = client.run(&["run", "workflow.yaml", "-i", "topic=salt \"marshes\"", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), ANSWERS.len());
    for request in &requests {
        assert!(request.head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{}", request.head);
        let is_plain = request.head.contains("\r\naccept-encoding: identity");
        assert!(is_plain, "a reply that is packed cannot be read: {}", request.head);
        assert!(!request.head.contains("authorization"), "there is no key: {}", request.head);
    }
    Ran { client, bodies: requests.into_iter().map(|request| request.body).collect(), events: said.json() }
}

/// Role and visit of the n-th request.
fn visit(number: usize) -> (&'static str, String) {
    (["writer", "editor"][number % 2], (number / 2 + 1).to_string())
}

/// A message of a request as it has to stand on the wire.
fn on_the_wire(message: &Value) -> Value {
    let [part] = message["parts"].as_array().unwrap().as_slice() else { panic!("one part: {message}") };
    assert_eq!(part["kind"], "text");
    json!({ "role": message["role"], "content": part["text"] })
}

#[test]
fn what_is_sent_is_what_messages_rebuilds() {
    let Ran { client, bodies, .. } = run();
    for (number, body) in bodies.iter().enumerate() {
        let (role, visit) = visit(number);
        let lines = client.lines(&["messages", "last", "--role", role, "--visit", &visit, "--json"]);
        assert_eq!(lines.len(), 1, "{role} {visit}");
        let (head, sent) = (&lines[0]["head"], serde_json::from_str::<Value>(body).unwrap());

        let mut wanted = json!({
            "model": head["model"],
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        assert_eq!(wanted["model"], "fake-1");
        let system = json!({ "role": "system", "content": head["system"] });
        let rebuilt = lines[0]["messages"].as_array().unwrap().iter().map(on_the_wire);
        wanted["messages"] = std::iter::once(system).chain(rebuilt).collect();
        for (name, value) in head["parameters"].as_object().unwrap() {
            let name = if name == "max_output_tokens" { "max_completion_tokens" } else { name };
            wanted[name] = value.clone();
        }
        assert_eq!(head["parameters"].as_object().unwrap().len(), 5);
        if role == "editor" {
            let schema = head["response_format"].as_str().unwrap();
            assert!(body.contains(&format!("\"schema\":{schema}")), "the schema is not sent as it stands in the head");
            let strict = &sent["response_format"]["json_schema"]["strict"];
            let schema: Value = serde_json::from_str(schema).unwrap();
            let named = json!({ "name": "answer", "strict": strict, "schema": schema });
            wanted["response_format"] = json!({ "type": "json_schema", "json_schema": named });
        } else {
            assert_eq!(head["response_format"], Value::Null);
        }
        assert_eq!(sent, wanted, "{role} {visit}");
    }
}

/// The bytes of a body up to the end of its last message.
fn messages(body: &str) -> &str {
    // Within a text the quote would be escaped.
    let end = body.find("\"}],\"").unwrap();
    &body[..end + 2]
}

/// Law `prefix`, on the bytes of the wire.
#[test]
fn each_visit_is_sent_the_bytes_of_the_one_before_with_one_turn_more() {
    let Ran { bodies, .. } = run();
    for number in 2..bodies.len() {
        let (before, after) = (&bodies[number - 2], &bodies[number]);
        let (earlier, later) = (messages(before), messages(after));
        let added = later.strip_prefix(earlier).unwrap_or_else(|| panic!("{later}\ndoes not begin with\n{earlier}"));
        let added: Value = serde_json::from_str(&format!("[{}]", added.trim_start_matches(','))).unwrap();
        assert_eq!(added.as_array().unwrap().len(), 2, "{added}");
        assert_eq!(added[0], json!({ "role": "assistant", "content": ANSWERS[number - 2] }));
        assert_eq!(added[1]["role"], "user");
        assert_eq!(before.strip_prefix(earlier), after.strip_prefix(later), "what follows the messages changed");
    }
}

/// What the editor's heads hold and what was sent of it, when the settings say `response_format`; then what a script's
/// heads hold, and those of a recording that is played where nothing is set.
fn held(response_format: &str) -> [Value; 4] {
    let server = Server::new(play);
    let client = server.client(LOOP);
    client.settings(&format!("[provider.openai]\nresponse_format = \"{response_format}\"\n"));
    let said = client.run(&["record", "workflow.yaml", "-i", "topic=salt", "--to", "story.jsonl", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let held = || {
        client.run(&["verify", "last"]).exits(0);
        client.lines(&["messages", "last", "--role", "editor", "--visit", "1", "--json"])[0]["head"]["response_format"]
            .clone()
    };
    let sent: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
    let of_provider = held();
    let script = r#"{
        "writer": [{ "status": "drafted", "fields": { "title": "One" } }],
        "editor": [{ "status": "approved", "fields": { "score": 1 } }]
    }"#;
    client.file("script.json", script);
    client.run(&["run", "workflow.yaml", "-i", "topic=salt", "--script", "script.json", "--json"]).exits(0);
    let of_script = held();
    client.file("rondo.toml", "");
    client.run(&["run", "workflow.yaml", "-i", "topic=salt", "--recorded", "story.jsonl", "--json"]).exits(0);
    [of_provider, sent["response_format"].clone(), of_script, held()]
}

#[test]
fn a_provider_is_sent_as_much_of_a_schema_as_it_takes_and_who_plays_it_is_too() {
    let [head, sent, script, recording] = held("json_schema");
    assert_eq!((&sent["type"], &sent["json_schema"]["strict"]), (&json!("json_schema"), &json!(true)));
    assert_eq!(sent["json_schema"]["schema"]["properties"]["status"]["enum"], json!(["revise", "approved"]));
    assert_eq!((&head, &head), (&script, &recording));
    let any = json!(r#"{"type":"object"}"#);
    assert_eq!(held("json_object"), [any.clone(), json!({ "type": "json_object" }), any.clone(), any]);
    assert_eq!(held("off"), [Value::Null, Value::Null, Value::Null, Value::Null]);
}

#[test]
fn tokens_that_come_after_the_finish_reason_are_told_and_kept() {
    let Ran { client, events, .. } = run();
    let settled: Vec<Value> = events
        .iter()
        .filter(|event| event["event"] == "call_settled")
        .map(|event| json!([event["usage"], event["cached_tokens"]]))
        .collect();
    let usage = |n: u64| json!({ "prompt_tokens": 100 + n, "cached_tokens": 10 * n, "output_tokens": n });
    let wanted: Vec<Value> = (0..6).map(|n| json!([usage(n), 10 * n])).collect();
    assert_eq!(settled, wanted);

    let shown = client.lines(&["show", "last", "--json"]);
    let notes: Vec<&Value> = shown[1..].iter().map(|step| &step["note"]["usage"]).collect();
    assert_eq!(notes, (0..6).map(usage).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    let totals = &shown[0]["totals"];
    assert_eq!((&totals["prompt_tokens"], &totals["cached_tokens"]), (&json!(615), &json!(150)));
    assert_eq!(totals["output_tokens"], 15);
    assert!(client.run(&["show"]).text().contains("105 in (47% cached), 5 out"));
}
