//! A server that a test starts, and a client of HTTP/1.1 that sends exactly the bytes that a test writes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::{PATIENCE, Place, Running};

/// A token, so that no file needs to be read.
pub const TOKEN: &str = "a-token-of-the-tests";

/// A running `rondo serve`.
pub struct Server {
    pub process: Running,
    pub address: SocketAddr,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, String::from_utf8_lossy(&self.body));
        self
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl Server {
    /// Starts a server on a free port.
    pub fn start(place: &Place, words: &[&str]) -> Self {
        Self::start_with(place, words, &[])
    }

    /// Starts a server whose environment has these variables.
    pub fn start_with(place: &Place, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = place.command([&["serve", "--port", "0", "--json"], words].concat());
        command.env("RONDO_TOKEN", TOKEN).envs(variables.iter().copied());
        let mut process = Running::of(command);
        let serving = process.event("serving");
        let address = serving["address"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
        Self { process, address }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes and reads one response.
    pub fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes);
        answer(&mut BufReader::new(stream))
    }

    /// A request with these lines in its head, besides `Host` and the token.
    pub fn request(&self, method: &str, path: &str, lines: &[&str], body: &str) -> Answer {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n", self.address);
        for line in lines {
            head.extend([line, "\r\n"]);
        }
        let head = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        self.send(head.as_bytes())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", &format!("/api/v1{path}"), &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", &format!("/api/v1{path}"), &["Content-Type: application/json"], &body.to_string())
    }

    /// Starts a thread and gives its id.
    #[track_caller]
    pub fn run(&self, body: &Value) -> String {
        self.post("/threads", body).is(202).json()["thread"].as_str().unwrap().to_owned()
    }

    /// Waits until a thread has this status.
    #[track_caller]
    pub fn wait(&self, thread: &str, status: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let view = self.get(&format!("/threads/{thread}")).is(200).json();
            if view["status"] == status {
                return view;
            }
            assert!(Instant::now() < end, "{thread} is not {status}: {view}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Opens an event stream.
    pub fn events(&self, path: &str, after: Option<&str>) -> Events {
        let after = after.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        self.stream(&format!("GET /api/v1{path}"), &after, "")
    }

    /// Asks as chat clients do for an answer as it comes.
    #[track_caller]
    pub fn chat(&self, path: &str, body: &Value) -> Events {
        let body = body.to_string();
        let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let events = self.stream(&format!("POST /v1{path}"), &lines, &body);
        assert_eq!(events.status, 200);
        events
    }

    fn stream(&self, what: &str, lines: &str, body: &str) -> Events {
        let mut stream = self.connect();
        let (address, token) = (self.address, TOKEN);
        let head = format!("{what} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{lines}\r\n{body}");
        stream.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, _) = read_head(&mut reader);
        Events { status, reader, text: String::new() }
    }
}

/// An event of a stream: its id and its data.
pub type Sent = (Option<String>, Value);

/// An event stream.
pub struct Events {
    pub status: u16,
    reader: BufReader<TcpStream>,
    text: String,
}

impl Events {
    /// The lines of the next event; `None` at the end of the stream.
    fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                // Else it is a comment.
                if block.contains("data: ") {
                    return Some(block);
                }
                continue;
            }
            self.text += &String::from_utf8(chunk(&mut self.reader)?).unwrap();
        }
    }

    /// The next event; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Sent> {
        let block = self.block()?;
        let data: Value = serde_json::from_str(field(&block, "data: ").unwrap()).unwrap();
        assert_eq!(field(&block, "event: "), data["event"].as_str());
        Some((field(&block, "id: ").map(str::to_owned), data))
    }

    /// The next event of an answer to a chat client; `None` at its end.
    pub fn answer(&mut self) -> Option<Value> {
        let block = self.block()?;
        let data = field(&block, "data: ").filter(|data| *data != "[DONE]")?;
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(field(&block, "event: "), data["type"].as_str());
        Some(data)
    }

    /// All events up to one with this name, with it.
    #[track_caller]
    pub fn until(&mut self, name: &str) -> Vec<Sent> {
        let mut events = Vec::new();
        while let Some(event) = self.next() {
            let is_last = event.1["event"] == name;
            events.push(event);
            if is_last {
                return events;
            }
        }
        panic!("no event {name:?} came: {events:?}");
    }
}

fn field<'a>(block: &'a str, name: &str) -> Option<&'a str> {
    block.lines().find_map(|line| line.strip_prefix(name))
}

fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, String) {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).unwrap_or(0);
        if read == 0 || line == "\r\n" {
            break;
        }
        head += &line.to_lowercase();
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head)
}

/// The next chunk of a body that comes in chunks; `None` at its end.
fn chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim(), 16).ok().filter(|length| *length > 0)?;
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

fn answer(reader: &mut BufReader<TcpStream>) -> Answer {
    let (status, head) = read_head(reader);
    let mut body = Vec::new();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if let Some(length) = length {
        body.resize(length.trim().parse().unwrap(), 0);
        reader.read_exact(&mut body).unwrap();
    } else if head.contains("transfer-encoding: chunked") {
        while let Some(bytes) = chunk(reader) {
            body.extend(bytes);
        }
    }
    Answer { status, head, body }
}
