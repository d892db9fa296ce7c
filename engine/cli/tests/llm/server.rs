//! The model servers, and the first asked without rondo.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::share::Tokens;

/// The address of the server that answers, which ends in `/v1`.
pub fn url() -> String {
    named("RONDO_TEST_LLM_URL")
}

/// The address of the server that answers as the roles of `review-loop`, which ends in `/v1`.
pub fn review_url() -> String {
    named("RONDO_TEST_LLM_REVIEW_URL")
}

/// The address of the server that calls tools, which ends in `/v1`.
pub fn calls_url() -> String {
    named("RONDO_TEST_LLM_CALLS_URL")
}

fn named(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names a server; see `make test-llm`"))
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
