//! What is no API: the pages of diagnostics' codes.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use rondo_protocol::diagnostic::Code;

use super::body::typed;
use super::params::Path;
use super::problem::Problem;

/// `GET /errors/{code}`: the page of a diagnostic's code, as text.
pub async fn error(Path(code): Path<String>) -> Response {
    match Code::find(&code) {
        Some(known) => typed(known.page(), "text/plain; charset=utf-8"),
        None => Problem::new(StatusCode::NOT_FOUND, Code::NoSuchRoute, "there is no such code").into_response(),
    }
}
