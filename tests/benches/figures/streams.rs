//! Event streams of `rondo serve`: what readers cost a run, and whether a reader that comes back a thousand times, also
//! over kills of the server, has each durable event once. The program itself runs, so it must have been built.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{median, peak_bytes, print, rondo};

const TOKEN: &str = "a-token-of-the-bench";
const READERS: usize = 1000;
const RECONNECTS: usize = 1000;
const STEPS: usize = 60;

/// A server that is killed when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with a workflow whose two roles take 50 ms an answer.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let workflow = format!(
        r#"
rondo: 1
name: turns
roles:
  a: {{ system: You are a., history: none, context: none }}
  b: {{ system: You are b., history: none, context: none }}
graph:
  start: {{ to: a, prompt: "Begin." }}
  a: {{ done: {{ to: b, prompt: "{{{{ body }}}}" }} }}
  b: {{ done: {{ to: a, prompt: "{{{{ body }}}}", max: {}, on_max: {{ to: end }} }} }}
"#,
        STEPS / 2 - 1
    );
    let answers = "  - { delay_ms: 50, status: done, body: on }\n".repeat(STEPS / 2);
    let at = folder.path().join("work/workflows/turns");
    std::fs::create_dir_all(&at).expect("a folder");
    std::fs::write(at.join("workflow.yaml"), workflow).expect("a file");
    std::fs::write(at.join("script.yaml"), format!("a:\n{answers}b:\n{answers}")).expect("a file");
    folder
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut command = rondo(folder);
        command.args(["serve", "--port", "0", "--connections", "5000", "--json"]).env("RONDO_TOKEN", TOKEN);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program: build the workspace first");
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line);
        let serving: Value = serde_json::from_str(&line).expect("a line of JSON");
        let address = serving
            .pointer("/address")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim_start_matches("http://")
            .to_owned();
        Self { child, address }
    }

    fn ask(&self, method: &str, path: &str, lines: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let head = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{lines}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("a request");
        stream
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Value {
        let lines = "Content-Type: application/json\r\nConnection: close\r\n";
        let mut answer = String::new();
        let _ = self.ask(method, path, lines, &body.to_string()).read_to_string(&mut answer);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }

    fn run(&self) -> String {
        let thread = self.json("POST", "/threads", &json!({"workflow": "turns", "offline": true}));
        thread.pointer("/thread").and_then(Value::as_str).expect("a thread").to_owned()
    }

    fn is(&self, thread: &str, status: &str) -> bool {
        let view = self.json("GET", &format!("/threads/{thread}"), &json!({}));
        view.pointer("/status").is_some_and(|found| found == status)
    }

    fn wait(&self, thread: &str) {
        while !self.is(thread, "done") {
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The middle time from the end of a step to the end of the next.
    fn step(&self, thread: &str) -> Duration {
        let steps = self.json("GET", &format!("/threads/{thread}/steps?limit=1000"), &json!({}));
        let ends: Vec<u64> = steps
            .pointer("/steps")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|step| step.pointer("/note/ended_at_ms")?.as_u64())
            .collect();
        let pairs = ends.iter().zip(ends.iter().skip(1));
        let times: Vec<Duration> = pairs.map(|(one, next)| Duration::from_millis(next - one)).collect();
        median(&times)
    }

    /// The most memory that it had, in MiB.
    fn memory(&self) -> u64 {
        peak_bytes(self.child.id()) >> 20
    }
}

pub fn readers() {
    let folder = folder();
    let server = Server::start(folder.path());
    let alone = server.run();
    server.wait(&alone);
    let heard = server.run();
    let path = format!("/threads/{heard}/events");
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let mut stream = server.ask("GET", &path, "", "");
            let read = move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            };
            thread::Builder::new().stack_size(64 << 10).spawn(read).expect("a thread")
        })
        .collect();
    server.wait(&heard);
    let (with, without) = (server.step(&heard), server.step(&alone));
    print(
        &format!("a step of 50 ms with {READERS} readers, median"),
        &format!("{} ms", with.as_millis()),
        &format!("{} ms without; {} MiB at most", without.as_millis(), server.memory()),
    );
    drop(server);
    for reader in readers {
        let _ = reader.join();
    }
}

pub fn reconnects() {
    let folder = folder();
    let mut server = Server::start(folder.path());
    let thread = server.run();
    let path = format!("/threads/{thread}/events");
    let (mut last, mut heard, mut kills) = (String::new(), BTreeMap::<String, u64>::new(), 0);
    for number in 0..RECONNECTS {
        let after =
            if last.is_empty() { String::new() } else { format!("Connection: close\r\nLast-Event-ID: {last}\r\n") };
        let stream = server.ask("GET", &path, &after, "");
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        // Each connection hears one durable event and breaks off.
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let mut ids = lines.filter_map(|line| line.strip_prefix("id: ").map(str::to_owned));
        if let Some(id) = ids.next() {
            *heard.entry(id.clone()).or_default() += 1;
            last = id;
        }
        if number % 5 == 4 && !server.is(&thread, "done") {
            kills += 1;
            drop(server);
            server = Server::start(folder.path());
            server.json("POST", &format!("/threads/{thread}/resume"), &json!({}));
        }
    }
    server.wait(&thread);
    let mut all = String::new();
    let _ = server.ask("GET", &path, "", "").read_to_string(&mut all);
    let all: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let missed = all.iter().filter(|id| !heard.contains_key(**id)).count();
    let doubled = heard.values().filter(|count| **count > 1).count();
    print(
        &format!("events lost / doubled in {RECONNECTS} reconnects, {kills} kills"),
        &format!("{missed} / {doubled}"),
        &format!("{} events", all.len()),
    );
}
