//! The model server, asked without rondo.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::share::Tokens;

/// Its address, which ends in `/v1`.
pub fn url() -> String {
    std::env::var("RONDO_TEST_LLM_URL").expect("RONDO_TEST_LLM_URL names a server; see `make test-llm`")
}

/// Sends one request and gives what the server counted.
pub fn ask(body: &str) -> Tokens {
    let url = url();
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a plain address");
    let mut stream = TcpStream::connect(host).expect("the server listens");
    write!(
        stream,
        "POST /{path}/chat/completions HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("the request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer can be read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    assert!(head.contains(" 200 "), "{answer}");
    let body: Value = serde_json::from_str(body).expect("a completion is JSON");
    let count = |pointer: &str| body.pointer(pointer).and_then(Value::as_u64).expect("the server counts");
    Tokens { prompt: count("/usage/prompt_tokens"), cached: count("/usage/prompt_tokens_details/cached_tokens") }
}
