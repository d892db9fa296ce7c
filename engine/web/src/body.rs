//! Bodies of requests and of responses.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use rondo::protocol::diagnostic::Code;
use rondo::tell::size;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::problem::Problem;

/// The most bytes of a request's body: a file of the largest default size, in base64.
const MAX_BODY_BYTES: usize = 32 << 20;

/// The most bytes of the body of a request that needs no token.
pub const MAX_OPEN_BODY_BYTES: usize = 1 << 10;

/// What all bodies that arrive may hold together, in KiB.
const ALL_BODIES_KIB: usize = 64 << 10;

static ARRIVING: Semaphore = Semaphore::const_new(ALL_BODIES_KIB);

const BODY_TIMEOUT: Duration = Duration::from_secs(30);

pub const NDJSON: &str = "application/x-ndjson";

/// A JSON value that a request or a response carries. An empty body of a request is an empty object.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        json(request, MAX_BODY_BYTES).await.map(Json)
    }
}

/// The JSON value in the body of a request, of at most `max_bytes`.
pub async fn json<T: DeserializeOwned>(request: Request, max_bytes: usize) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let stated = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |bytes| bytes > max_bytes)) {
        return Err(too_large(max_bytes));
    }
    let read = tokio::time::timeout(BODY_TIMEOUT, read(body, max_bytes)).await;
    let late = |_| unreadable(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 30 seconds");
    let (bytes, _held) = read.map_err(late)??;
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    if !bytes.is_empty() && !is_json(&parts.headers) {
        return Err(unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not application/json"));
    }
    serde_json::from_slice(text).map_err(|error| unreadable(StatusCode::BAD_REQUEST, &format!("the body: {error}")))
}

/// Reads a body, with its share of what all bodies may hold. The share grows with what has arrived: a length that is
/// only stated holds nothing.
async fn read(mut body: Body, max_bytes: usize) -> Result<(Vec<u8>, Option<SemaphorePermit<'static>>), Problem> {
    let (mut bytes, mut held): (Vec<u8>, Option<SemaphorePermit<'static>>) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreadable(StatusCode::BAD_REQUEST, &error.to_string()))?;
        let Ok(part) = frame.into_data() else { continue };
        let length = bytes.len() + part.len();
        if length > max_bytes {
            return Err(too_large(max_bytes));
        }
        let has = held.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = u32::try_from(length.div_ceil(1 << 10).saturating_sub(has)).unwrap_or(u32::MAX);
        let share = ARRIVING.try_acquire_many(more).map_err(|_| {
            let what = "the bodies of too many requests arrive at once";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::ServerFull, what)
        })?;
        match &mut held {
            Some(held) => held.merge(share),
            None => held = Some(share),
        }
        bytes.extend_from_slice(&part);
    }
    Ok((bytes, held))
}

/// A form of a page of another site cannot have this type, so the check is part of the protection of writes.
fn is_json(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = stated.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json")
}

fn too_large(max_bytes: usize) -> Problem {
    let what = format!("the body is larger than {}", size(u64::try_from(max_bytes).unwrap_or(u64::MAX)));
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
