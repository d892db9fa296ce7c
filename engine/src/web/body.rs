//! Bodies of requests and of responses.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rondo_protocol::diagnostic::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The most bytes of a request's body.
const MAX_BODY_BYTES: usize = 8 << 20;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

pub const NDJSON: &str = "application/x-ndjson";

/// A JSON value that a request or a response carries. An empty body of a request is an empty object.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let stated =
            parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if stated.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |bytes| bytes > MAX_BODY_BYTES)) {
            return Err(too_large());
        }
        let bytes = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY_BYTES)).await;
        let bytes = match bytes {
            Err(_) => return Err(unreadable(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 30 seconds")),
            Ok(Err(error)) => {
                let source = std::error::Error::source(&error);
                let is_limit = source.is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
                return Err(if is_limit {
                    too_large()
                } else {
                    unreadable(StatusCode::BAD_REQUEST, &error.to_string())
                });
            }
            Ok(Ok(bytes)) => bytes,
        };
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        if !bytes.is_empty() && !is_json(&parts.headers) {
            return Err(unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not application/json"));
        }
        serde_json::from_slice(text)
            .map(Json)
            .map_err(|error| unreadable(StatusCode::BAD_REQUEST, &format!("the body: {error}")))
    }
}

/// A form of a page of another site cannot have this type, so the check is part of the protection of writes.
fn is_json(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = stated.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json")
}

fn too_large() -> Problem {
    let what = format!("the body is larger than {} MiB", MAX_BODY_BYTES >> 20);
    unreadable(StatusCode::PAYLOAD_TOO_LARGE, &what)
}

fn unreadable(status: StatusCode, what: &str) -> Problem {
    Problem::new(status, Code::RequestUnreadable, what)
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => typed(bytes, "application/json"),
            Err(error) => {
                let what = format!("the answer has no JSON form: {error}");
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalFault, what).into_response()
            }
        }
    }
}

/// A response of this media type.
pub fn typed(bytes: impl Into<Body>, media: &'static str) -> Response {
    let mut response = Response::new(bytes.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// Whether the client asks for JSON Lines: exactly what the command line prints.
pub fn wants_lines(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(NDJSON))
}
