//! `http_get`: fetches a page from a host that the operator grants.

use std::collections::BTreeMap;

use encoding_rs::{Encoding, UTF_8};
use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{BuiltIn, Content, Error, Invocation, STORED_MAX_BYTES};
use crate::bound;
use crate::redact::Redactor;
use crate::sandbox::http::{Gate, Response};

/// The header by which a server can recognize a repetition
/// (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header>).
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const MAX_ERROR_BYTES: usize = 4 << 10;
const TYPE_MAX_CHARS: usize = 200;
/// The part of the result limit that is reserved for the first line and a mark.
const AROUND_BYTES: usize = 32 << 10;

pub struct HttpGet {
    gate: Gate,
    /// The gates of callers with additional grants.
    gates: BTreeMap<String, Gate>,
}

impl HttpGet {
    pub fn new(gate: Gate) -> Self {
        Self { gate, gates: BTreeMap::new() }
    }

    /// Uses these gates for the callers of these names, and the default gate for all others.
    #[must_use]
    pub fn with_gates(self, gates: BTreeMap<String, Gate>) -> Self {
        Self { gates, ..self }
    }
}

/// What `http_get` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpGetArguments {
    /// The whole address, beginning with `https://` or `http://`.
    url: String,
    /// The most bytes of the body that are read; what is longer is cut with a mark.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_bytes: Option<usize>,
}

impl BuiltIn for HttpGet {
    type Arguments = HttpGetArguments;

    const NAME: &'static str = "http_get";
    const DESCRIPTION: &'static str = "Gets a text over HTTP: a page, JSON, plain text. Only hosts that are granted can be \
        reached. The first line of the result is status, type, size and address.";

    fn effect(&self, _arguments: &Self::Arguments) -> Effect {
        Effect::External
    }

    fn run<'a>(
        &'a self,
        arguments: Self::Arguments,
        invocation: &'a Invocation,
    ) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static("text/*, application/json, application/xml, */*;q=0.1"));
            if let Ok(key) = HeaderValue::from_str(&invocation.idempotency_key) {
                headers.insert(IDEMPOTENCY_KEY, key);
            }
            let max_bytes = arguments.max_bytes.unwrap_or(usize::MAX);
            let of_caller = invocation.caller.as_ref().and_then(|caller| self.gates.get(caller));
            let gate = of_caller.unwrap_or(&self.gate);
            present(&gate.get(&arguments.url, &headers, max_bytes).await?, &invocation.redactor).map(Content::from)
        })
    }
}

/// The answer as text. Leaves out the end of a cut body that may be the beginning of a key.
fn present(response: &Response, redactor: &Redactor) -> Result<String, Error> {
    let redacted =
        |text: String| if response.cut { redactor.beginning(&text) } else { redactor.text(&text).into_owned() };
    let text = text_of(response).map(redacted);
    if !(200..300).contains(&response.status) {
        let message = format!("{} answered {}", response.url, response.status_line);
        let output = text.map(|text| bound::cut(text, MAX_ERROR_BYTES)).unwrap_or_default();
        return Err(Error::new(Code::HttpStatus, message).with_output(output));
    }
    let kind = response.content_type.as_deref().map(|kind| bound::line(&redactor.text(kind), TYPE_MAX_CHARS));
    let kind = kind.as_deref().unwrap_or("of no named type");
    let read = bound::bytes(response.body.len() as u64);
    let size = match response.length_bytes {
        Some(length) => bound::bytes(length),
        None if response.cut => format!("more than {read}"),
        None => read.clone(),
    };
    let text = text.map_err(|why| {
        let message = format!("{} is {kind}, {size}: {why}, and only texts are read", response.url);
        Error::new(Code::HttpNotText, message)
    })?;
    let mut result = format!("{} {kind}, {size}, {}\n", response.status_line, response.url);
    result.push_str(&bound::cut(text, STORED_MAX_BYTES.saturating_sub(AROUND_BYTES)));
    if response.cut {
        result = format!("{result}\n[cut here: the first {read} of the body]");
    }
    Ok(result)
}

/// The body as text, or why it is not text.
fn text_of(response: &Response) -> Result<String, &'static str> {
    if response.content_encoding.as_deref().is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err("it is compressed although that was not requested");
    }
    let content_type = response.content_type.as_deref().unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !is_textual(&kind) {
        return Err("it is no text");
    }
    let encoding = charset(content_type).map_or(Some(UTF_8), |label| Encoding::for_label(label.as_bytes()));
    let encoding = encoding.ok_or("its character set is unknown")?;
    // A character split by the cut is not the body's fault.
    let is_begun = response.cut && encoding == UTF_8;
    let end = response.body.len() - if is_begun { bound::begun_character(&response.body) } else { 0 };
    let (text, ..) = encoding.decode(response.body.get(..end).unwrap_or_default());
    // A binary sent with a text type is still not text.
    if text.contains('\0') { Err("it holds zero bytes") } else { Ok(text.into_owned()) }
}

fn is_textual(kind: &str) -> bool {
    const OTHERS: [&str; 9] = [
        "",
        "application/json",
        "application/x-ndjson",
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/yaml",
        "application/toml",
        "application/sql",
    ];
    kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml") || OTHERS.contains(&kind)
}

fn charset(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(content_type: Option<&str>, body: &[u8]) -> Response {
        Response {
            status: 200,
            status_line: "200 OK".to_owned(),
            content_type: content_type.map(str::to_owned),
            content_encoding: None,
            body: body.to_vec(),
            cut: false,
            length_bytes: None,
            url: "https://example.com/a".to_owned(),
        }
    }

    #[test]
    fn a_text_stands_behind_one_line_about_it() {
        let page = response(Some("text/html; charset=iso-8859-1"), b"caf\xe9");
        let text = "200 OK text/html; charset=iso-8859-1, 4 bytes, https://example.com/a\ncaf\u{e9}";
        assert_eq!(present(&page, &Redactor::default()).unwrap(), text);

        let cut = Response { cut: true, length_bytes: Some(12_345), ..response(None, b"{}") };
        let text = "200 OK of no named type, 12,345 bytes, https://example.com/a\n{}\n[cut here: the first 2 bytes of the body]";
        assert_eq!(present(&cut, &Redactor::default()).unwrap(), text);
    }

    #[test]
    fn what_is_no_text_is_refused_with_type_and_size() {
        let compressed = Response { content_encoding: Some("gzip".to_owned()), ..response(Some("text/plain"), b"x") };
        for (answer, part) in [
            (response(Some("image/png"), b"\x89PNG"), "is image/png, 4 bytes: it is no text"),
            (response(Some("text/plain"), b"MZ\0\0"), "it holds zero bytes"),
            (response(Some("text/plain; charset=klingon"), b"x"), "its character set is unknown"),
            (compressed, "it is compressed"),
        ] {
            let error = present(&answer, &Redactor::default()).unwrap_err();
            assert_eq!(error.code, Code::HttpNotText);
            assert!(error.message.contains(part), "{}", error.message);
        }
    }

    #[test]
    fn a_status_without_success_is_an_error_with_the_beginning_of_the_body() {
        let status_line = "404 Not Opened".to_owned();
        let missing = Response { status: 404, status_line, ..response(Some("text/plain"), &b"gone ".repeat(5000)) };
        let error = present(&missing, &Redactor::default()).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (Code::HttpStatus, "https://example.com/a answered 404 Not Opened")
        );
        assert!(
            error.output.starts_with("gone gone") && error.output.len() <= MAX_ERROR_BYTES,
            "{}",
            error.output.len()
        );
    }

    #[test]
    fn a_result_fits_the_store_however_its_characters_grow() {
        let umlauts = response(Some("text/plain; charset=iso-8859-1"), &vec![0xe9; STORED_MAX_BYTES]);
        assert!(present(&umlauts, &Redactor::default()).unwrap().len() <= STORED_MAX_BYTES);
    }

    #[test]
    fn no_half_of_a_key_stands_where_a_body_is_cut() {
        const KEY: &str = "sk-é-0123456789";
        let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
        let body = format!("a {KEY}");
        for length in 0..body.len() {
            let page = Response { cut: true, ..response(Some("text/plain"), &body.as_bytes()[..length]) };
            let text = present(&page, &redactor).unwrap();
            assert!(!text.contains("sk") && !text.contains('\u{fffd}'), "{text}");
        }
        let failed = format!("{}{KEY}", "x".repeat(MAX_ERROR_BYTES - 44));
        let failed = Response { status: 500, ..response(Some("text/plain"), failed.as_bytes()) };
        let output = present(&failed, &redactor).unwrap_err().output;
        assert!(!output.contains("sk-"), "{output}");
        let kind = format!("text/plain; x={}{KEY}", "x".repeat(175));
        let shown = present(&response(Some(&kind), b""), &redactor).unwrap();
        assert!(!shown.contains("sk-"), "{shown}");
    }
}
