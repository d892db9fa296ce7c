//! Objects of declared fields: the answers of a status, or the inputs of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::Value;
use rondo_protocol::id::FieldName;
use rondo_protocol::workflow::{Field, Ordered};

use super::{MAX_BYTES, samples, weight};

const MAX_OBJECTS: usize = 96;
/// The maximum number of objects from combining the values of several fields.
const MAX_CROSSED: usize = 64;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects {
    /// Without duplicates: first the shortest, with every optional field left out; then, if different, the longest, and
    /// the longest without its optional fields.
    pub values: Vec<Value>,
    /// Fields for which no value could be made. If one of them is required, there are no objects.
    pub unmade: Vec<FieldName>,
    /// Whether there would be more.
    pub is_cut: bool,
}

/// Makes objects with `fields`. Fields named in `crossed` are tried in every combination of their values, because what
/// happens next depends on them together; the others one at a time. `wanted` as in [`samples`], for crossed fields.
pub fn objects(fields: &Ordered<FieldName, Field>, crossed: &BTreeSet<String>, wanted: &[Value]) -> Objects {
    let mut objects = Objects::default();
    let mut made: Vec<Made<'_>> = Vec::new();
    for (name, field) in fields {
        let is_crossed = crossed.contains(name.as_str());
        let values = samples(&field.schema, if is_crossed { wanted } else { &[] });
        if values.is_empty() {
            objects.unmade.push(name.clone());
            if !field.optional {
                return Objects { values: Vec::new(), ..objects };
            }
            continue;
        }
        made.push(Made { name: name.as_str(), values, optional: field.optional, is_crossed });
    }
    let full = object(made.iter().map(|field| (field.name, Some(field.longest()))));
    let (mut bytes, mut is_cut) = (0_usize, false);
    let mut keep = |object: Value| {
        if objects.values.contains(&object) {
            return;
        }
        if objects.values.len() >= MAX_OBJECTS || bytes >= 2 * MAX_BYTES {
            objects.is_cut = true;
        } else {
            bytes = bytes.saturating_add(weight(&object));
            objects.values.push(object);
        }
    };
    keep(object(made.iter().map(|field| (field.name, field.shortest()))));
    keep(full.clone());
    keep(object(made.iter().map(|field| (field.name, Some(field.longest()).filter(|_| !field.optional)))));
    let mut combined = vec![full.clone()];
    for field in made.iter().filter(|field| field.is_crossed) {
        let more = combined.len().saturating_mul(field.choices().count());
        is_cut |= more > MAX_CROSSED;
        let next = combined.iter().flat_map(|object| field.choices().map(|value| with(object, field.name, value)));
        combined = next.take(MAX_CROSSED).collect();
    }
    combined.into_iter().for_each(&mut keep);
    for field in made.iter().filter(|field| !field.is_crossed) {
        for value in field.choices() {
            keep(with(&full, field.name, value));
        }
    }
    objects.is_cut |= is_cut;
    objects
}

struct Made<'f> {
    name: &'f str,
    values: Vec<Value>,
    optional: bool,
    is_crossed: bool,
}

impl Made<'_> {
    fn shortest(&self) -> Option<&Value> {
        self.values.first().filter(|_| !self.optional)
    }

    fn longest(&self) -> &Value {
        self.values.get(1).or(self.values.first()).unwrap_or(&Value::Null)
    }

    /// Every value, and `None` if the field is optional.
    fn choices(&self) -> impl Iterator<Item = Option<&Value>> {
        self.values.iter().map(Some).chain(self.optional.then_some(None))
    }
}

fn object<'v>(members: impl Iterator<Item = (&'v str, Option<&'v Value>)>) -> Value {
    members.filter_map(|(name, value)| Some((name, value?.clone()))).collect()
}

fn with(object: &Value, name: &str, value: Option<&Value>) -> Value {
    let mut members = match object {
        Value::Object(members) => members.clone(),
        _ => BTreeMap::new(),
    };
    match value {
        Some(value) => members.insert(name.to_owned(), value.clone()),
        None => members.remove(name),
    };
    Value::Object(members)
}
