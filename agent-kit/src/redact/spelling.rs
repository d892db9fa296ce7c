//! Matches a needle at the beginning of a text, with each character spelt literally or escaped as in JSON, YAML, URLs
//! and HTML.
//!
//! Each character is spelt independently: literally, as an escape (`\"`, `\u0022`), percent-encoded (`%22`) or as an
//! entity (`&quot;`, `&#34;`). Only spellings of a bounded length are known, so that a stream waits for a bounded time.

/// How the characters of a needle may be written before escaping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Literally; a space may be a plus sign, as in forms.
    Plain,
    /// Standard base64, in which the needle is written, or the URL-safe variant; line breaks are allowed.
    Base64,
    /// Lower case, in which the needle is written, or upper case; line breaks are allowed.
    Hex,
}

impl Alphabet {
    fn means(self, wanted: char, got: char) -> bool {
        match self {
            Self::Plain => got == wanted || (wanted == ' ' && got == '+'),
            Self::Base64 => got == wanted || matches!((wanted, got), ('+', '-') | ('/', '_')),
            Self::Hex => got.eq_ignore_ascii_case(&wanted),
        }
    }

    /// The first bytes of the unescaped spellings of `wanted`.
    pub(super) fn first_bytes(self, wanted: char) -> Vec<u8> {
        let mut utf8 = [0; 4];
        let mut first = wanted.encode_utf8(&mut utf8).as_bytes().to_vec();
        first.truncate(1);
        // Any spelling by a different character is ASCII.
        first.extend((0..0x80).filter(|byte| char::from(*byte) != wanted && self.means(wanted, char::from(*byte))));
        first
    }

    /// Whether line breaks are allowed between the characters.
    pub(super) fn is_wrapped(self) -> bool {
        self != Self::Plain
    }
}

/// The result of matching a needle against the beginning of a text.
pub(super) enum Match {
    /// The text does not start with the needle.
    No,
    /// The text is too short to decide.
    Begun,
    /// The text starts with the needle, which takes up this many bytes.
    Whole(usize),
}

/// The characters that start an escape. In a needle they are ambiguous: a text may escape them or not.
pub(super) const INTRODUCERS: [char; 3] = ['\\', '%', '&'];

/// The length of the longest line break, in characters.
const BREAK_MAX: usize = 2;

const ENTITY_DIGITS_MAX: usize = 8;

/// Matches `needle` at the beginning of `text`. A `whole` text never yields [`Match::Begun`].
pub(super) fn find(needle: &str, alphabet: Alphabet, text: &str, whole: bool) -> Match {
    // Only a needle that contains an introducer allows more than one reading of a text. Each reading treats an
    // introducer either as escaped wherever possible or as literal wherever possible.
    for plain in 0_u8..1 << INTRODUCERS.len() {
        let is_plain = |index: usize| plain >> index & 1 == 1;
        if INTRODUCERS.iter().enumerate().any(|(index, c)| is_plain(index) && !needle.contains(*c)) {
            continue;
        }
        let stands_for_itself = |c| INTRODUCERS.iter().position(|known| *known == c).is_some_and(is_plain);
        match read(needle, alphabet, text, whole, stands_for_itself) {
            Match::No => {}
            found => return found,
        }
    }
    Match::No
}

fn read(needle: &str, alphabet: Alphabet, text: &str, whole: bool, stands_for_itself: impl Fn(char) -> bool) -> Match {
    let mut rest = text;
    for (index, wanted) in needle.chars().enumerate() {
        if index > 0 && alphabet.is_wrapped() {
            rest = match after_line_break(rest) {
                Some(rest) => rest,
                None if whole => return Match::No,
                None => return Match::Begun,
            };
        }
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { return if whole { Match::No } else { Match::Begun } };
        let fits = alphabet.means(wanted, first);
        rest = match escaped(rest) {
            Escaped::Ended if !whole => return Match::Begun,
            Escaped::As(meant, after) if alphabet.means(wanted, meant) && !(fits && stands_for_itself(first)) => after,
            _ if fits => chars.as_str(),
            _ => return Match::No,
        };
    }
    Match::Whole(text.len() - rest.len())
}

/// The text after a line break, if there is one. `None` when the text is too short to decide.
fn after_line_break(text: &str) -> Option<&str> {
    let mut rest = text;
    for _ in 0..BREAK_MAX {
        rest = match (rest.chars().next(), escaped(rest)) {
            (None, _) | (_, Escaped::Ended) => return None,
            (Some('\r' | '\n'), _) => rest.get(1..).unwrap_or_default(),
            (_, Escaped::As('\r' | '\n', after)) => after,
            _ => return Some(rest),
        };
    }
    Some(rest)
}

/// The beginning of a text, read as an escape.
enum Escaped<'a> {
    /// No escape, or an invalid one.
    No,
    /// The text is too short to decide.
    Ended,
    /// An escape for this character, and the text after it.
    As(char, &'a str),
}

fn escaped(text: &str) -> Escaped<'_> {
    match text.as_bytes().first() {
        Some(b'\\') => backslashed(text.get(1..).unwrap_or_default()),
        Some(b'%') => percent_encoded(text),
        Some(b'&') => entity(text.get(1..).unwrap_or_default()),
        _ => Escaped::No,
    }
}

/// Whether `second` after the introducer `first` may start a spelling of `wanted`.
pub(super) fn may_escape(first: char, second: u8, alphabet: Alphabet, wanted: char) -> bool {
    match first {
        '\\' => {
            matches!(second, b'x' | b'u' | b'U')
                || !second.is_ascii()
                || alphabet.means(wanted, short_escape(char::from(second)))
        }
        '%' => second.is_ascii_hexdigit(),
        _ => second == b'#' || ENTITIES.iter().any(|(name, _)| name.as_bytes().first() == Some(&second)),
    }
}

fn backslashed(text: &str) -> Escaped<'_> {
    let mut chars = text.chars();
    let Some(kind) = chars.next() else { return Escaped::Ended };
    let digits = match kind {
        'x' => 2,
        // `{1f600}`, as Rust and JavaScript write it.
        'u' if chars.as_str().starts_with('{') => {
            return number(chars.as_str().get(1..).unwrap_or_default(), 16, 6, '}');
        }
        'u' => 4,
        'U' => 8,
        _ => return Escaped::As(short_escape(kind), chars.as_str()),
    };
    let (number, after) = match hexadecimal(chars.as_str(), digits) {
        Ok(read) => read,
        Err(why) => return why,
    };
    if kind == 'u' && (0xd800..0xdc00).contains(&number) {
        return low_half(number, after);
    }
    Escaped::As(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER), after)
}

/// Reads the low half of a JSON surrogate pair whose high half is `high`.
fn low_half(high: u32, text: &str) -> Escaped<'_> {
    let lonely = Escaped::As(char::REPLACEMENT_CHARACTER, text);
    let Some(digits) = text.strip_prefix("\\u") else {
        return if "\\u".starts_with(text) { Escaped::Ended } else { lonely };
    };
    match hexadecimal(digits, 4) {
        Ok((low @ 0xdc00..0xe000, after)) => {
            let number = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            Escaped::As(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER), after)
        }
        Err(Escaped::Ended) => Escaped::Ended,
        _ => lonely,
    }
}

/// Reads a character whose UTF-8 bytes are all percent-encoded.
fn percent_encoded(text: &str) -> Escaped<'_> {
    let mut bytes = [0; 4];
    let mut wanted = 1;
    let mut rest = text;
    for index in 0..bytes.len() {
        if index == wanted {
            break;
        }
        let Some(digits) = rest.strip_prefix('%') else {
            return if rest.is_empty() { Escaped::Ended } else { Escaped::No };
        };
        let byte = match hexadecimal(digits, 2) {
            Ok((number, after)) => {
                rest = after;
                u8::try_from(number).unwrap_or_default()
            }
            Err(why) => return why,
        };
        if index == 0 {
            wanted = match byte {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
        }
        if let Some(place) = bytes.get_mut(index) {
            *place = byte;
        }
    }
    let meant = bytes.get(..wanted).and_then(|bytes| std::str::from_utf8(bytes).ok());
    meant.and_then(|meant| meant.chars().next()).map_or(Escaped::No, |meant| Escaped::As(meant, rest))
}

/// The named entities that every dialect knows.
const ENTITIES: [(&str, char); 9] = [
    ("amp;", '&'),
    ("lt;", '<'),
    ("gt;", '>'),
    ("quot;", '"'),
    ("apos;", '\''),
    ("AMP;", '&'),
    ("LT;", '<'),
    ("GT;", '>'),
    ("QUOT;", '"'),
];

fn entity(text: &str) -> Escaped<'_> {
    let Some(of_number) = text.strip_prefix('#') else {
        if let Some((name, meant)) = ENTITIES.iter().find(|(name, _)| text.starts_with(name)) {
            return Escaped::As(*meant, text.get(name.len()..).unwrap_or_default());
        }
        let is_begun = ENTITIES.iter().any(|(name, _)| name.starts_with(text));
        return if is_begun { Escaped::Ended } else { Escaped::No };
    };
    let (digits, radix) = of_number.strip_prefix(['x', 'X']).map_or((of_number, 10), |digits| (digits, 16));
    number(digits, radix, ENTITY_DIGITS_MAX, ';')
}

/// Reads a character's number of at most `max_digits`, and the character behind it.
fn number(text: &str, radix: u32, max_digits: usize, end: char) -> Escaped<'_> {
    let length = text.chars().take(max_digits).take_while(|c| c.is_digit(radix)).count();
    let (number, after) = text.split_at(length);
    if after.is_empty() {
        return Escaped::Ended;
    }
    let meant = u32::from_str_radix(number, radix).ok().and_then(char::from_u32);
    meant.zip(after.strip_prefix(end)).map_or(Escaped::No, |(meant, after)| Escaped::As(meant, after))
}

/// A number of exactly `count` digits and what follows it; else whether the text ends before.
fn hexadecimal(text: &str, count: usize) -> Result<(u32, &str), Escaped<'_>> {
    let length = text.bytes().take(count).take_while(u8::is_ascii_hexdigit).count();
    if length < count {
        return Err(if length == text.len() { Escaped::Ended } else { Escaped::No });
    }
    let (digits, after) = text.split_at(count);
    u32::from_str_radix(digits, 16).map(|number| (number, after)).map_err(|_| Escaped::No)
}

/// The meaning of a backslash followed by one character.
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
