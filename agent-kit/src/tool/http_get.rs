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
    /// Uses `gates` for the callers of these names, and `gate` for all others.
    pub fn new(gate: Gate, gates: BTreeMap<String, Gate>) -> Self {
        Self { gate, gates }
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
mod tests;
