//! Characters with an effect other than being read: terminal controls, bidirectional formatting, invisible characters.
//!
//! Text from models, tools, servers and files is shown to people and put into requests. It is filtered here first, so
//! that a person and a model read the same.
//!
//! Laws:
//! - [`plain`] leaves no character for which [`is_steering`] or [`is_invisible`] holds, except one variation selector
//!   directly after a symbol, as in "⚠️".
//! - It is idempotent: `plain(plain(text)) == plain(text)`.

use std::borrow::Cow;

/// Whether `c` controls a terminal or the writing direction: the controls C0, DEL and C1 except newline and tab, and
/// the bidirectional formatting characters (<https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>).
pub fn is_steering(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether `c` is invisible: characters that Unicode lets a renderer omit (`Default_Ignorable_Code_Point`: zero width,
/// soft hyphens, joiners, fillers, variation selectors, tags), annotation and layout marks, line and paragraph
/// separators, and the blank Braille pattern. Ordinary blanks count as visible.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether `text` contains no steering and no invisible character. Variation selectors count as invisible.
pub fn is_plain(text: &str) -> bool {
    !text.contains(|c| is_steering(c) || is_invisible(c))
}

/// Quotes a name or a path as one argument of a command to be typed: neither words of a POSIX shell nor an option.
///
/// Source: POSIX.1-2024, Shell Command Language, 2.2.2.
pub fn shell_argument(text: &str) -> Cow<'_, str> {
    let is_safe = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    let here = if text.starts_with('-') { "./" } else { "" };
    match text.chars().all(is_safe) && !text.is_empty() {
        true if here.is_empty() => Cow::Borrowed(text),
        true => Cow::Owned(format!("{here}{text}")),
        false => Cow::Owned(format!("'{here}{}'", text.replace('\'', "'\\''"))),
    }
}

/// `text` without steering and invisible characters. Every kind of line end becomes a newline.
pub fn plain(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => continue,
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => kept.push('\n'),
            '\u{fe0e}' | '\u{fe0f}' if before.is_some_and(has_forms) => kept.push(c),
            c if is_steering(c) || is_invisible(c) => {}
            c => kept.push(c),
        }
        // Removed characters count as preceding ones: of two selectors the second is removed.
        before = Some(c);
    }
    if kept == text { Cow::Borrowed(text) } else { Cow::Owned(kept) }
}

/// Whether `c` is a symbol of which many can be shown either as text or as a picture
/// (<https://www.unicode.org/Public/UCD/latest/ucd/emoji/emoji-variation-sequences.txt>). After letters and digits a
/// selector has no visible effect, so a row of them could carry a message.
fn has_forms(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{27bf}'
        | '\u{2900}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests;
