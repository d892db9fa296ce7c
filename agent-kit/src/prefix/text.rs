//! Finds where two texts diverge, what volatile text causes it, and the words on both sides.

use super::volatile::{self, Volatile, VolatileSpan};

const SHOWN_CHARS: usize = 80;

/// How many bytes around the point of divergence are searched: volatile text is short.
const AROUND_BYTES: usize = 256;

/// How many bytes of the difference are searched.
const THROUGH_BYTES: usize = 4_096;

/// Volatile text counts as the cause of a difference only if it is at least this share (1/n) of the bytes in the added
/// or removed words: adding a long text is more than the date in it.
const VOLATILE_SHARE: usize = 8;

/// Two texts and the range in which they differ.
pub(super) struct Difference<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Where they diverge: the beginning of the first character that differs.
    pub(super) at: usize,
    old_end: usize,
    new_end: usize,
}

impl<'a> Difference<'a> {
    pub(super) fn of(old: &'a str, new: &'a str) -> Self {
        let (at, alike) = common_ends(old, new);
        Self { old, new, at, old_end: old.len() - alike, new_end: new.len() - alike }
    }

    /// The kind of volatile text that causes the difference: the texts diverge within or beside it on both sides, or it
    /// is in the words that only one side has.
    pub(super) fn volatile(&self) -> Option<Volatile> {
        let (old, new) = (near(self.old, self.at, self.old_end), near(self.new, self.at, self.new_end));
        let touching = |found: &[VolatileSpan]| {
            found.iter().find(|found| found.at.start <= self.at && self.at <= found.at.end).map(|found| found.kind)
        };
        if let (Some(_), Some(kind)) = (touching(&old), touching(&new)) {
            return Some(kind);
        }
        if is_path(self.old, self.at) && is_path(self.new, self.at) {
            return Some(Volatile::Path);
        }
        let (gone, come) = (self.gone(), self.come());
        let within = |found: &[VolatileSpan], end: usize| {
            let mut within = found.iter().filter(|found| found.at.start < end && self.at < found.at.end).peekable();
            let kind = within.peek().map(|found| found.kind);
            let bytes: usize = within.map(|found| found.at.len()).sum();
            kind.filter(|_| bytes.saturating_mul(VOLATILE_SHARE) >= end - self.at)
        };
        match (gone.trim().is_empty(), come.trim().is_empty()) {
            (true, false) => within(&new, self.new_end),
            (false, true) => within(&old, self.old_end),
            _ => None,
        }
    }

    fn gone(&self) -> &'a str {
        self.old.get(self.at..self.old_end).unwrap_or_default()
    }

    fn come(&self) -> &'a str {
        self.new.get(self.at..self.new_end).unwrap_or_default()
    }

    /// The differing words of both sides: `"a" became "b"`, `added "b"`, `left out "a"`.
    pub(super) fn detail(&self) -> String {
        match (self.gone(), self.come()) {
            ("", come) if self.is_apart(come) => format!("added {}", quoted(come)),
            (gone, "") if self.is_apart(gone) => format!("left out {}", quoted(gone)),
            _ => {
                let from = word_start(self.old, self.at);
                let words = |text: &'a str, end: usize| text.get(from..word_end(text, end)).unwrap_or_default();
                let (old, new) = (words(self.old, self.old_end), words(self.new, self.new_end));
                format!("{} became {}", quoted(old), quoted(new))
            }
        }
    }

    /// Whether the additional text of one side is not the middle of a word.
    fn is_apart(&self, more: &str) -> bool {
        more.contains(char::is_whitespace) || word_start(self.old, self.at) == self.at && self.at == self.old.len()
    }
}

/// The bytes of the whole characters that two texts begin with alike, and after those end with alike.
pub fn common_ends(old: &str, new: &str) -> (usize, usize) {
    let at = old.floor_char_boundary(common(old.bytes(), new.bytes()));
    let (old, new) = (old.get(at..).unwrap_or_default(), new.get(at..).unwrap_or_default());
    let alike = common(old.bytes().rev(), new.bytes().rev());
    // Equal bytes after a boundary of one text are equal characters, so it is a boundary of the other too.
    (at, old.len() - old.ceil_char_boundary(old.len() - alike))
}

/// The length of the common prefix of two sequences.
pub(super) fn common<T: PartialEq>(a: impl Iterator<Item = T>, b: impl Iterator<Item = T>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

/// The volatile text near the point of divergence, with positions in the whole text.
fn near(text: &str, at: usize, end: usize) -> Vec<VolatileSpan> {
    let from = word_start(text, text.floor_char_boundary(at.saturating_sub(AROUND_BYTES)));
    let to = text.floor_char_boundary(end.min(at.saturating_add(THROUGH_BYTES)).saturating_add(AROUND_BYTES));
    let mut found = volatile::find(text.get(from..to).unwrap_or_default());
    for found in &mut found {
        found.at = found.at.start + from..found.at.end + from;
    }
    found
}

/// Whether the word at that position is a path of several parts.
fn is_path(text: &str, at: usize) -> bool {
    let word = text.get(word_start(text, at)..word_end(text, at)).unwrap_or_default();
    let word = word.trim_start_matches(['"', '\'', '`', '(', '<', '[']);
    word.starts_with('/') && word.matches('/').count() > 1
}

/// The beginning of the word that `at` is in or at the end of.
fn word_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    let from = before.floor_char_boundary(before.len().saturating_sub(AROUND_BYTES));
    let near = before.get(from..).unwrap_or_default();
    near.rfind(char::is_whitespace).map_or(from, |blank| {
        let blank = from + blank;
        blank + before.get(blank..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
    })
}

/// The end of the word that `at` is in or at the beginning of.
fn word_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let near = rest.get(..rest.floor_char_boundary(AROUND_BYTES)).unwrap_or_default();
    at + near.find(char::is_whitespace).unwrap_or(near.len())
}

/// The text in quotes on one line, cut if it is long.
fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    let mut left = SHOWN_CHARS;
    for c in text.chars() {
        let word = if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        let length = word.chars().count();
        if length > left {
            shown.push('…');
            break;
        }
        left -= length;
        shown.push_str(&word);
    }
    shown.push('"');
    shown
}
