//! Applies one pattern to a text, which arrives whole or in pieces.
//!
//! Laws:
//! - A match contains no part of a mark, and redacting a text again does not change it.
//! - The result does not depend on how the text was cut: output is released only when no further text can change it.
//!
//! Both depend on what a match sees next to it. Next to a character it sees that character, even if the character was
//! already released. Next to a mark no assertion of a pattern holds: neither the end of the text or of a line nor a
//! word boundary. The redacted text is unknown, and if an assertion held there that did not hold before, redaction
//! would create new matches.

use std::sync::Arc;

use regex_automata::Input;

use super::mark::{Marks, NextMark};
use super::pattern::Pattern;

/// The state of one pattern in a text.
#[derive(Debug)]
pub(super) struct Pass {
    pattern: Pattern,
    /// No match may overlap these.
    marks: Arc<Marks>,
    /// What precedes `held`.
    before: Beside,
    /// The text that is not settled yet. It contains no mark.
    held: String,
    /// How many bytes of `held` were already searched for marks and line ends.
    looked: usize,
}

/// What is next to a stretch of text.
#[derive(Debug, Clone, Copy)]
enum Beside {
    /// Nothing: the text begins or ends there.
    Nothing,
    Char(char),
    Mark,
}

impl Beside {
    /// What a match sees there, given the neighbouring character of the text.
    fn seen_from(self, neighbour: Option<char>) -> Option<char> {
        match self {
            Self::Nothing => None,
            Self::Char(c) => Some(c),
            // No word boundary lies between two equal characters, and a space is no end of a line.
            Self::Mark => neighbour.map(|c| if c == '\n' { ' ' } else { c }),
        }
    }
}

impl Pass {
    pub(super) fn new(pattern: Pattern, marks: Arc<Marks>) -> Self {
        Self { pattern, marks, before: Beside::Nothing, held: String::new(), looked: 0 }
    }

    /// The redacted text. `None` when nothing is redacted.
    pub(super) fn whole(pattern: &Pattern, marks: &Arc<Marks>, text: &str) -> Option<String> {
        // Marks can only remove matches, so a text that has none without marks has none with them.
        if !pattern.is_in(text) {
            return None;
        }
        let mut pass = Self::new(pattern.clone(), Arc::clone(marks));
        text.clone_into(&mut pass.held);
        Some(pass.finish())
    }

    pub(super) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.advance(false)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Returns the rest at the end of the text. Another text may follow.
    pub(super) fn finish(&mut self) -> String {
        let out = self.advance(true);
        self.before = Beside::Nothing;
        self.looked = 0;
        out
    }

    /// Releases what is settled. A mark settles everything before it.
    fn advance(&mut self, whole: bool) -> String {
        let mut out = String::new();
        let mut held = std::mem::take(&mut self.held);
        let mut settled = 0;
        let mut looked = self.looked;
        let known = loop {
            match self.marks.find(&held, looked, whole) {
                NextMark::Mark(mark) => {
                    self.close(held.get(settled..mark.start).unwrap_or_default(), Beside::Mark, &mut out);
                    out.push_str(held.get(mark.clone()).unwrap_or_default());
                    self.before = Beside::Mark;
                    settled = mark.end;
                    looked = mark.end;
                }
                NextMark::Begun(start) => break start,
                NextMark::None => break held.len(),
            }
        };
        let text = held.get(settled..known).unwrap_or_default();
        if whole {
            self.close(text, Beside::Nothing, &mut out);
            settled = known;
        } else {
            settled += self.settle(text, looked - settled, &mut out);
        }
        self.looked = known.saturating_sub(settled);
        held.drain(..settled);
        self.held = held;
        out
    }

    /// Releases the settled part of `text`, of which more may follow, and returns its length. No line ends in the first
    /// `looked` bytes.
    fn settle(&mut self, text: &str, looked: usize, out: &mut String) -> usize {
        let mut settled = 0;
        if self.pattern.reach().within_line
            && let Some(line_end) = text.get(looked..).and_then(|rest| rest.rfind('\n'))
        {
            let line_end = looked + line_end;
            self.close(text.get(..line_end).unwrap_or_default(), Beside::Char('\n'), out);
            out.push('\n');
            self.before = Beside::Char('\n');
            settled = line_end + 1;
        }
        let rest = text.get(settled..).unwrap_or_default();
        // A match is settled once the character after its maximum length is known, because it may look at that one.
        let windowed = self.pattern.reach().longest_bytes.map_or(0, |bytes| rest.len().saturating_sub(bytes));
        let begun = rest.floor_char_boundary(self.pattern.reach().first_beginning(rest));
        if begun >= windowed {
            // No match begins before that, so that there is nothing to search.
            let idle = rest.get(..begun).unwrap_or_default();
            out.push_str(idle);
            self.passed(idle);
            return settled + begun;
        }
        settled + self.redact(rest, Beside::Nothing, windowed, out)
    }

    fn close(&mut self, text: &str, after: Beside, out: &mut String) {
        self.redact(text, after, text.len(), out);
    }

    /// Redacts the matches of `text` that begin before `limit`, and gives how far it came.
    fn redact(&mut self, text: &str, after: Beside, limit: usize, out: &mut String) -> usize {
        let mut haystack = String::with_capacity(text.len() + 2 * char::MAX.len_utf8());
        haystack.extend(self.before.seen_from(text.chars().next()));
        let offset = haystack.len();
        haystack.push_str(text);
        haystack.extend(after.seen_from(text.chars().next_back()));

        let mut read = 0;
        while let Some(found) = self.pattern.find(&Input::new(&haystack).span(offset + read..offset + text.len())) {
            let start = found.start() - offset;
            if start >= limit {
                break;
            }
            out.push_str(text.get(read..start).unwrap_or_default());
            out.push_str(self.pattern.replacement());
            read = found.end() - offset;
        }
        if read < limit {
            let limit = text.floor_char_boundary(limit);
            out.push_str(text.get(read..limit).unwrap_or_default());
            read = limit;
        }
        self.passed(text.get(..read).unwrap_or_default());
        read
    }

    /// Remembers the last character before the rest.
    fn passed(&mut self, text: &str) {
        if let Some(last) = text.chars().next_back() {
            self.before = Beside::Char(last);
        }
    }
}

#[cfg(test)]
mod tests;
