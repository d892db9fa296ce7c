//! The canonical bytes of a JSON text, without a [`Value`] in between where the text is plain.
//!
//! A text is plain when canonical form spells every value in it as it stands: strings without escapes, integers of at
//! most [`MAX_DIGITS`] digits without leading zeros and other than `-0`, words, lists and objects nested at most
//! [`MAX_PLAIN_DEPTH`] levels. All that is left to do is to drop the blanks and to order the members, so one pass
//! copies the text run by run, and a text that is canonical already is not copied at all.
//!
//! Law: [`of_text`] is [`to_bytes`] of [`from_slice`], byte for byte and error for error. The pass therefore refuses
//! nothing by itself: at the first thing that is not plain (a fault, a key that stands twice, a number such as `1.0`)
//! it gives up, and the reader and the writer decide. It must know nothing of serde.

use std::borrow::Cow;

use super::{Error, Value, de::PRIVATE_NUMBER_KEY, from_slice, to_bytes};

/// The deepest nesting of a plain text. It bounds the recursion, and how often a byte is moved by the sorting of the
/// objects around it.
const MAX_PLAIN_DEPTH: usize = 16;

/// The most digits of a plain integer: any such number is well within [`MAX_INTEGER`](super::MAX_INTEGER).
const MAX_DIGITS: usize = 18;

/// The canonical bytes of the value of a JSON text: what [`to_bytes`] writes of the [`Value`] that [`from_slice`] reads.
/// Borrowed from `text` when they stand there as they are.
///
/// # Errors
/// As [`from_slice`] and [`to_bytes`].
pub fn of_text(text: &str) -> Result<Cow<'_, [u8]>, Error> {
    match plain(text) {
        Some(bytes) => Ok(bytes),
        None => to_bytes(&from_slice::<Value>(text.as_bytes())?).map(Cow::Owned),
    }
}

/// The canonical bytes of a plain text, and nothing of any other.
fn plain(text: &str) -> Option<Cow<'_, [u8]>> {
    let mut pass = Pass {
        text: text.as_bytes(),
        at: 0,
        from: 0,
        out: Vec::new(),
        members: Vec::with_capacity(8),
        sorted: Vec::new(),
    };
    pass.blanks();
    pass.value(MAX_PLAIN_DEPTH)?;
    if !pass.text.get(pass.at..)?.iter().copied().all(is_blank) {
        return None;
    }
    if pass.out.is_empty() {
        return Some(Cow::Borrowed(pass.run()));
    }
    pass.flush();
    Some(Cow::Owned(pass.out))
}

/// One way through a text. What is written is `out` and, behind it, the run `text[from..at]`, which is copied only when
/// something interrupts it.
struct Pass<'a> {
    text: &'a [u8],
    at: usize,
    from: usize,
    out: Vec<u8>,
    /// The members of all open objects, those of the innermost last.
    members: Vec<Member<'a>>,
    /// Where members are put into order, kept for the next object.
    sorted: Vec<u8>,
}

/// One member of an object, and where `"key":value` stands in what is written.
struct Member<'a> {
    key: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Pass<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn run(&self) -> &'a [u8] {
        self.text.get(self.from..self.at).unwrap_or_default()
    }

    /// How many bytes are written.
    fn written(&self) -> usize {
        self.out.len() + (self.at - self.from)
    }

    fn flush(&mut self) {
        if self.out.capacity() == 0 {
            // Without its blanks a text only gets shorter.
            self.out.reserve_exact(self.text.len());
        }
        self.out.extend_from_slice(self.run());
        self.from = self.at;
    }

    #[inline]
    fn blanks(&mut self) {
        if self.peek().is_some_and(is_blank) {
            self.drop_blanks();
        }
    }

    fn drop_blanks(&mut self) {
        if self.from < self.at {
            self.flush();
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|byte| !is_blank(*byte)).unwrap_or(rest.len());
        self.from = self.at;
    }

    /// Passes a value with at most `levels` levels of nesting.
    fn value(&mut self, levels: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' => self.object(levels.checked_sub(1)?),
            b'[' => self.list(levels.checked_sub(1)?),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.integer(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let found = self.text.get(self.at..)?.starts_with(word);
        self.at += word.len();
        found.then_some(())
    }

    fn integer(&mut self) -> Option<()> {
        let negative = self.take(b'-');
        let rest = self.text.get(self.at..)?;
        let length = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += length;
        let zero = rest.first() == Some(&b'0');
        let plain = match length {
            1 => !(zero && negative),
            2..=MAX_DIGITS => !zero,
            _ => false,
        };
        (plain && !matches!(self.peek(), Some(b'.' | b'e' | b'E'))).then_some(())
    }

    /// Passes a string without escapes and gives what stands between its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let rest = self.text.get(self.at..)?.strip_prefix(b"\"")?;
        let (inside, behind) = rest.split_at_checked(plain_length(rest))?;
        self.at += inside.len() + 2;
        (behind.first() == Some(&b'"')).then_some(inside)
    }

    fn list(&mut self, levels: usize) -> Option<()> {
        self.at += 1;
        self.blanks();
        if self.take(b']') {
            return Some(());
        }
        loop {
            self.value(levels)?;
            self.blanks();
            if !self.take(b',') {
                return self.take(b']').then_some(());
            }
            self.blanks();
        }
    }

    fn object(&mut self, levels: usize) -> Option<()> {
        self.at += 1;
        self.blanks();
        if self.take(b'}') {
            return Some(());
        }
        let outer = self.members.len();
        let mut before = None;
        let mut in_order = true;
        loop {
            let start = self.written();
            let key = self.string()?;
            if key == PRIVATE_NUMBER_KEY.as_bytes() {
                return None;
            }
            self.blanks();
            if !self.take(b':') {
                return None;
            }
            self.blanks();
            self.value(levels)?;
            let end = self.written();
            in_order &= before.replace(key).is_none_or(|before| before < key);
            self.members.push(Member { key, start, end });
            self.blanks();
            if !self.take(b',') {
                break;
            }
            self.blanks();
        }
        if !in_order {
            self.sort(outer)?;
        }
        self.members.truncate(outer);
        self.take(b'}').then_some(())
    }

    /// Puts the members from the `outer`th on into order, which end where the written bytes end.
    fn sort(&mut self, outer: usize) -> Option<()> {
        self.flush();
        let members = self.members.get_mut(outer..)?;
        let start = members.first()?.start;
        members.sort_unstable_by(|a, b| a.key.cmp(b.key));
        if members.windows(2).any(|pair| matches!(pair, [a, b] if a.key == b.key)) {
            return None;
        }
        self.sorted.clear();
        self.sorted.reserve(self.out.len() - start);
        for member in members {
            if !self.sorted.is_empty() {
                self.sorted.push(b',');
            }
            self.sorted.extend_from_slice(self.out.get(member.start..member.end)?);
        }
        self.out.truncate(start);
        self.out.extend_from_slice(&self.sorted);
        Some(())
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// How many bytes stand before the first quote, backslash or control character: eight at a time.
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (nth, word) in words.iter().enumerate() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return nth * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).unwrap_or(rest.len());
    words.len() * 8 + plain
}

/// The high bit of each byte that is a quote, a backslash or a control character. The subtractions borrow from the
/// bytes above a marked one, so only the lowest mark is sure, and it is the one that is asked for.
fn marks(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quote = below(word ^ (ONES * 0x22), 1);
    let backslash = below(word ^ (ONES * 0x5c), 1);
    (quote | backslash | below(word, 0x20)) & (ONES * 0x80)
}

#[cfg(test)]
mod tests;
