//! The files of a thread: `GET /api/v1/threads/THREAD/files/DIGEST`.
//!
//! Contents are those of whoever started the thread, so a browser is never to take them for a page: only images have
//! their own type, and none is sniffed or run.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use rondo::core::conversation::rebuild;
use rondo::failure::Failure;
use rondo::host::find_thread::find_thread;
use rondo::protocol::Digest;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::digest::Kind;
use rondo::protocol::workflow::types::files_of;

use super::Server;
use super::body::typed;
use super::params::Path;
use super::problem::Problem;

const IMAGES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];

/// The contents of a file that the thread's input names.
pub async fn one(
    State(server): State<Server>,
    Path((word, digest)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let read = server.reading(move |_, store| {
        let (thread, row) = find_thread(store, &word)?;
        let input = rebuild::beginning(store, &row)?.start.input;
        let wanted = Digest::from_hex(&digest);
        let named = files_of(&input).into_iter().find(|file| Some(file.digest) == wanted);
        let unknown = || Failure::new(Code::ThreadUnknown, format!("thread {thread} has no file of that digest"));
        let named = named.ok_or_else(unknown)?;
        Ok((store.object(Kind::File, named.digest)?.ok_or_else(unknown)?, named.media_type))
    });
    let (bytes, media_type) = read.await?;
    let shown = IMAGES.into_iter().find(|image| *image == media_type).unwrap_or("application/octet-stream");
    let mut response = typed(bytes, shown);
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}
