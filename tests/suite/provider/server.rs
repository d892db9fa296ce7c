//! A model server on loopback that answers byte for byte what a test says, and keeps what it was asked.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::Client;

pub const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
pub const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";

/// What the server does once it has read a request. Then it closes the connection.
pub enum Act {
    /// It sends these pieces, each in a segment of its own.
    Send(Vec<String>),
    /// It sends this and then nothing more, for as long as the other side waits.
    Hang(String),
    /// It sends this, then the piece again and again with pauses.
    Drip(String, &'static str, Duration),
    /// It sends this, then the piece again and again, for as long as somebody reads.
    Flood(String, String),
}

impl Act {
    /// Those bytes at once.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Send(vec![text.into()])
    }

    /// A complete streamed answer in three chunks, with its usage after the finish reason.
    pub fn answer(text: &str, usage: [u64; 3]) -> Self {
        let third = text.char_indices().nth(text.chars().count() / 3).map_or(0, |(at, _)| at);
        let (first, rest) = text.split_at(third);
        let half = rest.char_indices().nth(rest.chars().count() / 2).map_or(0, |(at, _)| at);
        let (second, last) = rest.split_at(half);
        let [prompt, cached, output] = usage;
        Self::Send(vec![
            EVENTS.to_owned(),
            delta("content", first),
            delta("content", second),
            delta("content", last),
            finish("stop"),
            format!(
                "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{output},\
                 \"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}}}\n\n"
            ),
            "data: [DONE]\n\n".to_owned(),
        ])
    }

    /// A refusal with this status, headers (each with its line end) and body.
    pub fn refusal(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::text(format!(
            "HTTP/1.1 {status} No\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
        ))
    }
}

/// A chunk that adds to one member of the message.
pub fn delta(member: &str, text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"{member}\":{text}}},\"finish_reason\":null}}]}}\n\n")
}

/// The chunk with the finish reason.
pub fn finish(reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n")
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// The request line and the headers, in lower case.
    pub head: String,
    pub body: String,
}

/// A listening server.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    ended: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves what `act` says for the n-th request, from 0.
    pub fn new(act: impl Fn(usize) -> Act + Send + Sync + 'static) -> Self {
        Self::reading(move |number, _| act(number))
    }

    /// Serves what `act` says for the n-th request, from 0, which it reads.
    pub fn reading(act: impl Fn(usize, &Request) -> Act + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", act)
    }

    /// The same at this address.
    pub fn at(address: &str, act: impl Fn(usize, &Request) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let (seen, stop, act) = (Arc::clone(&requests), Arc::clone(&ended), Arc::new(act));
        let listening = std::thread::spawn(move || {
            let mut serving = Vec::new();
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (seen, act) = (Arc::clone(&seen), Arc::clone(&act));
                let mut stream = stream.unwrap();
                serving.push(std::thread::spawn(move || {
                    // The other side may go away at any moment; that is what some tests are about.
                    let Ok(request) = read_request(&mut stream) else { return };
                    let number = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(request.clone());
                        seen.len() - 1
                    };
                    let _ = serve(&mut stream, act(number, &request));
                }));
            }
            for serving in serving {
                serving.join().unwrap();
            }
        });
        Self { address, requests, ended, listening: Some(listening) }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// A folder in which this server is asked.
    pub fn client(&self, workflow: &str) -> Client {
        Client::new(workflow, &self.base_url(), "fake-1")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that listens.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let joined = listening.join();
            assert!(joined.is_ok() || std::thread::panicking(), "the server failed");
        }
    }
}

fn read_request(stream: &mut TcpStream) -> std::io::Result<Request> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if bytes.len() >= end + 4 + length.unwrap_or(0) {
            let body = String::from_utf8(bytes.split_off(end + 4)).unwrap();
            return Ok(Request { head, body });
        }
    }
}

fn serve(stream: &mut TcpStream, act: Act) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    match act {
        Act::Send(pieces) => pieces.iter().try_for_each(|piece| stream.write_all(piece.as_bytes())),
        Act::Hang(text) => {
            stream.write_all(text.as_bytes())?;
            is_closed(stream, None).map(|_| ())
        }
        Act::Drip(text, piece, pause) => {
            stream.write_all(text.as_bytes())?;
            while !is_closed(stream, Some(pause))? {
                stream.write_all(piece.as_bytes())?;
            }
            Ok(())
        }
        Act::Flood(text, piece) => {
            stream.write_all(text.as_bytes())?;
            loop {
                stream.write_all(piece.as_bytes())?;
            }
        }
    }
}

/// Waits until the other side has closed, at most that long.
fn is_closed(stream: &mut TcpStream, at_most: Option<Duration>) -> std::io::Result<bool> {
    stream.set_read_timeout(at_most)?;
    match stream.read(&mut [0]) {
        Ok(read) => Ok(read == 0),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
        Err(error) => Err(error),
    }
}
