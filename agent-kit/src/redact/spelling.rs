//! Whether a key stands at the beginning of a text, as it is or spelt with escapes of JSON or YAML.

/// What a key and the beginning of a text have in common.
pub(super) enum Match {
    /// The key does not stand there.
    No,
    /// The text ends before that can be told.
    Begun,
    /// It stands there and takes up that many bytes.
    Whole(usize),
}

/// Looks for `key` at the beginning of `text`. In a `whole` text nothing is left open.
pub(super) fn find(key: &str, text: &str, whole: bool) -> Match {
    if text.starts_with(key) {
        return Match::Whole(key.len());
    }
    // Asked before the spelling: the key as it is goes first, however the text arrives.
    if !whole && key.starts_with(text) {
        return Match::Begun;
    }
    let mut rest = text;
    for wanted in key.chars() {
        match first_char(rest) {
            Some((meant, after)) if meant == wanted => rest = after,
            Some(_) => return Match::No,
            None if whole => return Match::No,
            None => return Match::Begun,
        }
    }
    Match::Whole(text.len() - rest.len())
}

/// The first character as it is meant, and the text after it. `None` when the text ends before that can be told.
///
/// An escape that is none stands for its backslash.
fn first_char(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first != '\\' {
        return Some((first, chars.as_str()));
    }
    let backslash = ('\\', chars.as_str());
    let kind = chars.next()?;
    let digits = match kind {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return Some((short_escape(kind), chars.as_str())),
    };
    let (number, after) = match hexadecimal(chars.as_str(), digits) {
        Digits::Number(number, after) => (number, after),
        Digits::Ended => return None,
        Digits::Other => return Some(backslash),
    };
    if kind == 'u' && (0xd800..0xdc00).contains(&number) {
        return low_half(number, after);
    }
    Some((char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER), after))
}

/// The character of a pair of halves as JSON spells it, of which the high one was read.
fn low_half(high: u32, text: &str) -> Option<(char, &str)> {
    let lonely = (char::REPLACEMENT_CHARACTER, text);
    let Some(digits) = text.strip_prefix("\\u") else {
        return (!"\\u".starts_with(text)).then_some(lonely);
    };
    match hexadecimal(digits, 4) {
        Digits::Number(low @ 0xdc00..0xe000, after) => {
            let number = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            Some((char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER), after))
        }
        Digits::Ended => None,
        Digits::Number(..) | Digits::Other => Some(lonely),
    }
}

enum Digits<'a> {
    Number(u32, &'a str),
    /// The text ends within them.
    Ended,
    /// Something else stands there.
    Other,
}

fn hexadecimal(text: &str, count: usize) -> Digits<'_> {
    let length = text.bytes().take(count).take_while(u8::is_ascii_hexdigit).count();
    if length < count {
        return if length == text.len() { Digits::Ended } else { Digits::Other };
    }
    let (digits, after) = text.split_at(count);
    u32::from_str_radix(digits, 16).map_or(Digits::Other, |number| Digits::Number(number, after))
}

/// What a backslash and one character stand for.
fn short_escape(kind: char) -> char {
    match kind {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        other => other,
    }
}
