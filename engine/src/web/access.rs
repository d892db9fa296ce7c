//! Who may use the server: the token, the browser's session, and the hosts and origins that requests may name.
//!
//! The token protects reads too. A browser hands it over once, from the fragment of an address, which is never sent,
//! and gets a cookie that scripts cannot read and that other sites cannot send. The `Host` of each request must be one
//! that no foreign name server can point here (DNS rebinding), and a write must come from this server's own pages.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rondo_protocol::diagnostic::Code;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::Server;
use super::body;
use super::problem::Problem;
use crate::config::TOKEN_VARIABLE;
use crate::failure::Failure;
use crate::trust::owner::{self, User};

/// The cookie of a session.
const COOKIE: &str = "rondo_session";

/// What the session's cookie is derived for.
const SESSION: &[u8] = b"rondo/session/v1";

/// The variable with a token, in place of the file's.
pub const VARIABLE: &str = TOKEN_VARIABLE;

const TOKEN_BYTES: usize = 32;
const MIN_CHARS: usize = 16;
const MAX_CHARS: usize = 256;

/// The token of a server.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token of a variable, or of the file, which is written if there is none; else one for this process. Also
    /// returns the file.
    ///
    /// # Errors
    /// [`Code::TokenUnusable`] if the file cannot be read or written, or others can read or change it.
    pub fn find(file: Option<PathBuf>) -> Result<(Self, Option<PathBuf>), Failure> {
        if let Ok(text) = std::env::var(VARIABLE) {
            return Ok((Self::new(text.trim(), VARIABLE)?, None));
        }
        let Some(file) = file else { return Ok((Self::of_this_process()?, None)) };
        let token = match read(&file)? {
            Some(text) => Self::new(text.trim(), &file.display().to_string())?,
            None => write(&file)?,
        };
        Ok((token, Some(file)))
    }

    /// A token that nobody is told.
    ///
    /// # Errors
    /// [`Code::TokenUnusable`] if the system provides no random bytes.
    pub fn of_this_process() -> Result<Self, Failure> {
        Ok(Self(drawn()?))
    }

    fn new(text: &str, from: &str) -> Result<Self, Failure> {
        let is_usable =
            (MIN_CHARS..=MAX_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_usable {
            return Ok(Self(text.to_owned()));
        }
        let what = format!("{from}: a token has {MIN_CHARS} to {MAX_CHARS} letters, digits and signs, without blanks");
        Err(Failure::new(Code::TokenUnusable, what))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn session(&self) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).map(|mac| mac.chain_update(SESSION).finalize());
        mac.map(|mac| hex(&mac.into_bytes())).unwrap_or_default()
    }

    /// Whether a request carries the token or a session.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer =
            bearer.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if let Some((_, given)) = bearer {
            return is_same(given.trim(), &self.0);
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut sessions = cookies.flat_map(|all| all.split(';')).filter_map(|one| one.trim().split_once('='));
        sessions.any(|(name, value)| name == COOKIE && is_same(value, &self.session()))
    }
}

/// Compares digests: how long it takes tells nothing about the texts.
fn is_same(given: &str, expected: &str) -> bool {
    Sha256::digest(given) == Sha256::digest(expected)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn drawn() -> Result<String, Failure> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new(Code::TokenUnusable, error.to_string()))?;
    Ok(hex(&bytes))
}

fn unusable(file: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::TokenUnusable, format!("the server's token {}: {what}", file.display()))
        .with_hint(format!("remove the file, and the next `rondo serve` writes a new one; or set {VARIABLE}"))
}

/// The file's text; `None` if there is no file.
fn read(file: &Path) -> Result<Option<String>, Failure> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = match std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(file, error)),
    };
    if let Some(fault) = owner::faults(file, User::own()).first() {
        return Err(unusable(file, fault));
    }
    let metadata = opened.metadata().map_err(|error| unusable(file, error))?;
    if std::os::unix::fs::MetadataExt::mode(&metadata) & 0o077 != 0 {
        return Err(unusable(file, "other users can read it"));
    }
    let mut text = String::new();
    let limit = u64::try_from(MAX_CHARS).unwrap_or(u64::MAX) + 2;
    opened.take(limit).read_to_string(&mut text).map_err(|error| unusable(file, error))?;
    Ok(Some(text))
}

fn write(file: &Path) -> Result<Token, Failure> {
    let token = Token(drawn()?);
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
    let mut new = std::fs::OpenOptions::new();
    let mut new = new.write(true).create_new(true).mode(0o600).open(file).map_err(|error| unusable(file, error))?;
    new.write_all(format!("{}\n", token.0).as_bytes()).map_err(|error| unusable(file, error))?;
    Ok(token)
}

/// Lets requests pass that name a permitted host, come from a permitted origin if they change something, and, below
/// `/api` and `/v1`, carry the token or a session.
pub async fn guard(State(server): State<Server>, request: Request, next: Next) -> Response {
    match refusal(&server, request.method(), request.uri(), request.headers()) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

fn refusal(server: &Server, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Problem> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).or_else(|| uri.host());
    let Some(host) = host.filter(|host| is_permitted_host(host, &server.names)) else {
        let what = "the name of this host is not one that the server answers to";
        let hint = "use 127.0.0.1 or localhost, or name the host with `rondo serve --host-name NAME`";
        return Some(Problem::new(StatusCode::MISDIRECTED_REQUEST, Code::HostRefused, what).with_hint(hint));
    };
    let is_write = !matches!(*method, Method::GET | Method::HEAD);
    if is_write && !is_own_origin(headers, host) {
        let what = "a page of another site sent this request";
        return Some(Problem::new(StatusCode::FORBIDDEN, Code::HostRefused, what));
    }
    let path = uri.path();
    let is_open = path == "/api/v1/session" || path == "/api/v1/healthz";
    let is_guarded = ["/api/", "/v1/"].iter().any(|start| path.starts_with(start)) && !is_open;
    if is_guarded && !server.token.admits(headers) {
        return Some(unauthorized());
    }
    None
}

fn unauthorized() -> Problem {
    let what = "the request carries neither the server's token nor a session";
    Problem::new(StatusCode::UNAUTHORIZED, Code::TokenMissing, what)
        .with_hint("send `Authorization: Bearer TOKEN`; `rondo serve` prints where the token is")
}

/// Whether a `Host` is an IP address, `localhost`, a name below it, or declared: other names could be pointed here by
/// whoever owns them.
fn is_permitted_host(host: &str, names: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.to_ascii_lowercase();
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
    literal.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || names.iter().any(|known| known.eq_ignore_ascii_case(&name))
}

/// Whether a write comes from this server's own page, or from no browser at all.
fn is_own_origin(headers: &HeaderMap, host: &str) -> bool {
    if let Some(site) = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok()) {
        return matches!(site, "same-origin" | "none");
    }
    match headers.get(header::ORIGIN) {
        None => true,
        Some(origin) => {
            let origin = origin.to_str().unwrap_or_default();
            origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host))
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    token: String,
}

/// `POST /api/v1/session`: exchanges the token for a cookie.
pub async fn open_session(State(server): State<Server>, request: Request) -> Response {
    let request: SessionRequest = match body::json(request, body::MAX_OPEN_BODY_BYTES).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    if !is_same(&request.token, server.token.as_str()) {
        return unauthorized().into_response();
    }
    with_cookie(&format!("{COOKIE}={}; HttpOnly; SameSite=Strict; Path=/", server.token.session()))
}

/// `DELETE /api/v1/session`: takes the cookie back.
pub async fn close_session() -> Response {
    with_cookie(&format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"))
}

fn with_cookie(cookie: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_that_nobody_else_can_point_here_are_answered() {
        let names = ["rondo.example".to_owned()];
        for host in [
            "127.0.0.1:7777",
            "[::1]:7777",
            "[::1]",
            "10.1.2.3",
            "localhost",
            "LOCALHOST:1",
            "a.localhost:80",
            "rondo.example",
        ] {
            assert!(is_permitted_host(host, &names), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:7777", "127.0.0.1.evil.example", "evillocalhost", "", ":7777"]
        {
            assert!(!is_permitted_host(host, &names), "{host}");
        }
    }

    #[test]
    fn a_write_must_come_from_the_servers_own_page() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            is_own_origin(&headers, "127.0.0.1:7777")
        };
        assert!(of(&[]));
        assert!(of(&[("origin", "http://127.0.0.1:7777")]));
        assert!(of(&[("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:7777")]));
        assert!(!of(&[("origin", "http://127.0.0.1:7778")]));
        assert!(!of(&[("origin", "null")]));
        assert!(!of(&[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:7777")]));
        assert!(!of(&[("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn a_session_or_the_token_is_admitted_and_nothing_else() {
        let token = Token::new("0123456789abcdef", "here").unwrap();
        let of = |name: header::HeaderName, value: String| {
            token.admits(&[(name, HeaderValue::from_str(&value).unwrap())].into_iter().collect())
        };
        assert!(of(header::AUTHORIZATION, "Bearer 0123456789abcdef".to_owned()));
        assert!(of(header::COOKIE, format!("a=b; {COOKIE}={}", token.session())));
        assert!(!of(header::AUTHORIZATION, "Bearer 0123456789abcdeF".to_owned()));
        assert!(!of(header::AUTHORIZATION, "Basic 0123456789abcdef".to_owned()));
        assert!(!of(header::COOKIE, format!("{COOKIE}=0123456789abcdef")));
        assert!(!token.admits(&HeaderMap::new()));
        assert!(Token::new("short", "here").is_err() && Token::new("with a blank in it", "here").is_err());
    }
}
