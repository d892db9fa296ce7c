//! Answers to what nobody was shown: presses that come late, programs that speak for a person, and calls whose words hide
//! what they do.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::attempt::Attempt;
use crate::binary::Finished;
use crate::scene::Scene;
use crate::server::Server;
use crate::terminal::clean;
use crate::verbs::calling;

const WORKFLOW: &str = "rondo: 1\nname: w\ninput: { text?: string }\nroles:\n  a: { system: x, tools: [write_file, shell] }\n\
    graph:\n  start: { to: a, prompt: go }\n  a: { done: { to: end } }\n";

/// Two calls of one visit, each of which has to be approved.
const TWO: &str = "a:\n  - tools:\n      - { name: write_file, args: { path: one.txt, text: x } }\n      \
    - { name: write_file, args: { path: two.txt, text: x } }\n    then: { body: called }\n";

/// The same call twice in one visit.
const EQUAL: &str = "a:\n  - tools:\n      - { name: write_file, args: { path: one.txt, text: x } }\n      \
    - { name: write_file, args: { path: one.txt, text: x } }\n    then: { body: called }\n";

/// A call in each of two lanes.
const LANES: &str = "rondo: 1\nname: w\nroles:\n  f: { system: x }\n  a: { system: x, tools: [write_file] }\n  \
    b: { system: x, tools: [write_file] }\n  j: { system: x }\ngraph:\n  start: { to: f, prompt: go }\n  \
    f: { done: { to: [a, b], join: j, prompt: go } }\n  a: { done: { to: j, prompt: x } }\n  \
    b: { done: { to: j, prompt: x } }\n  j: { done: { to: end } }\n";

const LANES_SCRIPT: &str = "f: [ { body: x } ]\nj: [ { body: x } ]\n\
    a:\n  - tools: [ { name: write_file, args: { path: one.txt, text: x } } ]\n    then: { body: x }\n\
    b:\n  - tools: [ { name: write_file, args: { path: two.txt, text: x } } ]\n    then: { body: x }\n";

/// A person, who is asked whether everything may go on.
const PERSON: &str = "rondo: 1\nname: w\ninput: { text?: string }\nroles:\n  p: { kind: human, output: { accept: {}, refuse: {} } }\n\
    graph:\n  start: { to: p, prompt: Go on? }\n  p: { accept: { to: end }, refuse: { to: fail, reason: x } }\n";

/// The same with little time.
const HURRIED: &str = "rondo: 1\nname: w\nroles:\n  p: { kind: human, timeout: 3s, output: { accept: {} } }\n\
    graph:\n  start: { to: p, prompt: Go on? }\n  p: { accept: { to: end }, on_timeout: { to: fail, reason: late } }\n";

/// A workflow whose calls each wait for the user.
fn waiting(scene: &Scene<'_>, workflow: &str, script: &str) {
    scene
        .user("[grant]\ntools = [\"write_file\", \"shell\"]\nwrite = [\".\"]\napprove = [\"write_file\", \"shell\"]\n");
    scene.file("workflows/w/workflow.yaml", workflow);
    scene.file("workflows/w/script.yaml", script);
}

/// Begins a thread and gives it with the forms that it waits for.
fn begin(scene: &Scene<'_>) -> (String, Vec<Value>) {
    let run = scene.run(&["run", "w", "--offline", "--trust", "--json"]).exits(75);
    let thread = run.event("thread_started")["thread"].as_str().unwrap().to_owned();
    (thread, run.events("thread_waiting"))
}

fn digest(form: &Value) -> &str {
    form["digest"].as_str().unwrap()
}

fn answer(scene: &Scene<'_>, thread: &str, words: &[&str]) -> Finished {
    scene.run(&[&["answer", thread, "--trust", "--json"], words].concat())
}

fn is_made(scene: &Scene<'_>, name: &str) -> bool {
    scene.work().join(name).exists()
}

/// Allows whatever call of the role waits, as it is where an answer names no call.
fn presses_blindly(scene: &Scene<'_>, thread: &str, role: &str) {
    answer(scene, thread, &["--role", role, "--approve"]);
}

impl Server {
    fn press(&self, thread: &str, form: &Value) -> u16 {
        let body = json!({"form": form["digest"], "approve": true});
        self.ask("POST", &format!("/api/v1/threads/{thread}/answer"), &body).0
    }

    /// The forms of a thread once no run of it is under way.
    fn forms(&self, thread: &str) -> Vec<Value> {
        loop {
            let (_, view) = self.ask("GET", &format!("/api/v1/threads/{thread}"), &Value::Null);
            if view["status"] != "running" && view["runs_here"] == false {
                return view["forms"].as_array().unwrap().clone();
            }
            std::thread::yield_now();
        }
    }
}

/// What a client of `rondo mcp` says; `then` makes each further call of the last result.
fn client(scene: &Scene<'_>, name: &str, calls: &[&dyn Fn(&Value) -> Value]) -> Vec<Value> {
    let mut command = scene.command_in(&scene.work(), &["mcp", "--offline", "--trust"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut ask = |id: usize, method: &str, params: &Value| -> Value {
        writeln!(to, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).unwrap();
        loop {
            let mut line = String::new();
            assert!(from.read_line(&mut line).unwrap() > 0, "the server has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    };
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}});
    ask(0, "initialize", &hello);
    let mut results = vec![Value::Null];
    for (call, id) in calls.iter().zip(1..) {
        let params = call(results.last().unwrap());
        results.push(ask(id, "tools/call", &params)["result"].clone());
    }
    drop(to);
    child.wait().unwrap();
    results.split_off(1)
}

fn mcp_run(_: &Value) -> Value {
    json!({"name": "w", "arguments": {}})
}

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = of_presses();
    attempts.extend(of_other_forms());
    attempts.extend(of_clients());
    attempts.extend(of_chats());
    attempts.extend(of_words());
    attempts
}

fn of_presses() -> Vec<Attempt> {
    let second = |name: &'static str, script: &'static str, is_named: bool| {
        let attempt = Attempt::of(name, is_named);
        attempt
            .set_up(move |scene| waiting(scene, WORKFLOW, script))
            .tried(|scene| {
                let (thread, forms) = begin(scene);
                let words = ["--form", digest(&forms[0]), "--approve"];
                let next = answer(scene, &thread, &words).exits(75).event("thread_waiting");
                assert_ne!(next["digest"], forms[0]["digest"]);
                // The first call was made, and is not made again.
                fs::remove_file(scene.work().join("one.txt")).unwrap();
                let before = scene.run(&["show", &thread, "--json"]).lines;
                let late = answer(scene, &thread, &words).exits(7);
                assert_eq!(late.event("error")["code"], "RN1412", "{late:?}");
                assert_eq!(scene.run(&["show", &thread, "--json"]).lines, before, "a late answer changed the thread");
                assert!(!is_made(scene, "one.txt") && !is_made(scene, "two.txt"));
                answer(scene, &thread, &["--form", digest(&next), "--approve"]).exits(0);
            })
            .double(|scene| {
                let (thread, _) = begin(scene);
                presses_blindly(scene, &thread, "a");
                fs::remove_file(scene.work().join("one.txt")).unwrap();
                presses_blindly(scene, &thread, "a");
                is_made(scene, "one.txt") || is_made(scene, "two.txt")
            })
    };
    vec![
        second("an answer on the command line that comes late allows the next call", TWO, true),
        second("an answer allows a second call with the same arguments", EQUAL, false),
        Attempt::named("the second of two presses allows the next call")
            .set_up(|scene| waiting(scene, WORKFLOW, TWO))
            .tried(|scene| {
                let (thread, forms) = begin(scene);
                let server = Server::start(scene);
                let path = format!("/api/v1/threads/{thread}/answer");
                assert_eq!(server.ask("POST", &path, &json!({"approve": true})).0, 400, "no form is named");
                assert_eq!(server.press(&thread, &forms[0]), 202);
                let next = server.forms(&thread);
                for _ in 0..3 {
                    assert_eq!(server.press(&thread, &forms[0]), 409);
                }
                assert_eq!(server.forms(&thread), next, "a late press changed the thread");
                assert!(!is_made(scene, "two.txt"));
                server.stop();
            })
            .double(|scene| {
                let (thread, _) = begin(scene);
                presses_blindly(scene, &thread, "a");
                presses_blindly(scene, &thread, "a");
                is_made(scene, "two.txt")
            }),
    ]
}

fn of_other_forms() -> Vec<Attempt> {
    vec![
        Attempt::other("the form of one lane is pressed for the call of another")
            .set_up(|scene| waiting(scene, LANES, LANES_SCRIPT))
            .tried(|scene| {
                let (thread, forms) = begin(scene);
                assert_eq!(forms.len(), 2);
                let of_b = forms.iter().find(|form| form["role"] == "b").unwrap();
                answer(scene, &thread, &["--role", "a", "--form", digest(of_b), "--approve"]).exits(7);
                let server = Server::start(scene);
                let body = json!({"form": of_b["digest"], "role": "a", "lane": "a", "approve": true});
                assert_eq!(server.ask("POST", &format!("/api/v1/threads/{thread}/answer"), &body).0, 409);
                assert_eq!(server.press(&thread, of_b), 202);
                assert_eq!(server.forms(&thread).len(), 1);
                assert!(is_made(scene, "two.txt") && !is_made(scene, "one.txt"));
                server.stop();
            })
            .double(|scene| {
                let (thread, _) = begin(scene);
                presses_blindly(scene, &thread, "a");
                is_made(scene, "one.txt")
            }),
        Attempt::other("the form of one thread is pressed for the same call of another")
            .set_up(|scene| waiting(scene, WORKFLOW, &calling("write_file", "{ path: one.txt, text: x }")))
            .tried(|scene| {
                let ((_, first), (thread, second)) = (begin(scene), begin(scene));
                assert_eq!(first[0]["form"], second[0]["form"]);
                answer(scene, &thread, &["--form", digest(&first[0]), "--approve"]).exits(7);
                // `last` has moved on to a thread that nobody looked at.
                answer(scene, "last", &["--form", digest(&first[0]), "--approve"]).exits(7);
                assert!(!is_made(scene, "one.txt"));
            })
            .double(|scene| {
                begin(scene);
                presses_blindly(scene, "last", "a");
                is_made(scene, "one.txt")
            }),
        Attempt::other("the form of one child is pressed for another")
            .set_up(|scene| {
                waiting(scene, WORKFLOW, "{}\n");
                scene.file("workflows/w/c.yaml", &PERSON.replace("name: w", "name: c"));
                let parent = "rondo: 1\nname: w\nroles:\n  f: { system: x }\n  c: { kind: workflow, workflow: c.yaml }\n  \
                     d: { kind: workflow, workflow: c.yaml }\n  j: { system: x }\ngraph:\n  \
                     start: { to: f, prompt: go }\n  f: { done: { to: [c, d], join: j, prompt: go } }\n  \
                     c: { done: { to: j, prompt: x }, failed: { to: j, prompt: x } }\n  \
                     d: { done: { to: j, prompt: x }, failed: { to: j, prompt: x } }\n  j: { done: { to: end } }\n";
                scene.file("workflows/w/workflow.yaml", parent);
                scene.file("workflows/w/script.yaml", "f: [ { body: x } ]\nj: [ { body: x } ]\n");
            })
            .tried(|scene| {
                let run = scene.run(&["run", "w", "--offline", "--trust", "--json"]).exits(75);
                let root = run.events("thread_started")[0]["thread"].as_str().unwrap().to_owned();
                let forms = run.events("thread_waiting");
                assert_eq!(forms.len(), 2);
                let other = forms[1]["thread"].as_str().unwrap();
                let words = ["--form", digest(&forms[0]), "--status", "accept"];
                answer(scene, other, &words).exits(7);
                answer(scene, &root, &words).exits(75);
                answer(scene, &root, &words).exits(7);
                answer(scene, &root, &["--form", digest(&forms[1]), "--status", "accept"]).exits(0);
            })
            .double(|scene| {
                let run = scene.run(&["run", "w", "--offline", "--trust", "--json"]).exits(75);
                let other = run.events("thread_waiting")[1]["thread"].as_str().unwrap().to_owned();
                answer(scene, &other, &["--status", "accept"]).code == Some(75)
            }),
        Attempt::other("a form is answered after its time")
            .set_up(|scene| waiting(scene, HURRIED, "{}\n"))
            .tried(|scene| {
                let (thread, forms) = begin(scene);
                let expires_at_ms = u128::from(forms[0]["form"]["expires_at_ms"].as_u64().unwrap());
                while SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() < expires_at_ms {
                    std::thread::sleep(Duration::from_millis(50));
                }
                let late = answer(scene, &thread, &["--form", digest(&forms[0]), "--status", "accept"]).exits(7);
                assert_eq!(late.event("error")["code"], "RN1412");
                answer(scene, &thread, &["--status", "accept"]).exits(7);
                scene.run(&["resume", &thread, "--trust"]).exits(1);
            })
            .double(|scene| {
                fs::write(scene.work().join("workflows/w/workflow.yaml"), HURRIED.replace("3s", "1h")).unwrap();
                let (thread, _) = begin(scene);
                answer(scene, &thread, &["--status", "accept"]).code == Some(0)
            }),
    ]
}

const CALL: &str = "{ path: one.txt, text: x }";

/// Whether a press that names no call makes one.
fn pressed(scene: &Scene<'_>) -> bool {
    let (thread, _) = begin(scene);
    presses_blindly(scene, &thread, "a");
    is_made(scene, "one.txt")
}

fn chat(server: &Server, messages: &Value) -> (u16, Value) {
    server.ask("POST", "/v1/chat/completions", &json!({"model": "w:offline", "messages": messages}))
}

fn of_clients() -> Vec<Attempt> {
    vec![
        Attempt::named("a client of MCP allows the call of a thread that a person began")
            .set_up(|scene| waiting(scene, WORKFLOW, &calling("write_file", CALL)))
            .tried(|scene| {
                let (thread, forms) = begin(scene);
                let (thread, form) = (thread.as_str(), digest(&forms[0]));
                let call = |arguments: Value| move |_: &Value| json!({"name": "answer", "arguments": arguments});
                for result in client(
                    scene,
                    "eager",
                    &[
                        &call(json!({"thread": thread, "approve": true})),
                        &call(json!({"thread": thread, "form": form, "approve": true})),
                        &call(json!({"thread": "last", "approve": true, "role": "a", "lane": ""})),
                        &call(json!({"thread": thread, "status": "approve"})),
                    ],
                ) {
                    assert_eq!(result["isError"], true, "{result}");
                }
                assert!(!is_made(scene, "one.txt"));
            })
            .double(pressed),
        Attempt::named("a client of MCP allows the call of a thread that it began itself")
            .set_up(|scene| waiting(scene, WORKFLOW, &calling("write_file", CALL)))
            .tried(|scene| {
                let approves = |asked: &Value| {
                    let about = &asked["structuredContent"];
                    let arguments = json!({"thread": about["thread"], "form": about["form"], "approve": true});
                    json!({"name": "answer", "arguments": arguments})
                };
                let results = client(scene, "eager", &[&mcp_run, &approves]);
                let (asked, refused) = (&results[0], &results[1]);
                assert_eq!(refused["isError"], true, "{refused}");
                let about = &asked["structuredContent"];
                let command = format!(
                    "rondo answer {} --form {} --approve",
                    about["thread"].as_str().unwrap(),
                    about["form"].as_str().unwrap()
                );
                for told in [asked, refused] {
                    assert!(told["content"][0]["text"].as_str().unwrap().contains(&command), "{told}");
                }
                assert!(!is_made(scene, "one.txt"));
                // What the client is told is what a person types.
                let words: Vec<&str> = command.split(' ').skip(2).collect();
                answer(scene, words[0], &words[1..]).exits(0);
            })
            .double(pressed),
        Attempt::other("a client of MCP fills in a form that another one's thread waits for")
            .set_up(|scene| waiting(scene, PERSON, "{}\n"))
            .tried(|scene| {
                let asked = client(scene, "first", &[&mcp_run]).remove(0);
                let thread = asked["structuredContent"]["thread"].as_str().unwrap();
                let says = |_: &Value| json!({"name": "answer", "arguments": {"thread": thread, "status": "accept"}});
                assert_eq!(client(scene, "second", &[&says])[0]["isError"], true);
                assert_eq!(client(scene, "", &[&says])[0]["isError"], true);
                let done = client(scene, "first", &[&says]).remove(0);
                assert_eq!(done["structuredContent"]["status"], "done", "{done}");
                let step = scene.run(&["show", thread, "--json"]).exits(0).json().pop().unwrap();
                assert_eq!((&step["note"]["person"], &step["note"]["client"]), (&Value::Null, &json!("first")));
                assert_eq!(step["note"]["answered_by"], "client");
            })
            .double(|scene| {
                let (thread, _) = begin(scene);
                answer(scene, &thread, &["--status", "accept"]).code == Some(0)
            }),
    ]
}

fn of_chats() -> Vec<Attempt> {
    vec![
        Attempt::named("a chat client says yes to a call")
            .set_up(|scene| waiting(scene, WORKFLOW, &calling("write_file", CALL)))
            .tried(move |scene| {
                let server = Server::start(scene);
                let mut messages = json!([{"role": "user", "content": "please"}]);
                let (_, asked) = chat(&server, &messages);
                let question = asked["choices"][0]["message"].clone();
                let told = question["content"].as_str().unwrap();
                assert!(
                    told.contains("rondo answer ") && told.contains(" --form ") && told.contains(" --approve"),
                    "{told}"
                );
                messages.as_array_mut().unwrap().push(question);
                for word in
                    ["yes", "y", "Yes.", "y es", "yes and also remove the rest", "approve", r#"{"approve": true}"#]
                {
                    let mut messages = messages.clone();
                    messages.as_array_mut().unwrap().push(json!({"role": "user", "content": word}));
                    let (status, refused) = chat(&server, &messages);
                    assert_eq!((status, &refused["error"]["code"]), (403, &json!("RN1704")), "{word}: {refused}");
                }
                assert!(!is_made(scene, "one.txt"));
                server.stop();
            })
            .double(pressed),
        Attempt::other("a word that a message begins with is taken for an answer")
            .set_up(|scene| waiting(scene, PERSON, "{}\n"))
            .tried(move |scene| {
                let server = Server::start(scene);
                let mut messages = json!([{"role": "user", "content": "please"}]);
                let (_, asked) = chat(&server, &messages);
                messages.as_array_mut().unwrap().push(asked["choices"][0]["message"].clone());
                let says = |word: &str| {
                    let mut messages = messages.clone();
                    messages.as_array_mut().unwrap().push(json!({"role": "user", "content": word}));
                    chat(&server, &messages).0
                };
                for word in
                    ["accept and also pay him", "a ccept", "accept?", "Accept, but not today", "accept refuse", "yes"]
                {
                    assert_eq!(says(word), 422, "{word}");
                }
                assert_eq!(says("Accept."), 200);
                let step = scene.run(&["show", "last", "--json"]).exits(0).json().pop().unwrap();
                assert_eq!((&step["note"]["person"], &step["note"]["client"]), (&Value::Null, &json!("chatty/1")));
                server.stop();
            })
            .double(|_| "accept and also pay him".split_whitespace().next() == Some("accept")),
    ]
}

/// A call whose arguments, as a model wrote them, hide the word `touch` or what follows it.
fn hidden(name: &'static str, is_named: bool, script: String, shown: &'static [&'static str]) -> Attempt {
    let attempt = Attempt::of(name, is_named);
    let raw = script.clone();
    attempt
        .set_up(move |scene| waiting(scene, WORKFLOW, &calling("shell", &format!("'{script}'"))))
        .tried(move |scene| {
            let (thread, forms) = begin(scene);
            let server = Server::start(scene);
            let of_api = server.forms(&thread)[0]["call"]["arguments"].as_str().unwrap().to_owned();
            server.stop();
            let of_show = scene.run(&["show", &thread]).exits(0).text();
            let of_event = forms[0]["form"]["prompt"].as_str().unwrap();
            for text in [of_api.as_str(), of_show.as_str(), of_event] {
                clean(text);
                assert!(text.len() < 20_000 && text.lines().count() < 130, "it fills screens: {text}");
                for word in shown {
                    assert!(text.contains(word), "{word:?} is not shown: {text}");
                }
            }
        })
        // What is shown as it was written has none of these words, or more than anybody reads.
        .double(move |_| raw.len() > 20_000 || !shown.iter().all(|word| raw.contains(word)))
}

fn of_words() -> Vec<Attempt> {
    vec![
        hidden(
            "an escape hides the name of a command",
            true,
            r#"{"script": "\u0074ouch \u002fx"}"#.to_owned(),
            &["script = touch /x"],
        ),
        hidden(
            "the direction of writing hides a command",
            true,
            r#"{"script": "echo \u202etouch x\u202c"}"#.to_owned(),
            &["echo [U+202E]touch x[U+202C]"],
        ),
        hidden(
            "characters that are not seen part a command",
            false,
            r#"{"script": "to\u200buch x \u2800\ufeff; \u001b[2Jls"}"#.to_owned(),
            &["to[U+200B]uch x [U+2800][U+FEFF]; [U+001B][2Jls"],
        ),
        hidden(
            "a hundred thousand blanks push a command out of sight",
            true,
            format!("{{\"script\": \"echo x{}; touch y\"}}", " ".repeat(100_000)),
            &["echo x [100000 BLANKS] ; touch y"],
        ),
        hidden(
            "thousands of lines scroll a command away",
            false,
            format!("{{\"script\": \"touch y\\n{}ls\"}}", "echo x\\n".repeat(4_000)),
            &["touch y", "LINES ARE NOT SHOWN HERE]", "ls"],
        ),
        hidden(
            "escapes in a text that is JSON hide a command",
            false,
            r#"{"script": "{\"run\": \"\\u0074ouch y\"}"}"#.to_owned(),
            &[r#"[read as JSON: {"run":"touch y"}]"#],
        ),
        hidden(
            "a line of a command looks like another argument",
            false,
            r#"{"script": "touch y\nscript = ls"}"#.to_owned(),
            &["  | script = ls"],
        ),
    ]
}
