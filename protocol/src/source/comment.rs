//! Finds comments after an unquoted YAML text, which may have cut the text.

use super::{Kind, Node};
use crate::diagnostic::Span;

/// The comment after an unquoted text on its last line, if there is one. YAML silently removes everything from ` #` on,
/// so that `prompt: Fetch PR #12` asks to fetch a PR.
pub fn comment_behind(text: &str, node: &Node) -> Option<Span> {
    if !matches!(node.kind, Kind::Str(_)) {
        return None;
    }
    let written = text.get(node.span.offset..)?.get(..node.span.length)?;
    // Quoted texts end with their quote, and the span of a block ends after its last line.
    if written.is_empty() || written.starts_with(['"', '\'', '*']) || written.ends_with(['\n', '\r']) {
        return None;
    }
    let end = node.span.offset + node.span.length;
    let line = text.get(end..)?.lines().next()?;
    let comment = line.trim_start_matches([' ', '\t']);
    (comment.starts_with('#') && comment.len() < line.len())
        .then(|| Span::new(end + (line.len() - comment.len()), comment.trim_end().len()))
}
