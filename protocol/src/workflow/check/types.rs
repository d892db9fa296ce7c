//! Types of values, derived from the JSON Schema of their field.

use crate::canonical::Value;
use crate::workflow::template::Segment;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type<'w> {
    Any,
    None,
    Text,
    Number,
    Boolean,
    List(Box<Known<'w>>),
    Schema(&'w Value),
    Fields(Vec<(String, Known<'w>)>),
    Object,
    /// The latest step of a role.
    Step(usize),
    /// Any of the steps of a role that have one of these statuses.
    PastStep(usize, Vec<usize>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known<'w> {
    pub(super) kind: Type<'w>,
    pub(super) optional: bool,
    /// The only words that a text can be; empty if it can be any.
    pub(super) words: Vec<&'w str>,
}

impl<'w> From<Type<'w>> for Known<'w> {
    fn from(kind: Type<'w>) -> Self {
        Self { kind, optional: false, words: Vec::new() }
    }
}

pub(super) enum Member<'w> {
    Known(Known<'w>),
    /// There is no member of that name; these exist.
    Unknown(Vec<String>),
    NotAnObject,
}

impl<'w> Known<'w> {
    pub(super) fn or_absent(mut self, optional: bool) -> Self {
        self.optional |= optional;
        self
    }

    /// The reader of types bounds how deep this goes.
    pub(super) fn of(schema: &'w Value) -> Self {
        let words: Vec<&str> = match schema.get("type") {
            Some(Value::Str(word)) => vec![word],
            Some(Value::List(words)) => words.iter().filter_map(Value::as_str).collect(),
            _ => return Self::of_constants(schema),
        };
        let optional = words.contains(&"null");
        let others: Vec<&str> = words.into_iter().filter(|word| *word != "null").collect();
        let kind = match others.as_slice() {
            [] => Type::None,
            ["string"] => Type::Text,
            ["integer" | "number"] => Type::Number,
            ["boolean"] => Type::Boolean,
            ["array"] => Type::List(Box::new(schema.get("items").map_or(Type::Any.into(), Self::of))),
            ["object"] => Type::Schema(schema),
            _ => Type::Any,
        };
        let words = if kind == Type::Text { words_of(schema) } else { Vec::new() };
        Self { kind, optional, words }
    }

    /// A text that is one of these words.
    pub(super) fn of_words(words: Vec<&'w str>) -> Self {
        Self { kind: Type::Text, optional: false, words }
    }

    /// The common type of the values of `enum` or `const`, if there is one.
    fn of_constants(schema: &'w Value) -> Self {
        let mut kinds = constants_of(schema).iter().map(Type::of_value);
        match kinds.next() {
            Some(first) if kinds.all(|kind| kind == first) => {
                let words = if first == Type::Text { words_of(schema) } else { Vec::new() };
                Self { kind: first, optional: false, words }
            }
            _ => Type::Any.into(),
        }
    }
}

/// The values that a schema allows, if it allows only some.
fn constants_of(schema: &Value) -> &[Value] {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::List(values)), _) => values,
        (_, Some(value)) => std::slice::from_ref(value),
        _ => &[],
    }
}

fn words_of(schema: &Value) -> Vec<&str> {
    constants_of(schema).iter().filter_map(Value::as_str).collect()
}

impl<'w> Type<'w> {
    pub(super) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::None,
            Value::Bool(_) => Self::Boolean,
            Value::Int(_) | Value::Float(_) => Self::Number,
            Value::Str(_) => Self::Text,
            Value::List(_) => Self::list(),
            Value::Object(_) => Self::Object,
        }
    }

    pub(super) fn list() -> Self {
        Self::List(Box::new(Self::Any.into()))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Any => "value",
            Self::None => "none",
            Self::Text => "text",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::List(_) => "list",
            Self::Schema(_) | Self::Fields(_) | Self::Object => "map",
            Self::Step(_) | Self::PastStep(..) => "step",
        }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self, Self::Schema(_) | Self::Fields(_) | Self::Object | Self::Step(_) | Self::PastStep(..))
    }

    /// The type of a member of a value that is not a step.
    pub(super) fn member(&self, segment: &Segment) -> Member<'w> {
        match (self, segment) {
            (Self::Any | Self::Object, _) => Member::Known(Self::Any.into()),
            (Self::List(items), Segment::Index(_)) => Member::Known((**items).clone().or_absent(true)),
            (Self::Fields(fields), Segment::Name(name)) => match fields.iter().find(|(field, _)| **field == **name) {
                Some((_, known)) => Member::Known(known.clone()),
                None => Member::Unknown(fields.iter().map(|(field, _)| field.clone()).collect()),
            },
            (Self::Schema(schema), Segment::Name(name)) => member_of_schema(schema, name),
            _ => Member::NotAnObject,
        }
    }
}

/// A property that a schema declares; an undeclared one has an unknown type and may be absent, unless the schema forbids
/// it. Of an object without declared properties nothing is known.
fn member_of_schema<'w>(schema: &'w Value, name: &str) -> Member<'w> {
    let is_required = match schema.get("required") {
        Some(Value::List(names)) => names.iter().any(|required| required.as_str() == Some(name)),
        _ => false,
    };
    let properties = schema.get("properties");
    if let Some(property) = properties.and_then(|properties| properties.get(name)) {
        return Member::Known(Known::of(property).or_absent(!is_required));
    }
    match (schema.get("additionalProperties"), properties) {
        (Some(Value::Bool(false)), Some(Value::Object(known))) => Member::Unknown(known.keys().cloned().collect()),
        (Some(additional @ Value::Object(_)), _) => Member::Known(Known::of(additional).or_absent(true)),
        (None, Some(_)) => Member::Known(Known::from(Type::Any).or_absent(!is_required)),
        _ => Member::Known(Type::Any.into()),
    }
}
