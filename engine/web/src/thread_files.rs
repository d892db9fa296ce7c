//! The files of a thread: `GET /api/v1/threads/THREAD/files/DIGEST`.
//!
//! Contents are those of whoever started the thread, or of a tool that it called, so a browser is never to take them for
//! a page: only images have their own type, and none is sniffed or run.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use rondo::core::conversation::rebuild;
use rondo::failure::Failure;
use rondo::protocol::Digest;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::digest::Kind;
use rondo::protocol::id::ThreadId;
use rondo::protocol::message::FileRef;
use rondo::protocol::object::{Entry, Record, Transcript};
use rondo::protocol::workflow::types::files_of;
use rondo::store::{Read, Row};

use super::Server;
use super::body::typed;
use super::params::Path;
use super::problem::Problem;

const IMAGES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];

/// The contents of a file that the thread's input or a result of one of its tools names.
pub async fn one(
    State(server): State<Server>,
    Path((word, digest)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let read = server.of_thread(word, move |_, store, (thread, row)| {
        let unknown = || Failure::new(Code::ThreadUnknown, format!("thread {thread} has no file of that digest"));
        let wanted = Digest::from_hex(&digest).ok_or_else(unknown)?;
        let input = rebuild::beginning(store, &row)?.start.input;
        let named = files_of(&input).into_iter().find(|file| file.digest == wanted);
        let named = match named {
            Some(named) => named,
            None => of_tools(store, (&thread, &row), wanted)?.ok_or_else(unknown)?,
        };
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

/// The file of that digest which a tool of the thread returned.
fn of_tools(store: &dyn Read, (thread, row): (&ThreadId, &Row), wanted: Digest) -> Result<Option<FileRef>, Failure> {
    let (mut found, mut outcome) = (None, Ok(()));
    store.scan(thread, 1..=row.seq, &mut |stored, _| {
        let transcript = match &stored.record {
            Record::Step(step) => step.transcript,
            Record::Compaction(_) | Record::Rebind(_) => None,
        };
        let Some(transcript) = transcript else { return true };
        match rebuild::object::<Transcript>(store, Kind::Transcript, transcript) {
            Ok(transcript) => {
                let mut files = transcript.entries.iter().flat_map(Entry::files);
                found = files.find(|file| file.digest == wanted).cloned();
            }
            Err(error) => outcome = Err(error),
        }
        found.is_none() && outcome.is_ok()
    })?;
    outcome?;
    Ok(found)
}
