//! Parses YAML or JSON text into a tree with the span of every key and value.
//!
//! This is the only module that uses a YAML parser. It does not interpret: the caller decides which keys are allowed
//! where. It parses workflow files, scripts, scenarios and front matter.
//!
//! Laws: no text makes it panic, overflow a stack or use more than a fixed amount of memory; the same document in YAML
//! and in JSON results in trees with equal values; what YAML would silently read as something else (a tag, a merge key,
//! a second document, digits that would be lost) is a fault.

mod json;
mod locate;
mod slip;
mod text;
mod unquoted;
mod yaml;

use crate::canonical::Value;
use crate::diagnostic::{Code, Span};

pub use locate::locate;
pub use text::Source;
pub use unquoted::{comment_behind, quote_in_text};

pub const MAX_BYTES: usize = 1 << 20;
/// The maximum number of nodes of a tree; aliased nodes count each time.
pub const MAX_NODES: usize = 20_000;
pub const MAX_ALIASES: usize = 100;
pub const MAX_DEPTH: usize = 32;
pub const MAX_KEY_BYTES: usize = 1024;
/// The maximum bytes of all texts of a tree; aliased texts count each time.
const MAX_SCALAR_BYTES: usize = 8 << 20;
const MAX_FAULTS: usize = 1_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its span. For a block list or map only its first byte; for an alias the alias.
    pub span: Span,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub span: Span,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`, `~` or nothing.
    Null,
    Bool(bool),
    /// An integer with every digit.
    Int(i128),
    /// A finite number that is not written as an integer.
    Float(f64),
    Str(String),
    List(Vec<Node>),
    /// A map, in file order, without duplicate keys.
    Map(Vec<(Key, Node)>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct SourceError {
    pub code: Code,
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    pub hint: Option<String>,
}

impl SourceError {
    pub(crate) fn new(code: Code, span: impl Into<Span>, message: impl Into<String>) -> Self {
        Self { code, span: span.into(), message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        self.with_hint_if(Some(hint.into()))
    }

    pub(crate) fn with_hint_if(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }
}

/// The result of parsing a text: as much of its tree as could be parsed, and every fault, in source order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The tree; `None` if there is none. At a fault it contains the most likely value, so that callers can find
    /// further faults.
    pub root: Option<Node>,
    pub faults: Vec<SourceError>,
}

impl Parsed {
    /// The tree of a text without faults.
    pub fn whole(self) -> Result<Node, SourceError> {
        let nothing = || SourceError::new(Code::EmptyFile, Span::default(), "there is nothing in the text");
        self.faults.into_iter().next().map_or_else(|| self.root.ok_or_else(nothing), Err)
    }
}

pub fn yaml(text: &str) -> Result<Node, SourceError> {
    read_yaml(text).whole()
}

pub fn read_yaml(text: &str) -> Parsed {
    too_long(text).unwrap_or_else(|| yaml::read(text))
}

/// Parses a JSON text (RFC 8259, strict) and returns all its faults.
pub fn read_json(text: &str) -> Parsed {
    too_long(text).unwrap_or_else(|| json::read(text))
}

fn too_long(text: &str) -> Option<Parsed> {
    (text.len() > MAX_BYTES).then(|| {
        let message = format!("the text has {} bytes; {MAX_BYTES} are read", text.len());
        Parsed { root: None, faults: vec![SourceError::new(Code::TooLarge, Span::default(), message)] }
    })
}

impl Node {
    /// Its kind in words: `a text`, `a list`.
    pub fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a boolean",
            Kind::Int(_) => "an integer",
            Kind::Float(_) => "a number",
            Kind::Str(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    /// The span for a diagnostic: the node's own, or if that is empty, as in block lists and maps, that of its first
    /// key or `owner`, its own key.
    pub fn place(&self, owner: Span) -> Span {
        match &self.kind {
            Kind::Map(members) if !members.is_empty() => members.first().map_or(owner, |(key, _)| key.span),
            _ if self.span.length > 0 => self.span,
            _ => owner,
        }
    }

    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(truth) => Value::Bool(*truth),
            Kind::Int(number) => Value::Int(*number),
            // No reader creates a float that is not finite.
            Kind::Float(number) => Value::number(*number).unwrap_or_default(),
            Kind::Str(text) => Value::Str(text.clone()),
            Kind::List(items) => Value::List(items.iter().map(Self::to_value).collect()),
            Kind::Map(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.name.clone(), node.to_value())).collect())
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The node at a place within it, given as a JSON pointer (RFC 6901).
    pub fn at(&self, pointer: &str) -> Option<&Self> {
        pointer.split('/').skip(1).try_fold(self, |node, part| match &node.kind {
            Kind::List(items) => items.get(part.parse::<usize>().ok()?),
            _ => node.get(&part.replace("~1", "/").replace("~0", "~")),
        })
    }

    /// What to do if a text was meant where `source`, which was read as YAML, has none.
    pub fn quoting_hint(&self, source: &str) -> Option<String> {
        let is_scalar = matches!(self.kind, Kind::Null | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_));
        let written = source.get(self.span.offset..self.span.offset + self.span.length)?;
        let hint = || format!("YAML reads {written} as {}: put it in quotes", self.describe());
        (is_scalar && !written.is_empty()).then(hint)
    }

    /// The nodes directly within it.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::List(items) => items.iter().collect(),
            Kind::Map(entries) => entries.iter().map(|(_, node)| node).collect(),
            _ => Vec::new(),
        }
    }

    fn count(&self) -> usize {
        1 + self.parts().into_iter().map(Self::count).sum::<usize>()
    }

    /// The number of levels, 1 for a scalar.
    fn depth(&self) -> usize {
        1 + self.parts().into_iter().map(Self::depth).max().unwrap_or(0)
    }

    /// The bytes of its texts, including keys.
    pub(crate) fn scalar_bytes(&self) -> usize {
        match &self.kind {
            Kind::Str(text) => text.len(),
            Kind::List(items) => items.iter().map(Self::scalar_bytes).sum(),
            Kind::Map(entries) => entries.iter().map(|(key, node)| key.name.len() + node.scalar_bytes()).sum(),
            _ => 0,
        }
    }
}

struct Budget {
    nodes: usize,
    scalar_bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: MAX_NODES, scalar_bytes: MAX_SCALAR_BYTES }
    }
}

impl Budget {
    /// Subtracts `nodes` and `bytes` from the budget, or reports what is exceeded.
    fn take(&mut self, nodes: usize, bytes: usize, span: Span) -> Result<(), SourceError> {
        self.nodes = self.nodes.checked_sub(nodes).ok_or_else(|| {
            SourceError::new(Code::TooLarge, span, format!("there are more than {MAX_NODES} values"))
                .with_hint("split the workflow, or move long texts into files of their own")
        })?;
        self.scalar_bytes = self.scalar_bytes.checked_sub(bytes).ok_or_else(|| {
            SourceError::new(Code::TooLarge, span, format!("the texts have more than {MAX_SCALAR_BYTES} bytes in all"))
        })?;
        Ok(())
    }
}

fn too_deep(span: Span) -> SourceError {
    SourceError::new(Code::TooLarge, span, format!("lists and maps are nested deeper than {MAX_DEPTH} levels"))
}

fn key_too_long(span: Span) -> SourceError {
    SourceError::new(Code::TooLarge, span, format!("a key has more than {MAX_KEY_BYTES} bytes"))
}

fn duplicate(name: &str, span: Span) -> SourceError {
    SourceError::new(Code::DuplicateKey, span, format!("duplicate key `{}` in a map", excerpt(name)))
        .with_hint("merge the two entries or rename one")
}

fn integer_out_of_range(span: Span) -> SourceError {
    SourceError::new(Code::NumberOutOfRange, span, "an integer is outside ±(2^64-1) and would lose digits")
        .with_hint("quote it if it is a text")
}

fn not_finite(span: Span) -> SourceError {
    SourceError::new(Code::NumberOutOfRange, span, "a number is not finite").with_hint("quote it if it is a text")
}

/// The offset of the first byte of the line of `offset`.
fn line_start(text: &str, offset: usize) -> usize {
    text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// `text` cut to what fits into a message, without control characters.
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut cut: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests;
