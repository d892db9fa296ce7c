//! What others try against the server of the victim: keys that are old, guessed or left behind, and places that they hold.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::attempt::Attempt;
use crate::binary::Running;
use crate::scene::Scene;
use crate::verbs;

pub const TOKEN: &str = "a-token-of-the-attempts";

/// A server of the victim.
pub struct Server {
    process: Running,
    pub address: String,
    page: String,
    token_file: Option<String>,
}

impl Server {
    /// One whose token is known.
    pub fn start(scene: &Scene<'_>) -> Self {
        Self::start_with(scene, &[], Some(TOKEN))
    }

    fn start_with(scene: &Scene<'_>, words: &[&str], token: Option<&str>) -> Self {
        let serve = ["serve", "--trust", "--json", "--port", "0"];
        let mut command = scene.command_in(&scene.work(), &[&serve, words].concat());
        if let Some(token) = token {
            command.env("RONDO_TOKEN", token);
        }
        let mut process = Running::of(command);
        let serving = process.event("serving");
        let text = |name: &str| serving[name].as_str().map(str::to_owned);
        let address = text("address").unwrap().trim_start_matches("http://").to_owned();
        Self { process, address, page: text("page").unwrap(), token_file: text("token_file") }
    }

    /// Sends a request with these lines in its head.
    pub fn send(&self, method: &str, path: &str, lines: &str, body: &Value) -> (u16, Value) {
        let (mut stream, body) = (TcpStream::connect(&self.address).unwrap(), body.to_string());
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{lines}User-Agent: chatty/1\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { return (0, Value::Null) };
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }

    /// Asks with the token.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send(method, path, &format!("Authorization: Bearer {TOKEN}\r\n"), body)
    }

    /// Whether the threads are read with a key in the header.
    fn reads_with(&self, key: &str) -> bool {
        self.send("GET", "/api/v1/threads", &format!("Authorization: Bearer {key}\r\n"), &Value::Null).0 == 200
    }

    /// Begins a session with the code of the printed address, or whatever else stands behind `#NAME=`.
    fn begins_with(&self, code: &str) -> Option<String> {
        let (status, begun) = self.send("POST", "/api/v1/session", "", &json!({ "code": code }));
        (status == 200).then(|| begun["session"].as_str().unwrap().to_owned())
    }

    fn code(&self) -> &str {
        self.page.split_once("#code=").unwrap().1
    }

    pub fn stop(self) {
        let Self { process, .. } = self;
        process.kill();
    }
}

fn threads(scene: &Scene<'_>) {
    verbs::plain(scene);
    scene.run(&["run", "plain", "--offline"]).exits(0);
}

/// A key that must open nothing. The double has one that does.
fn key(is_named: bool, name: &'static str, key: fn(&Scene<'_>, &Server) -> String) -> Attempt {
    let attempt = Attempt::of(name, is_named);
    attempt
        .set_up(threads)
        .tried(move |scene| {
            let server = Server::start(scene);
            let key = key(scene, &server);
            assert!(!server.reads_with(&key), "{key} opens the store");
            server.stop();
        })
        .double(|scene| {
            let server = Server::start(scene);
            let opened = server.reads_with(TOKEN)
                && server.begins_with(server.code()).is_some_and(|key| server.reads_with(&key));
            server.stop();
            opened
        })
}

/// Holds so many places, silent, while the victim reads.
fn crowd(is_named: bool, name: &'static str, begun: &'static str) -> Attempt {
    let attempt = Attempt::of(name, is_named);
    let start = |scene: &Scene<'_>| Server::start_with(scene, &["--connections", "8"], Some(TOKEN));
    attempt
        .set_up(threads)
        .tried(move |scene| {
            let server = start(scene);
            let connected = || {
                let mut stream = TcpStream::connect(&server.address).unwrap();
                let _ = stream.write_all(begun.replace("HOST", &server.address).as_bytes());
                stream
            };
            let held: Vec<TcpStream> = (0..40).map(|_| connected()).collect();
            std::thread::sleep(Duration::from_millis(200));
            assert!(server.reads_with(TOKEN), "the victim is kept out");
            drop(held);
            server.stop();
        })
        // Whoever has the token can hold every place.
        .double(move |scene| {
            let server = start(scene);
            let (host, mut answer) = (&server.address, [0; 12]);
            let events =
                format!("GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
            let connected = |_| {
                let mut stream = TcpStream::connect(host).unwrap();
                stream.write_all(events.as_bytes()).unwrap();
                stream.read_exact(&mut answer).unwrap();
                stream
            };
            let held: Vec<TcpStream> = (0..8).map(connected).collect();
            let is_kept_out = !server.reads_with(TOKEN);
            drop(held);
            server.stop();
            is_kept_out
        })
}

pub fn attempts() -> Vec<Attempt> {
    vec![
        key(true, "the code of the printed address a second time", |_, server| {
            let begun = server.begins_with(server.code()).unwrap();
            assert!(server.reads_with(&begun));
            server.begins_with(server.code()).unwrap_or_default()
        }),
        key(false, "the code of the printed address as a key", |_, server| server.code().to_owned()),
        key(true, "a session that has ended", |_, server| {
            let begun = server.begins_with(server.code()).unwrap();
            let header = format!("Authorization: Bearer {begun}\r\n");
            assert_eq!(server.send("DELETE", "/api/v1/session", &header, &Value::Null).0, 204);
            begun
        }),
        key(true, "a session of the server before this one", |scene, _| {
            let before = Server::start(scene);
            let begun = before.begins_with(before.code()).unwrap();
            assert!(before.reads_with(&begun));
            before.stop();
            begun
        }),
        key(true, "the token of the server before this one", |scene, _| {
            let before = Server::start_with(scene, &[], None);
            let token = fs::read_to_string(before.token_file.as_deref().unwrap()).unwrap();
            assert!(before.reads_with(token.trim()));
            before.stop();
            token.trim().to_owned()
        }),
        key(false, "a code of the server before this one", |scene, server| {
            let before = Server::start(scene);
            let code = before.code().to_owned();
            before.stop();
            server.begins_with(&code).unwrap_or_default()
        }),
        Attempt::named("a cookie, which a browser sends to every port")
            .set_up(threads)
            .tried(|scene| {
                let server = Server::start(scene);
                let begun = server.begins_with(server.code()).unwrap();
                for key in [TOKEN, &begun] {
                    let cookie = format!("Cookie: rondo_session={key}; rondo-session={key}; session={key}\r\n");
                    assert_eq!(server.send("GET", "/api/v1/threads", &cookie, &Value::Null).0, 401);
                }
                server.stop();
            })
            .double(|scene| {
                let server = Server::start(scene);
                let opened = server.reads_with(&server.begins_with(server.code()).unwrap());
                server.stop();
                opened
            }),
        Attempt::named("the token in what is printed")
            .set_up(threads)
            .tried(|scene| {
                let server = Server::start(scene);
                assert!(!server.page.contains(TOKEN));
                server.stop();
            })
            .double(|scene| {
                let server = Server::start_with(scene, &[], None);
                let token = fs::read_to_string(server.token_file.as_deref().unwrap()).unwrap();
                let opened = server.reads_with(token.trim());
                server.stop();
                opened
            }),
        crowd(true, "connections that say nothing hold every place", ""),
        crowd(false, "connections that begin a head hold every place", "GET / HTTP/1.1\r\nHost: HO"),
        crowd(false, "connections that read no answer hold every place", "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        crowd(
            false,
            "connections with a wrong key hold every place",
            "GET /api/v1/events HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer wrong\r\n\r\n",
        ),
        crowd(
            false,
            "connections with a body that does not come hold every place",
            "POST /api/v1/session HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{",
        ),
    ]
}
