//! The canonical bytes of a JSON text, computed without a [`Value`] if the text is plain.
//!
//! A text is plain if every value in it already has its canonical form: strings without escapes, integers of at most
//! [`MAX_DIGITS`] digits without leading zeros and other than `-0`, literals, lists and objects nested at most
//! [`MAX_PLAIN_DEPTH`] levels. Only blanks have to be removed and members sorted, so one pass copies the text run by
//! run, and a text that is already canonical is not copied at all.
//!
//! Law: [`of_text`] equals [`to_bytes`] of [`from_slice`], byte for byte and error for error. The pass therefore
//! reports no faults: at the first thing that is not plain (a fault, a duplicate key, a number such as `1.0`) it gives
//! up, and the reader and the writer take over. It must not depend on serde.

use std::borrow::Cow;

use super::{Error, Value, de::PRIVATE_NUMBER_KEY, from_slice, to_bytes};
use crate::scan::{Scanner, is_blank};

/// The maximum nesting of a plain text. It bounds the recursion, and how often sorting the enclosing objects moves a
/// byte.
const MAX_PLAIN_DEPTH: usize = 16;

/// The maximum number of digits of a plain integer: any such number is well within [`MAX_INTEGER`](super::MAX_INTEGER).
const MAX_DIGITS: usize = 18;

/// The canonical bytes of a JSON text: those that [`to_bytes`] writes for the [`Value`] that [`from_slice`] reads.
/// Borrowed from `text` if `text` contains them unchanged.
///
/// # Errors
/// As [`from_slice`] and [`to_bytes`].
pub fn of_text(text: &str) -> Result<Cow<'_, [u8]>, Error> {
    match plain(text) {
        Some(bytes) => Ok(bytes),
        None => to_bytes(&from_slice::<Value>(text.as_bytes())?).map(Cow::Owned),
    }
}

/// The canonical bytes of a plain text; `None` for any other.
fn plain(text: &str) -> Option<Cow<'_, [u8]>> {
    let mut pass = Pass {
        scan: Scanner { text, at: 0 },
        from: 0,
        out: Vec::new(),
        members: Vec::with_capacity(8),
        sorted: Vec::new(),
    };
    pass.blanks();
    pass.value(MAX_PLAIN_DEPTH)?;
    let end = pass.scan.at;
    if !text.as_bytes().get(end..)?.iter().copied().all(is_blank) {
        return None;
    }
    if pass.out.is_empty() {
        return Some(Cow::Borrowed(pass.run()));
    }
    pass.flush();
    Some(Cow::Owned(pass.out))
}

/// One pass over a text. The output is `out` followed by the run `text[from..at]`, which is copied only when it is
/// interrupted.
struct Pass<'a> {
    scan: Scanner<'a>,
    from: usize,
    out: Vec<u8>,
    /// The members of all open objects, those of the innermost last.
    members: Vec<Member<'a>>,
    /// A buffer for sorting members, reused for the next object.
    sorted: Vec<u8>,
}

/// One member of an object, and the range of its `"key":value` in the output.
struct Member<'a> {
    key: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> Pass<'a> {
    fn run(&self) -> &'a [u8] {
        self.scan.text.as_bytes().get(self.from..self.scan.at).unwrap_or_default()
    }

    fn written(&self) -> usize {
        self.out.len() + (self.scan.at - self.from)
    }

    fn flush(&mut self) {
        if self.out.capacity() == 0 {
            // Removing blanks only shortens a text.
            self.out.reserve_exact(self.scan.text.len());
        }
        self.out.extend_from_slice(self.run());
        self.from = self.scan.at;
    }

    #[inline]
    fn blanks(&mut self) {
        if self.scan.peek().is_some_and(is_blank) {
            self.drop_blanks();
        }
    }

    fn drop_blanks(&mut self) {
        if self.from < self.scan.at {
            self.flush();
        }
        self.scan.blanks();
        self.from = self.scan.at;
    }

    /// Skips a value with at most `levels` levels of nesting.
    fn value(&mut self, levels: usize) -> Option<()> {
        match self.scan.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' => self.object(levels.checked_sub(1)?),
            b'[' => self.list(levels.checked_sub(1)?),
            b't' => self.scan.word("true").ok(),
            b'f' => self.scan.word("false").ok(),
            b'n' => self.scan.word("null").ok(),
            _ => self.integer(),
        }
    }

    fn integer(&mut self) -> Option<()> {
        let (literal, is_integer) = self.scan.number().ok()?;
        let digits = literal.len() - usize::from(literal.starts_with('-'));
        (is_integer && digits <= MAX_DIGITS && literal != "-0").then_some(())
    }

    /// Skips a string without escapes and returns the text between its quotes.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        match self.scan.peek() {
            Some(b'"') => match self.scan.string() {
                Ok(Cow::Borrowed(text)) => Some(text.as_bytes()),
                _ => None,
            },
            _ => None,
        }
    }

    fn list(&mut self, levels: usize) -> Option<()> {
        self.scan.at += 1;
        self.blanks();
        if self.scan.take(b']') {
            return Some(());
        }
        loop {
            self.value(levels)?;
            self.blanks();
            if !self.scan.take(b',') {
                return self.scan.take(b']').then_some(());
            }
            self.blanks();
        }
    }

    fn object(&mut self, levels: usize) -> Option<()> {
        self.scan.at += 1;
        self.blanks();
        if self.scan.take(b'}') {
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
            if !self.scan.take(b':') {
                return None;
            }
            self.blanks();
            self.value(levels)?;
            let end = self.written();
            in_order &= before.replace(key).is_none_or(|before| before < key);
            self.members.push(Member { key, start, end });
            self.blanks();
            if !self.scan.take(b',') {
                break;
            }
            self.blanks();
        }
        if !in_order {
            self.sort(outer)?;
        }
        self.members.truncate(outer);
        self.scan.take(b'}').then_some(())
    }

    /// Sorts the members from index `outer` on, the last of which ends at the end of the output.
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

#[cfg(test)]
mod tests;
