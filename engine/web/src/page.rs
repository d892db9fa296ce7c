//! The page: files that are embedded, compressed, in the program.

use std::io::Read as _;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use rondo::protocol::diagnostic::Code;

use super::body::typed;
use super::params::Path;
use super::problem::Problem;

/// An embedded file: its name, its media type, and its bytes, compressed by gzip.
struct File {
    name: &'static str,
    media: &'static str,
    bytes: &'static [u8],
}

const INDEX: File = File {
    name: "index.html",
    media: "text/html; charset=utf-8",
    bytes: include_bytes!("../page/built/index.html.gz"),
};

const ASSETS: [File; 2] = [
    File {
        name: "page.js",
        media: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../page/built/page.js.gz"),
    },
    File { name: "page.css", media: "text/css; charset=utf-8", bytes: include_bytes!("../page/built/page.css.gz") },
];

/// Every path that is nothing else: the page finds out by itself what it is to show.
pub async fn index(headers: HeaderMap) -> Response {
    sent(&INDEX, &headers)
}

pub async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|file| file.name == name) {
        Some(file) => sent(file, &headers),
        None => Problem::new(StatusCode::NOT_FOUND, Code::NoSuchRoute, "the page has no such file").into_response(),
    }
}

fn sent(file: &File, headers: &HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = if accepted.contains("gzip") {
        let mut response = typed(file.bytes, file.media);
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        let mut bytes = Vec::new();
        // The bytes are the program's own.
        let _ = flate2::read::GzDecoder::new(file.bytes).read_to_end(&mut bytes);
        typed(bytes, file.media)
    };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // Another version of rondo on the same port has other files.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

pub async fn error(Path(code): Path<String>) -> Response {
    match Code::find(&code) {
        Some(known) => typed(known.page(), "text/plain; charset=utf-8"),
        None => Problem::new(StatusCode::NOT_FOUND, Code::NoSuchRoute, "there is no such code").into_response(),
    }
}
