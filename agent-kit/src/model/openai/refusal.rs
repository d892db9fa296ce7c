//! What a provider means when it does not answer.

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use serde_json::Value;

use crate::model::status;

/// How much of a provider's words is shown.
const MAX_WORDS_CHARS: usize = 400;

/// The fault of an answer with an HTTP status that is no success, and of this body.
pub(super) fn of_status(status: u16, body: &str) -> Fault {
    match serde_json::from_str::<Value>(body) {
        Ok(Value::Object(members)) => {
            let error = members.get("error").cloned().unwrap_or(Value::Object(members));
            of_value(Some(status), &error)
        }
        _ => status::fault(status, &excerpt(body)),
    }
}

/// The fault of an error object, which stands in a body or inside a stream.
pub(super) fn of_error(status: Option<u16>, json: &str) -> Fault {
    of_value(status, &serde_json::from_str(json).unwrap_or(Value::Null))
}

fn of_value(status: Option<u16>, error: &Value) -> Fault {
    let member = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = error.as_str().unwrap_or_else(|| member("message"));
    let (code, kind) = (member("code"), member("type"));
    let words = excerpt(if message.is_empty() { code } else { message });
    if code == "insufficient_quota" || kind == "insufficient_quota" {
        let message = format!("the provider's quota is used up: {words}");
        return Fault::new(Code::QuotaUsedUp, FaultClass::Refused, message);
    }
    // Inside a stream there is no status, but some servers put it into the object.
    let told = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
    let told = told.and_then(|told| u16::try_from(told).ok()).filter(|told| (400..600).contains(told));
    let status = status.or(told).unwrap_or(match (code, kind) {
        ("rate_limit_exceeded", _) | (_, "rate_limit_error" | "rate_limit_exceeded" | "requests" | "tokens") => 429,
        ("invalid_api_key", _) | (_, "authentication_error") => 401,
        (_, "permission_error" | "permission_denied") => 403,
        ("model_not_found", _) | (_, "not_found_error") => 404,
        ("context_length_exceeded", _) | (_, "invalid_request_error" | "exceed_context_size_error") => 400,
        _ => 500,
    });
    status::fault(status, &words)
}

/// The beginning of the words on one line.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().filter(|c| !c.is_control()).take(MAX_WORDS_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_refusal_is_told_by_status_or_words() {
        let of = |status: u16, body: &str| {
            let fault = of_status(status, body);
            (fault.code, fault.class, fault.message)
        };
        for (status, body, code, class, message) in [
            (
                429,
                r#"{"error":{"message":"no credit","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                Code::QuotaUsedUp,
                FaultClass::Refused,
                "the provider's quota is used up: no credit",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"bad"}}"#,
                Code::RequestRefused,
                FaultClass::Refused,
                "the provider answered 400: bad",
            ),
            (503, "try\n later", Code::ProviderFailed, FaultClass::Server, "the provider answered 503: try later"),
            (
                404,
                r#"{"error":"no such model"}"#,
                Code::RequestRefused,
                FaultClass::Refused,
                "the provider answered 404: no such model",
            ),
            (
                422,
                r#"{"message":"flat"}"#,
                Code::RequestRefused,
                FaultClass::Refused,
                "the provider answered 422: flat",
            ),
            (500, "", Code::ProviderFailed, FaultClass::Server, "the provider answered 500"),
        ] {
            assert_eq!(of(status, body), (code, class, message.to_owned()));
        }
        for (json, class) in [
            (r#"{"type":"rate_limit_error"}"#, FaultClass::RateLimit),
            (r#"{"code":503,"message":"x"}"#, FaultClass::Server),
            (r#"{"code":"context_length_exceeded"}"#, FaultClass::Refused),
            (r#""overloaded""#, FaultClass::Server),
            ("{", FaultClass::Server),
        ] {
            assert_eq!(of_error(None, json).class, class, "{json}");
        }
    }
}
