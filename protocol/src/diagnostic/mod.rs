//! Diagnostics: faults in what a person wrote, with their location and a remedy.
//!
//! Every fault has a [`Code`] with a page under `pages/`, which is both its source and its documentation: `rondo
//! explain RN0123` prints it.

mod code;

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

pub use code::Code;

/// The severity of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Prevents a run.
    Error,
    /// Allows a run, which may not do what the author intends.
    Warning,
}

/// A range of bytes in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Span {
    /// The offset of the first byte.
    pub offset: usize,
    /// The number of bytes.
    pub length: usize,
}

impl Span {
    pub fn new(offset: usize, length: usize) -> Self {
        Self { offset, length }
    }

    pub fn range(self) -> Range<usize> {
        self.offset..self.offset + self.length
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self::new(range.start, range.end.saturating_sub(range.start))
    }
}

/// One fault in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diagnostic {
    /// The code.
    pub code: Code,
    /// The severity.
    pub severity: Severity,
    /// The file name as given.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in code points, from 1.
    pub column: u32,
    /// The affected bytes.
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Creates a diagnostic at `span` of `text`, which is the content of `file`.
    pub fn at(code: Code, file: &str, text: &str, span: Span, message: impl Into<String>) -> Self {
        Self::in_line(code, file, position(text, span.offset), span, message)
    }

    pub(crate) fn in_line(
        code: Code,
        file: &str,
        (line, column): (u32, u32),
        span: Span,
        message: impl Into<String>,
    ) -> Self {
        let (file, message) = (file.to_owned(), message.into());
        Self { code, severity: code.severity(), file, line, column, span, message, hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, file, line, column, message, .. } = self;
        write!(f, "{file}:{line}:{column}: {code}: {message}")?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// Line and column of a byte offset, both from 1, the column in code points.
pub fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().trim_start_matches('\u{feff}').chars().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// The nearest of `known` to `word`, if it is near enough to be a likely intent.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word would take quadratic time.
    const LONGEST: usize = 64;
    let folded = |text: &str| text.to_lowercase().replace('-', "_").chars().take(LONGEST).collect::<String>();
    let length = word.to_lowercase().chars().count();
    let limit = (length / 3).clamp(1, 3);
    let wanted = folded(word);
    known
        .into_iter()
        // The distance is at least the difference of the lengths, which is much cheaper to compute.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (strsim::osa_distance(&wanted, &folded(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A hint at the [`nearest`] of `known`.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_in_code_points() {
        assert_eq!(position("a\néx: 1", 4), (2, 2));
        assert_eq!(position("\u{feff}ab", 4), (1, 2));
        assert_eq!(position("ab", 99), (1, 3));
    }

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        assert_eq!(nearest("promt", ["to", "prompt", "max"]), Some("prompt"));
        assert_eq!(nearest("on-max", ["on_max"]), Some("on_max"));
        assert_eq!(nearest("zebra", ["to", "prompt", "max"]), None);
    }
}
