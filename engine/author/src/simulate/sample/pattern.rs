//! Makes a text that a pattern matches, from the pattern's parsed form.
//!
//! Anchors and word boundaries are ignored, so the caller checks the text against the pattern. Patterns that
//! `regex-syntax` does not parse (look-around, back-references) give no text.

use regex_syntax::hir::{Class, Hir, HirKind};

const MAX_CHARS: usize = 4096;
/// The preferred characters of a class.
const USUAL: &str = "abcdefghijklmnopqrstuvwxyz1234567890 -_";

/// A text for `pattern`; `stretch` is how often an unbounded repetition is repeated beyond its minimum.
pub(super) fn text(pattern: &str, stretch: usize) -> Option<String> {
    let mut text = String::new();
    write(&regex_syntax::parse(pattern).ok()?, stretch, &mut text)?;
    Some(text)
}

/// Appends a text for `hir`, using the first alternative. The parser bounds the depth.
fn write(hir: &Hir, stretch: usize, text: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(character(class)?),
        HirKind::Capture(capture) => write(&capture.sub, stretch, text)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, stretch, text))?,
        HirKind::Alternation(parts) => write(parts.first()?, stretch, text)?,
        HirKind::Repetition(repetition) => {
            let least = usize::try_from(repetition.min).ok()?;
            let most = repetition.max.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
            let mut part = String::new();
            write(&repetition.sub, stretch, &mut part)?;
            let times = least.saturating_add(stretch).min(most);
            if text.len().saturating_add(part.len().saturating_mul(times)) > MAX_CHARS {
                return None;
            }
            text.push_str(&part.repeat(times));
        }
    }
    Some(())
}

fn character(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else { return None };
    let allows = |c: &char| class.iter().any(|range| (range.start()..=range.end()).contains(c));
    USUAL.chars().find(allows).or_else(|| class.iter().next().map(regex_syntax::hir::ClassUnicodeRange::start))
}
