//! Law `no_secret`, end to end: a key that comes back from everywhere stays nowhere.

use std::path::Path;

use crate::binary::Finished;

use super::client::Client;
use super::server::{Act, EVENTS, JSON, Server, delta, finish};

const KEY: &str = "sk-test-0123456789abcdef-XYZW";

/// As much of the key would already be too much.
const PART_BYTES: usize = 12;

const ECHO: &str = r#"
rondo: 1
name: echo
input: { topic: string }
roles:
  a: { system: x, retry: { attempts: 1 }, output: { done: { title: string } } }
  b: { system: y, retry: { attempts: 1 }, format: json, output: { done: { title: string } } }
graph:
  start: { to: a, prompt: "About {{ input.topic }}." }
  a: { done: { to: b, prompt: "{{ output.title }}: {{ body }}", say: "{{ body }}" } }
  b: { done: { to: end } }
"#;

fn part_of_key(bytes: &[u8]) -> Option<String> {
    part_of(KEY, bytes)
}

/// A part of a key that stands in `bytes`.
pub fn part_of(key: &str, bytes: &[u8]) -> Option<String> {
    let found = key.as_bytes().windows(PART_BYTES).find(|part| bytes.windows(PART_BYTES).any(|window| window == *part));
    found.map(|part| String::from_utf8(part.to_vec()).unwrap())
}

/// The key with each of its characters as an escape.
fn spelt(escape: impl Fn(u8) -> String) -> String {
    KEY.bytes().map(escape).collect()
}

/// Holds that no file of a folder has a part of the key.
pub fn assert_clean_folder(key: &str, folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_clean_folder(key, &path);
        } else if path.extension().is_none_or(|extension| extension != "sock") {
            // A socket cannot be read, and holds nothing.
            let bytes = std::fs::read(&path).unwrap_or_default();
            assert_eq!(part_of(key, &bytes), None, "in {}", path.display());
        }
    }
}

fn assert_clean(client: &Client, said: &Finished) {
    assert_clean_folder(KEY, &client.store());
    let mut all = vec![said.text(), said.stderr.clone()];
    let mut look = |words: &[&str]| {
        let said = client.run(words);
        all.extend([said.text(), said.stderr]);
    };
    look(&["show"]);
    look(&["show", "last", "--json"]);
    look(&["threads", "--json"]);
    look(&["doctor"]);
    look(&["doctor", "--json"]);
    for role in ["a", "b"] {
        look(&["messages", "last", "--role", role, "--visit", "1"]);
        look(&["messages", "last", "--role", role, "--visit", "1", "--json"]);
    }
    for text in all {
        assert_eq!(part_of_key(text.as_bytes()), None, "in {text}");
    }
}

/// A run that is given the key in its input, against a server that does `act`.
fn run(act: impl Fn(usize) -> Act + Send + Sync + 'static) -> (Client, Finished) {
    let server = Server::new(act);
    let client = server.client(ECHO).with("OPENAI_API_KEY", KEY);
    let said = client.run(&["run", "workflow.yaml", "-i", &format!("topic=my {KEY} key"), "--json"]);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.head.contains(&format!("bearer {KEY}").to_lowercase())));
    assert!(requests.iter().all(|request| part_of_key(request.body.as_bytes()).is_none()), "{requests:?}");
    assert!(requests[0].body.contains("About my [redacted:OPENAI_API_KEY] key."));
    assert_clean(&client, &said);
    (client, said)
}

#[test]
fn no_secret_stays_of_answers() {
    let answer = format!("---\nstatus: done\ntitle: {KEY}\n---\n\nIt is {KEY}, {KEY}!");
    let json = format!(r#"{{"status":"done","title":"{KEY}","body":"again {KEY}"}}"#);
    let (client, said) = run(move |n| {
        let text = if n == 0 { &answer } else { &json };
        let mut pieces = vec![EVENTS.to_owned(), delta("reasoning_content", &format!("hm {KEY}"))];
        // The key is split across chunks, and chunks across segments.
        let letters: Vec<char> = text.chars().collect();
        pieces.extend(letters.chunks(7).map(|letters| delta("content", &letters.iter().collect::<String>())));
        pieces.push(finish("stop"));
        let bytes: Vec<char> = pieces.concat().chars().collect();
        Act::Send(bytes.chunks(100).map(|bytes| bytes.iter().collect()).collect())
    });
    assert_eq!(said.code, Some(0), "{said:?}");
    let shown = client.lines(&["show", "last", "--json"]);
    assert_eq!(shown[1]["body"], "It is [redacted:OPENAI_API_KEY], [redacted:OPENAI_API_KEY]!");
    assert_eq!(shown[2]["output"]["title"], "[redacted:OPENAI_API_KEY]");
    assert_eq!(said.events("said")[0]["text"], shown[1]["body"]);
    let deltas: String =
        said.events("model_delta").iter().map(|delta| delta["text"].as_str().unwrap().to_owned()).collect();
    assert!(deltas.contains("It is [redacted:OPENAI_API_KEY], "), "{deltas}");
}

#[test]
fn no_secret_stays_of_answers_that_hide_it_behind_escapes() {
    let json = spelt(|byte| format!("\\u{byte:04x}"));
    let yaml = spelt(|byte| format!("\\x{byte:02X}"));
    let (_, said) = run(move |n| match n {
        0 => Act::answer(&format!("---\nstatus: done\ntitle: \"{yaml}\"\n---\n\nx"), [1, 0, 1]),
        _ => Act::answer(&format!(r#"{{"status":"done","title":"{json}","body":"{json}"}}"#), [1, 0, 1]),
    });
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn no_secret_stays_of_errors() {
    let escaped = spelt(|byte| format!("\\u{byte:04x}"));
    for error in [
        format!(r#"{{"error":{{"message":"bad key {KEY}","code":"{KEY}"}}}}"#),
        format!("bad key {KEY}"),
        format!(r#"{{"error":{{"message":"{escaped}"}}}}"#),
        // Cut where the key stands.
        format!("{}{KEY}", "x".repeat(400 - 20)),
        format!(r#"{{"error":{{"message":"{}{escaped}"}}}}"#, "x".repeat(400 - 20)),
        format!("{}{KEY}", " ".repeat(4096 - 20)),
        format!(r#"{{"error":{{"message":"{}"}}}}"#, KEY.replace("-0", "\\u0007-0")),
    ] {
        for status in [401, 500] {
            let body = error.clone();
            let (_, said) = run(move |_| Act::refusal(status, "", &body));
            assert_eq!((said.code, said.events("error").len()), (Some(5), 1), "{said:?}");
        }
        if error.starts_with('{') {
            let (in_stream, whole) = (format!("{EVENTS}data: {error}\n\n"), format!("{JSON}{error}"));
            for sent in [in_stream, whole] {
                let (_, said) = run(move |_| Act::text(sent.clone()));
                assert_eq!((said.code, said.events("error").len()), (Some(5), 1), "{said:?}");
            }
        }
    }
    let (_, said) = run(|_| Act::refusal(401, "", &format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#)));
    let words = "the provider answered 401: bad key [redacted:OPENAI_API_KEY]; check the key in OPENAI_API_KEY";
    assert_eq!(said.events("error")[0]["message"], words);
    let (_, said) = run(|_| Act::text(EVENTS.replace("text/event-stream", KEY)));
    assert_eq!((said.code, said.events("error").len()), (Some(5), 1), "{said:?}");
    let (_, said) = run(|_| Act::text(format!("{EVENTS}data: {{\"{KEY}\": \n\n")));
    assert_eq!((said.code, said.events("error").len()), (Some(5), 1), "{said:?}");
    let (_, said) = run(|_| Act::text([EVENTS, &delta("content", KEY), &delta("content", &KEY[..15])].concat()));
    assert_eq!((said.code, said.events("error").len()), (Some(5), 1), "{said:?}");
}
