//! `rondo record` and `--recorded`: a run against a server that is played again with the server gone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::Client;
use super::server::{Act, EVENTS, Server, finish};
use crate::binary::Finished;

/// A role with a tool, a repair and a retry; another with a second model.
const STORY: &str = r#"
rondo: 1
name: story
input: { topic: string }
models: { default: { temperature: 0.1 }, small: { model: little } }
roles:
  writer:
    system: You write.
    tools: [read_file]
    retry: { attempts: 3, backoff: 1ms }
    output: { drafted: { title: string } }
  editor:
    system: You edit.
    retry: { attempts: 1 }
    fallback: [small]
    output: { revise: {}, approved: {} }
graph:
  start: { to: writer, prompt: "Write about {{ input.topic }}." }
  writer: { drafted: { to: editor, prompt: "Judge {{ output.title }}." } }
  editor:
    revise: { to: writer, max: 3, prompt: "Shorter, please.", on_max: { to: fail } }
    approved: { to: end, say: "{{ body }}" }
"#;

const NOTES: &str = "Pools fill twice a day.\n";

/// What the server does, in the order in which it is asked.
fn play(number: usize) -> Act {
    let draft = |title: &str| format!("---\nstatus: drafted\ntitle: {title}\n---\n\nPools, {title}.\n");
    match number {
        0 => Act::refusal(429, "", "slow down"),
        1 => read_notes(),
        2 => Act::answer("no front matter", [20, 10, 3]),
        3 => Act::answer(&draft("first"), [30, 20, 9]),
        4 => Act::refusal(500, "", "broken"),
        5 => Act::answer("---\nstatus: revise\n---\n\nToo long.\n", [15, 0, 4]),
        6 => Act::answer(&draft("second"), [50, 30, 9]),
        _ => Act::answer("---\nstatus: approved\n---\n\nGood.\n", [25, 15, 4]),
    }
}

/// The model asks for the notes.
fn read_notes() -> Act {
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "read_file", "arguments": "{\"path\":\"notes.txt\"}"}});
    let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]});
    Act::Send(vec![
        EVENTS.to_owned(),
        format!("data: {delta}\n\n"),
        finish("tool_calls"),
        "data: [DONE]\n\n".to_owned(),
    ])
}

fn path(client: &Client, name: &str) -> PathBuf {
    client.store().parent().unwrap().join(name)
}

fn text(client: &Client, name: &str) -> String {
    std::fs::read_to_string(path(client, name)).unwrap()
}

fn write(client: &Client, name: &str, text: &str) {
    std::fs::write(path(client, name), text).unwrap();
}

/// A folder in which nobody answers, with a store of its own and what was recorded elsewhere.
fn replayer(recorded: &Client) -> Client {
    let client = Client::new(STORY, "http://127.0.0.1:9/v1", "nobody");
    for name in ["story.jsonl", "notes.txt"] {
        write(&client, name, &text(recorded, name));
    }
    client.without("RONDO_MODEL").without("OPENAI_BASE_URL")
}

const RECORD: [&str; 7] = ["record", "workflow.yaml", "-i", "topic=tide pools", "--to", "story.jsonl", "--json"];
const PLAY: [&str; 7] = ["run", "workflow.yaml", "-i", "topic=tide pools", "--recorded", "story.jsonl", "--json"];

/// A run against the server, recorded; the server has gone.
fn record() -> (Client, Finished) {
    let server = Server::new(play);
    let client = server.client(STORY);
    write(&client, "notes.txt", NOTES);
    let said = client.run(&RECORD).exits(0);
    assert_eq!(server.requests().len(), 8);
    (client, said)
}

/// What an event says, without when and in which thread.
fn lasting(mut event: Value) -> Value {
    for volatile in ["thread", "at_ms", "wait_ms", "duration_ms", "provider"] {
        event.as_object_mut().unwrap().remove(volatile);
    }
    event
}

fn errors(said: &Finished) -> Vec<(String, String)> {
    let part = |error: &Value, part: &str| error[part].as_str().unwrap().to_owned();
    said.events("error").iter().map(|error| (part(error, "code"), part(error, "message"))).collect()
}

#[test]
fn a_recorded_run_is_played_again_without_the_server() {
    let (recorded, said) = record();
    let mode = std::fs::metadata(path(&recorded, "story.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let client = replayer(&recorded);
    let played = client.run(&PLAY).exits(0);
    let of = |said: &Finished| said.json().into_iter().map(lasting).collect::<Vec<_>>();
    assert_eq!(of(&played), of(&said));
    assert_eq!(said.event("thread_finished")["result"]["body"], "Good.\n");
    let totals = |client: &Client| client.lines(&["show", "last", "--json"])[0]["totals"].clone();
    assert_eq!(totals(&client), totals(&recorded));
}

#[test]
fn a_second_recording_overwrites_nothing() {
    let (recorded, _) = record();
    let before = text(&recorded, "story.jsonl");
    let said = recorded.run(&RECORD).exits(2);
    assert_eq!(errors(&said)[0].0, "RN1806");
    let mut elsewhere = RECORD;
    elsewhere[5] = "none/story.jsonl";
    assert_eq!(errors(&recorded.run(&elsewhere).exits(2))[0].0, "RN1806");
    assert_eq!(text(&recorded, "story.jsonl"), before);
    assert_eq!(recorded.lines(&["threads", "--json"]).len(), 1, "no thread was begun");
}

#[test]
fn many_inputs_are_not_recorded_in_one_file() {
    let server = Server::new(play);
    let client = server.client(STORY);
    write(&client, "two.jsonl", "{\"topic\":\"a\"}\n{\"topic\":\"b\"}\n");
    let words = ["record", "workflow.yaml", "--input-file", "two.jsonl", "--to", "story.jsonl", "--json"];
    assert_eq!(errors(&client.run(&words).exits(2))[0].0, "RN1806");
    assert!(server.requests().is_empty() && !path(&client, "story.jsonl").exists());
}

#[test]
fn a_recording_that_was_stopped_plays_as_far_as_it_goes() {
    let server = Server::new(|number| match number {
        4.. => Act::Hang(EVENTS.to_owned()),
        _ => play(number),
    });
    let recording = server.client(STORY);
    write(&recording, "notes.txt", NOTES);
    let mut running = recording.start(&RECORD);
    running.event("step_committed");
    running.signal(Signal::INT);
    let stopped = running.finish();
    assert_eq!(stopped.code, Some(130), "{stopped:?}");
    drop(server);

    let client = replayer(&recording);
    let played = client.run(&PLAY).exits(5);
    assert_eq!(played.events("step_committed").len(), 1);
    let told = errors(&played);
    assert_eq!(told[0].0, "RN1805");
    assert!(told[0].1.contains("no such request of role `editor`, visit 1"), "{told:?}");

    // With a whole recording of the same story the thread continues where it stopped.
    let (recorded, said) = record();
    write(&client, "story.jsonl", &text(&recorded, "story.jsonl"));
    let resumed = client.run(&["resume", "last", "--json"]).exits(0);
    assert_eq!(resumed.event("thread_finished")["head"], said.event("thread_finished")["head"]);
}

#[test]
fn a_recording_whose_process_was_killed_says_how_to_play_what_is_there() {
    let server = Server::new(|number| if number < 4 { play(number) } else { Act::Hang(EVENTS.to_owned()) });
    let recording = server.client(STORY);
    write(&recording, "notes.txt", NOTES);
    let mut running = recording.start(&RECORD);
    running.event("step_committed");
    running.kill();
    let client = replayer(&recording);
    let (code, message) = errors(&client.run(&PLAY).exits(2)).remove(0);
    assert_eq!(code, "RN1803");
    let (_, end) = message.rsplit_once(": ").unwrap();
    let end = end.trim_end_matches(')');
    write(&client, "story.jsonl", &format!("{}{end}\n", text(&recording, "story.jsonl")));
    assert_eq!(client.run(&PLAY).exits(5).events("step_committed").len(), 1);
}

#[test]
fn a_recording_that_is_cut_edited_or_of_another_version_is_refused_with_its_place() {
    let (recorded, _) = record();
    let client = replayer(&recorded);
    let whole = text(&recorded, "story.jsonl");
    let lines: Vec<&str> = whole.lines().collect();
    let last = lines.len();
    let half = lines[last - 2].len() / 2;
    let cut = lines[..last - 2].join("\n") + "\n" + &lines[last - 2][..half];
    let edited = whole.replace("Too long.", "Too loud.");
    let line_of = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap() + 1;
    let other = whole.replacen("\"rondo_cassette\":1", "\"rondo_cassette\":9", 1);
    for (text, code, line, column) in [
        (cut, "RN1803", last - 1, Some(half + 1)),
        (lines[..last - 1].join("\n") + "\n", "RN1803", last, Some(1)),
        (edited, "RN1804", line_of("Too long."), None),
        (other, "RN1802", 1, Some(19)),
        (STORY.to_owned(), "RN1801", 1, Some(1)),
        (String::new(), "RN1801", 1, Some(1)),
    ] {
        write(&client, "story.jsonl", &text);
        let said = client.run(&PLAY).exits(2);
        let error = said.events("error").remove(0);
        assert_eq!((&error["code"], &error["where"]["line"]), (&json!(code), &json!(line)), "{error}");
        if let Some(column) = column {
            assert_eq!(error["where"]["column"], json!(column), "{error}");
        }
        assert_eq!(error["where"]["file"], "story.jsonl");
    }
    assert!(!client.store().exists(), "nothing was begun");
}

#[test]
fn a_changed_prompt_is_named() {
    let (recorded, _) = record();
    let client = replayer(&recorded);
    write(&client, "workflow.yaml", &STORY.replace("Shorter, please.", "Longer, please."));
    let said = client.run(&PLAY).exits(5);
    let (code, message) = errors(&said).remove(0);
    assert_eq!(code, "RN1805");
    for part in ["role `writer`, visit 2", "message 3 (user)", "Shorter, please.", "Longer, please."] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(client.lines(&["show", "last", "--json"])[0]["status"], "stopped");
    write(&client, "workflow.yaml", STORY);
    client.run(&PLAY).exits(0);

    write(&client, "workflow.yaml", &STORY.replace("You edit.", "You judge."));
    let (_, message) = errors(&client.run(&PLAY).exits(5)).remove(0);
    assert!(message.contains("the system text"), "{message}");

    write(&client, "workflow.yaml", STORY);
    write(&client, "notes.txt", "Pools fill once.\n");
    let (_, message) = errors(&client.run(&PLAY).exits(5)).remove(0);
    assert!(message.contains("(tool)") && message.contains("twice a day"), "{message}");
}

#[test]
fn nothing_is_recorded_where_nothing_can_be_written() {
    let server = Server::new(play);
    let client = server.client(STORY);
    write(&client, "notes.txt", NOTES);
    let mut words = RECORD;
    words[5] = "/dev/full";
    assert_eq!(errors(&client.run(&words).exits(2))[0].0, "RN1806");
    assert!(server.requests().is_empty());
}

#[test]
fn a_recording_that_answers_is_asked_for_alone() {
    let client = Client::new(STORY, "http://127.0.0.1:9/v1", "fake-1");
    for other in [&["--offline"][..], &["--script", "a.yaml"]] {
        let said = client.run(&[&PLAY[..], other].concat()).exits(2);
        assert!(said.stderr.contains("cannot be used with"), "{said:?}");
    }
}
