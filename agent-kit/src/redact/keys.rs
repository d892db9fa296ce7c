//! Finds secret values in a text, in every encoding in which they may appear.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::mark;
use super::spelling::{self, Alphabet, INTRODUCERS, Match};

/// The minimum length of a line of a multi-line key to be searched for separately: texts are shown, searched and
/// compared by lines.
const LINE_MIN_BYTES: usize = 16;

/// The beginning of the first and last line of a PEM block. These lines reveal nothing of the key.
const PEM_BOUNDARY: &str = "-----";

/// The length of the shortest base64 piece that is searched for.
const BASE64_MIN_CHARS: usize = 8;

/// Keys, with an index of where each may begin in a text.
#[derive(Default)]
pub(super) struct Keys {
    /// Longest first.
    needles: Vec<Needle>,
    /// For each byte, the needles that may begin with it, in order. Empty without needles.
    of_first: Vec<Vec<usize>>,
    /// One bit per byte pair: whether a needle may begin with it. Few pairs do, so that a text without keys scans fast.
    pairs: Vec<u64>,
}

struct Needle {
    text: String,
    alphabet: Alphabet,
    replacement: String,
}

pub(super) struct Scan {
    /// The number of bytes read; always at a character boundary, because needles begin and end at one.
    pub(super) read: usize,
    pub(super) replaced: bool,
}

impl Keys {
    /// Searches for these values, given as name and value. Of equal values the first gives the name.
    pub(super) fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut needles: Vec<Needle> = Vec::new();
        let mut add = |text: String, alphabet: Alphabet, name: &str| {
            if !needles.iter().any(|known| known.text == text && known.alphabet == alphabet) {
                needles.push(Needle { text, alphabet, replacement: mark::named(name) });
            }
        };
        let secrets: Vec<(String, String)> = secrets.into_iter().collect();
        for (name, secret) in &secrets {
            add(secret.clone(), Alphabet::Plain, name);
        }
        for (name, secret) in &secrets {
            add(hex(secret.as_bytes()), Alphabet::Hex, name);
            for before in 0..3 {
                let piece = base64(secret.as_bytes(), before);
                if piece.len() >= BASE64_MIN_CHARS {
                    add(piece, Alphabet::Base64, name);
                }
            }
            let lines = secret.lines().map(str::trim).filter(|line| line.len() >= LINE_MIN_BYTES);
            for line in lines.filter(|line| !line.starts_with(PEM_BOUNDARY)) {
                add(line.to_owned(), Alphabet::Plain, name);
            }
        }
        // The sort is stable: a literal key comes before an equal encoding of another key.
        needles.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        Self::of(needles)
    }

    fn of(needles: Vec<Needle>) -> Self {
        if needles.is_empty() {
            return Self::default();
        }
        let mut keys = Self { of_first: vec![Vec::new(); 256], pairs: vec![0; 1024], needles };
        for index in 0..keys.needles.len() {
            let Some(Needle { text, alphabet, .. }) = keys.needles.get(index) else { continue };
            let (alphabet, seconds) = (*alphabet, second_bytes(text, *alphabet));
            let Some(wanted) = text.chars().next() else { continue };
            for first in alphabet.first_bytes(wanted) {
                keys.begin(first, index, |second| seconds.contains(&second));
            }
            for introducer in INTRODUCERS {
                let escapes = |second| spelling::may_escape(introducer, second, alphabet, wanted);
                // Introducers are ASCII.
                keys.begin(u8::try_from(introducer).unwrap_or_default(), index, escapes);
            }
        }
        keys
    }

    /// Records that a needle may begin with `first` followed by one of these bytes.
    fn begin(&mut self, first: u8, needle: usize, is_second: impl Fn(u8) -> bool) {
        if let Some(of_first) = self.of_first.get_mut(usize::from(first))
            && !of_first.contains(&needle)
        {
            of_first.push(needle);
        }
        for second in (0..=u8::MAX).filter(|second| is_second(*second)) {
            if let Some(word) = self.pairs.get_mut(word_of(first, second)) {
                *word |= bit_of(second);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.needles.len()
    }

    pub(super) fn replacements(&self) -> impl Iterator<Item = &str> {
        self.needles.iter().map(|needle| needle.replacement.as_str())
    }

    /// Appends `text` to `out` with its keys replaced. Unless the text is `whole`, stops where the rest could be the
    /// beginning of a key. A `whole` text without keys is not appended.
    pub(super) fn scan(&self, text: &str, whole: bool, out: &mut String) -> Scan {
        let mut scan = Scan { read: 0, replaced: false };
        let mut copied = 0;
        while let Some(at) = self.next_beginning(text, scan.read) {
            scan.read = at;
            let Some((needle, spelt_bytes)) = self.find(text.get(at..).unwrap_or_default(), whole) else {
                scan.read += 1;
                continue;
            };
            out.push_str(text.get(copied..at).unwrap_or_default());
            let Some(spelt_bytes) = spelt_bytes else { return scan };
            out.push_str(&needle.replacement);
            scan.read += spelt_bytes;
            scan.replaced = true;
            copied = scan.read;
        }
        scan.read = text.len();
        if scan.replaced || !whole {
            out.push_str(text.get(copied..).unwrap_or_default());
        }
        scan
    }

    /// The first position at or after `from` where a needle may begin.
    fn next_beginning(&self, text: &str, from: usize) -> Option<usize> {
        let last = text.as_bytes().last().filter(|_| from < text.len())?;
        let rest = text.as_bytes().get(from..)?;
        let begins = |pair: &[u8]| match pair {
            [first, second] => self.pairs.get(word_of(*first, *second)).is_some_and(|word| word & bit_of(*second) != 0),
            _ => false,
        };
        let at = rest.windows(2).position(begins).map(|skipped| from + skipped);
        // The byte after the last one is unknown.
        let begins_last = || self.of_first.get(usize::from(*last)).is_some_and(|needles| !needles.is_empty());
        at.or_else(|| begins_last().then(|| text.len() - 1))
    }

    /// The needle at the beginning of `text`, and how many bytes it takes up, unless the text is too short to decide.
    fn find(&self, text: &str, whole: bool) -> Option<(&Needle, Option<usize>)> {
        let of_first = text.as_bytes().first().and_then(|first| self.of_first.get(usize::from(*first)));
        let mut needles = of_first.into_iter().flatten().filter_map(|index| self.needles.get(*index));
        // Longer needles are tried first, so that a shorter one does not match too early.
        needles.find_map(|needle| match spelling::find(&needle.text, needle.alphabet, text, whole) {
            Match::No => None,
            Match::Begun => Some((needle, None)),
            Match::Whole(spelt_bytes) => Some((needle, Some(spelt_bytes))),
        })
    }
}

/// The possible bytes after the unescaped first byte of a needle.
fn second_bytes(text: &str, alphabet: Alphabet) -> Vec<u8> {
    let mut chars = text.chars();
    match (chars.next(), text.as_bytes().get(1), chars.next()) {
        (Some(wanted), Some(second), _) if !wanted.is_ascii() => vec![*second],
        (_, _, Some(next)) => {
            let mut seconds = alphabet.first_bytes(next);
            seconds.extend(INTRODUCERS.iter().filter_map(|introducer| u8::try_from(*introducer).ok()));
            if alphabet.is_wrapped() {
                seconds.extend(b"\r\n");
            }
            seconds
        }
        _ => (0..=u8::MAX).collect(),
    }
}

/// The index of the word in the pair table that holds the bit of these two bytes.
fn word_of(first: u8, second: u8) -> usize {
    usize::from(first) << 2 | usize::from(second >> 6)
}

fn bit_of(second: u8) -> u64 {
    1 << (second & 63)
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// The base64 of a key with `before` bytes (0, 1 or 2) before it in its group of three: only the characters that the
/// key alone determines.
fn base64(key: &[u8], before: usize) -> String {
    let (first, end) = ((before * 8).div_ceil(6), (before + key.len()) * 8 / 6);
    let encoded = STANDARD_NO_PAD.encode([&vec![0; before], key].concat());
    encoded.get(first..end).unwrap_or_default().to_owned()
}
