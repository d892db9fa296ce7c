//! The difference of two texts in words.
//!
//! Law: the parts joined give both texts again, byte for byte. The work is bounded: beyond [`MAX_TOKENS`] what differs
//! is compared by lines, and beyond that many lines it is one change.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// How many tokens of either text are compared with each other, behind the common beginning and before the common end.
/// The work grows with the square of it in the worst case.
pub const MAX_TOKENS: usize = 2_000;

/// A part of two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffPart {
    /// In both.
    Same(String),
    /// In place of each other; one of them may be empty.
    Changed {
        /// In the first text.
        removed: String,
        /// In the second.
        added: String,
    },
}

pub fn words(old: &str, new: &str) -> Vec<DiffPart> {
    let mut parts = DiffParts::default();
    parts.texts(&tokens(old), &tokens(new), DiffParts::lines);
    parts.0
}

/// Words, runs of blanks, and every other character by itself. Scripts that do not separate words go by characters.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((from, c)) = chars.next() {
        let kind = Kind::of(c);
        while kind != Kind::Single && chars.next_if(|(_, next)| Kind::of(*next) == kind).is_some() {}
        let to = chars.peek().map_or(text.len(), |(at, _)| *at);
        tokens.extend(text.get(from..to));
    }
    tokens
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Blank,
    /// A newline too, so that lines can be told apart.
    Single,
}

impl Kind {
    fn of(c: char) -> Self {
        /// The first of the blocks of East Asian scripts.
        const CJK: char = '\u{2e80}';
        match c {
            '\n' => Self::Single,
            c if c.is_whitespace() => Self::Blank,
            c if (c.is_alphanumeric() || c == '_') && c < CJK => Self::Word,
            _ => Self::Single,
        }
    }
}

#[derive(Debug, Default)]
struct DiffParts(Vec<DiffPart>);

impl DiffParts {
    /// `coarser` is how texts with too many tokens are compared.
    fn texts(&mut self, old: &[&str], new: &[&str], coarser: fn(&mut Self, &[&str], &[&str])) {
        let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let (begin, old) = old.split_at(before);
        let (_, new) = new.split_at(before);
        let after = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        let (old, end) = old.split_at(old.len() - after);
        let (new, _) = new.split_at(new.len() - after);
        self.same(begin);
        if old.len().max(new.len()) <= MAX_TOKENS {
            self.tokens(old, new);
        } else {
            coarser(self, old, new);
        }
        self.same(end);
    }

    fn tokens(&mut self, old: &[&str], new: &[&str]) {
        for op in capture_diff_slices(Algorithm::Myers, old, new) {
            let old = old.get(op.old_range()).unwrap_or_default();
            match op {
                DiffOp::Equal { .. } => self.same(old),
                _ => self.changed(&old.concat(), &new.get(op.new_range()).unwrap_or_default().concat()),
            }
        }
    }

    fn lines(&mut self, old: &[&str], new: &[&str]) {
        let split = |tokens: &[&str]| tokens.concat().split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
        let (old, new) = (split(old), split(new));
        if old.len().max(new.len()) > MAX_TOKENS {
            return self.changed(&old.concat(), &new.concat());
        }
        for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
            let old = old.get(op.old_range()).unwrap_or_default().concat();
            let new = new.get(op.new_range()).unwrap_or_default().concat();
            self.texts(&tokens(&old), &tokens(&new), |parts, old, new| parts.changed(&old.concat(), &new.concat()));
        }
    }

    fn same(&mut self, tokens: &[&str]) {
        if tokens.is_empty() {
            return;
        }
        let text = tokens.concat();
        match self.0.last_mut() {
            Some(DiffPart::Same(before)) => before.push_str(&text),
            _ => self.0.push(DiffPart::Same(text)),
        }
    }

    /// Adds a change. One that is parted from the previous by no word is joined with it: two sentences that have their
    /// blanks in common are read as two sentences.
    fn changed(&mut self, removed: &str, added: &str) {
        if removed.is_empty() && added.is_empty() {
            return;
        }
        let between = match self.0.as_slice() {
            [.., DiffPart::Changed { .. }, DiffPart::Same(text)] if !text.contains(char::is_alphanumeric) => {
                self.0.pop()
            }
            _ => None,
        };
        if let Some(DiffPart::Changed { removed: before, added: before_added }) = self.0.last_mut() {
            if let Some(DiffPart::Same(text)) = between {
                before.push_str(&text);
                before_added.push_str(&text);
            }
            before.push_str(removed);
            before_added.push_str(added);
            return;
        }
        self.0.push(DiffPart::Changed { removed: removed.to_owned(), added: added.to_owned() });
    }
}

#[cfg(test)]
mod tests;
