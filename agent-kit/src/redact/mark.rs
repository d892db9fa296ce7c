//! What stands in the place of a text that was taken out, and where such marks stand in a text.

use std::ops::Range;

/// How every mark begins.
const OPENING: &str = "[redacted:";

pub(super) fn named(name: &str) -> String {
    format!("{OPENING}{name}]")
}

/// The marks that a redactor makes. Any other text of that form is a text like all others: whoever writes
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

    /// The first mark of `text` at or after `from`. In a `whole` text nothing is left open.
    pub(super) fn find(&self, text: &str, from: usize, whole: bool) -> NextMark {
        let mut at = from;
        while let Some(skipped) = text.get(at..).and_then(|rest| rest.find('[')) {
            at += skipped;
            let rest = text.get(at..).unwrap_or_default();
            for mark in &self.all {
                if rest.starts_with(mark.as_str()) {
                    return NextMark::Mark(at..at + mark.len());
                }
                // A longer mark is asked first, so that a shorter one is not taken too early.
                if !whole && mark.starts_with(rest) {
                    return NextMark::Begun(at);
                }
            }
            at += 1;
        }
        NextMark::None
    }
}

/// Where the next mark stands.
pub(super) enum NextMark {
    /// There is none.
    None,
    /// The text ends here, in what may become one.
    Begun(usize),
    /// It stands there.
    Mark(Range<usize>),
}
