//! The `OpenAPI` document: held to the routes of the sources, and to what the server answers.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::client::Server;
use super::place;

const ROUTES: &str = include_str!("../../../engine/web/src/routes.rs");

/// The methods and paths of the sources' routes.
fn routes() -> BTreeSet<(String, String)> {
    let mut routes = BTreeSet::new();
    for (section, before) in [("fn api(", "/api/v1"), ("fn models(", "/v1")] {
        let (_, rest) = ROUTES.split_once(section).unwrap();
        let section = rest.split("\n}\n").next().unwrap();
        for route in section.split("route(").skip(1) {
            let (method, rest) = route.trim_start().split_once(',').unwrap();
            let (_, rest) = rest.split_once('"').unwrap();
            let (path, _) = rest.split_once('"').unwrap();
            routes.insert((method.to_lowercase(), format!("{before}{path}")));
        }
    }
    routes
}

#[test]
fn every_route_is_in_the_document_and_answers_as_it_says() {
    let place = place();
    let server = Server::start(&place, &[]);
    let document = server.get("/openapi.json").is(200).json();
    hold_file(&document);
    let paths = document["paths"].as_object().unwrap();
    let told = paths
        .iter()
        .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())));
    assert_eq!(told.collect::<BTreeSet<_>>(), routes());

    let thread = server.run(&json!({"workflow": "pair", "input": {"topic": "tides"}, "offline": true}));
    server.wait(&thread, "done");
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n");
    place.run(["run", "pair", "--offline", "--input-file", "topics.jsonl"]).exits(0);
    let waiting = server.run(&json!({"workflow": "ask", "offline": true}));
    server.wait(&waiting, "waiting");
    let schema = &document["paths"]["/api/v1/threads/{thread}/events"]["get"]["responses"]["200"]["content"];
    for thread in [&thread, &waiting] {
        let mut events = server.events(&format!("/threads/{thread}/events"), None);
        let last = if *thread == waiting { "thread_waiting" } else { "thread_finished" };
        for (_, event) in events.until(last) {
            is_valid(&document, &schema["text/event-stream"]["schema"], &event, "an event");
        }
    }
    let mut tried = 0;
    for (path, methods) in paths {
        let Some(schema) = methods.pointer("/get/responses/200/content/application~1json/schema") else { continue };
        for thread in [&thread, &waiting] {
            let address = path
                .replace("{thread}", thread)
                .replace("{name}", "pair")
                .replace("{model}", "pair")
                .replace("{batch}", "last")
                .replace("{seq}", "1");
            let query = match address.as_str() {
                "/api/v1/usage" => "?by=day".to_owned(),
                address if address.ends_with("/diff") => format!("?against={waiting}"),
                _ => String::new(),
            };
            let answer = server.request("GET", &format!("{address}{query}"), &[], "").is(200).json();
            is_valid(&document, schema, &answer, &address);
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
    let problem = server.get("/threads/none").is(404).json();
    let schema =
        document.pointer("/paths/~1api~1v1~1threads/get/responses/default/content/application~1problem+json/schema");
    is_valid(&document, schema.unwrap(), &problem, "a problem");
    let parameter = |path: &str, name: &str| {
        let all = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        all.iter().find(|parameter| parameter["name"] == name).unwrap().clone()
    };
    assert_eq!(parameter("/api/v1/threads", "limit")["schema"]["type"], "integer");
    assert_eq!(parameter("/api/v1/threads", "children")["schema"]["type"], "boolean");
    let against = parameter("/api/v1/threads/{thread}/diff", "against");
    assert_eq!((&against["required"], &against["schema"]["type"]), (&true.into(), &"string".into()));
    let asked = json!({"model": "pair:offline", "messages": [{"role": "user", "content": "tides"}]});
    let answer =
        server.request("POST", "/v1/chat/completions", &["Content-Type: application/json"], &asked.to_string());
    let of_chat = &document["paths"]["/v1/chat/completions"]["post"];
    let schema = of_chat.pointer("/responses/200/content/application~1json/schema").unwrap();
    is_valid(&document, schema, &answer.is(200).json(), "a completion");
    let schema = of_chat.pointer("/requestBody/content/application~1json/schema").unwrap();
    is_valid(&document, schema, &asked, "what is asked for one");
    // What needs no key, no body, or has an end says so.
    for (path, method) in [("/api/v1/healthz", "get"), ("/api/v1/session", "post")] {
        assert_eq!(document["paths"][path][method]["security"], json!([]), "{path}");
    }
    for verb in ["resume", "fork"] {
        let operation = &document["paths"][format!("/api/v1/threads/{{thread}}/{verb}")]["post"];
        assert_eq!(operation["requestBody"]["required"], false, "{verb}");
    }
    let responses = &document["paths"]["/api/v1/threads/{thread}/events"]["get"]["responses"];
    assert!(responses["204"].is_object(), "{responses}");
    let form = &document["components"]["schemas"]["Form"]["properties"];
    assert!(form["statuses"].is_object() && form["approval"].is_object(), "{form}");
    // What a request leaves out is not required of it.
    let start = &document["components"]["schemas"]["StartRequest"];
    assert_eq!(start["required"], json!(["workflow"]), "{start}");
}

/// The types of the page are made from this file, which is the document; with `INSTA_UPDATE=always` it is written.
fn hold_file(document: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("engine/web/page/openapi.json");
    let text = serde_json::to_string_pretty(document).unwrap() + "\n";
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(&file, &text).unwrap();
    }
    let is_same = std::fs::read_to_string(&file).is_ok_and(|held| held == text);
    assert!(is_same, "{} is not the document: write it with INSTA_UPDATE=always", file.display());
}

/// Holds a value to a schema of the document.
fn is_valid(document: &Value, schema: &Value, value: &Value, what: &str) {
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&whole).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(faults.is_empty(), "{what}: {faults:?}\n{value}\n{schema}");
}
