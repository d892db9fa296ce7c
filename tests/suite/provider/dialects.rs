//! The answers of servers, each with a quirk of its own: files of `tests/fixtures/servers`, played against the real client.
//!
//! A file has a head of `key: value` lines (`server`, `quirk`, `source`; `protocol` and `model` where they are not those of
//! chat completions; `host` of a server that is known by its address, with its path if that is not `/v1`; `usage` as prompt and output tokens; `exit` and
//! `says` where the run ends with a fault), then sections that begin with a line `--- KIND`: a response (`events`, `json`, or the status of a refusal), and before it what its request must hold
//! (`wants`) or not (`lacks`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::client::Client;
use super::server::{Act, EVENTS, JSON, Server};

const WORKFLOW: &str = "rondo: 1\nname: played\nmodels: { default: { max_output_tokens: 300, seed: 7 } }\n\
    roles: { a: { system: You answer., tools: [read_file], retry: { backoff: 1ms } } }\n\
    graph: { start: { to: a, prompt: go }, a: { done: { to: end } } }\nresult: { text: \"{{ steps.a.body }}\" }\n";

const TEXT: &str = "The tide comes.";

struct Played {
    name: String,
    head: BTreeMap<String, String>,
    responses: Vec<String>,
    /// Of each request, what it must hold, and what it must not.
    wants: Vec<Vec<String>>,
    lacks: Vec<Vec<String>>,
}

impl Played {
    fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let mut sections = text.split("--- ");
        let head = sections.next().unwrap().lines().map(|line| {
            let (key, value) = line.split_once(": ").unwrap();
            (key.to_owned(), value.to_owned())
        });
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut played =
            Self { name, head: head.collect(), responses: vec![], wants: vec![vec![]], lacks: vec![vec![]] };
        // What a text holds behind `\n` in JSON is no line.
        for section in sections {
            let (kind, body) = section.split_once('\n').unwrap();
            let words = body.trim_end().to_owned();
            match kind {
                "wants" => played.wants.last_mut().unwrap().push(words),
                "lacks" => played.lacks.last_mut().unwrap().push(words),
                _ => {
                    played.responses.push(match kind {
                        "events" => format!("{EVENTS}{body}"),
                        "json" => format!("{JSON}{body}"),
                        status => format!(
                            "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\nconnection: close\r\n\
                             content-length: {}\r\n\r\n{body}",
                            body.len()
                        ),
                    });
                    played.wants.push(Vec::new());
                    played.lacks.push(Vec::new());
                }
            }
        }
        played
    }

    fn client(&self, server: &Server) -> Client {
        let model = self.head.get("model").map_or("m", String::as_str);
        let client = server.client(WORKFLOW).with("OPENAI_API_KEY", "k").with("RONDO_MODEL", model);
        if let Some(protocol) = self.head.get("protocol") {
            client.own_settings(&format!("[provider.openai]\nprotocol = \"{protocol}\"\n"));
        }
        client.file("a.txt", "alpha\n");
        let Some(host) = self.head.get("host") else { return client };
        let proxy = server.base_url().trim_end_matches("/v1").to_owned();
        let path = if host.contains('/') { "" } else { "/v1" };
        client.with("OPENAI_BASE_URL", &format!("http://{host}{path}")).with("http_proxy", &proxy)
    }

    fn is_read(&self) {
        let (responses, name) = (self.responses.clone(), &self.name);
        let server = Server::new(move |number| Act::text(responses.get(number).cloned().unwrap_or_default()));
        let exit = self.head.get("exit").map_or(0, |exit| exit.parse().unwrap());
        let finished = self.client(&server).run(&["run", ".", "--json"]);
        assert_eq!(finished.code, Some(exit), "{name}: {finished:?}");
        let requests = server.requests();
        assert_eq!(requests.len(), self.responses.len(), "{name}: {finished:?}");
        for ((request, wants), lacks) in requests.iter().zip(&self.wants).zip(&self.lacks) {
            for words in wants {
                assert!(request.body.contains(words), "{name} wants {words}: {}", request.body);
            }
            for words in lacks {
                assert!(!request.body.contains(words), "{name} lacks {words}: {}", request.body);
            }
        }
        if let Some(says) = self.head.get("says") {
            let said = finished.event("error")["message"].as_str().unwrap().to_owned();
            assert!(said.contains(says), "{name}: {said}");
            return;
        }
        assert_eq!(finished.event("thread_finished")["result"]["text"], TEXT, "{name}");
        if let Some(usage) = self.head.get("usage") {
            let settled = finished.events("call_settled").pop().unwrap();
            let said = ["prompt_tokens", "output_tokens"].map(|key| settled["usage"][key].to_string());
            assert_eq!(said.join(" "), *usage, "{name}");
        }
    }
}

fn all() -> Vec<Played> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/servers");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| Played::read(file)).collect()
}

#[test]
fn the_answers_of_servers_are_read_whatever_their_quirks() {
    let all = all();
    assert!(all.len() > 50);
    std::thread::scope(|scope| {
        for played in &all {
            scope.spawn(|| played.is_read());
        }
    });
}

#[test]
fn the_page_of_providers_lists_them() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/docs/providers.md");
    let page = fs::read_to_string(page).unwrap();
    for Played { name, head, .. } in all() {
        let row = format!("| {} | {} | [{name}]({}) |", head["server"], head["quirk"], head["source"]);
        assert!(page.contains(&row), "providers.md lacks the row\n{row}");
    }
}
