//! What the server refuses: strangers, other sites, and requests that are too much.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Answer, Server, TOKEN};
use super::place;
use crate::binary::Running;

#[test]
fn nothing_is_read_or_written_without_the_token() {
    let place = place();
    let server = Server::start(&place, &[]);
    let host = server.address;
    let with = |line: &str, path: &str, method: &str| {
        server.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{line}Content-Length: 0\r\n\r\n").as_bytes())
    };
    for path in ["/threads", "/threads/x", "/workflows", "/events", "/threads/x/events", "/openapi.json", "/nothing"] {
        for line in
            ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic YTpi\r\n", "Cookie: rondo_session=x\r\n"]
        {
            let refused = with(line, &format!("/api/v1{path}"), "GET").is(401);
            assert_eq!(refused.json()["code"], "RN2003");
        }
    }
    with("", &format!("/api/v1/threads?token={TOKEN}"), "GET").is(401);
    with("", "/api/v1/threads", "POST").is(401);
    with("", "/api/v1/healthz", "GET").is(200);

    for line in ["Cookie: rondo_session=x\r\n".to_owned(), format!("Cookie: rondo_session={TOKEN}\r\n")] {
        with(&line, "/api/v1/threads", "GET").is(401);
    }
}

/// Begins a session.
fn begin(server: &Server, by: &serde_json::Value) -> Answer {
    let host = server.address;
    let body = by.to_string();
    let head = format!("POST /api/v1/session HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
    server.send(format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

#[test]
fn a_session_begins_with_a_code_once_or_with_the_token_and_can_be_ended() {
    let place = place();
    let mut command = place.command(["serve", "--port", "0", "--json"]);
    command.env("RONDO_TOKEN", TOKEN);
    let mut process = Running::of(command);
    let serving = process.event("serving");
    let page = serving["page"].as_str().unwrap().to_owned();
    let address = serving["address"].as_str().unwrap().trim_start_matches("http://").parse().unwrap();
    let server = Server { process, address };
    let code = page.split_once("/#code=").unwrap().1;
    assert!(!page.contains(TOKEN) && code.len() == 64, "{page}");
    let with = |method: &str, path: &str, key: &str| {
        let head = format!("{method} /api/v1{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n");
        server.send(format!("{head}Connection: close\r\nContent-Length: 0\r\n\r\n").as_bytes())
    };
    for wrong in [json!({"code": "x"}), json!({"token": "x"}), json!({"code": TOKEN}), json!({"token": code})] {
        assert_eq!(begin(&server, &wrong).is(401).json()["code"], "RN2003");
    }
    for wrong in [json!({}), json!({"code": code, "token": TOKEN}), json!({"other": code})] {
        let told = begin(&server, &wrong).is(400).json()["detail"].as_str().unwrap().to_owned();
        assert!(told.contains("`code`") && told.contains("`token`"), "{told}");
    }
    let key_of = |answer: Answer| answer.is(200).json()["session"].as_str().unwrap().to_owned();
    let begun = begin(&server, &json!({"code": code}));
    assert_eq!(begun.header("set-cookie"), None);
    let first = key_of(begun);
    begin(&server, &json!({"code": code})).is(401);
    let second = key_of(begin(&server, &json!({"token": TOKEN})));
    assert!(first != second && first.len() == 64);
    with("GET", "/threads", code).is(401);
    with("GET", "/threads", &first).is(200);
    // A stream that a session reads ends with it.
    let mut stream = server.connect();
    let head = format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {first}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    with("DELETE", "/session", "x").is(401);
    with("DELETE", "/session", &first).is(204);
    with("GET", "/threads", &first).is(401);
    stream.read_to_end(&mut Vec::new()).unwrap();
    with("GET", "/threads", &second).is(200);
    with("DELETE", "/session", TOKEN).is(204);
    with("GET", "/threads", &second).is(401);
    with("GET", "/threads", TOKEN).is(200);
}

#[test]
fn a_token_is_new_at_each_start_and_only_its_users() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    let serve = || {
        let mut server = Running::of(place.command(["serve", "--port", "0", "--json"]));
        let file = server.event("serving")["token_file"].as_str().unwrap().to_owned();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let token = std::fs::read_to_string(&file).unwrap();
        assert_eq!(token.trim().len(), 64);
        (server, file, token)
    };
    // Two at once have a file each.
    let (first, file, token) = serve();
    let (second, other_file, other) = serve();
    assert!(token != other && file != other_file);
    // What they send carries none of the two.
    let input = format!("topic={}", token.trim());
    let run = place.run(["run", "pair", "--offline", "--json", "-i", &input]);
    assert!(!format!("{}{}", run.text(), run.stderr).contains(token.trim()), "{run:?}");
    for server in [first, second] {
        server.signal(rustix::process::Signal::TERM);
        server.finish().exits(0);
    }
    assert!(!std::path::Path::new(&file).exists(), "it goes with the server");
    let (server, ..) = serve();
    drop(server);
}

#[test]
fn other_hosts_and_other_sites_are_refused() {
    let place = place();
    let server = Server::start(&place, &["--host-name", "desk.example"]);
    let with = |host: &str, lines: &str, method: &str| {
        let head =
            format!("{method} /api/v1/threads HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n{lines}");
        server.send(format!("{head}Content-Length: 0\r\n\r\n").as_bytes())
    };
    for host in ["localhost", "127.0.0.1:1", "[::1]:7777", "a.localhost", "desk.example:80"] {
        with(host, "", "GET").is(200);
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7777", "desk.example.evil", ""] {
        with(host, "", "GET").is(421);
    }
    for lines in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://127.0.0.1:1\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\nOrigin: http://localhost\r\n",
    ] {
        let refused = with("localhost", lines, "POST").is(403);
        assert_eq!(refused.json()["code"], "RN2004", "{lines}");
        // A read needs the token, which other sites do not have.
        with("localhost", lines, "GET").is(200);
    }
    with("localhost", "Origin: http://localhost\r\n", "POST").is(400);
    let allowed = with("localhost", "Origin: http://evil.example\r\n", "OPTIONS");
    assert!(!allowed.head.contains("access-control-allow"), "{allowed:?}");
}

#[test]
fn bodies_heads_and_paths_that_are_too_much_get_problems() {
    let place = place();
    let server = Server::start(&place, &[]);
    let json = "Content-Type: application/json";
    let post = |lines: &[&str], body: &str| server.request("POST", "/api/v1/threads", lines, body);
    for body in ["", "[]", "{", "{\"workflow\": 3}", "{\"workflow\": \"pair\", \"surprise\": 1}", "\u{0}"] {
        assert_eq!(post(&[json], body).is(400).json()["code"], "RN2005", "{body}");
    }
    // What a form of another site's page can send.
    for media in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        post(&[&format!("Content-Type: {media}")], "{\"workflow\": \"pair\"}").is(415);
    }
    let host = server.address;
    let head = format!("POST /api/v1/threads HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n{json}\r\n");
    server.send(format!("{head}Content-Length: 10000000000\r\n\r\n{{").as_bytes()).is(413);
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(0x10_0000));
    let long = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}", chunk.repeat(33));
    server.send(long.as_bytes()).is(413);
    let many = format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(matches!(server.send(many.as_bytes()).status, 400 | 431));
    for path in [
        "/api/v1/threads/..%2f..%2fetc%2fpasswd",
        "/api/v1/threads/../../workflows",
        "/api/v1/threads/%00",
        "/api/v1/threads/none/steps/1",
        "/api/v1/threads/none/events",
        "/api/v1/workflows/..%2fpair",
        "/api/v1/workflows/none/graph",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/errors/RN9999",
        "/api/v1/nothing",
    ] {
        let refused = server.request("GET", path, &[], "").is(404);
        assert_eq!(refused.header("content-type"), Some("application/problem+json"), "{path}");
    }
    server.request("PUT", "/api/v1/threads", &[], "").is(405);
    let page = server.request("GET", "/errors/RN2005", &[], "").is(200);
    assert!(page.body.starts_with(b"# RN2005: "));
    for header in ["content-security-policy: default-src 'self'", "x-content-type-options: nosniff"] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    server.get("/healthz").is(200);
}

#[test]
fn what_needs_no_token_takes_little_and_all_bodies_have_one_ceiling() {
    let place = place();
    let server = Server::start(&place, &[]);
    let json = ["Content-Type: application/json"];
    let long = json!({ "token": "x".repeat(2_000) }).to_string();
    assert!(
        server.request("POST", "/api/v1/session", &json, &long).is(413).json()["detail"]
            .as_str()
            .unwrap()
            .contains("1 KiB")
    );

    let length = 32 << 20;
    let head = format!(
        "POST /api/v1/threads HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n{}\r\nContent-Length: {length}\r\n\r\n",
        server.address, json[0]
    );
    // Two bodies that never end.
    let unfinished: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(format!("{head}{}", " ".repeat(length - 100_000)).as_bytes()).unwrap();
            stream
        })
        .collect();
    let whole = format!("{head}{}", " ".repeat(length));
    let until = |status: u16| {
        let end = Instant::now() + crate::binary::PATIENCE;
        loop {
            let answer = server.send(whole.as_bytes());
            if answer.status == status {
                return answer;
            }
            assert!(Instant::now() < end, "{answer:?}");
        }
    };
    let full = until(503);
    assert_eq!((full.header("retry-after"), &full.json()["code"]), (Some("1"), &json!("RN2006")));
    server.request("POST", "/api/v1/threads", &json, "{}").is(400);
    drop(unfinished);
    until(400);
}

#[test]
fn a_browser_is_led_to_the_page_by_a_file_and_gets_no_key() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    let seen = place.path().join("seen");
    let about = "printf '%s\\n' \"$@\"; stat -c %a \"$1\" \"$(dirname \"$1\")\"; cat \"$1\"; env";
    let opener = place.file(
        "bin/xdg-open",
        format!("#!/bin/sh\n{{ {about}; }} > '{0}.part' && mv '{0}.part' '{0}'\n", seen.display()),
    );
    std::fs::set_permissions(place.path().join(&opener), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command(["serve", "--port", "0", "--json", "--open"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", place.path().join("bin").display()));
    command.env("RONDO_TOKEN", TOKEN).env("OPENAI_API_KEY", "sk-none-0815-4711").env("DISPLAY", ":7");
    let mut server = Running::of(command);
    server.event("serving");
    let end = Instant::now() + crate::binary::PATIENCE;
    while !seen.exists() {
        assert!(Instant::now() < end, "nothing was opened");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = std::fs::read_to_string(&seen).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].ends_with("/open.html") && lines[1..3] == ["600", "700"], "{told}");
    assert!(lines[3].contains("location.replace(\"http://127.0.0.1:") && lines[3].contains("/#code="), "{told}");
    assert!(!told.contains(TOKEN), "{told}");
    let variables = lines[4..].join("\n");
    assert!(variables.contains("DISPLAY=:7"), "{told}");
    assert!(!variables.contains(TOKEN) && !variables.contains("sk-none"), "{told}");
    server.signal(rustix::process::Signal::TERM);
    server.finish().exits(0);
    assert!(!std::path::Path::new(lines[0]).exists(), "the file is gone");
}

/// Opens the stream of all events on a connection of its own, with the token.
fn listening(server: &Server) -> std::net::TcpStream {
    let mut stream = server.connect();
    let head =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n", server.address);
    stream.write_all(head.as_bytes()).unwrap();
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    stream
}

#[test]
fn clients_without_a_key_give_way_and_silent_ones_end() {
    let place = place();
    let server = Server::start(&place, &["--connections", "4"]);
    let kept = listening(&server);
    let mut silent: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for _ in 0..10 {
        server.get("/healthz").is(200);
        server.get("/threads").is(200);
    }
    // A head that does not come ends its connection.
    silent[19].write_all(b"GET / HT").unwrap();
    let mut rest = Vec::new();
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // One that gave way may be reset.
        let _ = stream.read_to_end(&mut rest);
    }
    // Where clients with the token have all places, others are told so.
    let more: Vec<_> = (0..3).map(|_| listening(&server)).collect();
    assert_eq!(server.get("/healthz").is(503).json()["code"], "RN2006");
    drop((kept, more));
}

#[test]
fn a_port_that_is_taken_is_said_to_be() {
    let place = place();
    let server = Server::start(&place, &[]);
    let port = server.address.port().to_string();
    let refused = place.run(["serve", "--port", &port, "--json"]).exits(7);
    assert_eq!(refused.event("error")["code"], "RN2001");
}
