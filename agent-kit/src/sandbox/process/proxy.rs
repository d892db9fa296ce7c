//! The HTTP proxy between a sandboxed program and the hosts that it may connect to. It runs outside the sandbox.
//!
//! Laws:
//! - A program in the sandbox has no other network. It names a host, and the gate decides as for every other request: a
//!   granted host with its port, at a public address.
//! - The proxy resolves names; a program never does.
//! - Heads, concurrent connections and the time to receive a head are limited. Everything ends with the program.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bound;
use crate::error::Error;
use crate::sandbox::http::Gate;

const HEAD_MAX_BYTES: usize = 32 << 10;
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECTIONS_MAX: usize = 64;

/// Serves the connections to a program's port. Dropping the future ends them.
pub(super) async fn serve(gate: Arc<Gate>, port: OwnedFd) -> io::Result<()> {
    let listener = StdTcpListener::from(port);
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        // One too many is closed.
        if connections.len() < CONNECTIONS_MAX {
            let gate = Arc::clone(&gate);
            // A broken connection is the program's to notice.
            connections.spawn(async move { drop(answer(&gate, client).await) });
        }
    }
}

async fn answer(gate: &Gate, mut client: TcpStream) -> io::Result<()> {
    let (head, rest) = timeout(HEAD_TIMEOUT, head(&mut client)).await??;
    match connected(gate, &head).await {
        Ok((mut server, to_client, to_server)) => {
            client.write_all(to_client).await?;
            server.write_all(to_server.as_bytes()).await?;
            server.write_all(&rest).await?;
            copy_bidirectional(&mut client, &mut server).await.map(drop)
        }
        Err(error) => {
            let body = format!("{error}\n");
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            );
            client.write_all(answer.as_bytes()).await?;
            client.shutdown().await
        }
    }
}

/// The head of a request, and the bytes after it.
async fn head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let mut bytes = Vec::new();
    while bytes.len() <= HEAD_MAX_BYTES {
        if let Some(at) = bytes.windows(END.len()).position(|window| window == END) {
            let rest = bytes.split_off(at + END.len());
            return String::from_utf8(bytes).map(|head| (head, rest)).map_err(io::Error::other);
        }
        if client.read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    Err(io::Error::other("there is no head"))
}

/// The connection to the server, and what the client and the server are sent first.
async fn connected(gate: &Gate, head: &str) -> Result<(TcpStream, &'static [u8], String), Error> {
    let fault = |why: &str| {
        let line = bound::line(head.lines().next().unwrap_or_default(), 200);
        Error::new(Code::HttpUrl, format!("{line:?} cannot be done: {why}"))
    };
    let (line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(fault("it is no request to a proxy"));
    };
    if method == "CONNECT" {
        let is_authority = target.chars().all(|c| c.is_ascii_alphanumeric() || "-.:[]_".contains(c));
        if !is_authority || !target.contains(':') {
            return Err(fault("a host with its port was expected"));
        }
        let server = gate.connect(&format!("https://{target}/")).await?;
        return Ok((server, b"HTTP/1.1 200 Connection established\r\n\r\n", String::new()));
    }
    let Some(rest) = target.strip_prefix("http://") else {
        return Err(fault("only http and CONNECT are passed on"));
    };
    let server = gate.connect(target).await?;
    let path = rest.find(['/', '?']).map_or("/", |at| rest.get(at..).unwrap_or("/"));
    let gap = if path.starts_with('/') { "" } else { "/" };
    // A second request on this connection would not be checked.
    let is_ours = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        !line.is_empty() && !matches!(name.as_str(), "connection" | "keep-alive") && !name.starts_with("proxy-")
    };
    let headers: String = headers.split("\r\n").filter(is_ours).flat_map(|line| [line, "\r\n"]).collect();
    Ok((server, b"", format!("{method} {gap}{path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")))
}
