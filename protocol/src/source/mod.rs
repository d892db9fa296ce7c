//! Files as spanned trees: YAML or JSON text in, one tree out, every key and value with its place.
//!
//! The only module that knows a YAML library. It reads and never interprets: which keys may stand where is for
//! whoever walks the tree.

use crate::diagnostic::Span;

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it stands. Of a block list or map only its first byte.
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
