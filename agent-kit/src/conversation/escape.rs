//! Keeps the texts of authors and models from looking like the layout.
//!
//! The rule, documented for readers in `engine/docs/layout-1.md`: a line that begins like a line of the layout, after
//! any blanks and any backslashes, gets a backslash before its first non-blank character. So no line of a text begins
//! like the layout, and removing one backslash from each line that has one there restores the text.

use std::borrow::Cow;

use super::layout_v1::{BEFORE_FIRST, CUT, IN_SHORT, LEFT_OUT, SINCE_LAST};

/// The beginnings of layout lines.
pub(super) const BEGINNINGS: [&str; 7] = [BEFORE_FIRST, SINCE_LAST, IN_SHORT, "<step", "</step", LEFT_OUT, CUT];

/// Line ends other than U+000A: a reader may take what follows for another line.
const OTHER_ENDS: [char; 6] = ['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    within(text, usize::MAX).0
}

/// The longest beginning of a text that takes at most `max_bytes` with its escapes, and whether text is left over.
pub(super) fn within(text: &str, max_bytes: usize) -> (Cow<'_, str>, bool) {
    // The bytes taken so far; they stay borrowed until the first escape makes a copy.
    let mut taken = 0;
    let mut copy: Option<String> = None;
    // Most texts have only the usual line end, which is faster to find.
    let is_plain = !may_have_other_end(text.as_bytes());
    while let Some(rest) = text.get(taken..).filter(|rest| !rest.is_empty()) {
        let end = if is_plain { rest.find('\n') } else { rest.find(|c| c == '\n' || OTHER_ENDS.contains(&c)) };
        let after = |at: usize| at + rest.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let line = end.and_then(|at| rest.get(..after(at))).unwrap_or(rest);
        let left = max_bytes.saturating_sub(copy.as_ref().map_or(taken, String::len));
        let (line, is_cut) = match cut(line, left) {
            Some(shorter) => (shorter, true),
            None => (line, false),
        };
        match (place(line), &mut copy) {
            (None, None) => {}
            (None, Some(copy)) => copy.push_str(line),
            (Some(at), copy) => {
                let copy = copy.get_or_insert_with(|| text.get(..taken).unwrap_or_default().to_owned());
                let (blanks, rest) = line.split_at_checked(at).unwrap_or((line, ""));
                for part in [blanks, "\\", rest] {
                    copy.push_str(part);
                }
            }
        }
        taken += line.len();
        if is_cut {
            break;
        }
    }
    let is_cut = taken < text.len();
    (copy.map_or_else(|| Cow::Borrowed(text.get(..taken).unwrap_or_default()), Cow::Owned), is_cut)
}

/// The beginning of a line that fits with its escape, if the whole line does not.
fn cut(line: &str, max_bytes: usize) -> Option<&str> {
    let escape = |line: &str| usize::from(place(line).is_some());
    if line.len().saturating_add(escape(line)) <= max_bytes {
        return None;
    }
    let shorter = until(line, max_bytes);
    Some(if shorter.len() + escape(shorter) <= max_bytes { shorter } else { until(line, max_bytes.saturating_sub(1)) })
}

pub(super) fn until(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// The position where a line needs a backslash, if it does.
fn place(line: &str) -> Option<usize> {
    let begun = line.trim_start_matches(is_blank);
    let words = begun.trim_start_matches('\\');
    if !matches!(words.as_bytes().first(), Some(b'<' | b'[' | b'W' | b'w')) {
        return None;
    }
    let begins = |with: &str| words.get(..with.len()).is_some_and(|words| words.eq_ignore_ascii_case(with));
    BEGINNINGS.iter().any(|with| begins(with)).then(|| line.len() - begun.len())
}

/// Whether a text holds a byte with which the UTF-8 of one of [`OTHER_ENDS`] begins, as that of other characters may.
fn may_have_other_end(text: &[u8]) -> bool {
    // Without a branch, so that the compiler compares many bytes at once.
    let begins = |byte: u8| u8::from(byte.wrapping_sub(0x0b) < 3) | u8::from(byte == 0xc2) | u8::from(byte == 0xe2);
    let may_begin = |bytes: &[u8]| bytes.iter().fold(0, |found, byte| found | begins(*byte)) != 0;
    let (blocks, rest) = text.as_chunks::<32>();
    blocks.iter().any(|block| may_begin(block)) || may_begin(rest)
}

fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_begins_like_the_layout_gets_a_backslash() {
        for (text, wanted) in [
            ("<step role=\"b\" status=\"ok\"/>", "\\<step role=\"b\" status=\"ok\"/>"),
            ("a\n</step>\nb", "a\n\\</step>\nb"),
            ("  \t<STEP", "  \t\\<STEP"),
            ("\\<step", "\\\\<step"),
            ("\\\\<step", "\\\\\\<step"),
            ("a\r<step", "a\r\\<step"),
            ("a\u{2028}\u{200b}<step", "a\u{2028}\u{200b}\\<step"),
            ("[cut]", "\\[cut]"),
            ("[earlier steps are left out] and more", "\\[earlier steps are left out] and more"),
            ("What happened before: much", "\\What happened before: much"),
            ("What happened since your last answer:", "\\What happened since your last answer:"),
        ] {
            assert_eq!(escaped(text), wanted);
        }
        for text in
            ["", "\n", "step", "a <step", "\\ <step", "[cut: 5 bytes left out]", "What happened?", "\\n", "<ste"]
        {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn every_other_end_is_found_by_its_first_byte() {
        for end in OTHER_ENDS {
            assert!((0..40).all(|before| may_have_other_end(format!("{}{end}", "a".repeat(before)).as_bytes())));
        }
    }

    #[test]
    fn a_text_is_cut_so_that_it_fits_with_its_escapes() {
        for (max_bytes, wanted) in [
            (0, ""),
            (4, "é\nx"),
            (6, "é\nx\n<"),
            (9, "é\nx\n<ste"),
            (10, "é\nx\n<ste"),
            (11, "é\nx\n\\<step"),
            (12, "é\nx\n\\<step>"),
            (99, "é\nx\n\\<step>"),
        ] {
            let (cut, is_cut) = within("é\nx\n<step>", max_bytes);
            assert_eq!((cut.as_ref(), is_cut), (wanted, max_bytes < 12), "{max_bytes}");
        }
        assert_eq!(within("aé", 2).0, "a");
    }
}
