//! A model such as `anthropic/claude-opus-5` names its provider.

use serde_json::Value;

use super::client::Client;
use super::server::{Request, Server};
use super::spoken::Spoken;

const ONE: &str = "
rondo: 1
name: one
roles: { a: { system: x } }
graph: { start: { to: a, prompt: go }, a: { done: { to: end } } }
";

const GOOD: &str = "---\nstatus: done\n---\n\nAll is well.";

const NAMED: [Spoken; 2] = [Spoken::Anthropic, Spoken::Gemini];

/// A server, and a folder in which nothing is set.
fn scene(spoken: Spoken, workflow: &str) -> (Server, Client) {
    let server = Server::new(move |_| spoken.text(GOOD));
    let client = server.client(workflow).without("OPENAI_BASE_URL").without("RONDO_MODEL");
    (server, client)
}

/// The only request of a run that succeeds.
fn asked(client: &Client, server: &Server) -> Request {
    client.run(&["run", "workflow.yaml", "--json"]).exits(0);
    let mut requests = server.requests();
    assert_eq!(requests.len(), 1);
    requests.remove(0)
}

/// Whether a request is to a provider's own service, with its key and without its name.
fn is_its(spoken: Spoken, request: &Request) -> bool {
    let (_, id) = spoken.model().split_once('/').unwrap();
    let names_model = match spoken {
        // Its address does.
        Spoken::Gemini => !request.body.contains("\"model\":"),
        _ => request.body.contains(&format!("\"model\":\"{id}\"")),
    };
    let header = if spoken == Spoken::Gemini { "x-goog-api-key: own" } else { "x-api-key: own" };
    names_model && request.head.starts_with(spoken.request_line()) && request.head.contains(header)
}

#[test]
fn the_provider_is_found_by_the_environment_and_by_the_workflow() {
    for spoken in NAMED {
        let [base_url, key] = spoken.variables();
        let (server, client) = scene(spoken, ONE);
        let client = client.with("RONDO_MODEL", spoken.model()).with(base_url, &server.base_url()).with(key, "own");
        let request = asked(&client, &server);
        assert!(is_its(spoken, &request), "{request:?}");

        let named = format!("{ONE}models: {{ default: {{ model: {} }} }}\n", spoken.model());
        let (server, client) = scene(spoken, &named);
        let client = client.with(base_url, &server.base_url()).with(key, "own").with("OPENAI_API_KEY", "other");
        let request = asked(&client, &server);
        assert!(is_its(spoken, &request), "{request:?}");
        assert!(!request.head.contains("other"), "{request:?}");
    }
}

#[test]
fn a_gateway_is_asked_for_the_whole_id_unless_the_provider_has_a_key() {
    for spoken in NAMED {
        let [base_url, key] = spoken.variables();
        let gateway = Server::new(|_| Spoken::OpenAiChat.text(GOOD));
        let client = gateway.client(ONE).with("RONDO_MODEL", spoken.model());
        let request = asked(&client, &gateway);
        assert!(request.head.starts_with(Spoken::OpenAiChat.request_line()), "{request:?}");
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(body["model"], spoken.model());

        let (server, client) = scene(spoken, ONE);
        let gateway = Server::new(|_| Spoken::OpenAiChat.text(GOOD));
        let client = client.with("RONDO_MODEL", spoken.model()).with("OPENAI_BASE_URL", &gateway.base_url());
        let client = client.with(base_url, &server.base_url()).with(key, "own").with("OPENAI_API_KEY", "other");
        let request = asked(&client, &server);
        assert!(is_its(spoken, &request) && gateway.requests().is_empty(), "{request:?}");
    }
    // A name that is no provider's is a part of the id.
    let gateway = Server::new(|_| Spoken::OpenAiChat.text(GOOD));
    let client = gateway.client(ONE).with("RONDO_MODEL", "meta-llama/llama-4").with("ANTHROPIC_API_KEY", "own");
    let request = asked(&client, &gateway);
    assert!(request.body.contains("\"model\":\"meta-llama/llama-4\"") && !request.head.contains("own"), "{request:?}");
}

#[test]
fn a_provider_without_its_key_is_told_with_the_variable_of_it() {
    for spoken in NAMED {
        let (server, client) = scene(spoken, ONE);
        let [_, key] = spoken.variables();
        let client = client.with("RONDO_MODEL", spoken.model()).with("OPENAI_API_KEY", "other");
        let said = client.run(&["run", "workflow.yaml", "--json"]);
        let error = said.event("error");
        let text = error.to_string();
        assert!(said.code == Some(5) && text.contains(key) && !text.contains("OPENAI_API_KEY"), "{said:?}");
        assert_eq!(server.requests().len(), 0);
    }
}
