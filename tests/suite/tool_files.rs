//! Files that tools return: kept with the result, sent in each protocol, shown, moved and collected with the thread, and
//! left out with a word where they are against the rules.

use std::sync::mpsc::channel;

use serde_json::{Value, json};

use crate::binary::{PATIENCE, Place};
use crate::provider::client::Client;
use crate::provider::server::{Act, EVENTS, Server};
use crate::provider::spoken::{ALL, Spoken, Turn};
use crate::serve::client::Server as Serving;

/// The beginning of a PNG, with bytes that are no text.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\xff\xfe";

const DONE: &str = "---\nstatus: done\n---\n\nA pixel.";

/// Its contents in base64.
const DATA: &str = "iVBORw0KGgoAAAANSUhEUgAAAAH//g==";

/// A server whose tool returns a text, a picture and a sound, and notes each call.
fn mcp_server() -> String {
    let content = json!([
        { "type": "text", "text": "Seen:" },
        { "type": "image", "mimeType": "image/png", "data": DATA },
        { "type": "audio", "mimeType": "audio/wav", "data": "UklGRg==" },
    ]);
    format!(
        r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"fake","version":"1"}}}}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"tools":[{{"name":"shot","description":"Takes a picture.","inputSchema":{{"type":"object"}}}}]}}}}\n' "$id" ;;
    *'"tools/call"'*) echo called >> calls; printf '{{"jsonrpc":"2.0","id":%s,"result":{{"content":{content}}}}}\n' "$id" ;;
  esac
done
"#
    )
}

/// Two visits, the second of which begins with all of the first.
const LOOKS: &str = r#"
rondo: 1
name: looks
models: { default: { max_output_tokens: 4000 } }
roles:
  viewer: { system: You look., tools: ["docs.*"], history: exact, output: { again: {}, done: {} } }
graph:
  start: { to: viewer, prompt: Look. }
  viewer: { again: { to: viewer, prompt: Once more., max: 3, on_max: { to: fail } }, done: { to: end } }
"#;

fn turns() -> [Turn<'static>; 4] {
    [
        Turn::calls(&["call_1", "call_2"]),
        Turn::text("---\nstatus: again\n---\n\nA pixel."),
        Turn::calls(&["call_3"]),
        Turn::text(DONE),
    ]
}

/// The events of a reply whose calls are of the server's tool.
fn events(spoken: Spoken, turn: &Turn<'_>) -> Vec<String> {
    spoken.events(turn).into_iter().map(|event| event.replace("read_file", "docs__shot")).collect()
}

fn reply(spoken: Spoken, number: usize) -> Act {
    Act::Send([vec![EVENTS.to_owned()], events(spoken, &turns()[number])].concat())
}

/// A folder with the server, in which calls of its tool are granted.
fn client(spoken: Spoken, server: &Server) -> Client {
    let client = spoken.client(server, LOOKS).with("PATH", "/usr/local/bin:/usr/bin:/bin");
    client.file("server.sh", &mcp_server());
    client.settings(
        "[mcp.docs]\ncommand = \"sh\"\nargs = [\"server.sh\"]\ncwd = \"workspace\"\n[grant]\ntools = [\"docs.*\"]\n",
    );
    client
}

const RUN: [&str; 4] = ["run", "workflow.yaml", "--json", "--trust"];

/// How the results of the first reply stand in a request, without what a provider attached to calls.
fn results(spoken: Spoken, body: &str) -> Value {
    let body: Value = serde_json::from_str(body).unwrap();
    let list = |name: &str, range: std::ops::Range<usize>| Value::from(body[name].as_array().unwrap()[range].to_vec());
    match spoken {
        Spoken::OpenAiChat => list("messages", 3..6),
        Spoken::OpenAiResponses => list("input", 4..6),
        Spoken::Anthropic => body["messages"][2]["content"].clone(),
        Spoken::Gemini => body["contents"][2]["parts"].clone(),
    }
}

fn wanted(spoken: Spoken) -> Value {
    let text = "Seen:\n[image-1.png (image/png), 22 bytes]\n[audio-2.wav (audio/wav), 4 bytes]";
    let told = format!("{text}\n[the file audio-2.wav (audio/wav) is not sent: the provider does not take it]");
    let url = format!("data:image/png;base64,{DATA}");
    match spoken {
        Spoken::OpenAiChat => {
            let image = json!({ "type": "image_url", "image_url": { "url": url } });
            let sound = json!({ "type": "input_audio", "input_audio": { "data": "UklGRg==", "format": "wav" } });
            let words = "These files are part of the results of the tools above, in their order.";
            json!([
                { "role": "tool", "content": text, "tool_call_id": "call_1" },
                { "role": "tool", "content": text, "tool_call_id": "call_2" },
                { "role": "user", "content": [{ "type": "text", "text": words }, image, sound, image, sound] },
            ])
        }
        Spoken::OpenAiResponses => {
            let content = json!([
                { "type": "input_text", "text": told },
                { "type": "input_image", "detail": "auto", "image_url": url },
            ]);
            let output = |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": content });
            json!([output("call_1"), output("call_2")])
        }
        Spoken::Anthropic => {
            let source = json!({ "type": "base64", "media_type": "image/png", "data": DATA });
            let content = json!([
                { "type": "text", "text": told },
                { "type": "image", "source": source },
            ]);
            let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": content });
            json!([result("call_1"), result("call_2")])
        }
        Spoken::Gemini => {
            let file = |media_type: &str, data: &str| json!({ "inlineData": { "mimeType": media_type, "data": data } });
            let function = json!({
                "name": "docs__shot", "response": { "output": text }, "parts": [file("image/png", DATA)],
            });
            let result = json!({ "functionResponse": function });
            let sound = file("audio/wav", "UklGRg==");
            json!([result, result, sound, sound])
        }
    }
}

/// The same value without the members that providers attach.
fn plain(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => items.iter_mut().for_each(|item| *item = plain(item.take())),
        Value::Object(members) => {
            members.remove("cache_control");
            if members.contains_key("response") {
                members.remove("id");
            }
            members.values_mut().for_each(|member| *member = plain(member.take()));
        }
        _ => {}
    }
    value
}

/// A picture of a server is part of its result in each protocol, byte for byte, in every later request of the role, and
/// as the process left it that was killed after the calls.
fn reaches(spoken: Spoken) {
    let server = Server::new(move |number| reply(spoken, number));
    client(spoken, &server).run(&RUN).exits(0);
    let bodies: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 4, "{spoken:?}");
    for (at, body) in bodies.iter().enumerate().skip(1) {
        assert_eq!(plain(results(spoken, body)), wanted(spoken), "{spoken:?}, request {at}");
    }
    for pair in bodies.windows(2) {
        let (earlier, later) = (spoken.split(&pair[0]).0, spoken.split(&pair[1]).0);
        assert!(later.starts_with(earlier), "law prefix, {spoken:?}: {later}\ndoes not begin with\n{earlier}");
    }

    for killed_at in [1, 3] {
        let (sender, heard) = channel();
        let known = bodies.clone();
        let server = Server::reading(move |number, request| {
            let Some(at) = known.iter().position(|body| *body == request.body) else {
                return Act::refusal(500, "", "this was never asked");
            };
            if at == killed_at && number == killed_at {
                sender.send(()).unwrap();
                return Act::Hang(EVENTS.to_owned());
            }
            reply(spoken, at)
        });
        let client = client(spoken, &server);
        let running = client.start(&RUN);
        heard.recv_timeout(PATIENCE).unwrap();
        running.kill();
        client.run(&["resume", "last", "--json", "--trust"]).exits(0);
        let asked: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
        assert_eq!(asked, [&bodies[..=killed_at], &bodies[killed_at..]].concat(), "{spoken:?}, {killed_at}");
        let calls = std::fs::read_to_string(client.store().parent().unwrap().join("calls")).unwrap();
        assert_eq!(calls.lines().count(), 3, "no call is made twice");
        client.run(&["verify", "last"]).exits(0);
        client.run(&["fsck"]).exits(0);
    }
}

#[test]
fn a_picture_of_a_server_reaches_chat_completions() {
    reaches(Spoken::OpenAiChat);
}

#[test]
fn a_picture_of_a_server_reaches_responses() {
    reaches(Spoken::OpenAiResponses);
}

#[test]
fn a_picture_of_a_server_reaches_anthropic() {
    reaches(Spoken::Anthropic);
}

#[test]
fn a_picture_of_a_server_reaches_gemini() {
    reaches(Spoken::Gemini);
}

/// A role that reads a file in its first visit, and forgets its calls.
const READS: &str = "rondo: 1\nname: reads\nroles:\n  viewer: { system: You look., tools: [read_file], output: { again: {}, done: {} } }\n\
    graph:\n  start: { to: viewer, prompt: Look. }\n\
    \x20 viewer: { again: { to: viewer, prompt: Once more., max: 1, on_max: { to: fail } }, done: { to: end } }\n";

#[test]
fn a_model_that_takes_no_pictures_is_told_and_the_run_goes_on() {
    for spoken in ALL {
        let server = Server::reading(move |_, request| {
            let has_picture = request.body.contains(DATA);
            match request.body.matches("call_1").count() {
                _ if has_picture => Act::refusal(400, "", r#"{"error":{"message":"No image input here."}}"#),
                _ if request.body.contains("Once more.") => spoken.text(DONE),
                0 if !request.body.contains("is not sent") => spoken.reply(&Turn::calls(&["call_1"])),
                _ => spoken.text("---\nstatus: again\n---\n\nI see nothing."),
            }
        });
        let client = spoken.client(&server, READS);
        client.bytes("a.txt", PNG);
        client.run(&["run", "workflow.yaml", "--json"]).exits(0);
        let bodies: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
        assert_eq!(bodies.len(), 4, "{spoken:?}: {bodies:#?}");
        assert!(bodies[1].contains(DATA), "{spoken:?}: {}", bodies[1]);
        let told = "[the file a.txt (image/png) is not sent: the provider does not take it]";
        assert!(bodies[2].contains(told) && !bodies[2].contains(DATA), "{spoken:?}: {}", bodies[2]);
        assert!(!bodies[3].contains("a.txt"), "condensed history has no calls: {}", bodies[3]);
        client.run(&["verify", "last"]).exits(0);
    }
}

const SCRIPT: &str = "viewer:\n  - { tools: [ { name: read_file, args: { path: a.png } } ], then: { status: again, body: One. } }\n  - { status: done, body: Two. }\n";

fn place() -> Place {
    let place = Place::new();
    place.file("workflows/reads/workflow.yaml", READS);
    place.file("workflows/reads/script.yaml", SCRIPT);
    place.file("a.png", PNG);
    place
}

fn offline(place: &Place) -> String {
    let events = place.run(["run", "reads", "--offline", "--json"]).exits(0);
    events.event("thread_started")["thread"].as_str().unwrap().to_owned()
}

#[test]
fn a_picture_of_a_tool_is_shown_moved_forked_and_collected_with_its_thread() {
    let place = place();
    let thread = offline(&place);
    let step = &place.run(["show", &thread, "--json"]).exits(0).events("step")[0];
    let entry = &step["transcript"]["entries"][1];
    let file = json!([{ "digest": entry["files"][0]["digest"], "media_type": "image/png", "name": "a.png" }]);
    assert_eq!((&entry["files"], &entry["text"]), (&file, &json!("[a.png (image/png), 22 bytes]")));
    let digest = entry["files"][0]["digest"].as_str().unwrap();
    let shown = place.run(["show", &thread]).exits(0).text();
    assert!(shown.contains(&format!("with a.png (image/png) {digest}")), "{shown}");
    let requests = place.run(["messages", &thread]).exits(0).text();
    assert!(requests.contains(&format!("[file a.png (image/png) {digest}]")), "{requests}");

    let server = Serving::start(&place, &[]);
    let path = format!("/threads/{thread}/files/{digest}");
    assert_eq!(server.get(&path).is(200).header("content-type"), Some("image/png"));
    drop(server);

    let fork = place.run(["fork", &thread, "--at", "1", "--json"]).exits(0).event("thread_resumed");
    let fork = fork["thread"].as_str().unwrap();
    place.run(["gc"]).exits(0);
    let exported = place.run(["export", &thread]).exits(0).text();
    let object = format!("\"kind\":\"file\",\"digest\":\"{digest}\",\"value\":\"{DATA}\"");
    assert_eq!(exported.matches(&object).count(), 1, "{exported}");
    place.file("out.jsonl", format!("{exported}\n"));
    place.run(["import", "out.jsonl", "--store", "other"]).exits(0);
    place.run(["verify", &thread, "--store", "other"]).exits(0);
    place.run(["fsck", "--store", "other"]).exits(0);
    assert_eq!(place.run(["export", &thread, "--store", "other"]).exits(0).text(), exported);

    // Without the file the thread is not whole.
    let without: Vec<&str> = exported.lines().filter(|line| !line.contains("\"kind\":\"file\"")).collect();
    place.file("less.jsonl", without.join("\n") + "\n");
    assert_ne!(place.run(["import", "less.jsonl", "--store", "third"]).code, Some(0));

    place.run(["rm", fork, "--yes"]).exits(0);
    place.run(["gc"]).exits(0);
    assert_eq!(place.run(["export", &thread]).exits(0).text(), exported, "the thread still needs it");
    place.run(["rm", &thread, "--yes"]).exits(0);
    place.run(["gc"]).exits(0);
    place.run(["fsck"]).exits(0);
}

#[test]
fn what_is_against_the_rules_is_left_out_and_the_result_says_why() {
    for (bytes, says) in [
        ([PNG, &[0; 2_000]].concat(), "[left out: the file a.png has 2022 bytes, and at most 1024 are taken]\n"),
        (
            b"\xff\xd8\xff\0".to_vec(),
            "[left out: the file a.png is of type image/jpeg, and only image/png are taken]\n",
        ),
        ([PNG, b"k-0123456789"].concat(), "[left out: the file a.png holds a key of the settings]\n"),
    ] {
        let place = place();
        place.file("a.png", bytes);
        let own = place.home().join(".config/rondo");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("config.toml"), "[files]\nmax_size = \"1KiB\"\nmedia_types = [\"image/png\"]\n")
            .unwrap();
        let mut command = place.command(["run", "reads", "--offline", "--json"]);
        command.env("OPENAI_API_KEY", "k-0123456789");
        crate::binary::Running::of(command).finish().exits(0);
        let step = &place.run(["show", "last", "--json"]).exits(0).events("step")[0];
        let entry = &step["transcript"]["entries"][1];
        let text = entry["text"].as_str().unwrap();
        assert!(text.starts_with(says) && entry.get("files").is_none(), "{entry}");
        let exported = place.run(["export", "last"]).exits(0).text();
        assert!(!exported.contains("\"kind\":\"file\""), "{exported}");
    }
}
