//! Sample values for a schema, made without a model: the answers of a walk over a workflow's routes.
//!
//! For each schema there are a shortest value, a longest one, and others that a template or a condition may fail on:
//! every word of an enum, both booleans, the bounds of numbers, lists of each relevant length, objects with and without
//! each optional member. They are derived from the schema in a fixed order, so that the same schema always results in
//! the same values.
//!
//! Laws: every value matches its schema, because the same [`Validator`] checks it that checks answers; if none can be
//! made (no simple text matches a pattern, bounds exclude each other), there are none; number, size and work are
//! bounded for every schema.
//!
//! This module knows nothing of graphs, roles or answers.

mod fields;
mod file;
mod merge;
mod number;
mod pattern;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::Value;
use rondo_protocol::workflow::types::{Validator, is_file};

use self::merge::{Plain, alternatives};

pub use fields::{Objects, objects};
pub use text::words;

const MAX_SAMPLES: usize = 48;
/// The maximum number of elements of an unbounded list.
const USUAL_ITEMS: usize = 3;
const MAX_ITEMS: usize = 64;
const MAX_VALUE_BYTES: usize = 512 * 1024;
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// The maximum number of schemas that are visited to make the values of one.
const MAX_WORK: usize = 20_000;
/// The number of members of an object whose schema names none.
const UNNAMED_MEMBERS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleSize {
    Least,
    /// As much as it allows, within the usual limits.
    Most,
}

/// Values that match `schema`, without duplicates: first the shortest, then the longest if different. Includes `wanted`
/// values, as they are or as lengths, if they match. Empty when none could be made.
pub fn samples(schema: &Value, wanted: &[Value]) -> Vec<Value> {
    let Ok(validator) = Validator::of_schema(schema) else { return Vec::new() };
    let mut maker = Maker { left_bytes: MAX_VALUE_BYTES, work: MAX_WORK };
    let mut found = Vec::new();
    let mut bytes = 0_usize;
    let mut keep = |value: Value| {
        if found.len() < MAX_SAMPLES && bytes < MAX_BYTES && !found.contains(&value) && validator.is_valid(&value) {
            bytes = bytes.saturating_add(weight(&value));
            found.push(value);
        }
    };
    for extent in [SampleSize::Least, SampleSize::Most] {
        maker.work = MAX_WORK;
        // The first alternative with a value is the one that the schema lists first.
        let file = is_file(schema).then(|| file::of(extent));
        let made = alternatives(schema).into_iter().filter_map(|plain| maker.fresh().one(&plain, extent));
        let mut made = file.into_iter().chain(made).filter(|value| validator.is_valid(value));
        made.next().into_iter().for_each(&mut keep);
    }
    wanted.iter().cloned().for_each(&mut keep);
    maker.work = MAX_WORK;
    maker.fresh().many(schema, wanted).into_iter().for_each(&mut keep);
    found
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 8,
        Value::Str(text) => text.len() + 2,
        Value::List(items) => 2 + items.iter().map(|item| weight(item) + 1).sum::<usize>(),
        Value::Object(members) => 2 + members.iter().map(|(key, member)| key.len() + 4 + weight(member)).sum::<usize>(),
    }
}

/// One value of each type, a list of two of them, and empty values.
fn anything() -> Vec<Value> {
    let text = || Value::from(text::words(text::USUAL_CHARS));
    vec![
        Value::from(""),
        text(),
        Value::Int(0),
        Value::Float(0.5),
        Value::Bool(true),
        Value::List(Vec::new()),
        Value::List(vec![text(), Value::Int(1)]),
        Value::empty_object(),
        Value::from_iter([("key1", text())]),
        Value::Null,
    ]
}

/// Makes candidates, which the validator then accepts or rejects.
struct Maker {
    left_bytes: usize,
    work: usize,
}

impl Maker {
    /// Resets the room for one more value, but not the work.
    fn fresh(&mut self) -> &mut Self {
        self.left_bytes = MAX_VALUE_BYTES;
        self
    }

    /// The alternatives of a schema; pays for them.
    fn ways(&mut self, schema: &Value) -> Vec<Plain> {
        let ways = if self.work > 0 { alternatives(schema) } else { Vec::new() };
        self.work = self.work.saturating_sub(1 + ways.len());
        ways
    }

    fn pay(&mut self, bytes: usize) -> Option<()> {
        self.work = self.work.checked_sub(1)?;
        self.left_bytes = self.left_bytes.checked_sub(bytes)?;
        Some(())
    }

    /// One value for the first alternative of a schema that has one.
    fn of(&mut self, schema: &Value, extent: SampleSize) -> Option<Value> {
        if is_file(schema) {
            return Some(file::of(extent));
        }
        self.ways(schema).iter().find_map(|plain| self.one(plain, extent))
    }

    /// One value for a schema without alternatives.
    fn one(&mut self, plain: &Plain, extent: SampleSize) -> Option<Value> {
        self.pay(8)?;
        if let Some(constant) = plain.constants().first() {
            let constants = plain.constants();
            let longest = constants.iter().rev().max_by_key(|value| weight(value)).unwrap_or(constant);
            let chosen = if extent == SampleSize::Least { constant } else { longest };
            self.pay(weight(chosen))?;
            return Some(chosen.clone());
        }
        let kind = plain.kinds().first().copied()?;
        self.of_kind(plain, kind, extent)
    }

    fn of_kind(&mut self, plain: &Plain, kind: &str, extent: SampleSize) -> Option<Value> {
        match kind {
            "string" => {
                let text = text::of(plain, extent, self.left_bytes)?;
                self.pay(text.len())?;
                Some(Value::from(text))
            }
            "integer" | "number" => number::of(plain, kind == "integer", extent),
            "boolean" => Some(Value::Bool(extent == SampleSize::Most)),
            "array" => {
                let length = Length::of(plain);
                self.list(plain, if extent == SampleSize::Least { length.least } else { length.most }, extent)
            }
            "object" => self.object(plain, extent),
            _ => Some(Value::Null),
        }
    }

    /// All values worth trying for a schema.
    fn many(&mut self, schema: &Value, wanted: &[Value]) -> Vec<Value> {
        if is_file(schema) {
            return [SampleSize::Least, SampleSize::Most].map(file::of).into();
        }
        let mut found = Vec::new();
        for plain in self.ways(schema) {
            if found.len() > MAX_SAMPLES {
                break;
            }
            if plain.allows_anything() {
                // Lists and objects of anything would have no end.
                found.extend(anything());
                continue;
            }
            if !plain.constants().is_empty() {
                found.extend(plain.constants().iter().cloned());
                continue;
            }
            for kind in plain.kinds() {
                found.extend(self.of_kind(&plain, kind, SampleSize::Least));
                found.extend(self.of_kind(&plain, kind, SampleSize::Most));
                match kind {
                    "boolean" => found.extend([false, true].map(Value::Bool)),
                    "integer" | "number" => found.extend(number::others(&plain, kind == "integer", wanted)),
                    "array" => self.other_lists(&plain, wanted, &mut found),
                    "object" => self.other_objects(&plain, wanted, &mut found),
                    _ => {}
                }
            }
        }
        found
    }

    fn list(&mut self, plain: &Plain, length: usize, extent: SampleSize) -> Option<Value> {
        let mut items = Vec::new();
        let contained = plain.get("contains");
        let must_contain = if contained.is_some() { plain.count("minContains").unwrap_or(1) } else { 0 };
        for index in 0..length {
            let schema = plain.element(index)?;
            let wanted = contained.filter(|_| index < must_contain).map(|inner| merge::both(&schema, inner));
            let mut item = self.of(wanted.as_ref().unwrap_or(&schema), extent)?;
            if plain.is("uniqueItems") && items.contains(&item) {
                item = self.another(&schema, &item, index, &items)?;
            }
            items.push(item);
        }
        Some(Value::List(items))
    }

    /// An element that is not among `items` yet.
    fn another(&mut self, schema: &Value, item: &Value, index: usize, items: &[Value]) -> Option<Value> {
        let numbered = match item {
            Value::Str(text) => Some(Value::from(text::numbered(text, index))),
            Value::Int(number) => Some(Value::Int(number.checked_add(i128::try_from(index).ok()?)?)),
            _ => None,
        };
        let fits = |value: &Value| Validator::of_schema(schema).is_ok_and(|validator| validator.is_valid(value));
        let numbered = numbered.filter(|value| !items.contains(value) && fits(value));
        numbered.or_else(|| self.many(schema, &[]).into_iter().find(|value| !items.contains(value)))
    }

    /// Lists of one element of each kind, of all kinds together, and of the wanted lengths.
    fn other_lists(&mut self, plain: &Plain, wanted: &[Value], found: &mut Vec<Value>) {
        let Some(schema) = plain.element(0) else { return };
        let sorts = self.many(&schema, wanted);
        let length = Length::of(plain);
        if length.most > length.least {
            let mixed = sorts.iter().take(length.most.min(MAX_SAMPLES)).cloned().collect();
            found.push(Value::List(mixed));
        }
        let alone = length.least.max(1);
        if alone <= length.most {
            found.extend(sorts.iter().map(|sort| Value::List(vec![sort.clone(); alone.min(MAX_ITEMS)])));
        }
        for length in number::near(wanted) {
            let length = usize::try_from(length).ok().filter(|length| *length <= MAX_ITEMS);
            found.extend(length.and_then(|length| self.fresh().list(plain, length, SampleSize::Least)));
        }
    }

    fn object(&mut self, plain: &Plain, extent: SampleSize) -> Option<Value> {
        let mut members = BTreeMap::new();
        for name in plain.members(extent == SampleSize::Most) {
            self.pay(name.len())?;
            let member = self.of(&plain.member(&name)?, extent)?;
            members.insert(name, member);
        }
        Some(Value::Object(members))
    }

    /// Objects that differ from the fullest in one member.
    fn other_objects(&mut self, plain: &Plain, wanted: &[Value], found: &mut Vec<Value>) {
        let Some(Value::Object(full)) = self.fresh().object(plain, SampleSize::Most) else { return };
        let required: BTreeSet<String> = plain.members(false).into_iter().collect();
        for name in full.keys() {
            if !required.contains(name) {
                let mut without = full.clone();
                without.remove(name);
                found.push(Value::Object(without));
            }
            let Some(schema) = plain.member(name) else { continue };
            for sort in self.fresh().many(&schema, wanted).into_iter().take(MAX_SAMPLES) {
                if found.len() > 4 * MAX_SAMPLES {
                    return;
                }
                let mut changed = full.clone();
                changed.insert(name.clone(), sort);
                found.push(Value::Object(changed));
            }
        }
    }
}

struct Length {
    least: usize,
    most: usize,
}

impl Length {
    fn of(plain: &Plain) -> Self {
        let contains = usize::from(plain.get("contains").is_some());
        let contained = plain.count("minContains").unwrap_or(contains) * contains;
        let least = plain.count("minItems").unwrap_or(0).max(contained);
        let prefix = plain.list("prefixItems").len();
        let closed = plain.get("items") == Some(&Value::Bool(false));
        let usual = if closed { prefix } else { least.max(prefix).max(USUAL_ITEMS) };
        let most = plain.count("maxItems").unwrap_or(usual).min(MAX_ITEMS);
        Self { least: least.min(MAX_ITEMS), most: if closed { most.min(prefix) } else { most } }
    }
}

#[cfg(test)]
mod tests;
