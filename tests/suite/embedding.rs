//! rondo as a library: the programs of `engine/examples`, run, and what a program can do with threads.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rondo::protocol::object::Entry;
use rondo::tool::{self, Effect};
use rondo::{End, EventId, LanePath, Outcome, RecordLine, RoleName, Rondo, ThreadStatus, What};
use tokio::sync::Notify;

use crate::binary::{Place, binary};

fn example(place: &Place, name: &str) -> Command {
    let program = binary().parent().unwrap().join("examples").join(name);
    assert!(program.is_file(), "{} is missing: build the whole workspace first", program.display());
    let mut command = Command::new(program);
    let path = "/usr/local/bin:/usr/bin:/bin";
    command.current_dir(place.path()).env_clear().envs([("HOME", place.home().to_str().unwrap()), ("PATH", path)]);
    command
}

#[track_caller]
fn told(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (told, complaint) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{complaint}");
    told
}

#[test]
fn a_program_of_twenty_lines_runs_a_workflow_and_another_reads_its_store() {
    let place = Place::new();
    let mut run = example(&place, "run");
    run.args(["review-loop", "--offline"]);
    let told_by_run = told(run);
    assert!(told_by_run.starts_with("writer: drafted\neditor: revise\n"), "{told_by_run}");
    assert!(told_by_run.lines().count() > 6 && !told_by_run.contains("null"), "{told_by_run}");
    let read = told(example(&place, "read"));
    assert!(read.contains("review-loop: 6 steps\n    1 writer drafted\n"), "{read}");
    // The command line knows the thread, and proves its requests.
    place.run(["verify", "last"]).exits(0);
}

#[test]
fn programs_bring_a_tool_a_hook_and_a_server_of_tools_along() {
    let place = Place::new();
    let reversed = told(example(&place, "tool"));
    assert!(reversed.starts_with("reverse took ") && reversed.ends_with("edit\n"), "{reversed}");
    assert!(told(example(&place, "hook")).ends_with("\n6 calls of models\n"));
    let server = place.file("tools.sh", super::servers::SERVER);
    place.file("description", "Says it again.");
    let mut mcp = example(&place, "mcp");
    mcp.args(["sh", "-c", &format!("cd {} && exec sh {server}", place.path().display())]);
    assert_eq!(told(mcp), "docs.echo was called\nthe server said: echoed\n");
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_of_somebody_else_starts_and_shows_threads() {
    let place = Place::new();
    let mut serving = Serving(example(&place, "server").stdout(Stdio::piped()).spawn().unwrap());
    let mut address = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim().strip_prefix("http://").unwrap().to_owned();
    let ask = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let length = body.len();
        let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json";
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let thread = ask("POST", "/threads", "\"tide pools\"");
    let shown: serde_json::Value = serde_json::from_str(&ask("GET", &format!("/threads/{thread}"), "")).unwrap();
    assert_eq!((&shown["name"], &shown["thread"]), (&"review-loop".into(), &thread.into()));
}

/// A person decides on what a tool returned, and a child workflow speaks.
const WORKFLOW: &str = "
rondo: 1
name: desk
input: { word: string }
roles:
  writer: { system: You write., tools: [reverse] }
  clerk: { kind: human, description: Decides., output: { approved: { note: string }, refused: {} } }
  child: { kind: workflow, workflow: child.yaml, input: { word: '{{ steps.clerk.output.note }}' } }
graph:
  start: { to: writer, prompt: 'Turn {{ input.word }} around.' }
  writer: { done: { to: clerk, prompt: '{{ body }}' } }
  clerk: { approved: { to: child }, refused: { to: fail, reason: refused } }
  child: { done: { to: end, result: { text: '{{ body }}' } }, failed: { to: fail, reason: failed } }
";

const CHILD: &str = "
rondo: 1
name: child
input: { word: string }
roles: { speaker: { system: You speak. } }
graph:
  start: { to: speaker, prompt: '{{ input.word }}' }
  speaker: { done: { to: end } }
result: '{{ steps.speaker.body }}'
";

const SCRIPT: &str = "
writer: [ { tools: [ { name: reverse, args: { word: tide } } ], then: { status: done, body: edit } } ]
child/speaker: [ { status: done, body: said } ]
";

#[derive(serde::Deserialize, rondo::schemars::JsonSchema)]
#[schemars(crate = "rondo::schemars")]
struct Word {
    word: String,
}

async fn desk(place: &Place) -> Rondo {
    place.file("child.yaml", CHILD);
    let reverse = tool::from_fn("reverse", "Turns a word around.", |Word { word }| async move {
        word.chars().rev().collect::<String>()
    });
    let builder = Rondo::builder().folder(place.path()).in_memory().script(SCRIPT);
    builder.tool(reverse.effect(Effect::Pure)).open().await.unwrap()
}

#[tokio::test]
async fn a_function_returns_a_file() {
    let draw = tool::from_fn("draw", "Draws a word.", |Word { word }| async move {
        tool::File::new("word.png", [b"\x89PNG\r\n\x1a\n\0", word.as_bytes()].concat())
    });
    let workflow = "rondo: 1\nname: draws\nroles: { a: { system: x, tools: [draw] } }\n\
        graph: { start: { to: a, prompt: Go. }, a: { done: { to: end } } }\n";
    let script = "a: [ { tools: [ { name: draw, args: { word: tide } } ], then: { status: done, body: Drawn. } } ]\n";
    let place = Place::new();
    let builder = Rondo::builder().folder(place.path()).in_memory().script(script).tool(draw.effect(Effect::Pure));
    let rondo = builder.open().await.unwrap();
    let run = rondo.workflow_text("draws.yaml", workflow).unwrap().start().await.unwrap();
    let thread = run.thread().clone();
    run.end().await.unwrap();
    let requests = rondo.messages(&thread, &RoleName::new("a").unwrap(), &LanePath::trunk(), 1).await.unwrap();
    assert!(requests.len() == 2 && requests.iter().all(rondo::Request::is_proven));
    let RecordLine::Step(step) = &rondo.steps(&thread).await.unwrap()[0] else { panic!("no step") };
    let Entry::Tool { files, text, .. } = &step.transcript.as_ref().unwrap().entries[1] else { panic!("no result") };
    assert_eq!(
        (files[0].to_string(), text.as_str()),
        ("word.png (image/png)".to_owned(), "[word.png (image/png), 13 bytes]")
    );
}

#[tokio::test]
async fn a_thread_in_memory_runs_until_it_has_ended() {
    let (asked, is_asked) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, answered) = (Arc::clone(&is_asked), Arc::clone(&asked));
    let reverse = tool::from_fn("reverse", "Turns a word around.", move |Word { word }| {
        let (told, answered) = (Arc::clone(&told), Arc::clone(&answered));
        async move {
            told.notify_one();
            answered.notified().await;
            word
        }
    });
    let workflow = "rondo: 1\nname: asks\nroles: { a: { system: x, tools: [reverse] } }\n\
        graph: { start: { to: a, prompt: Go. }, a: { done: { to: end } } }\n";
    let script = "a: [ { tools: [ { name: reverse, args: { word: tide } } ], then: { status: done, body: x } } ]\n";
    let place = Place::new();
    let builder = Rondo::builder().folder(place.path()).in_memory().script(script).tool(reverse.effect(Effect::Pure));
    let rondo = builder.open().await.unwrap();
    let run = rondo.workflow_text("asks.yaml", workflow).unwrap().start().await.unwrap();
    let thread = run.thread().clone();
    is_asked.notified().await;
    assert_eq!(rondo.thread(&thread).await.unwrap().status, ThreadStatus::Running);
    assert_eq!(rondo.threads(None, 9).await.unwrap()[0].status, ThreadStatus::Running);
    asked.notify_one();
    run.end().await.unwrap();
    assert_eq!(rondo.thread(&thread).await.unwrap().status, ThreadStatus::Done);
}

#[tokio::test]
async fn a_thread_waits_is_answered_read_forked_and_cancelled() {
    let place = Place::new();
    let rondo = desk(&place).await;
    let mut run = rondo.workflow_text("desk.yaml", WORKFLOW).unwrap().input("word", "tide").start().await.unwrap();
    let thread = run.thread().clone();
    let mut tools = 0;
    while let Some(event) = run.next().await {
        tools += usize::from(matches!(event.what, What::ToolFinished { failed: false, .. }));
    }
    let End::Waiting(forms) = run.end().await.unwrap() else { panic!("a person is asked") };
    assert_eq!((tools, forms.len(), rondo.forms(&thread).await.unwrap().len()), (1, 1, 1));

    let refused = rondo.answer(&thread).status("maybe").start().await.err().unwrap();
    assert_eq!(refused.code().as_str(), "RN1414", "{refused}");
    let run = rondo.answer(&thread).status("approved").field("note", "go").start().await.unwrap();
    let end = run.end().await.unwrap();
    assert_eq!(end.result().unwrap()["text"].as_str(), Some("said"));

    let steps = rondo.steps(&thread).await.unwrap();
    let roles: Vec<&str> = steps
        .iter()
        .filter_map(|line| if let RecordLine::Step(step) = line { Some(step.role.as_str()) } else { None })
        .collect();
    assert_eq!(roles, ["writer", "clerk", "child"]);
    let writer = RoleName::new("writer").unwrap();
    let requests = rondo.messages(&thread, &writer, &LanePath::trunk(), 1).await.unwrap();
    assert!(requests.len() == 2 && requests.iter().all(rondo::Request::is_proven));
    assert_eq!(rondo.prefix(&thread).await.unwrap().roles.len(), 1);
    assert_eq!(rondo.usage(&[], None).await.unwrap().len(), 1);
    let mut events = rondo.subscribe(&thread, EventId::NONE).await.unwrap();
    assert!(matches!(events.recv().await.unwrap().what, What::ThreadStarted { .. }));

    let run = rondo.fork(&thread).at(1).start().await.unwrap();
    let fork = run.thread().clone();
    assert!(matches!(run.end().await.unwrap(), End::Waiting(_)));
    assert_eq!(rondo.diff(&thread, &fork).await.unwrap().common, Some(1));
    rondo.cancel(&fork).await.unwrap();
    let End::Finished(finished) = rondo.resume(&fork).start().await.unwrap().end().await.unwrap() else {
        panic!("it was cancelled")
    };
    assert_eq!(finished.outcome, Outcome::Cancelled);
    // Both, and the child of the first.
    assert_eq!(rondo.threads(None, 10).await.unwrap().len(), 3);
    rondo.close().await;
}

#[tokio::test]
async fn what_is_wrong_is_said_before_anything_runs() {
    let place = Place::new();
    let rondo = desk(&place).await;
    let faulty = rondo.workflow_text("bad.yaml", "rondo: 1\nroles: {}\n").err().unwrap();
    assert!(faulty.to_string().contains("bad.yaml"), "{faulty}");
    let near = rondo.workflow("review-lop").err().unwrap();
    assert_eq!(near.hint().unwrap().to_string(), "did you mean `review-loop`?");
    let lacking = rondo.workflow_text("desk.yaml", WORKFLOW).unwrap().start().await.err().unwrap();
    assert!(lacking.to_string().contains("word"), "{lacking}");
    // The same workflow without the tool: nobody agreed to it, and nothing is asked.
    let bare = Rondo::builder().folder(place.path()).in_memory().script(SCRIPT).open().await.unwrap();
    let refused = bare.workflow_text("desk.yaml", WORKFLOW).unwrap().input("word", "tide").start().await.err().unwrap();
    assert_eq!(refused.code().as_str(), "RN1703", "{refused}");
}
