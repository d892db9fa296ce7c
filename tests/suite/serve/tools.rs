//! Workflows as tools of an MCP server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{place, place_of_clerk};
use crate::binary::Place;

/// A client of `rondo mcp`.
struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    id: u64,
    /// The notifications that came before the last answer.
    notified: Vec<Value>,
}

impl Client {
    fn start(place: &Place) -> Self {
        let mut command = place.command(["mcp", "--offline"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, to, from, id: 0, notified: Vec::new() };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let told = client.ask("initialize", &hello);
        assert_eq!(told["result"]["serverInfo"]["name"], "rondo", "{told}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let to = self.to.as_mut().unwrap();
        to.write_all(format!("{message}\n").as_bytes()).unwrap();
        to.flush().unwrap();
    }

    fn begin(&mut self, method: &str, params: &Value) {
        self.id += 1;
        let id = self.id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.begin(method, params);
        self.answer()
    }

    /// The answer to the last request.
    fn answer(&mut self) -> Value {
        self.notified.clear();
        loop {
            let message = self.message();
            if message["id"] == self.id {
                return message;
            }
            self.notified.push(message);
        }
    }

    fn message(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the server has ended");
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, name: &str, arguments: &Value, meta: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": name, "arguments": arguments, "_meta": meta}));
        answer["result"].clone()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Leaves, and waits for the server's end.
    fn leave(mut self) {
        drop(self.to.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_workflow_is_a_tool_with_its_input() {
    let place = place();
    place.file("workflows/broken/workflow.yaml", "rondo: 1\nname: broken\n");
    let mut client = Client::start(&place);
    let listed = client.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    let pair = tool("pair").unwrap();
    assert_eq!((&pair["description"], &pair["inputSchema"]["required"]), (&json!("Two speakers."), &json!(["topic"])));
    assert!(tool("debate").is_some() && tool("answer").is_some() && tool("broken").is_none());
    let done = client.call("pair", &json!({"topic": "tides"}), &json!({"progressToken": 7}));
    assert_eq!(done["isError"], false, "{done}");
    assert_eq!(done["structuredContent"]["result"], json!({"text": "four"}));
    let told: Vec<&str> = client.notified.iter().map(|one| one["params"]["message"].as_str().unwrap()).collect();
    assert_eq!(told, ["first: done", "second: again", "first: done", "second: done"]);
    let refused = client.call("pair", &json!({"topik": "tides"}), &json!({}));
    assert!(
        refused["isError"] == true && refused["content"][0]["text"].as_str().unwrap().contains("topik"),
        "{refused}"
    );
    client.leave();
}

#[test]
fn a_workflow_that_waits_is_answered_by_a_tool() {
    let place = place();
    let mut client = Client::start(&place);
    let asked = client.call("ask", &json!({}), &json!({}));
    let (content, text) = (&asked["structuredContent"], asked["content"][0]["text"].as_str().unwrap());
    assert!(content["status"] == "waiting" && text.starts_with("Is this good?"), "{asked}");
    let thread = content["thread"].clone();
    let wrong = client.call("answer", &json!({"thread": thread, "status": "accept"}), &json!({}));
    assert_eq!(wrong["isError"], true, "{wrong}");
    let unknown = json!({"thread": thread, "status": "accept", "fields": {"grade": 4}, "note": true});
    let refused = client.call("answer", &unknown, &json!({}));
    assert!(
        refused["isError"] == true && refused["content"][0]["text"].as_str().unwrap().contains("note"),
        "{refused}"
    );
    let answer = json!({"thread": thread, "status": "accept", "fields": {"grade": 4}});
    let done = client.call("answer", &answer, &json!({}));
    assert_eq!(done["structuredContent"]["result"], json!({"grade": 4}));
}

#[test]
fn a_call_that_is_repeated_after_a_kill_goes_on_with_its_thread() {
    let place = place();
    let mut client = Client::start(&place);
    let params = json!({"name": "pair", "arguments": {"topic": "tides"}, "_meta": {"progressToken": 1}});
    client.begin("tools/call", &params);
    // Its first step is committed.
    client.message();
    client.kill();
    let mut client = Client::start(&place);
    let done = client.call("pair", &json!({"topic": "tides"}), &json!({}));
    assert_eq!(done["structuredContent"]["result"], json!({"text": "four"}));
    let threads = || place.run(["threads", "--json"]).exits(0).json();
    assert_eq!(threads().len(), 1, "the call went on with its thread");
    // Its result was handed over, so that the next call is another one,
    client.call("pair", &json!({"topic": "tides"}), &json!({}));
    assert_eq!(threads().len(), 2);
    // unless a key says that it is not.
    let key = json!({"rondo/key": "one"});
    let refused = client.call("pair", &json!({"topik": "tides"}), &key);
    assert_eq!(refused["isError"], true, "it begins nothing, and leaves the key free: {refused}");
    let first = client.call("pair", &json!({"topic": "tides"}), &key);
    let again = client.call("pair", &json!({"topic": "tides"}), &key);
    assert_eq!(first["structuredContent"], again["structuredContent"]);
    assert_eq!(threads().len(), 3);
    // A key that is none is refused, and starts nothing.
    let params = json!({"name": "pair", "arguments": {"topic": "tides"}, "_meta": {"rondo/key": 5}});
    let refused = client.ask("tools/call", &params);
    assert!(refused["error"]["message"].as_str().unwrap().contains(KEY), "{refused}");
    assert_eq!(threads().len(), 3);
    let other = client.call("pair", &json!({"topic": "wind"}), &key);
    assert!(other["isError"] == true && other["content"][0]["text"].as_str().unwrap().contains(KEY), "{other}");
}

const KEY: &str = "`rondo/key`";

/// Why a thread did not succeed is the answer to its call, and the next equal call is another one.
#[test]
fn a_call_is_answered_also_by_the_failure_of_its_thread() {
    let place = place();
    place.file(
        "workflows/failing/workflow.yaml",
        "rondo: 1\nname: failing\nroles: { a: { system: You answer. } }\ngraph: { start: { to: a, prompt: go }, \
         a: { done: { to: fail, reason: no luck } } }\n",
    );
    place.file("workflows/failing/script.yaml", "a: [ { body: x } ]\n");
    slow(&place);
    let mut client = Client::start(&place);
    let threads = || place.run(["threads", "--json"]).exits(0).json();
    for count in 1..=2 {
        let failed = client.call("failing", &json!({}), &json!({}));
        let text = failed["content"][0]["text"].as_str().unwrap();
        assert!(failed["isError"] == true && text.contains("no luck"), "{failed}");
        assert_eq!(threads().len(), count);
    }
    // A person cancels the thread of a call.
    let params = json!({"name": "slow", "arguments": {}, "_meta": {"progressToken": 1}});
    client.begin("tools/call", &params);
    while client.message()["method"] != "notifications/progress" {}
    place.run(["cancel", "last"]).exits(0);
    let cancelled = client.answer();
    assert_eq!(cancelled["result"]["isError"], true, "{cancelled}");
    let again = client.call("slow", &json!({}), &json!({}));
    assert_eq!(again["structuredContent"]["status"], "done", "{again}");
    assert_eq!(threads().len(), 4);
    client.leave();
}

#[test]
fn a_call_that_waits_for_approval_gives_what_came_of_it_once_a_person_has_approved() {
    let place = place_of_clerk();
    let mut client = Client::start(&place);
    let asked = client.call("clerk", &json!({}), &json!({}));
    let text = asked["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("rondo answer") && text.contains("the same call"), "{asked}");
    // Nobody has decided yet.
    let again = client.call("clerk", &json!({}), &json!({}));
    assert_eq!(again["structuredContent"], asked["structuredContent"]);
    place.run(["answer", "last", "--approve"]).exits(0);
    let done = client.call("clerk", &json!({}), &json!({}));
    let content = &done["structuredContent"];
    assert_eq!((&content["status"], &content["result"]), (&json!("done"), &json!("filed")), "{done}");
    assert_eq!(content["thread"], asked["structuredContent"]["thread"]);
    // That was its result, so that the next call is another one.
    let next = client.call("clerk", &json!({}), &json!({}));
    assert_eq!(next["structuredContent"]["status"], "waiting", "{next}");
    assert_ne!(next["structuredContent"]["thread"], content["thread"]);
    client.leave();
}

/// A cancelled call stops its run, which pays for nothing more; the same call continues with its thread.
#[test]
fn a_cancelled_call_stops_its_run_and_the_same_call_goes_on() {
    let place = place();
    slow(&place);
    let mut client = Client::start(&place);
    let params = json!({"name": "slow", "arguments": {}, "_meta": {"progressToken": 1}});
    client.begin("tools/call", &params);
    // One step at least.
    while client.message()["method"] != "notifications/progress" {}
    let cancelled = json!({"requestId": client.id, "reason": "enough"});
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}));
    let threads = || place.run(["threads", "--json"]).exits(0).json();
    let end = std::time::Instant::now() + crate::binary::PATIENCE;
    while threads()[0]["status"] != "stopped" {
        assert!(std::time::Instant::now() < end, "{:?}", threads());
    }
    let steps = threads()[0]["totals"]["steps"].as_u64().unwrap();
    assert!(steps < 9, "it went on to its end");
    let again = client.call("slow", &json!({}), &json!({}));
    assert_eq!(again["isError"], false, "{again}");
    let threads = threads();
    assert_eq!((threads.len(), &threads[0]["status"], &threads[0]["totals"]["steps"]), (1, &json!("done"), &json!(10)));
    client.leave();
}

#[test]
fn one_key_is_one_thread_also_in_two_servers_at_once() {
    let place = place();
    let mut clients = [Client::start(&place), Client::start(&place)];
    for number in 0..5 {
        let meta = json!({"rondo/key": format!("key {number}")});
        let params = json!({"name": "pair", "arguments": {"topic": "tides"}, "_meta": meta});
        for client in &mut clients {
            client.begin("tools/call", &params);
        }
        let threads = clients.each_mut().map(|client| {
            let answer = client.message();
            assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(client.id), &json!(false)), "{answer}");
            answer["result"]["structuredContent"]["thread"].clone()
        });
        assert_eq!(threads[0], threads[1]);
    }
    assert_eq!(place.run(["threads", "--json"]).exits(0).json().len(), 5);
}

#[test]
fn a_call_that_ends_with_the_server_is_told_how_to_go_on() {
    let place = place();
    slow(&place);
    let mut client = Client::start(&place);
    let params = json!({"name": "slow", "arguments": {}, "_meta": {"progressToken": 1}});
    client.begin("tools/call", &params);
    while client.message()["method"] != "notifications/progress" {}
    kill_process(Pid::from_child(&client.child), Signal::TERM).unwrap();
    let stopped = client.answer();
    let text = stopped["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the server was stopped") && text.contains("the same call continues"), "{stopped}");
    drop(client.to.take());
    client.child.wait().unwrap();
    let mut client = Client::start(&place);
    let done = client.call("slow", &json!({}), &json!({}));
    assert_eq!(done["structuredContent"]["status"], "done", "{done}");
    assert_eq!(place.run(["threads", "--json"]).exits(0).json().len(), 1);
    client.leave();
}

/// A workflow of ten steps of 0.2 s each.
fn slow(place: &Place) {
    place.file(
        "workflows/slow/workflow.yaml",
        "rondo: 1\nname: slow\nroles: { a: { system: You answer. } }\ngraph: { start: { to: a, prompt: go }, \
         a: { done: { to: a, prompt: more, max: 9, on_max: { to: end } } } }\n",
    );
    let answers = "{ body: x, delay_ms: 200 }, ".repeat(10);
    place.file("workflows/slow/script.yaml", format!("a: [ {answers} ]\n"));
}

/// Of equal calls at once, in one server or two, one pays. When it is cancelled, another continues with its thread.
#[test]
fn equal_calls_share_a_thread_which_outlives_the_one_that_began_it() {
    let place = place();
    slow(&place);
    let params = json!({"name": "slow", "arguments": {}, "_meta": {"progressToken": 1}});
    let (mut client, mut other) = (Client::start(&place), Client::start(&place));
    client.begin("tools/call", &params);
    let first = client.id;
    while client.message()["method"] != "notifications/progress" {}
    client.begin("tools/call", &params);
    let second = client.id;
    other.begin("tools/call", &params);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}}));
    let done = |client: &mut Client, id: u64| loop {
        let message = client.message();
        if message["id"] == id {
            break message;
        }
    };
    let (here, there) = (done(&mut client, second), done(&mut other, 2));
    for answer in [here, there] {
        assert_eq!(answer["result"]["structuredContent"]["status"], "done", "{answer}");
    }
    let threads = place.run(["threads", "--json"]).exits(0).json();
    assert_eq!((threads.len(), &threads[0]["totals"]["model_calls"]), (1, &json!(10)), "{threads:?}");
    client.leave();
    other.leave();
}
