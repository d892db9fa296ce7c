//! Finds quotes that quote nothing: YAML takes them as a part of the unquoted text that they stand in.

use super::{Kind, Node, SourceError};
use crate::diagnostic::{Code, Span};

/// The quotes that word processors write, each with those that may close it.
const TYPOGRAPHIC: [(char, &str); 5] = [('“', "”“"), ('„', "“”"), ('«', "»"), ('‘', "’‘"), ('‚', "‘’")];

/// Whether a text begins with an opening quote of a word processor.
pub(super) fn begins_typographic(text: &str) -> bool {
    text.chars().next().is_some_and(|first| TYPOGRAPHIC.iter().any(|(quote, _)| *quote == first))
}

/// The warning of an unquoted text whose quotes were meant to quote it: typographic ones around it, or a straight one
/// at its end that nothing opens.
pub fn quote_in_text(text: &str, node: &Node) -> Option<SourceError> {
    if !matches!(node.kind, Kind::Str(_)) {
        return None;
    }
    let written = text.get(node.span.offset..)?.get(..node.span.length)?;
    // Quoted texts, aliases and blocks of text.
    if written.starts_with(['"', '\'', '*', '|', '>']) || written.ends_with(['\n', '\r']) {
        return None;
    }
    typographic(written, node.span).or_else(|| lost_opening(written, node.span))
}

fn typographic(written: &str, span: Span) -> Option<SourceError> {
    let opening = written.chars().next()?;
    let closing = written.chars().next_back()?;
    let (_, closings) = TYPOGRAPHIC.iter().find(|(quote, _)| *quote == opening)?;
    let inner = written.strip_prefix(opening)?.strip_suffix(closing)?;
    // With more of them inside, the text begins and ends with quoted words.
    if !closings.contains(closing) || inner.contains([opening, closing]) {
        return None;
    }
    let message = format!("`{opening}` and `{closing}` quote nothing in YAML and belong to the text");
    let fault = SourceError::new(Code::QuoteInText, Span::new(span.offset, opening.len_utf8()), message);
    Some(fault.with_hint("write `\"` at both ends, or leave the quotes out"))
}

fn lost_opening(written: &str, span: Span) -> Option<SourceError> {
    let (quote, at) = [('"', written.find('"')), ('\'', written.find('\''))].into_iter().find_map(|(quote, at)| {
        let at = at?;
        let is_alone = written.rfind(quote) == Some(at);
        let before = written.get(..at)?.chars().next_back()?;
        let closes = if quote == '"' {
            // Behind a digit it stands for inches or seconds, behind a blank or a bracket it opens something.
            !(before.is_ascii_digit() || before.is_whitespace() || "([{".contains(before))
        } else {
            // Anywhere else it is an apostrophe.
            at + 1 == written.len() && ".!?}".contains(before)
        };
        (is_alone && closes).then_some((quote, at))
    })?;
    let message = "this quote closes nothing and belongs to the text";
    let fault = SourceError::new(Code::QuoteInText, Span::new(span.offset + at, 1), message);
    Some(fault.with_hint(format!("write `{quote}` where the text begins too, or leave it out")))
}
