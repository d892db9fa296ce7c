//! Finds text that is likely to differ in the next run: dates and times, ids, paths of a machine, its environment.
//!
//! Only the form of the text counts. Text that is the same on every machine (`/etc/hosts`, `/usr/bin/env`) and text
//! that only looks similar (`/v1/chat`, `main.rs:10:20`, `3:16`, `${name}` of a code sample) is excluded: a warning
//! that is often wrong is soon ignored.

use std::ops::Range;
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use strum::IntoStaticStr;

/// The maximum number of spans to report for one text; the search ends there.
pub const MAX_FOUND: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Volatile {
    /// A date or a time.
    Clock,
    /// An id: a UUID, a ULID, a hash, `req_...`.
    Id,
    /// A path of one machine.
    Path,
    /// A variable of the environment, or a host with its port.
    Environment,
}

impl Volatile {
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A range of a text with volatile content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolatileSpan {
    pub kind: Volatile,
    pub at: Range<usize>,
}

/// An additional check of a match, by the text before it, the match and the text after it.
type Holds = fn(&str, &str, &str) -> bool;

/// The forms, each with an additional check. If two begin at the same position, the earlier one wins.
const FORMS: [(Volatile, &str, Holds); 24] = [
    // RFC 3339, <https://www.rfc-editor.org/rfc/rfc3339>, and common variants.
    (
        Volatile::Clock,
        r"\b(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?)?",
        is_whole,
    ),
    (Volatile::Clock, r"\b(?:19|20)\d{6}T\d{4}(?:\d\d)?Z?\b", is_whole),
    (Volatile::Clock, r"\b(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\b", is_whole),
    (Volatile::Clock, r"\b(?:19|20)\d\d\.(?:0[1-9]|1[0-2])\.(?:0[1-9]|[12]\d|3[01])\b", is_whole),
    (Volatile::Clock, r"\b\d{1,2}-(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-(?:19|20)?\d\d\b", is_whole),
    (Volatile::Clock, r"\b(?:19|20)\d\d/(?:0?[1-9]|1[0-2])/(?:0?[1-9]|[12]\d|3[01])\b", is_whole),
    (Volatile::Clock, r"\b(?:0?[1-9]|[12]\d|3[01])[/.](?:0?[1-9]|[12]\d|3[01])[/.](?:19|20)\d\d\b", is_whole),
    // RFC 2822, <https://www.rfc-editor.org/rfc/rfc2822#section-3.3>, and "22 November 2026".
    (
        Volatile::Clock,
        r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?,? (?:19|20)\d\d(?:,? \d\d:\d\d(?::\d\d)?(?: (?:[+-]\d{4}|[A-Z]{1,5}))?)?\b",
        is_whole,
    ),
    // "November 22, 2026", "Sun Nov 22 08:21:44 UTC 2026".
    (
        Volatile::Clock,
        r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.? {1,2}\d{1,2}(?:st|nd|rd|th)?(?:,? \d\d:\d\d:\d\d(?: [A-Z]{1,5})?)?,? (?:19|20)\d\d\b",
        is_whole,
    ),
    (
        Volatile::Clock,
        r"\b(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|GMT|[AaPp]\.?[Mm]\b|[+-]\d\d:?\d\d))?",
        is_time,
    ),
    (Volatile::Clock, r"\b\d{1,2}:[0-5]\d ?(?:[AaPp][Mm])\b", is_time),
    (Volatile::Clock, r"\b\d{10}(?:\d{3})?\b", is_unix_time),
    // "November 22"; an abbreviated month could be a word.
    (
        Volatile::Clock,
        r"\b(?:January|February|March|April|June|July|August|September|October|November|December) \d{1,2}(?:st|nd|rd|th)?\b",
        is_whole,
    ),
    // RFC 9562, <https://www.rfc-editor.org/rfc/rfc9562>.
    (Volatile::Id, r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", is_whole),
    // <https://github.com/ulid/spec>
    (Volatile::Id, r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", is_whole),
    (Volatile::Id, r"\b(?:0x)?[0-9a-fA-F]{16,}\b", has_digit),
    (
        Volatile::Id,
        r"\b(?:[Cc]ommit|[Rr]evision|[Rr]ev|[Ss]ha|SHA|[Hh]ash|HEAD)(?: is| at|:)? ?[0-9a-f]{7,15}\b",
        has_digit,
    ),
    (Volatile::Id, r"\b[A-Za-z]{2,16}[_-][A-Za-z0-9]{12,}\b", is_mixed),
    (Volatile::Id, r"\b(?:req|request|run|job|sess|session|trace|span|msg|thread|call|conv)[_-]\d{5,}\b", is_whole),
    // Folders that contain paths of one machine or one person.
    (
        Volatile::Path,
        r"(?:file://)?/(?:home|Users|root|tmp|var|private|mnt|media|opt|srv|work|workspaces?|builds|runner)/[A-Za-z0-9._~+@%=,:/-]+",
        is_path,
    ),
    (Volatile::Path, r"~/[A-Za-z0-9._+@%=,:/-]+", is_path),
    (Volatile::Path, r"\b[A-Za-z]:[\\/][A-Za-z0-9._~+@%=,\\/-]+|\\\\[A-Za-z0-9.-]+\\[A-Za-z0-9._$\\-]+", is_path),
    (Volatile::Environment, r"\$[A-Z][A-Z0-9_]{2,}\b|\$\{[A-Z_][A-Z0-9_]*\}|%[A-Z][A-Z0-9_]{2,}%", is_free),
    (
        Volatile::Environment,
        r"\b(?:localhost|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|(?:[A-Za-z0-9-]+\.)+(?:com|net|org|io|dev|ai|app|cloud|local|localdomain|internal|lan|test|example)):\d{2,5}\b",
        is_host,
    ),
];

/// The forms as one automaton. They are fixed, and a test checks that they compile.
static AUTOMATON: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms: Vec<&str> = FORMS.iter().map(|(_, form, _)| *form).collect();
    // ASCII only: Unicode `\b` and `\d` would take other paths through the automaton for every text.
    Regex::builder().syntax(syntax::Config::new().unicode(false)).build_many(&forms).ok()
});

/// Finds every span of `text` that is likely to change, in order, without overlap; at most [`MAX_FOUND`].
pub fn find(text: &str) -> Vec<VolatileSpan> {
    let Some(automaton) = AUTOMATON.as_ref() else { return Vec::new() };
    let held = automaton.find_iter(text).filter_map(|found| {
        let (kind, _, holds) = FORMS.get(found.pattern().as_usize())?;
        let matched = text.get(found.range())?;
        // The punctuation of a sentence is not the end of a path.
        let matched = if *kind == Volatile::Path { matched.trim_end_matches(['.', ',', ':']) } else { matched };
        let (before, after) = (text.get(..found.start())?, text.get(found.start() + matched.len()..)?);
        holds(before, matched, after)
            .then(|| VolatileSpan { kind: *kind, at: found.start()..found.start() + matched.len() })
    });
    held.take(MAX_FOUND).collect()
}

/// Checks that no word continues directly before or after the match.
fn is_whole(before: &str, _: &str, after: &str) -> bool {
    let is_part = after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_numbered = after.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    !(is_part || is_numbered || before.ends_with(['-', '_', '/', '\\', '@', '#']))
}

/// Excludes `main.rs:10:20`, a position in a file, and `10:20:30:40`, an address.
fn is_time(before: &str, matched: &str, after: &str) -> bool {
    let goes_on = after.strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_whole(before, matched, after) && !before.ends_with([':', '.']) && !goes_on
}

/// Seconds or milliseconds since 1970 between the years 2001 and 2100.
fn is_unix_time(before: &str, matched: &str, after: &str) -> bool {
    let seconds = matched.get(..10).and_then(|seconds| seconds.parse::<u64>().ok());
    let is_of_this_century = seconds.is_some_and(|seconds| (1_000_000_000..4_102_444_800).contains(&seconds));
    // `0.1732257904` is a fraction, and `+1732257904` a telephone number.
    is_of_this_century && !before.ends_with(['.', '+', '-', '$', '€']) && is_whole(before, matched, after)
}

fn has_digit(before: &str, matched: &str, after: &str) -> bool {
    is_whole(before, matched, after) && matched.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether letters and digits alternate often, as in random ids, unlike in `read_attachments2024`.
fn is_mixed(before: &str, matched: &str, after: &str) -> bool {
    let drawn = matched.split(['_', '-']).next_back().unwrap_or_default();
    let turns = drawn.as_bytes().windows(2).filter(|pair| match pair {
        [a, b] => a.is_ascii_digit() != b.is_ascii_digit(),
        _ => false,
    });
    is_whole(before, matched, after) && turns.count() >= 3
}

/// A path begins where a word can begin: `/tmp/a` within `https://host/tmp/a` is not a path.
fn is_path(before: &str, _: &str, _: &str) -> bool {
    !before
        .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '\\' | '~' | '}' | '%' | '>'))
}

/// The slashes before a host belong to its URL.
fn is_host(before: &str, matched: &str, after: &str) -> bool {
    is_whole(before.trim_end_matches("//"), matched, after) && !before.ends_with('.')
}

fn is_free(before: &str, _: &str, _: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '$' | '\\' | '%'))
}

#[cfg(test)]
mod tests;
