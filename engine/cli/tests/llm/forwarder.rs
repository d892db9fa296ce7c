//! A loopback server between rondo and two model servers. It sends each request on as it came, and the answer back as it
//! comes: to the server that calls tools if a prompt is last, to the one that answers if the result of a tool is.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::server;

/// The end of the head of a request.
const BLANK_LINE: &[u8] = b"\r\n\r\n";

/// It ends when it is dropped.
pub struct Forwarder {
    address: SocketAddr,
    is_done: Arc<AtomicBool>,
    last: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Begins to listen.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let is_done = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_done);
        let last = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&last);
        let thread = thread::spawn(move || {
            for client in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                // A client that goes away sees the fault itself.
                let _ = client.and_then(|client| forward(client, &kept));
            }
        });
        Self { address, is_done, last, thread: Some(thread) }
    }

    /// The address that rondo asks.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The body of the last request.
    pub fn last(&self) -> Value {
        let body = self.last.lock().expect("nobody panics with it");
        serde_json::from_slice(&body).expect("a request is JSON")
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::SeqCst);
        // It waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One request a connection, so that the answer ends where the connection does.
fn forward(mut client: TcpStream, kept: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut request = Vec::new();
    let body = loop {
        let mut piece = [0; 4096];
        let length = client.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        request.extend(&piece[..length]);
        if let Some(body) = body_of(&request) {
            break body;
        }
    };
    let url = if asks_after_a_tool(&body) { server::url() } else { server::calls_url() };
    let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/v1")).expect("a plain address");
    let path = String::from_utf8_lossy(&request).split(' ').nth(1).unwrap_or_default().to_owned();
    let mut server = TcpStream::connect(host)?;
    write!(
        server,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    )?;
    server.write_all(&body)?;
    *kept.lock().expect("nobody panics with it") = body;
    io::copy(&mut server, &mut client).map(|_| ())
}

/// The body of a request that has arrived as a whole.
fn body_of(request: &[u8]) -> Option<Vec<u8>> {
    let at = request.windows(BLANK_LINE.len()).position(|window| window == BLANK_LINE)?;
    let head = String::from_utf8_lossy(&request[..at]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
    request[at + BLANK_LINE.len()..].get(..length).map(<[u8]>::to_vec)
}

/// Whether the last message is the result of a tool, in any of the protocols.
fn asks_after_a_tool(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).expect("a request is JSON");
    let messages = body.get("messages").or_else(|| body.get("input")).and_then(Value::as_array);
    let last = messages.and_then(|messages| messages.last()).expect("a request has messages");
    let is_result = last["content"].as_array().is_some_and(|blocks| blocks[0]["type"] == "tool_result");
    last["role"] == "tool" || last["type"] == "function_call_output" || is_result
}
