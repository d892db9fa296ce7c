//! Files as text, and how numbers and lines are shown to a model.

use std::borrow::Cow;
use std::fmt::Write;

use rondo_protocol::diagnostic::Code;

use super::Error;
use crate::bound::{self, grouped};
use crate::redact::Redactor;

/// How many bytes of a file are checked to detect binary content, as git and grep do.
pub(super) const SNIFFED_BYTES: usize = 8192;

/// The largest file that is changed as a whole.
pub(super) const CHANGED_MAX_BYTES: u64 = 4 << 20;

const MARKS_MAX: usize = 5;

/// The content of a text file, with what is needed to write it back byte for byte.
pub(super) struct Text {
    pub(super) content: String,
    is_utf8: bool,
}

impl Text {
    /// Reads text. Content that is not UTF-8 is read as Latin-1, which maps every byte to a character and loses none.
    pub(super) fn read(path: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        if bytes.contains(&0) {
            return Err(binary(path, bytes.len() as u64));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(content) => Self { content, is_utf8: true },
            Err(error) => {
                Self { content: error.as_bytes().iter().map(|byte| char::from(*byte)).collect(), is_utf8: false }
            }
        })
    }

    pub(super) fn encode(&self, path: &str, content: String) -> Result<Vec<u8>, Error> {
        if self.is_utf8 {
            return Ok(content.into_bytes());
        }
        let bytes: Result<Vec<u8>, _> = content.chars().map(u8::try_from).collect();
        bytes.map_err(|_| {
            let message =
                format!("{path:?} is not UTF-8, and the new text holds characters that Latin-1 does not have");
            Error::new(Code::NotText, message)
        })
    }

    /// Converts text with plain newlines to the line ends of this file: CRLF if every line ends so.
    pub(super) fn in_its_newlines<'a>(&self, written: &'a str) -> Cow<'a, str> {
        let crlf = self.content.matches("\r\n").count();
        if crlf > 0 && crlf == self.content.matches('\n').count() && !written.contains('\r') {
            Cow::Owned(written.replace('\n', "\r\n"))
        } else {
            Cow::Borrowed(written)
        }
    }
}

pub(super) fn binary(path: &str, size_bytes: u64) -> Error {
    let message = format!("{path:?} is binary ({} bytes); only text can be read and changed", grouped(size_bytes));
    Error::new(Code::NotText, message)
}

/// The reasons why a result is incomplete. The first few are listed, the others counted.
#[derive(Debug, Default)]
pub(super) struct Marks {
    listed: Vec<String>,
    more: usize,
}

impl Marks {
    pub(super) fn push(&mut self, mark: String) {
        if self.listed.len() < MARKS_MAX {
            self.listed.push(mark);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        other.listed.into_iter().for_each(|mark| self.push(mark));
        self.more += other.more;
    }

    /// Appends them to a result, one per line.
    pub(super) fn show(&self, shown: &mut String) {
        // Writing to a string cannot fail.
        for mark in &self.listed {
            let _ = writeln!(shown, "[{mark}]");
        }
        if self.more > 0 {
            let _ = writeln!(shown, "[and {} more places that were not seen whole]", grouped(self.more as u64));
        }
    }
}

/// How much of a long line is redacted before it is cut, independent of how much is kept.
const REDACTED_MAX_BYTES: usize = 64 << 10;

/// A line of a file, redacted and then cut to `max_bytes` with a mark.
pub(super) fn redacted(redactor: &Redactor, line: &[u8], max_bytes: usize) -> String {
    let Some(beginning) = line.get(..REDACTED_MAX_BYTES).filter(|beginning| beginning.len() < line.len()) else {
        return cut(&redactor.text(&String::from_utf8_lossy(line)), max_bytes).into_owned();
    };
    let whole = beginning.len() - bound::begun_character(beginning);
    let beginning = String::from_utf8_lossy(beginning.get(..whole).unwrap_or_default());
    cut_of(&redactor.beginning(&beginning), line.len() - whole, max_bytes)
}

/// A line cut to `max_bytes`, with a mark.
pub(super) fn cut(line: &str, max_bytes: usize) -> Cow<'_, str> {
    if line.len() <= max_bytes { Cow::Borrowed(line) } else { Cow::Owned(cut_of(line, 0, max_bytes)) }
}

/// The beginning of a line that continues for `rest` bytes, cut in the same way.
fn cut_of(line: &str, rest: usize, max_bytes: usize) -> String {
    let kept = bound::beginning(line, max_bytes);
    format!("{kept} [{} more bytes]", grouped((line.len() - kept.len() + rest) as u64))
}
