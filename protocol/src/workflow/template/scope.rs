//! What a template can see, looked up name by name.
//!
//! A template asks only for what it reads, so that the whole context is never built. A list may be given one element at
//! a time, so that a loop over ten thousand of them holds one.

use crate::canonical::Value;

/// The most names that a [`Scope`] is asked for at once: `steps`, the role, `output`, the field.
pub const MAX_NAMES: usize = 4;

/// What a template can see.
///
/// The roots are `input`, `output`, `body`, `status`, `steps`, `branches`, and in a lane `index` and the name that
/// `each` gives to the element. What is not there is `none`: the checker has made sure that a template asks for
/// nothing else.
pub trait Scope {
    /// The value at a prefix of `path`, and the length of that prefix. `path` holds the leading names of a path, at
    /// least one and at most [`MAX_NAMES`]; the template walks the rest itself. So `steps.writer.output.title` may be
    /// answered with the role's whole output and `used: 3`, borrowed.
    fn find<'s>(&'s self, path: &[&str]) -> Lookup<'s>;

    /// How many elements the list at `list` has, where this scope gives its elements one by one: such a list is asked
    /// for with [`item`](Self::item) and never with [`find`](Self::find). `None` for everything else.
    ///
    /// A loop, `length`, `first`, `last`, an index and `map(attribute=...)` ask for no more than they read; any other
    /// use builds the whole list, under the ceiling on what a render makes.
    fn length(&self, _list: &[&str]) -> Option<usize> {
        None
    }

    /// The value at a prefix of `path` within the element `index` of such a list, and the length of that prefix; the
    /// whole element if `path` is empty. `path` holds at most [`MAX_NAMES`] names, and `index` is below
    /// [`length`](Self::length).
    fn item<'s>(&'s self, _list: &[&str], _index: usize, _path: &[&str]) -> Lookup<'s> {
        Lookup::none(0)
    }

    /// Whether `role` has run: the question behind `{% if steps.ROLE %}`, asked often and answered without building
    /// a value.
    fn has_run(&self, role: &str) -> bool {
        !self.find(&["steps", role]).view.is_none()
    }
}

/// The result of a lookup in a [`Scope`].
#[derive(Debug)]
pub struct Lookup<'s> {
    /// The value at that place.
    pub view: View<'s>,
    /// How many names of the path lead to it.
    pub used: usize,
}

impl<'s> Lookup<'s> {
    /// `view` is at the first `used` names.
    pub fn new(view: impl Into<View<'s>>, used: usize) -> Self {
        Self { view: view.into(), used }
    }

    /// None: the path ends after `used` names.
    pub fn none(used: usize) -> Self {
        Self { view: View::none(), used }
    }
}

/// A value as a template sees it: borrowed where it can be.
#[derive(Debug, Clone)]
pub enum View<'s> {
    /// A value somewhere else.
    Value(&'s Value),
    /// A text somewhere else.
    Text(&'s str),
    /// A value made for this occasion.
    Owned(Value),
}

impl Default for View<'_> {
    fn default() -> Self {
        Self::none()
    }
}

impl View<'_> {
    /// What is not there.
    pub fn none() -> Self {
        Self::Owned(Value::Null)
    }

    /// Whether there is nothing.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Value(Value::Null) | Self::Owned(Value::Null))
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Value(value) => value.as_str(),
            Self::Text(text) => Some(text),
            Self::Owned(value) => value.as_str(),
        }
    }

    /// The value, unless it is a text that is none yet: [`as_str`](Self::as_str) gives every text. Nothing is copied.
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

    /// The value itself. The caller pays for the copy first.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Text(text) => Value::from(text),
            Self::Owned(value) => value,
        }
    }

    /// The member of an object, or the element of a list, that `segment` names.
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
        match path.first().and_then(|root| self.get(root)) {
            Some(value) => Lookup::new(value, 1),
            None => Lookup::none(1),
        }
    }

    fn has_run(&self, role: &str) -> bool {
        self.get("steps").and_then(|steps| steps.get(role)).is_some_and(|step| !step.is_null())
    }
}
