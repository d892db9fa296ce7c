//! A file's text with an index of its lines, so that thousands of places cost no more than one pass over the text.

use std::sync::Arc;

use super::SourceError;
use crate::diagnostic::{Code, Diagnostic, Span};

/// How many bytes lie between two counts of code points.
const BLOCK: usize = 1024;

/// A file as it was read: its name, its text, and where its lines begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: Arc<str>,
    /// The byte offset of the first byte of each line.
    lines: Vec<usize>,
    /// How many code points begin before each block of [`BLOCK`] bytes.
    points: Vec<usize>,
}

impl Source {
    /// The file `name` with the content `text`.
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut points = Vec::with_capacity(text.len() / BLOCK + 1);
        let mut before = 0;
        for block in text.as_bytes().chunks(BLOCK) {
            points.push(before);
            before += starts(block);
        }
        Self { name: name.into(), text, lines, points }
    }

    /// The name, as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The content.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte offset, both from 1, the column in code points; as
    /// [`position`](crate::diagnostic::position), but without a pass over the text.
    pub fn position(&self, offset: usize) -> (u32, u32) {
        let offset = (0..=offset.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let mark = usize::from(start == 0 && offset > 0 && self.text.starts_with('\u{feff}'));
        let column = self.points_before(offset) - self.points_before(start) - mark + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }

    /// A diagnostic at `span`.
    pub fn diagnostic(&self, code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        let (line, column) = self.position(span.offset);
        Diagnostic {
            code,
            severity: code.severity(),
            file: self.name.clone(),
            line,
            column,
            span,
            message: message.into(),
            hint: None,
        }
    }

    /// The diagnostic that a reader's fault comes to in this file.
    pub fn report(&self, fault: SourceError) -> Diagnostic {
        let mut diagnostic = self.diagnostic(fault.code, fault.span, fault.message);
        diagnostic.hint = fault.hint;
        diagnostic
    }

    fn points_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        let counted = self.points.get(block).copied();
        // An offset at the very end may lie behind the last block.
        let (from, before) = match counted {
            Some(before) => (block * BLOCK, before),
            None => (self.points.len().saturating_sub(1) * BLOCK, self.points.last().copied().unwrap_or(0)),
        };
        before + starts(self.text.as_bytes().get(from..offset).unwrap_or_default())
    }
}

/// How many code points begin in `bytes`.
fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diagnostic::position;

    proptest! {
        #[test]
        fn the_index_agrees_with_a_pass_over_the_text(text in "\u{feff}?[aé😀\n\r ]{0,3000}", offset in 0..12_000_usize) {
            prop_assert_eq!(Source::new("f", text.as_str()).position(offset), position(&text, offset));
        }
    }
}
