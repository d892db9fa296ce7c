//! Servers that are addresses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Trial;
use rondo_agent_kit::mcp::{Server, ServerSettings, Transport};
use rondo_agent_kit::redact::Secret;
use rondo_protocol::diagnostic::Code;
use serde_json::{Value, json};

use super::{call, error_of, tool, trial};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("http::a_tool_is_called_with_the_operators_key", a_tool_is_called_with_the_operators_key),
        trial("http::a_session_that_is_gone_is_opened_again", a_session_that_is_gone_is_opened_again),
        trial("http::a_call_that_broke_off_may_have_had_an_effect", a_call_that_broke_off_may_have_had_an_effect),
        trial("http::a_server_that_hangs_is_given_up", a_server_that_hangs_is_given_up),
        trial("http::an_answer_without_end_is_cut", an_answer_without_end_is_cut),
        trial("http::a_redirect_does_not_take_the_key_along", a_redirect_does_not_take_the_key_along),
        trial("http::a_refused_key_is_told_without_it", a_refused_key_is_told_without_it),
        trial("http::an_address_is_checked", an_address_is_checked),
    ]
}

const KEY: &str = "a-key-of-the-operator";

/// Answers requests as `respond` says, and keeps them.
struct Address {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

#[derive(Clone)]
struct Request {
    method: String,
    head: String,
    body: Value,
}

type Respond = fn(&Request, &mut TcpStream);

impl Address {
    fn serve(respond: Respond) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || answer_one(stream, &seen, respond));
            }
        });
        Self { port, requests }
    }

    fn settings(&self) -> ServerSettings {
        let bearer = Some(Secret { name: "ISSUES_KEY".to_owned(), value: KEY.to_owned() });
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        ServerSettings::new("issues", Transport::Http { url, bearer, headers: Vec::new() })
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer_one(mut stream: TcpStream, seen: &Mutex<Vec<Request>>, respond: Respond) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let method = head.split(' ').next().unwrap().to_owned();
    let request = Request { method, head, body: serde_json::from_slice(&body).unwrap_or_default() };
    seen.lock().unwrap().push(request.clone());
    respond(&request, &mut stream);
}

fn send(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
}

const JSON: &str = "Content-Type: application/json\r\n";

/// What a server that means well answers.
fn well(request: &Request, stream: &mut TcpStream) {
    let result = match (request.method.as_str(), request.body["method"].as_str()) {
        ("post", Some("initialize")) => json!({
            "protocolVersion": request.body["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "issues", "version": "1"}
        }),
        ("post", Some("tools/list")) => {
            json!({"tools": [{"name": "find", "description": "Finds.", "inputSchema": {"type": "object"}}]})
        }
        ("post", Some("tools/call")) => json!({"content": [{"type": "text", "text": "found"}]}),
        ("post", _) => return send(stream, "202 Accepted", "", ""),
        _ => return send(stream, "405 Method Not Allowed", "", ""),
    };
    let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result});
    send(stream, "200 OK", &format!("{JSON}Mcp-Session-Id: one\r\n"), &body.to_string());
}

fn is_call(request: &Request) -> bool {
    request.body["method"] == "tools/call"
}

async fn a_tool_is_called_with_the_operators_key() {
    let address = Address::serve(well);
    let server = Server::start(address.settings()).await.unwrap();
    assert_eq!(call(&tool(&server, "issues.find"), "{}").await.unwrap(), "found");
    let calls: Vec<Request> = address.requests().into_iter().filter(is_call).collect();
    assert_eq!(calls[0].body["params"]["_meta"]["rondo/idempotencyKey"], "thread/step/call");
    assert!(calls[0].head.contains(&format!("authorization: bearer {KEY}\r\n")), "{}", calls[0].head);
}

async fn a_session_that_is_gone_is_opened_again() {
    static GONE: Mutex<u32> = Mutex::new(0);
    let address = Address::serve(|request, stream| {
        let mut gone = GONE.lock().unwrap();
        if is_call(request) && *gone > 0 {
            *gone -= 1;
            return send(stream, "404 Not Found", "", "");
        }
        drop(gone);
        well(request, stream);
    });
    let server = Server::start(address.settings()).await.unwrap();
    let find = tool(&server, "issues.find");
    let handshakes = || address.requests().iter().filter(|request| request.body["method"] == "initialize").count();
    // Nothing was carried out, so that the call is made in the next session, once.
    *GONE.lock().unwrap() = 1;
    assert_eq!(call(&find, "{}").await.unwrap(), "found");
    assert_eq!(handshakes(), 2);
    *GONE.lock().unwrap() = 2;
    assert_eq!(error_of(call(&find, "{}").await).code, Code::McpEnded);
    assert_eq!(call(&find, "{}").await.unwrap(), "found");
    assert_eq!(handshakes(), 4);
}

async fn a_call_that_broke_off_may_have_had_an_effect() {
    for respond in [
        (|request, stream| if is_call(request) { drop(stream.flush()) } else { well(request, stream) }) as Respond,
        |request, stream| {
            if is_call(request) { send(stream, "500 Internal Server Error", "", "") } else { well(request, stream) }
        },
    ] {
        let address = Address::serve(respond);
        let server = Server::start(address.settings()).await.unwrap();
        let error = error_of(call(&tool(&server, "issues.find"), "{}").await);
        assert_eq!(error.code, Code::McpEnded);
        let words = "the MCP server issues did not answer, and whether the request had an effect is unknown: ";
        assert!(error.message.starts_with(words), "{error}");
    }
}

async fn a_server_that_hangs_is_given_up() {
    let address = Address::serve(|request, stream| {
        if is_call(request) {
            // Until the client hangs up.
            let _ = stream.read(&mut [0]);
        } else {
            well(request, stream);
        }
    });
    let settings = ServerSettings { call_timeout: Duration::from_millis(500), ..address.settings() };
    let server = Server::start(settings).await.unwrap();
    let error = error_of(call(&tool(&server, "issues.find"), "{}").await);
    assert_eq!(error.code, Code::McpSilent);
}

async fn an_answer_without_end_is_cut() {
    for respond in [
        (|request, stream| {
            if !is_call(request) {
                return well(request, stream);
            }
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{JSON}\r\n{{\"x\": \"");
            while stream.write_all(&[b'x'; 8 << 10]).is_ok() {}
        }) as Respond,
        |request, stream| {
            if !is_call(request) {
                return well(request, stream);
            }
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ");
            while stream.write_all(&[b'x'; 8 << 10]).is_ok() {}
        },
    ] {
        let address = Address::serve(respond);
        let settings = ServerSettings { call_timeout: Duration::from_secs(20), ..address.settings() };
        let server = Server::start(settings).await.unwrap();
        let error = error_of(call(&tool(&server, "issues.find"), "{}").await);
        assert_ne!(error.code, Code::McpSilent, "it is told before the time is up: {error}");
    }
}

async fn a_redirect_does_not_take_the_key_along() {
    static OTHER: Mutex<u16> = Mutex::new(0);
    let other = Address::serve(well);
    *OTHER.lock().unwrap() = other.port;
    let address = Address::serve(|_, stream| {
        let location = format!("Location: http://127.0.0.1:{}/mcp\r\n", OTHER.lock().unwrap());
        send(stream, "307 Temporary Redirect", &location, "");
    });
    let error = error_of(Server::start(address.settings()).await);
    assert_eq!(error.code, Code::McpStart, "{error}");
    assert!(other.requests().is_empty());
}

async fn a_refused_key_is_told_without_it() {
    let address = Address::serve(|request, stream| {
        let body = format!("{:?} is no key", request.head);
        send(stream, "401 Unauthorized", "WWW-Authenticate: Bearer\r\nContent-Type: text/plain\r\n", &body);
    });
    let error = error_of(Server::start(address.settings()).await);
    assert_eq!(error.code, Code::McpStart);
    assert!(!error.message.contains(KEY), "{}", error.message);
}

async fn an_address_is_checked() {
    for url in ["", "docs", "ftp://example.com/", "https://user:password@example.com/mcp", "file:///mcp"] {
        let settings =
            ServerSettings::new("issues", Transport::Http { url: url.to_owned(), bearer: None, headers: Vec::new() });
        let error = error_of(Server::start(settings).await);
        assert_eq!(error.code, Code::McpSettings, "{url}");
        assert!(!error.message.contains("password@"), "{}", error.message);
    }
}
