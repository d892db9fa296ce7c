//! Canonical JSON: one byte string for each value, whatever other crates configure.
//!
//! UTF-8, keys sorted by their UTF-8 bytes, no insignificant space. A number with an integral value within
//! ±(2^64-1) is written as an integer; others in the shortest form of ECMAScript (ECMA-262, `Number::toString`);
//! NaN, infinities and integer literals outside ±(2^64-1) are refused. Strings escape `"`, `\` and the control
//! characters below U+0020 (`\b \t \n \f \r`, else `\u00xx`) and nothing else.
//!
//! It has three parts: [`Value`], the writer [`to_bytes`] for anything that serde can serialize, and the reader
//! [`from_slice`]. No byte of `serde_json` reaches hashed content.

mod de;
mod read;
mod ser;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

pub use read::{parse, parse_canonical};
pub use ser::{Keep, push_text, to_bytes, to_bytes_of};

/// The maximum nesting of lists and objects in canonical bytes, written or read.
pub const MAX_DEPTH: usize = 128;

/// The maximum nesting of a value that enters a thread: an answer, an input, the fields of a tool's output, a decision
/// of a hook, the result of a template. It is half of [`MAX_DEPTH`]; rows, notes, events and recordings add far fewer
/// levels around a value than the other half, so that an accepted value can always be written and read again.
pub const MAX_VALUE_DEPTH: usize = MAX_DEPTH / 2;

pub const MAX_INTEGER: i128 = u64::MAX as i128;

/// 2^64, the first double beyond every integer; the one before it is 2^64 - 2048.
pub(crate) const INTEGER_END: f64 = 18_446_744_073_709_551_616.0;

/// A JSON value. Integers keep every digit.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    /// An integer within ±[`MAX_INTEGER`].
    Int(i128),
    /// A finite number without an integral value in that range. [`Value::number`] creates no other.
    Float(f64),
    Str(String),
    List(Vec<Value>),
    /// An object, sorted by the UTF-8 bytes of its keys.
    Object(BTreeMap<String, Value>),
}

/// Why a value has no canonical form, or a text is not a valid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a number is not finite")]
    NotFinite,
    #[error("an integer is outside ±(2^64-1)")]
    IntegerRange,
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("lists and objects are nested deeper than {MAX_VALUE_DEPTH} levels")]
    ValueTooDeep,
    #[error("an object key is not a text")]
    KeyNotText,
    #[error("duplicate key {0:?} in an object")]
    DuplicateKey(String),
    #[error("not JSON at byte {at}: {what}")]
    Syntax { at: usize, what: &'static str },
    #[error("{0}")]
    Shape(String),
}

impl Value {
    /// Converts a double: to an integer if it is one within range.
    pub fn number(number: f64) -> Result<Self, Error> {
        if !number.is_finite() {
            return Err(Error::NotFinite);
        }
        Ok(integral(number).map_or(Self::Float(number), Self::Int))
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(key),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The number as a double, if this is one; digits beyond 53 bits are lost.
    #[expect(clippy::cast_precision_loss, reason = "a double has no more digits")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn empty_object() -> Self {
        Self::Object(BTreeMap::new())
    }

    /// The canonical text, for messages and for programs; [`to_bytes`] writes what is stored.
    ///
    /// It is complete at any depth. A number that is not finite, which only a manually built [`Float`](Self::Float) can
    /// be, becomes `null`, as in ECMAScript.
    pub fn to_text(&self) -> String {
        match to_bytes(self).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            _ => match self {
                Self::List(items) => format!("[{}]", joined(items.iter().map(Self::to_text))),
                Self::Object(members) => {
                    let member = |(key, value): (&String, &Self)| {
                        format!("{}:{}", Self::from(key.as_str()).to_text(), value.to_text())
                    };
                    format!("{{{}}}", joined(members.iter().map(member)))
                }
                _ => "null".to_owned(),
            },
        }
    }

    /// Checks that the value may enter a thread: it has at most [`MAX_VALUE_DEPTH`] levels.
    pub fn check_depth(&self) -> Result<(), Error> {
        if self.is_within(MAX_VALUE_DEPTH) { Ok(()) } else { Err(Error::ValueTooDeep) }
    }

    /// Whether lists and objects are nested at most `levels` levels.
    pub(crate) fn is_within(&self, levels: usize) -> bool {
        let inner = levels.checked_sub(1);
        match self {
            Self::List(items) => inner.is_some_and(|levels| items.iter().all(|item| item.is_within(levels))),
            Self::Object(members) => inner.is_some_and(|levels| members.values().all(|value| value.is_within(levels))),
            _ => true,
        }
    }

    /// Converts `object` with serde.
    pub fn from_serialize<T: serde::Serialize + ?Sized>(object: &T) -> Result<Self, Error> {
        parse_canonical(&to_bytes(object)?)
    }
}

/// Any JSON.
impl JsonSchema for Value {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i128::from(number))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(i128::from(number))
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Int(i128::from(number))
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        serde::Deserialize::deserialize(value).unwrap_or_default()
    }
}

/// A text as it is, anything else as canonical JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(text) => f.write_str(text),
            _ => f.write_str(&self.to_text()),
        }
    }
}

/// The member of an object; `null` if there is none.
impl Index<&str> for Value {
    type Output = Self;

    fn index(&self, key: &str) -> &Self {
        self.get(key).unwrap_or(&Self::Null)
    }
}

/// The item of a list, from 0; `null` if there is none.
impl Index<usize> for Value {
    type Output = Self;

    fn index(&self, index: usize) -> &Self {
        match self {
            Self::List(items) => items.get(index).unwrap_or(&Self::Null),
            _ => &Self::Null,
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(items)
    }
}

impl<K: Into<String>> FromIterator<(K, Value)> for Value {
    fn from_iter<T: IntoIterator<Item = (K, Value)>>(members: T) -> Self {
        Self::Object(members.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

/// Reads a `T` from canonical bytes. Every stored object is read by this function, so that integers keep their digits
/// and a duplicate key is an error.
///
/// # Errors
/// [`Error::Syntax`] with a byte offset, or [`Error::Shape`] when the JSON is not a `T`.
pub fn from_slice<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    T::deserialize(parse_canonical(bytes)?)
}

pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(value)
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

/// `number` as an integer, if it is integral and within ±(2^64-1).
#[expect(clippy::cast_possible_truncation, reason = "the range is checked before the cast")]
fn integral(number: f64) -> Option<i128> {
    (number.fract() == 0.0 && number.abs() < INTEGER_END).then_some(number as i128)
}

#[cfg(test)]
mod tests;
