//! Texts of a wanted length, format or pattern.

use super::merge::Plain;
use super::{SampleSize, pattern};

/// The length of the longest text without bounds, in characters.
pub(super) const USUAL_CHARS: usize = 200;
const MAX_CHARS: usize = 64 * 1024;
/// The maximum stretch of a pattern's repetition to reach a length.
const MAX_STRETCH: usize = 64;

/// The content of texts. ASCII, so that characters are bytes.
const WORDS: &str = "some text that says nothing and goes on ";

/// An example of each format that JSON Schema 2020-12 defines.
const FORMATS: [(&str, &str); 19] = [
    ("date", "2026-01-31"),
    ("date-time", "2026-01-31T12:30:00Z"),
    ("duration", "P1D"),
    ("email", "reader@example.org"),
    ("hostname", "example.org"),
    ("idn-email", "reader@example.org"),
    ("idn-hostname", "example.org"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("iri", "https://example.org/"),
    ("iri-reference", "/page"),
    ("json-pointer", "/member"),
    ("regex", "a+"),
    ("relative-json-pointer", "0/member"),
    ("time", "12:30:00Z"),
    ("uri", "https://example.org/"),
    ("uri-reference", "/page"),
    ("uri-template", "https://example.org/{page}"),
    ("uuid", "00000000-0000-4000-8000-000000000000"),
];

/// A text for `plain`, no longer than `max_bytes` if its schema allows that.
pub(super) fn of(plain: &Plain, extent: SampleSize, max_bytes: usize) -> Option<String> {
    let least = plain.count("minLength").unwrap_or(0);
    let most = plain.count("maxLength").unwrap_or(USUAL_CHARS.max(least)).min(MAX_CHARS).min(max_bytes);
    if least > most {
        return None;
    }
    if let Some(source) = plain.get("pattern").and_then(|pattern| pattern.as_str()) {
        let stretches = 0..=MAX_STRETCH;
        let texts = |stretch| pattern::text(source, stretch);
        let fits = |text: &String| (least..=most).contains(&text.chars().count());
        return match extent {
            SampleSize::Least => stretches.filter_map(texts).find(fits),
            SampleSize::Most => stretches.rev().filter_map(texts).find(fits),
        };
    }
    if let Some(format) = plain.get("format").and_then(|format| format.as_str())
        && let Some((_, example)) = FORMATS.iter().find(|(name, _)| *name == format)
    {
        return Some((*example).to_owned());
    }
    Some(words(if extent == SampleSize::Least { least } else { most }))
}

/// The same text with a number replacing its end, so that two differ.
pub(super) fn numbered(text: &str, number: usize) -> String {
    let number = number.to_string();
    let kept = text.chars().count().saturating_sub(number.len());
    text.chars().take(kept).chain(number.chars()).collect()
}

pub fn words(chars: usize) -> String {
    let mut text: String = WORDS.chars().cycle().take(chars).collect();
    if text.ends_with(' ') {
        text.pop();
        text.push('.');
    }
    text
}
