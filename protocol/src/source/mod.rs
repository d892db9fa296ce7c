//! Files as spanned trees: YAML or JSON text in, one tree out, every key and value with its place.
//!
//! The only module that knows a YAML parser. It never interprets: the caller decides which keys are allowed where.
//! Workflow files, scripts, scenarios and front matter are all read here.
//!
//! Laws: no text makes it panic, overflow a stack or take more than a fixed share of memory; the same document in YAML
//! and in JSON gives trees with equal values; what YAML would silently read as something else (a tag, a merge key, a
//! second document, digits that would be lost) is a fault.

mod comment;
mod json;
mod locate;
mod text;
mod yaml;

use crate::canonical::Value;
use crate::diagnostic::{Code, Span};

pub use comment::comment_behind;
pub use locate::locate;
pub use text::Source;

/// The longest text that is read.
pub const MAX_BYTES: usize = 1 << 20;
/// The most nodes of a tree, those that an alias repeats counted again.
pub const MAX_NODES: usize = 20_000;
/// The most aliases of a text.
pub const MAX_ALIASES: usize = 100;
/// The deepest nesting of lists and maps.
pub const MAX_DEPTH: usize = 32;
/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;
/// The most bytes of all texts of a tree, those that an alias repeats counted again.
const MAX_SCALAR_BYTES: usize = 8 << 20;
const MAX_FAULTS: usize = 1_000;

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it stands. Of a block list or map only its first byte; of an alias the alias.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
}

/// A key with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Where it stands.
    pub span: Span,
    /// Its text.
    pub name: String,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer with every digit.
    Int(i128),
    /// A finite number that is not written as an integer.
    Float(f64),
    /// A text.
    Str(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in file order, without duplicate keys.
    Map(Vec<(Key, Node)>),
}

/// What is wrong at a place of a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct SourceError {
    /// What kind of fault.
    pub code: Code,
    /// Where.
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl SourceError {
    pub(crate) fn new(code: Code, span: impl Into<Span>, message: impl Into<String>) -> Self {
        Self { code, span: span.into(), message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The result of parsing a text: as much of its tree as could be read, and every fault, in source order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The tree; `None` if there is none. At a fault it holds the nearest guess, so that the walk can find further
    /// faults.
    pub root: Option<Node>,
    /// The faults.
    pub faults: Vec<SourceError>,
}

impl Parsed {
    /// The tree of a text without faults.
    ///
    /// # Errors
    /// The first fault.
    pub fn whole(self) -> Result<Node, SourceError> {
        let first = self.faults.into_iter().next();
        match (first, self.root) {
            (None, Some(root)) => Ok(root),
            (Some(fault), _) => Err(fault),
            (None, None) => Err(SourceError::new(Code::EmptyFile, Span::default(), "there is nothing in the text")),
        }
    }
}

/// The tree of a YAML text.
///
/// # Errors
/// The first [`SourceError`].
pub fn yaml(text: &str) -> Result<Node, SourceError> {
    read_yaml(text).whole()
}

/// The tree of a YAML text and everything that is wrong with it.
pub fn read_yaml(text: &str) -> Parsed {
    too_long(text).unwrap_or_else(|| yaml::read(text))
}

/// The tree of a JSON text (RFC 8259, strict) and everything that is wrong with it.
pub fn read_json(text: &str) -> Parsed {
    too_long(text).unwrap_or_else(|| json::read(text))
}

/// The result for a text that is too long to parse.
fn too_long(text: &str) -> Option<Parsed> {
    (text.len() > MAX_BYTES).then(|| {
        let message = format!("the text has {} bytes; {MAX_BYTES} are read", text.len());
        Parsed { root: None, faults: vec![SourceError::new(Code::TooLarge, Span::default(), message)] }
    })
}

impl Node {
    /// What it is, in words: `a text`, `a list`.
    pub fn describe(&self) -> &'static str {
        self.kind.describe()
    }

    /// Where a diagnostic points: the node's own span, or if that is empty, as in block lists and maps, its first key
    /// or `owner`, its own key.
    pub fn place(&self, owner: Span) -> Span {
        match &self.kind {
            Kind::Map(members) if !members.is_empty() => members.first().map_or(owner, |(key, _)| key.span),
            _ if self.span.length > 0 => self.span,
            _ => owner,
        }
    }

    /// The value without its places.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(truth) => Value::Bool(*truth),
            Kind::Int(number) => Value::Int(*number),
            // No reader makes a float that is not finite.
            Kind::Float(number) => Value::number(*number).unwrap_or_default(),
            Kind::Str(text) => Value::Str(text.clone()),
            Kind::List(items) => Value::List(items.iter().map(Self::to_value).collect()),
            Kind::Map(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.name.clone(), node.to_value())).collect())
            }
        }
    }

    /// The entry of a map by its key.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node),
            _ => None,
        }
    }

    fn count(&self) -> usize {
        match &self.kind {
            Kind::List(items) => 1 + items.iter().map(Self::count).sum::<usize>(),
            Kind::Map(entries) => 1 + entries.iter().map(|(_, node)| node.count()).sum::<usize>(),
            _ => 1,
        }
    }

    /// How many levels it has, 1 for a scalar.
    fn depth(&self) -> usize {
        match &self.kind {
            Kind::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Kind::Map(entries) => 1 + entries.iter().map(|(_, node)| node.depth()).max().unwrap_or(0),
            _ => 1,
        }
    }

    /// How many bytes its texts have, keys included.
    pub(crate) fn scalar_bytes(&self) -> usize {
        match &self.kind {
            Kind::Str(text) => text.len(),
            Kind::List(items) => items.iter().map(Self::scalar_bytes).sum(),
            Kind::Map(entries) => entries.iter().map(|(key, node)| key.name.len() + node.scalar_bytes()).sum(),
            _ => 0,
        }
    }
}

impl Kind {
    fn describe(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Str(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// How much of a tree may still be read.
struct Budget {
    nodes: usize,
    scalar_bytes: usize,
}

impl Budget {
    fn new() -> Self {
        Self { nodes: MAX_NODES, scalar_bytes: MAX_SCALAR_BYTES }
    }

    /// Takes `nodes` and `bytes` out of what is left, or says what is exceeded.
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
    SourceError::new(Code::DuplicateKey, span, format!("the key `{}` stands twice in one map", excerpt(name)))
        .with_hint("merge the two entries or rename one")
}

fn integer_out_of_range(span: Span) -> SourceError {
    SourceError::new(Code::NumberOutOfRange, span, "an integer is outside ±(2^64-1) and would lose digits")
        .with_hint("quote it if it is a text")
}

fn not_finite(span: Span) -> SourceError {
    SourceError::new(Code::NumberOutOfRange, span, "a number is not finite").with_hint("quote it if it is a text")
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
