//! Snapshots: what was accepted of a scenario, as text that a person reads, that a diff shows well, and from which every
//! byte comes back.
//!
//! A file is a snapshot of insta: front matter ([`front`]), then a body. A body is made of headings, which begin in the
//! first column, and of texts below them, which are indented ([`text`]). [`Requests`] is the body of what one role was
//! sent, [`RunTrace`] that of the run itself.
//!
//! Laws: what is written reads back as it was, whatever is in it; a body that was edited by hand is told from one that
//! was written, at the place where it no longer fits its digest.

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

/// The version of what is written here.
pub const FORMAT: u32 = 1;

/// How many digits of a digest a snapshot shows.
const DIGITS: usize = 16;

/// Why a text is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of fault.
    pub code: Code,
    /// Which bytes of the text it is about.
    pub at: Range<usize>,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
}

impl Error {
    fn new(code: Code, at: Range<usize>, message: impl Into<String>) -> Self {
        Self { code, at, message: message.into() }
    }

    /// The diagnostic of it in `file`, whose text is `text`.
    pub fn diagnostic(self, file: &str, text: &str) -> Diagnostic {
        let span = Span::new(self.at.start, self.at.len());
        let hint = "look at `git diff`; `rondo test --accept` writes the snapshot anew";
        Source::new(file, text).diagnostic(self.code, span, self.message).with_hint(hint)
    }
}

/// Checks that the body from byte `from` of `text` is what its content is written as, so that every digest in it holds.
/// Blanks at its end do not count.
///
/// # Errors
/// The first line that differs.
fn check_unedited(text: &str, from: usize, written: &str) -> Result<(), Error> {
    let body = text.get(from..).unwrap_or_default().trim_end();
    let mut expected = written.trim_end().split('\n');
    let mut at = from;
    for line in body.split('\n') {
        if expected.next() != Some(line) {
            let message = "the snapshot does not fit its digests: it was edited";
            return Err(Error::new(Code::SnapshotEdited, at..at + line.len(), message));
        }
        at += line.len() + 1;
    }
    match expected.next() {
        None => Ok(()),
        Some(_) => Err(Error::new(Code::SnapshotEdited, at..at, "the snapshot lacks its last lines: it was edited")),
    }
}

/// The beginning of the digest of a body or a part of one, which ends with one line break whatever took its last ones
/// away.
fn digest_of(content: &str) -> String {
    short(rondo_protocol::Digest::sha256(format!("{}\n", content.trim_end()).as_bytes()))
}

/// The beginning of a digest, as snapshots show it.
pub fn short(digest: rondo_protocol::Digest) -> String {
    let mut digits = digest.to_string();
    digits.truncate(DIGITS);
    digits
}
