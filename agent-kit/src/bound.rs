//! Formats sizes in words, and cuts texts with a visible mark.

use rondo_protocol::text::{is_invisible, is_steering};

/// The maximum bytes of a result to store; a longer one is cut with a visible mark.
pub const STORED_MAX_BYTES: usize = 1 << 20;

/// A number with thousands separators: `1,234`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut groups: Vec<_> = digits.as_bytes().rchunks(3).map(String::from_utf8_lossy).collect();
    groups.reverse();
    groups.join(",")
}

/// `12,345 bytes`.
pub fn bytes(count: u64) -> String {
    let unit = if count == 1 { "byte" } else { "bytes" };
    format!("{} {unit}", grouped(count))
}

/// The longest beginning of `text` of at most `max_bytes` that ends with a whole character.
pub fn beginning(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// The number of bytes at the end of `bytes` that start an incomplete character.
pub fn begun_character(bytes: &[u8]) -> usize {
    // A character is at most four bytes long.
    let tail = bytes.get(bytes.len().saturating_sub(3)..).unwrap_or_default();
    let Some(at) = tail.iter().rposition(|byte| byte & 0xc0 != 0x80) else { return 0 };
    let begun = tail.get(at..).unwrap_or_default();
    let is_cut = std::str::from_utf8(begun).is_err_and(|error| error.error_len().is_none());
    if is_cut { begun.len() } else { 0 }
}

/// The text, cut to at most `max_bytes` with a last line that says so.
pub fn cut(text: String, max_bytes: usize) -> String {
    let length = text.len();
    cut_of(text, length, max_bytes)
}

/// Cuts the beginning of a text of `length` bytes in the same way.
pub fn cut_of(mut text: String, length: usize, max_bytes: usize) -> String {
    if length <= max_bytes {
        return text;
    }
    let mark = format!("\n[cut here: {} in all]", bytes(length as u64));
    text.truncate(text.floor_char_boundary(max_bytes.saturating_sub(mark.len())));
    text + &mark
}

/// Foreign text for one line of a message: without control and invisible characters, at most `max_chars` long.
pub fn line(text: &str, max_chars: usize) -> String {
    let is_gap = |c: char| c.is_whitespace() || is_steering(c) || is_invisible(c);
    let words = text.split(is_gap).filter(|word| !word.is_empty());
    let mut line = String::new();
    for word in words {
        if line.len() > max_chars.saturating_mul(4) {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(beginning(word, max_chars.saturating_mul(4)));
    }
    if line.chars().count() > max_chars {
        line = line.chars().take(max_chars.saturating_sub(1)).collect();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_grouped_by_thousands() {
        let words: Vec<String> = [0, 1, 999, 1000, 12_345, 1_048_576].map(bytes).into();
        assert_eq!(words, ["0 bytes", "1 byte", "999 bytes", "1,000 bytes", "12,345 bytes", "1,048,576 bytes"]);
    }

    #[test]
    fn a_cut_text_keeps_its_bound_and_says_so() {
        assert_eq!(cut("short".to_owned(), 5), "short");
        let cut = cut("é".repeat(1000), 101);
        assert!(cut.len() <= 101, "{}", cut.len());
        assert!(cut.ends_with("é\n[cut here: 2,000 bytes in all]"), "{cut}");
    }

    #[test]
    fn a_character_that_is_cut_through_is_told_from_what_is_none() {
        for (bytes, begun) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("aé".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"\xe2\x82", 2),
            (b"abc\xf0\x9f\x98", 3),
            ("😀".as_bytes(), 0),
            (b"\xff", 0),
            (b"\x80\x80\x80", 0),
            (b"\xe2a", 0),
        ] {
            assert_eq!(begun_character(bytes), begun, "{bytes:?}");
        }
    }

    #[test]
    fn a_line_has_no_control_characters_and_ends() {
        assert_eq!(line("a\u{1b}[31m b\r\n\tc\u{200b}\u{202e}d", 80), "a [31m b c d");
        assert_eq!(line(&"x".repeat(1000), 10), "xxxxxxxxx…");
    }
}
