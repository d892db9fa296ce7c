//! Slips around an unquoted text: quotes that YAML takes as a part of it, and a comment behind it.

use super::{Kind, Node, SourceError};
use crate::diagnostic::{Code, Span};

/// The quotes that word processors write, each with those that may close it.
const TYPOGRAPHIC: [(char, &str); 5] = [('“', "”“"), ('„', "“”"), ('«', "»"), ('‘', "’‘"), ('‚', "‘’")];

/// Whether a text begins with an opening quote of a word processor.
pub(super) fn begins_typographic(text: &str) -> bool {
    text.chars().next().is_some_and(|first| TYPOGRAPHIC.iter().any(|(quote, _)| *quote == first))
}

/// The text as written, if it is without quotes: no alias, and no block.
fn unquoted<'t>(text: &'t str, node: &Node) -> Option<&'t str> {
    let written = text.get(node.span.offset..)?.get(..node.span.length)?;
    let is_other = written.starts_with(['"', '\'', '*', '|', '>']) || written.ends_with(['\n', '\r']);
    (matches!(node.kind, Kind::Str(_)) && !is_other && !written.is_empty()).then_some(written)
}

/// The warning of an unquoted text whose quotes were meant to quote it: typographic ones around it, or a straight one
/// at its end that nothing opens.
pub fn quote_in_text(text: &str, node: &Node) -> Option<SourceError> {
    let written = unquoted(text, node)?;
    typographic(written, node.span).or_else(|| lost_opening(written, node.span))
}

/// The fault of a comment behind an unquoted text, on its last line. YAML silently removes everything from ` #` on, so
/// that `prompt: Fetch PR #12` asks to fetch a PR.
pub fn comment_behind(text: &str, node: &Node) -> Option<SourceError> {
    unquoted(text, node)?;
    let end = node.span.offset + node.span.length;
    let line = text.get(end..)?.lines().next()?;
    let comment = line.trim_start_matches([' ', '\t']);
    let said = comment.strip_prefix('#').filter(|_| comment.len() < line.len())?;
    let span = Span::new(end + (line.len() - comment.len()), comment.trim_end().len());
    if said.starts_with(|c: char| !c.is_whitespace()) {
        return Some(cut_by_comment(span));
    }
    let fault = SourceError::new(Code::CommentBehindText, span, "a comment follows an unquoted text");
    Some(fault.with_hint(APART))
}

pub(super) fn cut_by_comment(span: Span) -> SourceError {
    SourceError::new(Code::CutByComment, span, "a comment cuts the unquoted text before it").with_hint(APART)
}

const APART: &str = "put the text in quotes, or the comment on a line of its own";

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
