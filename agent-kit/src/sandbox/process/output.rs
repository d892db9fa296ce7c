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
mod tests {
    use super::*;

    fn kept(max: usize, parts: &[&[u8]]) -> (String, u64) {
        let mut kept = BoundedOutput::new(max, &Redactor::default());
        for part in parts {
            kept.push(part);
        }
        kept.into_text()
    }

    #[test]
    fn what_fits_is_kept_as_it_is() {
        assert_eq!(kept(72, &[b"ab", b"cdef", b"gh"]), ("abcdefgh".to_owned(), 0));
        assert_eq!(kept(72, &[]), (String::new(), 0));
        assert_eq!(kept(72, &[b"a\xFFb\xE2\x82"]), ("a?b?".to_owned(), 0));
    }

    #[test]
    fn the_middle_is_left_out_with_a_mark() {
        let expected = ("ab\n[... 4 bytes left out ...]\nghijkl".to_owned(), 4);
        assert_eq!(kept(72, &[b"abcdefghijkl"]), expected);
        assert_eq!(kept(72, &[b"abc", b"defghi", b"j", b"kl"]), expected);
    }

    #[test]
    fn a_character_is_not_cut_through() {
        let expected = ("a\n[... 6 bytes left out ...]\nfghij".to_owned(), 6);
        assert_eq!(kept(72, &["aäbcüfghij".as_bytes()]), expected);
    }

    #[test]
    fn memory_and_text_stay_small_whatever_comes() {
        let mut kept = BoundedOutput::new(1000, &Redactor::default());
        let flood = vec![0xFF; 1 << 20];
        (0..64).for_each(|_| kept.push(&flood));
        assert!(kept.head.len() + kept.tail.len() <= 1000 && kept.tail.capacity() <= 4096);
        let (text, left_out) = kept.into_text();
        assert!(text.len() <= 1000, "{}", text.len());
        assert!(left_out >= (64 << 20) - 1000);
    }

    #[test]
    fn no_half_of_a_key_stands_at_the_cut_however_the_output_comes() {
        const KEY: &str = "sk-é-0123456789";
        let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
        let output = format!("{KEY}{}{KEY}{}", "x".repeat(50), "y".repeat(40)).repeat(8);
        for max in 64..400 {
            for piece in [1, 7, 1000] {
                let mut kept = BoundedOutput::new(max, &redactor);
                output.as_bytes().chunks(piece).for_each(|bytes| kept.push(bytes));
                let (text, left_out) = kept.into_text();
                assert!(text.len() <= max && left_out > 0, "{text}");
                assert!(!["sk-", "é", "0123", "6789"].iter().any(|part| text.contains(part)), "{max} {piece}: {text}");
            }
        }
    }

    #[test]
    fn a_pattern_that_waits_for_its_end_holds_no_more_than_a_bound() {
        let pattern = crate::redact::Pattern::new("(?s)<<.*?>>").unwrap();
        let redactor = Redactor::new([("KEY".to_owned(), "sk-0123456789".to_owned())]).with_patterns([pattern]);
        let mut kept = BoundedOutput::new(1000, &redactor);
        kept.push(b"a <<b>> <<");
        for _ in 0..200 {
            kept.push(&vec![b'x'; 64 << 10]);
            assert!(kept.stream.held_bytes() <= HELD_MAX_BYTES + (64 << 10));
        }
        kept.push(b"sk-0123456789");
        let (text, _) = kept.into_text();
        assert!(text.starts_with("a [redacted:pattern] <<xx") && text.ends_with("x[redacted:KEY]"), "{text}");
    }
}
