//! What a provider refuses, and its errors as faults.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use serde::Deserialize;
use serde_json::Value;

use super::clock::Clock;
use super::retry_after;
use crate::model::{status, usage};
use crate::redact::Redactor;

/// A refusal may hold what the model wrote.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

const MAX_WORDS_CHARS: usize = 400;

/// The maximum size of an error object to parse; of a longer one the beginning is shown.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A response without success.
#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    /// Its beginning.
    pub body: String,
    pub retry_after_ms: Option<u64>,
    /// Whether another attempt may succeed, if the provider says so.
    pub should_retry: Option<bool>,
}

impl Refusal {
    pub(super) async fn read(mut response: Response, clock: &Clock<'_>, redactor: &Redactor) -> Self {
        let status = response.status().as_u16();
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let retry_after_ms = retry_after::retry_after_ms(response.headers(), now_s);
        let should_retry = retry_after::should_retry(response.headers());
        if let Some(coding) = coding(response.headers()) {
            let body = format!("its words are packed as {coding}");
            return Self { status, body, retry_after_ms, should_retry };
        }
        let (mut body, mut is_whole) = (Vec::new(), false);
        while body.len() < MAX_REFUSAL_BYTES && !is_whole {
            // The status matters most; a missing body changes nothing.
            match clock.wait(response.chunk()).await {
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => is_whole = true,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        is_whole &= body.len() <= MAX_REFUSAL_BYTES;
        body.truncate(MAX_REFUSAL_BYTES);
        let mut body = String::from_utf8_lossy(&body).into_owned();
        if !is_whole {
            // Leaves out an end that could be the beginning of a key.
            body = redactor.beginning(&body);
        }
        Self { status, body, retry_after_ms, should_retry }
    }

    pub(super) fn fault(&self, redactor: &Redactor) -> Fault {
        let usage = usage::of_body(&self.body);
        let fault = of_status(self.status, &self.body, redactor).with_usage(usage);
        let class = match self.should_retry {
            Some(false) => FaultClass::Refused,
            // Neither a key nor money comes by waiting.
            Some(true) if fault.code == Code::RequestRefused => FaultClass::Server,
            Some(true) | None => fault.class,
        };
        Fault { class, retry_after_ms: self.retry_after_ms.or(fault.retry_after_ms), ..fault }
    }
}

/// How a body is packed; `None` if it is not.
pub(super) fn coding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(CONTENT_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let codings: Vec<_> = codings.filter(|coding| !matches!(coding.trim(), "" | "identity")).collect();
    (!codings.is_empty()).then(|| codings.join(", "))
}

/// The fault for a response with an unsuccessful HTTP status and this body.
fn of_status(status: u16, body: &str, redactor: &Redactor) -> Fault {
    match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(members)) => {
            let error = members.get("error").filter(|error| !is_nothing(error)).cloned();
            let error = error.unwrap_or(Value::Object(members));
            of_value(Some(status), &error, redactor)
        }
        Ok(error @ Value::Array(_)) => of_value(Some(status), &error, redactor),
        _ => status::fault(status, &words(body, redactor)),
    }
}

/// Whether a server refuses a parameter as one that it does not take; not its value.
pub(in crate::model) fn refuses_parameter(body: &str, name: &str) -> bool {
    const WORDS: [&str; 8] = [
        "unsupported",
        "not supported",
        "unknown",
        "unrecognized",
        "unexpected",
        "extra",
        "not permitted",
        "not allowed",
    ];
    let body = body.to_lowercase();
    body.contains(name) && WORDS.iter().any(|word| body.contains(word))
}

/// What an error says, whatever its shape: its message, which may be a text, a list of faults or an object of them (as
/// `FastAPI` writes), else its code, else all of it.
fn said(error: &Value) -> String {
    let parts = ["message", "detail", "details", "msg", "error", "errors", "title", "reason"];
    match error {
        Value::String(text) => text.clone(),
        Value::Array(faults) => faults.iter().map(said).collect::<Vec<_>>().join("; "),
        Value::Object(members) => {
            let message = parts.into_iter().filter_map(|key| members.get(key)).find(|message| !is_nothing(message));
            let place = members.get("loc").or(members.get("param")).filter(|place| !is_nothing(place));
            let place = place.map(|place| match place {
                Value::Array(keys) => keys.iter().map(said).collect::<Vec<_>>().join("."),
                place => said(place),
            });
            let message = message.or(members.get("code")).map(said);
            match (place, message) {
                (Some(place), Some(message)) if !message.contains(&place) => format!("{place}: {message}"),
                (_, Some(message)) => message,
                (..) if members.is_empty() => String::new(),
                (..) => error.to_string(),
            }
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Reads an event of a stream.
///
/// # Errors
/// It quotes the unexpected text. It is not retried: another attempt would be paid for again.
pub(in crate::model) fn event<'a, T: Deserialize<'a>>(json: &'a str, redactor: &Redactor) -> Result<T, Fault> {
    serde_json::from_str(json).map_err(|error: serde_json::Error| {
        let mut fault = unread(&error, redactor);
        // An error may be a text.
        if error.is_syntax() && !json.trim_start().starts_with(['{', '[']) {
            fault.message.push_str(": ");
            fault.message.push_str(&words(json, redactor));
        }
        fault
    })
}

/// The fault for an event that is not of its shape.
pub(in crate::model) fn unread(error: &serde_json::Error, redactor: &Redactor) -> Fault {
    let what = format!("an event cannot be read: {}", words(&error.to_string(), redactor));
    Fault::new(Code::ReplyUnreadable, FaultClass::Refused, what)
}

/// The fault for an error object, from a body or from a stream.
pub(in crate::model) fn of_error(json: &str, redactor: &Redactor) -> Fault {
    if !is_short(json) {
        return status::fault(500, &words(json, redactor));
    }
    of_value(None, &serde_json::from_str(json).unwrap_or(Value::Null), redactor)
}

/// The fault for an event or a body that says what went wrong in members of its own: `{"object":"error",..}` of vLLM,
/// `{"code":..,"message":..}` of `DashScope`, `{"detail":..}` of `FastAPI`. `None` for any other. Without a status it is not
/// retried.
pub(super) fn of_bare(json: &str, redactor: &Redactor) -> Option<Fault> {
    const REPLIES: [&str; 4] = ["type", "choices", "candidates", "output"];
    let Some(Value::Object(members)) = is_short(json).then(|| serde_json::from_str(json).ok()).flatten() else {
        return None;
    };
    let is_word =
        |name| members.get(name).and_then(Value::as_str).is_some_and(|word| word.to_lowercase().contains("error"));
    let is_said = |name: &&str| members.get(*name).is_some_and(|said| !said.is_object() && !is_nothing(said));
    let is_other = || REPLIES.iter().any(|name| members.contains_key(*name));
    let is_error =
        is_word("object") || is_word("type") || !is_other() && ["message", "detail", "msg"].iter().any(is_said);
    let error = is_error.then_some(Value::Object(members))?;
    let fault = of_value(None, &error, redactor);
    if status_in(&error).is_some() || fault.code == Code::QuotaUsedUp {
        return Some(fault);
    }
    let words = words(&said(&error), redactor);
    Some(Fault::new(Code::RequestRefused, FaultClass::Refused, format!("the provider answered with an error: {words}")))
}

/// Whether an event may be an error to parse.
pub(super) fn is_short(json: &str) -> bool {
    json.len() <= MAX_ERROR_BYTES
}

fn of_value(status: Option<u16>, error: &Value, redactor: &Redactor) -> Fault {
    let member = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let (code, kind) = (member("code"), member("type"));
    let words = words(&said(error), redactor);
    if code == "insufficient_quota" || matches!(kind, "insufficient_quota" | "billing_error") || status == Some(402) {
        let message = format!("the provider's quota is used up: {words}");
        return Fault::new(Code::QuotaUsedUp, FaultClass::Refused, message);
    }
    let status = status.or_else(|| status_in(error)).unwrap_or(500);
    Fault { retry_after_ms: retry_delay_ms(error), ..status::fault(status, &words) }
}

/// The status that an error is known to have. A stream has none, but some servers put one into the object.
fn status_in(error: &Value) -> Option<u16> {
    let member = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let (code, kind) = (member("code"), member("type"));
    let in_object = error.get("code").or_else(|| error.get("status"));
    let in_object = in_object.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let in_object = in_object.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    in_object.or(match (code, kind) {
        ("rate_limit_exceeded", _) | (_, "rate_limit_error" | "rate_limit_exceeded" | "requests" | "tokens") => {
            Some(429)
        }
        ("invalid_api_key", _) | (_, "authentication_error") => Some(401),
        (_, "permission_error" | "permission_denied") => Some(403),
        (_, "request_too_large") => Some(413),
        (_, "timeout_error") => Some(504),
        (_, "overloaded_error") => Some(529),
        ("model_not_found", _) | (_, "not_found_error") => Some(404),
        ("context_length_exceeded", _) | (_, "invalid_request_error" | "exceed_context_size_error") => Some(400),
        // <https://www.alibabacloud.com/help/en/model-studio/error-code>
        (code, _) if code.starts_with("Throttling") => Some(429),
        // <https://platform.openai.com/docs/api-reference/responses/object#responses/object-error>
        (code, _) if code.starts_with("invalid_") || code.contains("image") || code.ends_with("_policy") => Some(400),
        _ => None,
    })
}

/// How long an error of Google asks to wait: the `retryDelay` in its details, such as `34s`
/// (<https://cloud.google.com/apis/design/errors#error_details>). An error may be the only one of a list.
fn retry_delay_ms(error: &Value) -> Option<u64> {
    let error = error.get(0).unwrap_or(error);
    let details = error.get("error").unwrap_or(error).get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str()?.strip_suffix('s'))?;
    retry_after::seconds_ms(delay)
}

/// The beginning of a provider's message, on one line. Keys are redacted before the cut, so that no part of one
/// remains, and after every step that could join the parts of one.
pub(in crate::model) fn words(text: &str, redactor: &Redactor) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    redactor.string(&mut line);
    if let Some((end, _)) = line.char_indices().nth(MAX_WORDS_CHARS) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The beginning of words that are not a provider's, on one line.
pub(in crate::model) fn excerpt(text: &str) -> String {
    words(text, &Redactor::default())
}

#[cfg(test)]
mod tests;
