//! The tokens of JSON (RFC 8259): white space, literals, strings and numbers. The two JSON readers build lists and
//! objects from them.

use std::borrow::Cow;

/// A cursor over a text.
#[derive(Clone, Copy)]
pub(crate) struct Scanner<'a> {
    pub text: &'a str,
    /// The offset of the next byte.
    pub at: usize,
}

/// Why the next bytes are not the expected token.
pub(crate) struct Unfit {
    /// Where the fault begins.
    pub from: usize,
    /// Where it was detected; equal to `from` if something is missing.
    pub at: usize,
    pub what: &'static str,
}

pub(crate) const NO_ESCAPE: &str = "not an escape of JSON";

impl<'a> Scanner<'a> {
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Consumes `wanted` if it is next, and returns whether it was.
    #[inline]
    pub fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    #[inline]
    pub fn blanks(&mut self) {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
    }

    pub fn unfit(&self, what: &'static str) -> Unfit {
        Unfit { from: self.at, at: self.at, what }
    }

    /// The text from `start` to the cursor.
    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub fn word(&mut self, word: &str) -> Result<(), Unfit> {
        let found = self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        if !found {
            return Err(self.unfit("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Reads the string whose first quote is next; borrowed if it has no escapes.
    #[inline]
    pub fn string(&mut self) -> Result<Cow<'a, str>, Unfit> {
        self.at += 1;
        let start = self.at;
        self.at += plain_length(self.text.as_bytes().get(self.at..).unwrap_or_default());
        let plain = self.since(start);
        if self.take(b'"') { Ok(Cow::Borrowed(plain)) } else { self.rest_of_string(plain).map(Cow::Owned) }
    }

    fn rest_of_string(&mut self, begun: &str) -> Result<String, Unfit> {
        let mut text = begun.to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.unfit("an unescaped control character in a text")),
                None => return Err(self.unfit("a text has no end")),
            }
            let start = self.at;
            self.at += plain_length(self.text.as_bytes().get(start..).unwrap_or_default());
            text.push_str(self.since(start));
        }
    }

    fn escape(&mut self) -> Result<char, Unfit> {
        let start = self.at;
        self.at += 1;
        let letter = self.peek().ok_or_else(|| self.unfit("a text has no end"))?;
        self.at += 1;
        Ok(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex4()?;
                let is_pair = (0xd800..0xdc00).contains(&high);
                let low = if is_pair && self.text.as_bytes().get(self.at..self.at + 2) == Some(b"\\u") {
                    self.at += 2;
                    Some(self.hex4()?)
                } else {
                    None
                };
                let code = match low {
                    Some(low) if (0xdc00..0xe000).contains(&low) => 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
                    _ => high,
                };
                let alone = || Unfit { from: start, at: self.at, what: "a lone surrogate" };
                char::from_u32(code).ok_or_else(alone)?
            }
            _ => {
                let from = self.at - 1;
                self.at = self.text.ceil_char_boundary(self.at);
                return Err(Unfit { from, at: self.at, what: NO_ESCAPE });
            }
        })
    }

    fn hex4(&mut self) -> Result<u32, Unfit> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or_default();
        let code = digits.iter().try_fold(0_u32, |code, digit| char::from(*digit).to_digit(16).map(|d| code << 4 | d));
        match code {
            Some(code) if digits.len() == 4 => {
                self.at += 4;
                Ok(code)
            }
            _ => Err(self.unfit("\\u wants four hex digits")),
        }
    }

    #[inline]
    fn digits(&mut self) -> Result<(), Unfit> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += length;
        if length == 0 { Err(self.unfit("expected a digit")) } else { Ok(()) }
    }

    /// Reads the next number as written, and whether it has the form of an integer.
    #[inline]
    pub fn number(&mut self) -> Result<(&'a str, bool), Unfit> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        } else if matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unfit("a number does not start with 0"));
        }
        if !matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return Ok((self.since(start), true));
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok((self.since(start), false))
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The number of bytes before the first quote, backslash or control character.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<32>();
    // Without a branch, so that the compiler compares many bytes at once.
    let mark = |byte: u8| u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\');
    let is_marked = |block: &[u8; 32]| block.iter().fold(0, |marks, byte| marks | mark(*byte)) != 0;
    let before = 32 * blocks.iter().position(is_marked).unwrap_or(blocks.len());
    before + plain_length_by_words(bytes.get(before..).unwrap_or_default())
}

/// The same, for less than a block or where one holds such a byte. Reads eight bytes at a time.
fn plain_length_by_words(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (nth, word) in words.iter().enumerate() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return nth * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    if let Some((before, last)) = bytes.split_last_chunk::<8>() {
        // It overlaps the words before it, which hold no such byte.
        let marks = marks(u64::from_le_bytes(*last));
        return if marks == 0 { bytes.len() } else { before.len() + marks.trailing_zeros() as usize / 8 };
    }
    let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).unwrap_or(rest.len());
    words.len() * 8 + plain
}

/// The high bit of each byte that is a quote, a backslash or a control character. The subtractions borrow from the
/// bytes above a marked one, so only the lowest mark is reliable, and only that one is used.
fn marks(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quote = below(word ^ (ONES * 0x22), 1);
    let backslash = below(word ^ (ONES * 0x5c), 1);
    (quote | backslash | below(word, 0x20)) & (ONES * 0x80)
}
