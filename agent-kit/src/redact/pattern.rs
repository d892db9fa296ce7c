//! A pattern that an author wants redacted besides keys: a regular expression, and bounds on the texts that it matches.
//!
//! A pattern matches the text as written: in the JSON of a tool call's arguments it sees the escapes, not their
//! meaning.

use std::fmt;
use std::sync::Arc;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::{Input, Match};
use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::mark;

pub const MAX_PATTERN_BYTES: usize = 1024;

/// The maximum size of a compiled pattern. A short text can require an automaton of any size.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// The maximum match length for which a stream waits by length alone. Each piece of a stream is searched together with
/// that many bytes before it.
const MAX_WINDOW_BYTES: usize = 4096;

/// The maximum number of different match beginnings that are searched for one by one.
const MAX_BEGINNINGS: usize = 32;

/// The name in the mark when the pattern has no named group.
const DEFAULT_NAME: &str = "pattern";

/// A regular expression in the syntax of Rust's `regex` crate, whose matches are redacted.
///
/// A match becomes `[redacted:pattern]`, or carries the name of the pattern's first named group: with
/// `(?<email>\S+@\S+)` it becomes `[redacted:email]`. The whole match is replaced, even if the group is only a part.
#[derive(Clone)]
pub struct Pattern(Arc<Compiled>);

struct Compiled {
    text: String,
    regex: Regex,
    mark: String,
    reach: Reach,
}

/// Bounds on the matches of a pattern: how much of a text must be known before a part of it is settled.
#[derive(Debug)]
pub(super) struct Reach {
    /// Whether no match contains a newline.
    pub(super) within_line: bool,
    /// The maximum length of a match, in bytes.
    pub(super) longest_bytes: Option<usize>,
    /// Every match begins with one of these. Empty when the beginnings are unknown.
    beginnings: Vec<Box<[u8]>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    #[error("it is longer than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
    #[error("{message} (at byte {offset})")]
    Syntax { message: String, offset: usize },
    #[error(
        "compiled, it is larger than 1 MiB; ask for fewer repetitions, or for ASCII where that does, as in `(?-u:\\w)`"
    )]
    TooLarge,
    #[error("it can match the empty text, which is everywhere")]
    MatchesEmpty,
    #[error("a part of it can never match, such as `[a&&b]`")]
    NeverMatches,
    #[error("it uses {0}, which could match beside redacted text; use `\\b`, `^` and `$`")]
    LookAround(&'static str),
    #[error("its group is named `{0}`, and what is shown in place of a match is letters, digits and `_`")]
    GroupName(String),
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// When the text is not a regular expression, is too large, or cannot keep the laws of redaction.
    pub fn new(text: &str) -> Result<Self, InvalidPattern> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(InvalidPattern::TooLong);
        }
        let hir = regex_syntax::parse(text).map_err(|error| syntax(&error))?;
        match hir.properties().minimum_len() {
            Some(0) => return Err(InvalidPattern::MatchesEmpty),
            // Nothing is known of the other parts then.
            None => return Err(InvalidPattern::NeverMatches),
            Some(_) => {}
        }
        if let Some(construct) = hir.properties().look_set().iter().find_map(refused_look) {
            return Err(InvalidPattern::LookAround(construct));
        }
        let name = group_name(&hir).unwrap_or(DEFAULT_NAME);
        if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            return Err(InvalidPattern::GroupName(name.to_owned()));
        }
        let config = Regex::config().nfa_size_limit(Some(MAX_COMPILED_BYTES)).which_captures(WhichCaptures::Implicit);
        let regex = Regex::builder().configure(config).build_from_hir(&hir).map_err(|error| too_large(&error))?;
        Ok(Self(Arc::new(Compiled { text: text.to_owned(), regex, mark: mark::named(name), reach: Reach::of(&hir) })))
    }

    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    pub fn replacement(&self) -> &str {
        &self.0.mark
    }

    pub(super) fn reach(&self) -> &Reach {
        &self.0.reach
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.0.regex.is_match(text)
    }

    pub(super) fn find(&self, input: &Input<'_>) -> Option<Match> {
        // Patterns that match the empty text are refused; the filter makes sure that one could not hang a run.
        self.0.regex.search(input).filter(|found| !found.is_empty())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.0.text)
    }
}

impl Reach {
    fn of(hir: &Hir) -> Self {
        let longest_bytes = hir.properties().maximum_len().filter(|bytes| *bytes <= MAX_WINDOW_BYTES);
        let mut extractor = Extractor::new();
        extractor.kind(ExtractKind::Prefix).limit_total(MAX_BEGINNINGS);
        let beginnings: Vec<Box<[u8]>> = extractor
            .extract(hir)
            .literals()
            .unwrap_or_default()
            .iter()
            .map(|literal| literal.as_bytes().into())
            .collect();
        let tells_nothing = beginnings.iter().any(|beginning| beginning.is_empty());
        let beginnings = if tells_nothing { Vec::new() } else { beginnings };
        Self { within_line: !holds_newline(hir), longest_bytes, beginnings }
    }

    /// The first position in `text`, of which more may follow, where a match may begin.
    pub(super) fn first_beginning(&self, text: &str) -> usize {
        if self.beginnings.is_empty() {
            return 0;
        }
        let bytes = text.as_bytes();
        let begins = |at: &usize| {
            let rest = bytes.get(*at..).unwrap_or_default();
            self.beginnings.iter().any(|beginning| rest.starts_with(beginning) || beginning.starts_with(rest))
        };
        (0..bytes.len()).find(begins).unwrap_or(bytes.len())
    }
}

fn syntax(error: &regex_syntax::Error) -> InvalidPattern {
    let (message, offset) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
        other => (other.to_string(), 0),
    };
    InvalidPattern::Syntax { message: message.replace('\n', " "), offset }
}

fn too_large(error: &BuildError) -> InvalidPattern {
    match error.size_limit() {
        Some(_) => InvalidPattern::TooLarge,
        None => InvalidPattern::Syntax { message: error.to_string().replace('\n', " "), offset: 0 },
    }
}

/// Look-arounds that may be false before redaction and true after it, whatever a mark counts as: redacting a redacted
/// text would change it again.
fn refused_look(look: Look) -> Option<&'static str> {
    match look {
        Look::WordAsciiNegate | Look::WordUnicodeNegate => Some("`\\B`"),
        Look::WordStartHalfAscii | Look::WordStartHalfUnicode => Some("`\\b{start-half}`"),
        Look::WordEndHalfAscii | Look::WordEndHalfUnicode => Some("`\\b{end-half}`"),
        Look::StartCRLF | Look::EndCRLF => Some("`^` or `$` with the flag `R`"),
        Look::Start
        | Look::End
        | Look::StartLF
        | Look::EndLF
        | Look::WordAscii
        | Look::WordUnicode
        | Look::WordStartAscii
        | Look::WordStartUnicode
        | Look::WordEndAscii
        | Look::WordEndUnicode => None,
    }
}

/// The first name of a group, in reading order. The parser bounds the depth.
fn group_name(hir: &Hir) -> Option<&str> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) | HirKind::Class(_) => None,
        HirKind::Repetition(repetition) => group_name(&repetition.sub),
        HirKind::Capture(capture) => capture.name.as_deref().or_else(|| group_name(&capture.sub)),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().find_map(group_name),
    }
}

/// Whether a match may contain a newline.
fn holds_newline(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => false,
        HirKind::Literal(literal) => literal.0.contains(&b'\n'),
        HirKind::Class(Class::Unicode(class)) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&'\n'))
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&b'\n'))
        }
        HirKind::Repetition(repetition) => holds_newline(&repetition.sub),
        HirKind::Capture(capture) => holds_newline(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(holds_newline),
    }
}

#[cfg(test)]
mod tests;
