//! Snapshots: the accepted results of a scenario, as text that is readable, diffs well, and preserves every byte.
//!
//! A file is an insta snapshot: front matter ([`front`]), then a body. A body consists of headings, which start in the
//! first column, and of indented texts below them ([`text`]). [`Requests`] is the body for the requests of one role,
//! [`RunTrace`] that for the run itself.
//!
//! Laws: any written snapshot reads back unchanged; a body edited by hand is detected, at the place where it does not
//! match its digest.

mod front;
mod json;
mod requests;
mod text;
mod trace;

use std::ops::Range;

use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_protocol::source::Source;

pub use front::{Front, body};
pub use json::pretty;
pub use requests::{MAX_MESSAGES, Request, Requests};
pub use trace::{RouteStep, RunTrace};

pub const FORMAT: u32 = 2;

/// How many digits of a digest a snapshot shows.
const DIGITS: usize = 16;

/// What is said of a text that does not fit its digests.
const EDITED: &str = "the snapshot does not fit its digests: it was edited";

/// Why a text is not a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub at: Range<usize>,
    pub message: String,
}

impl Error {
    fn new(code: Code, at: Range<usize>, message: impl Into<String>) -> Self {
        Self { code, at, message: message.into() }
    }

    fn syntax(at: Range<usize>, message: impl Into<String>) -> Self {
        Self::new(Code::SnapshotSyntax, at, message)
    }

    pub fn diagnostic(self, file: &str, text: &str) -> Diagnostic {
        let span = Span::new(self.at.start, self.at.len());
        let hint = "look at `git diff`; `rondo test --accept` rewrites the snapshot";
        Source::new(file, text).diagnostic(self.code, span, self.message).with_hint(hint)
    }
}

/// Checks that the body from byte `from` of `text` equals `written`, so that every digest in it holds. Trailing blanks
/// are ignored.
fn check_unedited(text: &str, from: usize, written: &str) -> Result<(), Error> {
    let body = text.get(from..).unwrap_or_default().trim_end();
    let mut expected = written.trim_end().split('\n');
    let mut at = from;
    for line in body.split('\n') {
        if expected.next() != Some(line) {
            return Err(Error::new(Code::SnapshotEdited, at..at + line.len(), EDITED));
        }
        at += line.len() + 1;
    }
    match expected.next() {
        None => Ok(()),
        Some(_) => Err(Error::new(Code::SnapshotEdited, at..at, "the snapshot lacks its last lines: it was edited")),
    }
}

/// The beginning of the digest of a body or a part of one, as if it ended with exactly one line break.
fn digest_of(content: &str) -> String {
    short(rondo_protocol::Digest::sha256(format!("{}\n", content.trim_end()).as_bytes()))
}

/// The beginning of a digest, as snapshots show it.
pub fn short(digest: rondo_protocol::Digest) -> String {
    let mut digits = digest.to_string();
    digits.truncate(DIGITS);
    digits
}
