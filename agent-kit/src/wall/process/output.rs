//! What is kept of a program's output: its beginning and its end.
//!
//! The end of a test run says what failed, the beginning what was run. What lies between is counted and left out, so
//! that memory stays small however much comes.

use std::collections::VecDeque;

/// Room for the mark.
const MARK_MAX_BYTES: usize = 64;

/// The beginning and the end of what was pushed, within a bound.
#[derive(Debug)]
pub(super) struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    seen: u64,
}

impl Kept {
    /// Keeps at most `max_bytes` with the mark, a quarter of it from the beginning.
    pub fn new(max_bytes: usize) -> Self {
        let kept_max = max_bytes.saturating_sub(MARK_MAX_BYTES);
        let head_max = kept_max / 4;
        Self { head: Vec::new(), tail: VecDeque::new(), head_max, tail_max: kept_max - head_max, seen: 0 }
    }

    /// Takes what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.seen = self.seen.saturating_add(length(bytes.len()));
        let room = self.head_max.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_max));
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// How many bytes came.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What is kept, as text with a mark where something is left out, and how many bytes are left out. What is not
    /// UTF-8 becomes a question mark, so that the text is not longer than the bytes.
    pub fn into_text(self) -> (String, u64) {
        let Self { mut head, tail, seen, .. } = self;
        let tail = Vec::from(tail);
        if seen == length(head.len() + tail.len()) {
            head.extend_from_slice(&tail);
            return (text(&head), 0);
        }
        // A character that the cut goes through is left out whole.
        let last = head.iter().rposition(|byte| (*byte & 0xC0) != 0x80).unwrap_or(0);
        if std::str::from_utf8(head.split_at(last).1).is_err() {
            head.truncate(last);
        }
        let rest = tail.iter().take(3).take_while(|byte| (**byte & 0xC0) == 0x80).count();
        let (_, tail) = tail.split_at(rest);
        let left_out = seen.saturating_sub(length(head.len() + tail.len()));
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
        let mut kept = Kept::new(max);
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
        let mut kept = Kept::new(1000);
        let flood = vec![0xFF; 1 << 20];
        (0..64).for_each(|_| kept.push(&flood));
        assert!(kept.head.len() + kept.tail.len() <= 1000 && kept.tail.capacity() <= 4096);
        let (text, left_out) = kept.into_text();
        assert!(text.len() <= 1000, "{}", text.len());
        assert!(left_out >= (64 << 20) - 1000);
    }
}
