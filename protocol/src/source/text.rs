//! A file's text with an index of its lines, so that a position does not cost a pass over the whole text.

use std::sync::Arc;

use super::SourceError;
use crate::diagnostic::{Code, Diagnostic, Span, position};

/// A file's name and text, and where its lines begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: Arc<str>,
    /// The byte offset of the first byte of each line.
    lines: Vec<usize>,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { name: name.into(), text, lines }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte offset, both from 1, the column in code points; as [`position`].
    pub fn position(&self, offset: usize) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let (_, column) = position(self.text.get(start..).unwrap_or_default(), offset - start);
        (u32::try_from(line).unwrap_or(u32::MAX), column)
    }

    pub fn diagnostic(&self, code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::in_line(code, &self.name, self.position(span.offset), span, message)
    }

    pub fn report(&self, fault: SourceError) -> Diagnostic {
        Diagnostic { hint: fault.hint, ..self.diagnostic(fault.code, fault.span, fault.message) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_index_agrees_with_a_pass_over_the_text(text in "\u{feff}?[aé😀\n\r ]{0,3000}", offset in 0..12_000_usize) {
            prop_assert_eq!(Source::new("f", text.as_str()).position(offset), position(&text, offset));
        }
    }
}
