//! Keeping the operator's keys out of everything that is stored, hashed, shown or sent on.
//!
//! Redaction acts on what *enters* a thread: its input, tool results, model replies, faults. A known key value becomes
//! `[redacted:NAME]`, also where any of its characters are spelt as escapes of JSON or YAML: a reader of the text would
//! put the key together again.
//!
//! Laws:
//! - `no_secret`: no output holds a known key.
//! - For every way of cutting a text into pieces, the pieces that leave a [`StreamRedactor`] make up
//!   [`Redactor::text`] of the whole.
//!
//! This module knows nothing of where keys come from, and no pattern of what a key may look like: that is the business
//! of the `redact` hook.

mod spelling;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rondo_protocol::Value;

use spelling::Match;

/// The shortest value that is redacted. A shorter one would be found in the middle of words that are no secret.
pub const MIN_SECRET_BYTES: usize = 8;

/// A key of the operator, with the name that may be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// The name of the variable or setting that holds it.
    pub name: String,
    /// The key itself.
    pub value: String,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

/// A value that is not redacted, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Its name.
    pub name: String,
    /// Why, in words.
    pub reason: &'static str,
}

/// Finds known key values in texts and puts their names in their place.
#[derive(Clone, Default)]
pub struct Redactor {
    /// What is looked for, longest first, each with what stands in its place.
    needles: Arc<[Needle]>,
    /// The bytes with which a needle begins.
    first_bytes: Arc<[u8]>,
    ignored: Vec<Ignored>,
}

struct Needle {
    text: String,
    replacement: String,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("needles", &self.needles.len())
            .field("ignored", &self.ignored)
            .finish_non_exhaustive()
    }
}

impl Redactor {
    /// Redacts these values, given as name and value.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut needles: Vec<Needle> = Vec::new();
        let mut ignored = Vec::new();
        for (name, secret) in secrets {
            if secret.len() < MIN_SECRET_BYTES {
                ignored.push(Ignored { name, reason: "it is shorter than 8 bytes" });
                continue;
            }
            let replacement = format!("[redacted:{name}]");
            if !needles.iter().any(|known| known.text == secret) {
                needles.push(Needle { text: secret, replacement });
            }
        }
        needles.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        let mut first_bytes: Vec<u8> = needles.iter().filter_map(|needle| needle.text.bytes().next()).collect();
        if !needles.is_empty() {
            // Its first character may be spelt as an escape.
            first_bytes.push(b'\\');
        }
        first_bytes.sort_unstable();
        first_bytes.dedup();
        Self { needles: needles.into(), first_bytes: first_bytes.into(), ignored }
    }

    /// The values that are not redacted.
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// The text with every key replaced. Where several begin at one place, the longest is taken.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::new();
        match self.scan(text, true, &mut out) {
            Scan { replaced: false, .. } => Cow::Borrowed(text),
            Scan { .. } => Cow::Owned(out),
        }
    }

    /// Replaces keys in every text of `value`, keys of objects included.
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
                    // Two keys may have become one; neither member is lost.
                    while redacted.contains_key(&key) {
                        key.push('\'');
                    }
                    redacted.insert(key, member);
                }
                *members = redacted;
            }
        }
    }

    /// Replaces keys in `text`, which stays untouched where there is none.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.text(text) {
            *text = redacted;
        }
    }

    /// A redactor for a text that arrives in pieces.
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor { redactor: self.clone(), held: String::new() }
    }

    /// Appends the redacted beginning of `text` to `out`. Unless the text is `whole`, it stops where what is left could
    /// be the beginning of a key.
    fn scan(&self, text: &str, whole: bool, out: &mut String) -> Scan {
        let bytes = text.as_bytes();
        let mut scan = Scan { read: 0, replaced: false };
        let mut copied = 0;
        loop {
            let ahead = bytes.get(scan.read..).unwrap_or_default();
            let Some(skipped) = ahead.iter().position(|byte| self.first_bytes.contains(byte)) else {
                scan.read = bytes.len();
                break;
            };
            scan.read += skipped;
            let rest = text.get(scan.read..).unwrap_or_default();
            let found = self.needles.iter().find_map(|needle| match spelling::find(&needle.text, rest, whole) {
                Match::No => None,
                // A longer needle is asked first, so that a shorter one is not taken too early.
                Match::Begun => Some(None),
                Match::Whole(spelt_bytes) => Some(Some((needle, spelt_bytes))),
            });
            match found {
                None => scan.read += 1,
                Some(None) => break,
                Some(Some((needle, spelt_bytes))) => {
                    out.push_str(text.get(copied..scan.read).unwrap_or_default());
                    out.push_str(&needle.replacement);
                    scan.read += spelt_bytes;
                    scan.replaced = true;
                    copied = scan.read;
                }
            }
        }
        if scan.replaced || !whole {
            out.push_str(text.get(copied..scan.read).unwrap_or_default());
        }
        scan
    }
}

struct Scan {
    /// Bytes of the text that were read; always at a boundary of a character, because needles begin and end at one.
    read: usize,
    replaced: bool,
}

/// Redacts a text that arrives in pieces. It holds back no more than the longest spelling of the longest key.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    held: String,
}

impl StreamRedactor {
    /// Takes the next piece and gives what can no longer be part of a key.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut out = String::new();
        let scan = self.redactor.scan(&self.held, false, &mut out);
        self.held.drain(..scan.read);
        out
    }

    /// What is left when the text is at its end.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.redactor.text(&held).into_owned()
    }
}

#[cfg(test)]
mod tests;
