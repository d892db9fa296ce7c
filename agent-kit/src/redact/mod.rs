//! Keeps the operator's keys out of everything that is stored, hashed, shown or sent on.
//!
//! Redaction acts on what *enters* a thread: its input, tool results, model replies, faults. A known key value becomes
//! `[redacted:NAME]`, also in encodings from which a reader could recover it: with characters escaped as in JSON or
//! YAML, percent-encoded or as HTML entities; in base64, alone or inside a longer text; in hex; or as one long line of
//! a multi-line key. Authors can add [`Pattern`]s, which are applied after the keys, in order.
//!
//! Laws:
//! - `no_secret`: no output contains a known key in any of these encodings.
//! - For every way of cutting a text into pieces, the output of a [`StreamRedactor`] equals [`Redactor::text`] of the
//!   whole.
//! - Redacting a redacted text changes nothing, unless a key contains a part of a mark such as `[redacted:NAME]`.
//!
//! This module does not know where keys and patterns come from, and has no patterns of typical keys: that is the job
//! of the `redact` hook.

mod keys;
mod mark;
mod pass;
mod pattern;
mod spelling;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rondo_protocol::Value;

use keys::{Keys, Scan};
use mark::Marks;
use pass::Pass;
pub use pattern::{InvalidPattern, MAX_PATTERN_BYTES, Pattern};

/// The minimum length of a redacted value. A shorter one would match inside words that are no secret.
pub const MIN_SECRET_BYTES: usize = 8;

/// A key of the operator, with a name that may be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The name of the variable or setting that holds it.
    pub name: String,
    pub value: String,
}

/// The key in the value of a header, behind the word for how it is sent (RFC 9110, section 11.4): `Bearer KEY`.
pub fn bare_key(value: &str) -> &str {
    ["Bearer ", "Basic ", "Token "].iter().find_map(|scheme| value.strip_prefix(scheme)).unwrap_or(value).trim()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

/// Replaces known key values and matches of patterns in texts with marks that name them.
#[derive(Clone, Default)]
pub struct Redactor {
    keys: Arc<Keys>,
    /// Applied after the keys.
    patterns: Arc<[Pattern]>,
    /// All possible marks. Empty without patterns: keys are found in any context.
    marks: Arc<Marks>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("needles", &self.keys.len())
            .field("patterns", &self.patterns)
            .finish_non_exhaustive()
    }
}

impl Redactor {
    /// Creates a redactor for these values, given as name and value. A value shorter than [`MIN_SECRET_BYTES`] is ignored.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = secrets.into_iter().filter(|(_, secret)| secret.len() >= MIN_SECRET_BYTES);
        Self { keys: Arc::new(Keys::new(secrets)), ..Self::default() }
    }

    /// Returns a redactor that also applies these patterns, after those it already has.
    #[must_use]
    pub fn with_patterns(&self, patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let patterns: Arc<[Pattern]> = self.patterns.iter().cloned().chain(patterns).collect();
        if patterns.is_empty() {
            return self.clone();
        }
        let of_keys = self.keys.replacements().map(str::to_owned);
        let of_patterns = patterns.iter().map(|pattern| pattern.replacement().to_owned());
        let marks = Arc::new(Marks::new(of_keys.chain(of_patterns)));
        Self { patterns, marks, ..self.clone() }
    }

    /// Returns the text with every key replaced, then every match of the patterns. If several keys begin at one
    /// position, the longest wins.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.patterns.iter().fold(self.without_keys(text), |text, pattern| {
            match Pass::whole(pattern, &self.marks, &text) {
                Some(redacted) => Cow::Owned(redacted),
                None => text,
            }
        })
    }

    /// Redacts the beginning of a longer text; leaves out an end that could be part of a key.
    pub fn beginning(&self, text: &str) -> String {
        let mut keyless = String::new();
        self.keys.scan(text, false, &mut keyless);
        self.patterns.iter().fold(keyless, |text, pattern| Pass::whole(pattern, &self.marks, &text).unwrap_or(text))
    }

    fn without_keys<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::new();
        match self.keys.scan(text, true, &mut out) {
            Scan { replaced: false, .. } => Cow::Borrowed(text),
            Scan { .. } => Cow::Owned(out),
        }
    }

    /// Redacts every text of `value`, including member names.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
            Value::Str(text) => self.string(text),
            Value::List(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                let mut redacted = BTreeMap::new();
                for (mut key, mut member) in std::mem::take(members) {
                    self.value(&mut member);
                    self.string(&mut key);
                    // Redaction can make two names equal; no member is lost.
                    while redacted.contains_key(&key) {
                        key.push('\'');
                    }
                    redacted.insert(key, member);
                }
                *members = redacted;
            }
        }
    }

    /// Redacts `text` in place; leaves it untouched when there is nothing to redact.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.text(text) {
            *text = redacted;
        }
    }

    pub fn stream(&self) -> StreamRedactor {
        let pass = |pattern: &Pattern| Pass::new(pattern.clone(), Arc::clone(&self.marks));
        StreamRedactor { redactor: self.clone(), held: String::new(), passes: self.patterns.iter().map(pass).collect() }
    }
}

/// Redacts a text that arrives in pieces.
///
/// For keys it holds back at most the longest spelling of the longest key. A pattern holds back text from where a match
/// may begin: to the end of the line if no match contains a newline, up to the maximum match length if that is small,
/// else to the end of the text.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    /// Text that may be part of a key.
    held: String,
    /// One per pattern, in order: the output of each is the input of the next.
    passes: Vec<Pass>,
}

impl StreamRedactor {
    /// Takes the next piece and returns what is settled.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut out = String::new();
        let scan = self.redactor.keys.scan(&self.held, false, &mut out);
        self.held.drain(..scan.read);
        self.passes.iter_mut().fold(out, |text, pass| pass.push(&text))
    }

    pub fn held_bytes(&self) -> usize {
        self.held.len() + self.passes.iter().map(Pass::held_bytes).sum::<usize>()
    }

    /// Releases what patterns hold back, as if the text ended there, to bound memory. Text that may be part of a key
    /// stays held back.
    pub fn give_way(&mut self) -> String {
        self.passes.iter_mut().fold(String::new(), |text, pass| pass.push(&text) + &pass.finish())
    }

    /// Returns the rest at the end of the text.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let out = self.redactor.without_keys(&held).into_owned();
        self.passes.iter_mut().fold(out, |text, pass| pass.push(&text) + &pass.finish())
    }
}

#[cfg(test)]
mod tests;
