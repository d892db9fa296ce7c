//! Files as inputs: given by every door, stored once, sent in each protocol, shown, moved, collected, and refused where
//! they are against the rules.

use std::fs;

use serde_json::{Value, json};

use crate::binary::Place;
use crate::provider::client::Client;
use crate::provider::server::{Act, Server};
use crate::serve::client::Server as Serving;

/// The smallest PNG: one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

/// Its contents in base64.
const DATA: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";

const WORKFLOW: &str = "rondo: 1\nname: seen\ninput: { photo: file, \"more?\": \"file[]\" }\n\
    roles: { viewer: { system: You look. }, critic: { system: You judge. } }\n\
    graph:\n  start: { to: viewer, prompt: \"See {{ input.photo.name }}.\", attach: [input.photo, input.more] }\n\
    \x20 viewer: { done: { to: critic, prompt: \"Is it so? {{ body }}\" } }\n\
    \x20 critic: { done: { to: viewer, prompt: Again., max: 1, on_max: { to: end } } }\n\
    result: { text: \"{{ steps.viewer.body }}\" }\n";

const SCRIPT: &str = "viewer: [ { status: done, body: One. }, { status: done, body: Two. } ]\n\
    critic: [ { status: done, body: No. }, { status: done, body: Yes. } ]\n";

const ANSWER: &str = "---\nstatus: done\n---\n\nA pixel.";

fn place() -> Place {
    let place = Place::new();
    place.file("workflows/seen/workflow.yaml", WORKFLOW);
    place.file("workflows/seen/script.yaml", SCRIPT);
    place.file("a.png", PNG);
    place
}

fn offline(place: &Place) -> String {
    let events = place.run(["run", "seen", "--offline", "-i", "photo=@a.png", "--json"]).exits(0);
    events.event("thread_started")["thread"].as_str().unwrap().to_owned()
}

fn client(server: &Server) -> Client {
    let client = server.client(WORKFLOW).with("OPENAI_API_KEY", "k-0123456789");
    client.bytes("a.png", PNG);
    client
}

#[test]
fn a_picture_is_sent_with_its_prompt_and_stays_where_it_was() {
    let server = Server::new(|_| Act::answer(ANSWER, [10, 0, 5]));
    client(&server).run(&["run", ".", "-i", "photo=@a.png", "-i", "more=@a.png", "--json"]).exits(0);
    let requests = server.requests();
    let message = |at: usize, message: usize| {
        let body: Value = serde_json::from_str(&requests[at].body).unwrap();
        body["messages"][message].clone()
    };
    let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{DATA}")}});
    let opening = json!({"role": "user", "content": [{"type": "text", "text": "See a.png."}, image, image]});
    assert_eq!(message(0, 1), opening);
    assert_eq!(message(2, 1), opening, "the next visit sees it in its history");
    assert!(!requests[1].body.contains(DATA), "no other role is sent it");
    let before = requests[0].body.split_once("],\"stream\"").unwrap().0;
    assert!(requests[2].body.starts_with(before), "law prefix");
}

#[test]
fn every_door_takes_a_file_and_makes_the_same_thread() {
    let place = place();
    let first = offline(&place);
    place.file("in.json", json!({"photo": {"name": "a.png", "data": DATA}}).to_string());
    place.run(["run", "seen", "--offline", "--input-file", "in.json"]).exits(0);
    let server = Serving::start(&place, &[]);
    let input = json!({"photo": {"name": "a.png", "data": format!("data:image/png;base64,{DATA}")}});
    let through_api = server.run(&json!({"workflow": "seen", "input": input, "offline": true}));
    server.wait(&through_api, "done");
    let start = |thread: &str| server.get(&format!("/threads/{thread}")).is(200).json()["input"].clone();
    assert_eq!(start(&first), start(&through_api));
    assert_eq!(start(&first)["photo"]["size"], PNG.len());

    let digest = start(&first)["photo"]["digest"].as_str().unwrap().to_owned();
    let path = format!("/threads/{first}/files/{digest}");
    let answer = server.get(&path).is(200);
    assert_eq!(
        (answer.header("content-type"), answer.header("content-disposition")),
        (Some("image/png"), Some("attachment"))
    );
    server.get(&format!("/threads/{first}/files/{}", "0".repeat(64))).is(404);
    let workflow = server.get("/workflows/seen").is(200).json();
    assert_eq!(workflow["input"]["properties"]["photo"]["format"], "file");
}

#[test]
fn a_file_is_shown_moved_forked_and_collected_with_its_threads() {
    let place = place();
    let thread = offline(&place);
    let shown = place.run(["show", &thread]).exits(0).text();
    assert!(shown.contains("with a.png (image/png)"), "{shown}");
    let requests = place.run(["messages", &thread]).exits(0).text();
    assert!(requests.contains("[file a.png (image/png) "), "{requests}");
    let step = &place.run(["show", &thread, "--json"]).exits(0).events("step")[0];
    assert_eq!(step["edge"]["files"][0]["media_type"], "image/png");
    place.run(["verify", &thread]).exits(0);

    let fork = place.run(["fork", &thread, "--at", "1", "--json"]).exits(0).event("thread_resumed");
    let fork = fork["thread"].as_str().unwrap();
    place.run(["verify", fork]).exits(0);
    let exported = place.run(["export", &thread]).exits(0).text();
    assert!(exported.contains(&format!(
        "\"kind\":\"file\",\"digest\":{},\"value\":\"{DATA}\"",
        step["edge"]["files"][0]["digest"]
    )));
    place.file("out.jsonl", format!("{exported}\n"));
    place.run(["import", "out.jsonl", "--store", "other"]).exits(0);
    place.run(["verify", &thread, "--store", "other"]).exits(0);
    assert_eq!(place.run(["export", &thread, "--store", "other"]).exits(0).text(), exported);

    place.run(["rm", &thread, fork, "--yes"]).exits(0);
    place.run(["gc"]).exits(0);
    place.run(["fsck"]).exits(0);
}

#[test]
fn what_is_against_the_rules_is_refused_before_a_thread_begins() {
    let place = place();
    place.file("small.txt", "A text of at most a kibibyte is taken.");
    place.file("large.bin", vec![0; 2_000]);
    place.file("key.txt", "it is k-0123456789");
    fs::create_dir(place.path().join("folder")).unwrap();
    let pipe = place.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path().join("dangling")).unwrap();
    let own = place.home().join(".config/rondo");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.toml"), "[files]\nmax_size = \"1KiB\"\nmedia_types = [\"image/*\", \"text/plain\"]\n")
        .unwrap();
    for (given, code, says) in [
        ("photo=a.png", "RN0603", "photo=@a.png"),
        ("photo=@large.bin", "RN0603", "at most 1024"),
        ("photo=@key.txt", "RN0603", "holds a key"),
        ("photo=@small.txt", "RN0603", ""),
        ("photo=@folder", "RN1404", "a folder"),
        ("photo=@pipe", "RN1404", "a pipe"),
        ("photo=@dangling", "RN1404", "no such file"),
        ("photo=@none.png", "RN1404", "no such file"),
    ] {
        let mut command = place.command(["run", "seen", "--offline", "-i", given]);
        command.env("OPENAI_API_KEY", "k-0123456789");
        let refused = crate::binary::Running::of(command).finish();
        if given == "photo=@small.txt" {
            refused.exits(0);
            continue;
        }
        let stderr = refused.exits(2).stderr;
        assert!(stderr.contains(code) && stderr.contains(says), "{given}: {stderr}");
    }
    let threads = place.run(["threads", "--json"]).exits(0).json();
    assert_eq!(threads.len(), 1, "{threads:?}");

    // The new file of a fork is held to them too.
    let thread = threads[0]["thread"].as_str().unwrap();
    for (given, says) in [("more=@large.bin", "at most 1024"), ("more=@key.txt", "holds a key")] {
        let mut command = place.command(["fork", thread, "--at", "1", "-i", given]);
        command.env("OPENAI_API_KEY", "k-0123456789");
        let stderr = crate::binary::Running::of(command).finish().exits(2).stderr;
        assert!(stderr.contains("RN0603") && stderr.contains(says), "{given}: {stderr}");
    }
    assert_eq!(place.run(["threads", "--json"]).exits(0).json().len(), 1);

    // A file that only a digest names must be in the store.
    let named = json!({"photo": {"name": "a.png", "media_type": "image/png", "digest": "0".repeat(64), "size": 3}});
    place.file("in.json", named.to_string());
    let refused = place.run(["run", "seen", "--offline", "--input-file", "in.json"]).exits(2);
    assert!(refused.stderr.contains("the store does not hold it"), "{}", refused.stderr);
}

#[test]
fn what_a_provider_does_not_take_is_told_before_it_is_asked() {
    let server = Server::new(|_| Act::answer(ANSWER, [10, 0, 5]));
    let client = client(&server);
    client.bytes("any.bin", &[0, 1, 2, 255]);
    let refused = client.run(&["run", ".", "-i", "photo=@any.bin"]).exits(2);
    let says = "of type application/octet-stream, which provider openai of role `viewer` does not take";
    assert!(refused.stderr.contains(says) && refused.stderr.contains("image/*"), "{}", refused.stderr);
    assert!(server.requests().is_empty());
}

#[test]
fn a_workflow_attaches_what_it_declares_to_models() {
    let place = Place::new();
    let fault = |attach: &str, role: &str| {
        let workflow = format!(
            "rondo: 1\nname: seen\ninput: {{ photo: file, topic: string }}\nroles: {{ viewer: {{ system: You look. }}, \
             person: {{ kind: human, output: {{ done: null }} }} }}\ngraph:\n  start: {{ to: {role}, prompt: Go., attach: {attach} }}\n\
             \x20 {role}: {{ done: {{ to: end }} }}\n"
        );
        place.file("workflow.yaml", workflow);
        place.run(["validate", "workflow.yaml"]).exits(2).text()
    };
    for (attach, role, says) in [
        ("[input.topic]", "viewer", "the input `topic` is no file"),
        ("[input.fotos]", "viewer", "there is no input `fotos`"),
        ("[photo]", "viewer", "such as `input.photo`"),
        ("[input.photo]", "person", "is sent no files"),
    ] {
        let told = fault(attach, role);
        assert!(told.contains(says), "{attach} {role}: {told}");
    }
}
