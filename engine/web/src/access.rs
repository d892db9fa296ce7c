//! Who may use the server: the token, sessions, and the hosts and origins that requests may name.
//!
//! Both are sent in the header `Authorization`, and protect reads too. A browser begins a session with a code that works
//! once, from the fragment of an address, which is never sent. The `Host` of each request must be one that no foreign name
//! server can point here (DNS rebinding), and a write must come from this server's own pages.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use rondo::core::durable_folder;
use rondo::failure::Failure;
use rondo::protocol::Digest;
use rondo::protocol::diagnostic::Code;
use rondo::settings::TOKEN_VARIABLE;
use rondo::settings::trust::owner::{self, User};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::body::{self, Json};
use super::params::invalid;
use super::places::Place;
use super::problem::Problem;

const SESSION: &str = "/api/v1/session";

const MIN_CHARS: usize = 16;
const MAX_CHARS: usize = 256;

/// The token of a server.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token that the variable gives, if it does.
    ///
    /// # Errors
    /// [`Code::TokenUnusable`] if it cannot be one.
    pub fn given() -> Result<Option<Self>, Failure> {
        std::env::var(TOKEN_VARIABLE).ok().map(|text| Self::new(text.trim())).transpose()
    }

    /// Writes it to a file that only its user can read.
    ///
    /// # Errors
    /// [`Code::TokenUnusable`] if the file cannot be written, or others can change it.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        let folder = file.parent().unwrap_or(Path::new("."));
        durable_folder::make(folder).map_err(|error| unusable(folder, error))?;
        let written = NamedTempFile::new_in(folder).and_then(|mut new| {
            new.write_all(format!("{}\n", self.0).as_bytes())?;
            new.persist(file).map_err(|error| error.error)
        });
        written.map_err(|error| unusable(file, error))?;
        match owner::faults(file, User::own()).first() {
            Some(fault) => Err(unusable(file, fault)),
            None => Ok(()),
        }
    }

    /// A new token.
    ///
    /// # Errors
    /// [`Code::TokenUnusable`] if the system provides no random bytes.
    pub fn of_this_process() -> Result<Self, Failure> {
        Ok(Self(drawn()?))
    }

    fn new(text: &str) -> Result<Self, Failure> {
        let is_usable =
            (MIN_CHARS..=MAX_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_usable {
            return Ok(Self(text.to_owned()));
        }
        let what = format!("a token has {MIN_CHARS} to {MAX_CHARS} letters, digits and signs, without blanks");
        Err(Failure::new(Code::TokenUnusable, format!("{TOKEN_VARIABLE}: {what}")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares digests: how long it takes tells nothing about the texts.
    fn is(&self, given: &str) -> bool {
        Digest::sha256(given.as_bytes()) == Digest::sha256(self.0.as_bytes())
    }
}

/// A key that nobody can guess, in hexadecimal.
pub(super) fn drawn() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new(Code::TokenUnusable, error.to_string()))?;
    Ok(Digest(bytes).to_string())
}

fn unusable(file: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::TokenUnusable, format!("the server's token {}: {what}", file.display()))
        .with_hint(format!("`{TOKEN_VARIABLE}` gives a token without a file"))
}

/// Lets requests pass that name a permitted host, come from a permitted origin if they change something, and, below
/// `/api` and `/v1`, carry the token or a session.
pub async fn guard(State(server): State<Server>, request: Request, next: Next) -> Response {
    let ended = match admitted(&server, request.method(), request.uri(), request.headers()) {
        Err(problem) => return problem.into_response(),
        Ok(Admitted::Anybody) => return next.run(request).await,
        Ok(Admitted::Token) => None,
        Ok(Admitted::Session(ended)) => Some(ended),
    };
    if let Some(place) = request.extensions().get::<Place>() {
        place.is_settled();
    }
    let response = next.run(request).await;
    let Some(ended) = ended else { return response };
    let (head, body) = response.into_parts();
    Response::from_parts(head, Body::from_stream(body.into_data_stream().take_until(ended.cancelled_owned())))
}

/// Why a request is answered.
enum Admitted {
    /// It needs no key.
    Anybody,
    /// It has the token.
    Token,
    /// A session sent it; with what is cancelled when that ends.
    Session(CancellationToken),
}

fn admitted(server: &Server, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Admitted, Problem> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).or_else(|| uri.host());
    let Some(host) = host.filter(|host| is_permitted_host(host, &server.names)) else {
        let what = "the name of this host is not one that the server answers to";
        let hint = "use 127.0.0.1 or localhost, or name the host with `rondo serve --host-name NAME`";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, Code::HostRefused, what).with_hint(hint));
    };
    let is_write = !matches!(*method, Method::GET | Method::HEAD);
    if is_write && !is_own_origin(headers, host) {
        let what = "a page of another site sent this request";
        return Err(Problem::new(StatusCode::FORBIDDEN, Code::HostRefused, what));
    }
    let path = uri.path();
    let is_open = path == SESSION && method == Method::POST || path == "/api/v1/healthz";
    let is_guarded = ["/api/", "/v1/"].iter().any(|start| path.starts_with(start)) && !is_open;
    if !is_guarded {
        return Ok(Admitted::Anybody);
    }
    let key = bearer(headers).ok_or_else(unauthorized)?;
    if server.token.is(key) {
        return Ok(Admitted::Token);
    }
    server.sessions.admit(key, Instant::now()).map(Admitted::Session).ok_or_else(unauthorized)
}

/// The key in the header `Authorization` (RFC 6750).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn unauthorized() -> Problem {
    let what = "the request carries neither the server's token nor a session that has begun";
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

/// What begins a session: one of the two.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "lowercase")]
pub enum SessionRequest {
    /// The code of the address that `rondo serve` prints.
    Code(String),
    /// The token.
    Token(String),
}

/// The members of the body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionFields {
    code: Option<String>,
    token: Option<String>,
}

impl SessionFields {
    fn request(self) -> Result<SessionRequest, Problem> {
        match (self.code, self.token) {
            (Some(code), None) => Ok(SessionRequest::Code(code)),
            (None, Some(token)) => Ok(SessionRequest::Token(token)),
            (None, None) => Err(invalid("`code` or `token` is missing from the body")),
            (Some(_), Some(_)) => Err(invalid("the body has both `code` and `token`: one of them begins a session")),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionBegun {
    /// The key, for the header `Authorization: Bearer KEY`.
    session: String,
}

pub async fn begin_session(State(server): State<Server>, request: Request) -> Result<Json<SessionBegun>, Problem> {
    let now = Instant::now();
    let fields: SessionFields = body::json(request, body::MAX_OPEN_BODY_BYTES).await?;
    let is_known = match fields.request()? {
        SessionRequest::Token(token) => server.token.is(&token),
        SessionRequest::Code(code) => server.sessions.take_code(&code, now),
    };
    if !is_known {
        return Err(unauthorized());
    }
    Ok(Json(SessionBegun { session: server.sessions.begin(now)? }))
}

pub async fn end_session(State(server): State<Server>, headers: HeaderMap) -> StatusCode {
    match bearer(&headers) {
        Some(key) if !server.token.is(key) => server.sessions.end(key),
        _ => server.sessions.end_all(),
    }
    StatusCode::NO_CONTENT
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

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
    fn a_token_is_of_some_length_and_has_no_blank() {
        assert!(Token::new("short").is_err() && Token::new("with a blank in it").is_err());
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef") && !token.is("0123456789abcdeF") && !token.is(""));
    }
}
