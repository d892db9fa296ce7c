//! The values that a template can read, looked up by name.
//!
//! A template asks only for what it reads, so that the whole context is never built. A scope may return a list one
//! element at a time, so that a loop over ten thousand elements holds one.

use crate::canonical::Value;

/// The maximum number of names in one lookup of a [`Scope`]: `steps`, the role, `output`, the field.
pub const MAX_NAMES: usize = 4;

/// The values that a template can read.
///
/// The roots are `input`, `output`, `body`, `status`, `steps`, `branches`, and in a lane `index` and the name that
/// `each` gives to the element. Missing values are `none`: the checker ensures that a template reads nothing else.
pub trait Scope {
    /// Returns the value at a prefix of `path`, and the length of that prefix. `path` contains the leading names of a
    /// path, at least one and at most [`MAX_NAMES`]; the template follows the rest itself. So for
    /// `steps.writer.output.title` a scope may return the role's whole output and `used: 3`, borrowed.
    fn find<'s>(&'s self, path: &[&str]) -> Lookup<'s>;

    /// The length of the list at `list`, if this scope returns its elements one by one: such a list is read with
    /// [`item`](Self::item) and never with [`find`](Self::find). `None` for everything else.
    ///
    /// A loop, `length`, `first`, `last`, an index and `map(attribute=...)` read only what they need; any other use
    /// builds the whole list, within the limit on a render's intermediate values.
    fn length(&self, _list: &[&str]) -> Option<usize> {
        None
    }

    /// Returns the value at a prefix of `path` within the element `index` of such a list, and the length of that
    /// prefix; the whole element if `path` is empty. `path` contains at most [`MAX_NAMES`] names, and `index` is below
    /// [`length`](Self::length).
    fn item<'s>(&'s self, _list: &[&str], _index: usize, _path: &[&str]) -> Lookup<'s> {
        Lookup::none(0)
    }

    /// Whether `role` has run: used for `{% if steps.ROLE %}`, which is frequent, without building a value.
    fn has_run(&self, role: &str) -> bool {
        !self.find(&["steps", role]).view.is_none()
    }
}

/// The result of a lookup in a [`Scope`].
#[derive(Debug)]
pub struct Lookup<'s> {
    pub view: View<'s>,
    /// The number of names of the path that lead to it.
    pub used: usize,
}

impl<'s> Lookup<'s> {
    /// A result at the first `used` names.
    pub fn new(view: impl Into<View<'s>>, used: usize) -> Self {
        Self { view: view.into(), used }
    }

    /// No value: the path ends after `used` names.
    pub fn none(used: usize) -> Self {
        Self { view: View::none(), used }
    }
}

/// A value as a template sees it, borrowed if possible.
#[derive(Debug, Clone)]
pub enum View<'s> {
    Value(&'s Value),
    Text(&'s str),
    /// A value created for this lookup.
    Owned(Value),
}

impl Default for View<'_> {
    fn default() -> Self {
        Self::none()
    }
}

impl View<'_> {
    pub fn none() -> Self {
        Self::Owned(Value::Null)
    }

    pub fn is_none(&self) -> bool {
        matches!(self, Self::Value(Value::Null) | Self::Owned(Value::Null))
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => self.as_value()?.as_str(),
        }
    }

    /// The value, unless it is a bare text: [`as_str`](Self::as_str) returns every text. Copies nothing.
    pub fn as_value(&self) -> Option<&Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Text(_) => None,
            Self::Owned(value) => Some(value),
        }
    }

    pub(super) fn kind_name(&self) -> &'static str {
        self.as_value().map_or("text", super::kind_name)
    }

    /// The owned value. The caller pays for the copy first.
    pub fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Text(text) => Value::from(text),
            Self::Owned(value) => value,
        }
    }

    /// The member of an object, or the element of a list, with this name or index.
    pub(super) fn member(self, segment: &super::expr::Segment) -> Option<Self> {
        match self {
            Self::Value(value) => segment.of(value).map(View::Value),
            Self::Text(_) => None,
            Self::Owned(value) => Some(Self::Owned(segment.take(value)?)),
        }
    }
}

impl<'s> From<&'s Value> for View<'s> {
    fn from(value: &'s Value) -> Self {
        Self::Value(value)
    }
}

impl<'s> From<&'s str> for View<'s> {
    fn from(text: &'s str) -> Self {
        Self::Text(text)
    }
}

impl From<Value> for View<'_> {
    fn from(value: Value) -> Self {
        Self::Owned(value)
    }
}

/// An object is a scope whose roots are its members.
impl Scope for Value {
    fn find<'s>(&'s self, path: &[&str]) -> Lookup<'s> {
        path.first().and_then(|root| self.get(root)).map_or(Lookup::none(1), |value| Lookup::new(value, 1))
    }

    fn has_run(&self, role: &str) -> bool {
        self.get("steps").and_then(|steps| steps.get(role)).is_some_and(|step| !step.is_null())
    }
}
