//! The marks that replace redacted text, and how to find them in a text.

use std::ops::Range;

const OPENING: &str = "[redacted:";

pub(super) fn named(name: &str) -> String {
    format!("{OPENING}{name}]")
}

/// The marks that a redactor makes. Other text of that form is treated like any text: writing
/// `[redacted:4111 1111 1111 1111]` hides nothing from a pattern.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Longest first.
    all: Vec<String>,
}

impl Marks {
    pub(super) fn new(marks: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = marks.into_iter().collect();
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self { all }
    }

    /// Finds the first mark of `text` at or after `from`. A `whole` text never yields [`NextMark::Begun`].
    pub(super) fn find(&self, text: &str, from: usize, whole: bool) -> NextMark {
        let mut at = from;
        while let Some(skipped) = text.get(at..).and_then(|rest| rest.find('[')) {
            at += skipped;
            let rest = text.get(at..).unwrap_or_default();
            for mark in &self.all {
                if rest.starts_with(mark.as_str()) {
                    return NextMark::Mark(at..at + mark.len());
                }
                // Longer marks are tried first, so that a shorter one does not match too early.
                if !whole && mark.starts_with(rest) {
                    return NextMark::Begun(at);
                }
            }
            at += 1;
        }
        NextMark::None
    }
}

pub(super) enum NextMark {
    None,
    /// The text ends in what may become a mark, which starts here.
    Begun(usize),
    Mark(Range<usize>),
}
