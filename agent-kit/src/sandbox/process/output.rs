//! Keeps the beginning and the end of a program's output.
//!
//! The end of a test run says what failed, the beginning what was run. The middle is counted and dropped, so that
//! memory stays small. Output is redacted as it arrives, so that no cut leaves half a key.

use std::collections::VecDeque;

use super::plan::Streams;
use crate::bound;
use crate::redact::{Redactor, StreamRedactor};

/// The maximum bytes held back for a pattern match. A longer match is not redacted.
const HELD_MAX_BYTES: usize = 1 << 20;

const MARK_MAX_BYTES: usize = 64;

const STDERR_MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout = 1,
    Stderr,
    Connection,
}

/// What is kept of a program's output.
#[derive(Debug)]
pub(super) struct Output {
    /// Both streams, in order of arrival, or stderr.
    text: BoundedOutput,
    /// All of stdout, unchanged, and its limit, where the streams are separate.
    stdout: Option<(Vec<u8>, usize)>,
    seen: u64,
    is_flooded: bool,
}

impl Output {
    /// Keeps at most `max_bytes` of both streams, cut in the middle, or of stdout, where more is an error.
    pub fn new(streams: Streams, max_bytes: usize, redactor: &Redactor) -> Self {
        let (text_max, stdout) = match streams {
            Streams::Together => (max_bytes, None),
            Streams::Apart | Streams::Live => (STDERR_MAX_BYTES, Some((Vec::new(), max_bytes))),
        };
        Self { text: BoundedOutput::new(text_max, redactor), stdout, seen: 0, is_flooded: false }
    }

    pub fn take(&mut self, stream: Stream, part: &[u8]) {
        self.seen = self.seen.saturating_add(length(part.len()));
        match &mut self.stdout {
            Some((stdout, max)) if stream == Stream::Stdout => {
                if stdout.len() + part.len() <= *max {
                    stdout.extend_from_slice(part);
                } else {
                    self.is_flooded = true;
                }
            }
            _ => self.text.push(part),
        }
    }

    /// Whether the limits are exceeded, `most` being that for both streams.
    pub fn is_full(&self, most: u64) -> bool {
        self.is_flooded || self.seen > most
    }

    /// The limit, `most` being that for both streams.
    pub fn most_bytes(&self, most: u64) -> u64 {
        self.stdout.as_ref().map_or(most, |(_, max)| most.min(length(*max)))
    }

    /// The kept text, and the number of bytes left out; of stderr if the streams are separate.
    pub fn into_text(self) -> (String, u64) {
        self.text.into_text()
    }

    /// All of stdout, and what is kept of stderr.
    pub fn into_streams(self) -> (Vec<u8>, String) {
        (self.stdout.unwrap_or_default().0, self.text.into_text().0)
    }
}

/// The beginning and the end of the pushed bytes, within a limit.
#[derive(Debug)]
struct BoundedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    stream: StreamRedactor,
    /// An incomplete character at the end.
    begun: Vec<u8>,
    /// The number of bytes received, after redaction.
    redacted: u64,
}

impl BoundedOutput {
    /// Keeps at most `max_bytes` including the mark, a quarter of it from the beginning.
    pub fn new(max_bytes: usize, redactor: &Redactor) -> Self {
        let kept_max = max_bytes.saturating_sub(MARK_MAX_BYTES);
        let head_max = kept_max / 4;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_max,
            tail_max: kept_max - head_max,
            stream: redactor.stream(),
            begun: Vec::new(),
            redacted: 0,
        }
    }

    /// Adds bytes. Invalid UTF-8 becomes a question mark, so that the text is not longer than the bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut come = std::mem::take(&mut self.begun);
        come.extend_from_slice(bytes);
        self.begun = come.split_off(come.len() - bound::begun_character(&come));
        let redacted = self.stream.push(&text(&come));
        self.keep(redacted.as_bytes());
        if self.stream.held_bytes() > HELD_MAX_BYTES {
            let redacted = self.stream.give_way();
            self.keep(redacted.as_bytes());
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.redacted = self.redacted.saturating_add(length(bytes.len()));
        let room = self.head_max.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_max));
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    pub fn into_text(mut self) -> (String, u64) {
        let begun = std::mem::take(&mut self.begun);
        let rest = self.stream.push(&text(&begun)) + &self.stream.finish();
        self.keep(rest.as_bytes());
        let Self { mut head, tail, redacted, .. } = self;
        let tail = Vec::from(tail);
        if redacted == length(head.len() + tail.len()) {
            head.extend_from_slice(&tail);
            return (text(&head), 0);
        }
        // A character split by the cut is left out.
        let last = head.iter().rposition(|byte| (*byte & 0xC0) != 0x80).unwrap_or(0);
        if std::str::from_utf8(head.split_at(last).1).is_err() {
            head.truncate(last);
        }
        let rest = tail.iter().take(3).take_while(|byte| (**byte & 0xC0) == 0x80).count();
        let (_, tail) = tail.split_at(rest);
        let left_out = redacted.saturating_sub(length(head.len() + tail.len()));
        (format!("{}\n[... {left_out} bytes left out ...]\n{}", text(&head), text(tail)), left_out)
    }
}

fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push('?');
        }
    }
    text
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
