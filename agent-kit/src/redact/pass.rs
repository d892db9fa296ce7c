//! One pattern at work on a text, which arrives whole or in pieces.
//!
//! Laws:
//! - A match holds no part of a mark, and a text stays as it is when it is redacted again.
//! - The outcome does not depend on how the text was cut: what is let go is settled whatever follows.
//!
//! Both rest on what a match may see beside it. Beside a character it sees that character, also where it was let go
//! already. Beside a mark nothing that a pattern can ask for holds, neither the end of a text or line nor that of a
//! word: what was taken out is not known any more, and were more to hold there than before, redaction would bring forth
//! new matches.

use std::sync::Arc;

use regex_automata::Input;

use super::mark::{Marks, NextMark};
use super::pattern::Pattern;

/// The state of one pattern in a text.
#[derive(Debug)]
pub(super) struct Pass {
    pattern: Pattern,
    /// What no match may touch.
    marks: Arc<Marks>,
    /// What stands before `held`.
    before: Beside,
    /// What is not settled yet. No mark stands in it.
    held: String,
    /// How many bytes of `held` were looked through for marks and lines.
    looked: usize,
}

/// What stands next to a stretch of text.
#[derive(Debug, Clone, Copy)]
enum Beside {
    /// Nothing: there the text begins or ends.
    Nothing,
    Char(char),
    Mark,
}

impl Beside {
    /// What a match sees there, next to a character of the text.
    fn seen_from(self, neighbour: Option<char>) -> Option<char> {
        match self {
            Self::Nothing => None,
            Self::Char(c) => Some(c),
            // Between two equal characters no word ends, and it is no end of a line that is none.
            Self::Mark => neighbour.map(|c| if c == '\n' { ' ' } else { c }),
        }
    }
}

impl Pass {
    pub(super) fn new(pattern: Pattern, marks: Arc<Marks>) -> Self {
        Self { pattern, marks, before: Beside::Nothing, held: String::new(), looked: 0 }
    }

    /// The redacted text. `None` when nothing is redacted in it.
    pub(super) fn whole(pattern: &Pattern, marks: &Arc<Marks>, text: &str) -> Option<String> {
        // Marks only ever take a match away, so that where none is without them, none is.
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

    /// What is left when the text is at its end. Another text may follow.
    pub(super) fn finish(&mut self) -> String {
        let out = self.advance(true);
        self.before = Beside::Nothing;
        self.looked = 0;
        out
    }

    /// Lets go of what is settled. A mark settles all that stands before it.
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

    /// Lets go of what is settled of `text`, of which more may follow, and gives its length. No line ends in the first
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
        // A match is settled when one more character than it can hold is there: it may ask what stands beside it.
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

    /// Redacts all of a stretch.
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
