//! Plain values, each read as its row in the table of the format says: texts, numbers, words, durations, sizes, templates.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Reader;
use super::path_node::{Fields, PathNode, listed};
use crate::canonical::{self, Value};
use crate::diagnostic::did_you_mean;
use crate::source::{Kind, comment_behind, quote_in_text};
use crate::workflow::format::{Form, KeySpec, MAX_STOPS, Named, Shape};

impl Reader<'_> {
    pub(super) fn text(&mut self, part: &PathNode<'_>) -> Option<String> {
        match &part.node.kind {
            Kind::Str(text) => Some(text.clone()),
            Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) => self.wrong_type(part, "a text", Some("put it in quotes")),
            _ => self.wrong_type(part, "a text", None),
        }
    }

    /// Reads a text for people or models: a comment after it may have cut it.
    fn prose(&mut self, part: &PathNode<'_>) -> Option<String> {
        let text = self.text(part)?;
        let file = self.places.text();
        for slip in [quote_in_text(file, part.node), comment_behind(file, part.node)].into_iter().flatten() {
            self.report(slip);
        }
        Some(text)
    }

    /// Reads a text in which the checker needs locations.
    pub(super) fn template(&mut self, part: &PathNode<'_>) -> Option<String> {
        let text = self.prose(part)?;
        self.places.put_text(&part.path, &text);
        Some(text)
    }

    /// Reads an expression: a text, or one of the two words that YAML reads as booleans.
    pub(super) fn expression(&mut self, part: &PathNode<'_>) -> Option<String> {
        match part.node.kind {
            Kind::Bool(truth) => Some(truth.to_string()),
            _ => self.template(part),
        }
    }

    fn boolean(&mut self, part: &PathNode<'_>) -> Option<bool> {
        if let Kind::Bool(truth) = part.node.kind {
            return Some(truth);
        }
        let hint = match part.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("yes" | "on" | "y" | "true") => Some("write `true`, without quotes"),
            Some("no" | "off" | "n" | "false") => Some("write `false`, without quotes"),
            _ => None,
        };
        self.wrong_type(part, "`true` or `false`", hint)
    }

    /// Reads an integer from `least` to `most`. A number such as `3.0` is allowed.
    pub(super) fn integer(&mut self, part: &PathNode<'_>, least: u64, most: u64) -> Option<u64> {
        let Value::Int(number) = part.node.to_value() else {
            let written = self.places.text().get(part.node.span.offset..).unwrap_or_default();
            let hint = match part.as_str().map(|text| text.replace('_', "").parse::<i128>().is_ok()) {
                Some(true) if written.starts_with(['"', '\'']) => Some("take out the quotes"),
                Some(true) => Some("an integer is written without leading zeros and without `_`"),
                _ => None,
            };
            return self.wrong_type(part, "an integer", hint);
        };
        u64::try_from(number).ok().filter(|number| (least..=most).contains(number)).or_else(|| {
            let no_end = most >= u64::from(u32::MAX);
            let range = if no_end { format!("of at least {least}") } else { format!("from {least} to {most}") };
            self.not_allowed(part, &format!("an integer {range}"), None)
        })
    }

    fn number(&mut self, part: &PathNode<'_>, expected: &str, allowed: impl Fn(f64) -> bool) -> Option<Value> {
        let value = part.node.to_value();
        match value.as_f64() {
            None => self.wrong_type(part, expected, None),
            Some(number) if allowed(number) => Some(value),
            Some(_) => self.not_allowed(part, expected, None),
        }
    }

    pub(super) fn one_of<'w, T: Copy>(
        &mut self,
        part: &PathNode<'_>,
        words: impl IntoIterator<Item = (&'w str, T)>,
    ) -> Option<T> {
        let (known, meant): (Vec<&str>, Vec<T>) = words.into_iter().unzip();
        let text = part.as_str();
        if let Some(at) = known.iter().position(|word| text == Some(word)) {
            return meant.get(at).copied();
        }
        let hint = text.and_then(|text| did_you_mean(text, known.iter().copied()));
        self.not_allowed(part, &format!("one of {}", listed(&known)), hint.as_deref())
    }

    /// The value of the entry `name`, if the map has it and it can be read.
    pub(super) fn get<T: DeserializeOwned>(&mut self, fields: &Fields<'_>, name: &str) -> Option<T> {
        let (part, shape) = fields.with_shape(name)?;
        canonical::from_value(self.value(part, *shape)?).ok()
    }

    /// The values of those entries that have one of `keys`. A duration is stored as milliseconds, under a name with `_ms`.
    pub(super) fn values(&mut self, fields: &Fields<'_>, keys: &[KeySpec]) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::new();
        for key in keys {
            if let Some(value) = fields.get(key.name).and_then(|part| self.value(part, key.shape)) {
                let unit = if matches!(key.shape, Shape::Duration) { "_ms" } else { "" };
                values.insert(format!("{}{unit}", key.name), value);
            }
        }
        values
    }

    /// Reads a part of a plain shape; `None` if it has a fault, or if its shape has a reader of its own.
    pub(super) fn value(&mut self, part: &PathNode<'_>, shape: Shape) -> Option<Value> {
        match shape {
            Shape::Prose => self.prose(part).map(Value::Str),
            Shape::Source => self.template(part).map(Value::Str),
            Shape::Prompt => self.prompt(part).map(Value::Str),
            Shape::Expression | Shape::Condition => self.expression(part).map(Value::Str),
            Shape::System => self.system(part).map(Value::Str),
            Shape::NonEmpty => self.nonempty(part).map(Value::Str),
            Shape::OneOrMany => self.one_or_many(part),
            Shape::Tool => self.tool_name(part, false).map(Value::Str),
            Shape::Tools => Some(Value::List(self.tools(part).into_iter().map(Value::Str).collect())),
            Shape::RoleName => self.role_reference(part).map(|role| Value::from(role.as_str())),
            Shape::Boolean => self.boolean(part).map(Value::Bool),
            Shape::Count(least, most) => self.integer(part, least, most).map(Value::from),
            Shape::Number(least, most) => {
                let allowed = f64::from(least)..=f64::from(most);
                self.number(part, &format!("a number from {least} to {most}"), |number| allowed.contains(&number))
            }
            Shape::Integer => match part.node.to_value() {
                integer @ Value::Int(_) => Some(integer),
                _ => self.wrong_type(part, "an integer", None),
            },
            Shape::Duration => self.duration(part).map(Value::from),
            Shape::DurationOrNever => self.duration_or_never(part),
            Shape::Cost => self.number(part, "US dollars, more than 0", |dollars| dollars > 0.0),
            Shape::Size => self.size(part).map(Value::from),
            Shape::Word(words) => self.one_of(part, words.iter().map(|(word, _)| (*word, *word))).map(Value::from),
            Shape::Named(Named { form: Form::Words(words), .. }) => self.value(part, Shape::Word(words)),
            Shape::Named(Named { form: Form::Keys(keys), .. }) => {
                let fields = self.fields(part, keys)?;
                let values = self.values(&fields, keys);
                let is_whole = keys.iter().all(|key| !key.required || values.contains_key(key.name));
                is_whole.then_some(Value::Object(values))
            }
            // A word, or a map that says more.
            Shape::Named(Named { form: Form::Either([word, map]), .. }) => {
                self.value(part, if matches!(part.node.kind, Kind::Map(_)) { *map } else { *word })
            }
            Shape::List(element, _) => {
                let items = self.items(part)?;
                Some(Value::List(items.iter().filter_map(|item| self.value(item, *element)).collect()))
            }
            Shape::Map(of) => {
                let entries = self.given_entries(part)?;
                let member = |entry: &PathNode<'_>| Some((entry.name().to_owned(), self.value(entry, *of)?));
                Some(Value::Object(entries.iter().filter_map(member).collect()))
            }
            Shape::Templates if !matches!(part.node.kind, Kind::Map(_)) => self.wrong_type(part, "a map", None),
            Shape::Template | Shape::Templates => Some(self.leaves(part)),
            _ => None,
        }
    }

    /// Reads a value whose texts are templates. The readers of files bound how deep this goes.
    fn leaves(&mut self, part: &PathNode<'_>) -> Value {
        match &part.node.kind {
            Kind::Str(_) => self.template(part).map_or(Value::Null, Value::Str),
            Kind::List(_) => {
                let items = self.items(part).unwrap_or_default();
                Value::List(items.iter().map(|item| self.leaves(item)).collect())
            }
            Kind::Map(_) => {
                let entries = self.given_entries(part).unwrap_or_default();
                Value::Object(entries.iter().map(|entry| (entry.name().to_owned(), self.leaves(entry))).collect())
            }
            _ => part.node.to_value(),
        }
    }

    fn nonempty(&mut self, part: &PathNode<'_>) -> Option<String> {
        let text = self.text(part)?;
        if text.trim().is_empty() { self.not_allowed(part, "a text that is not empty", None) } else { Some(text) }
    }

    fn one_or_many(&mut self, part: &PathNode<'_>) -> Option<Value> {
        if matches!(part.node.kind, Kind::Str(_)) {
            return self.nonempty(part).map(Value::Str);
        }
        let items = self.items(part)?;
        if items.is_empty() || items.len() > MAX_STOPS {
            return self.not_allowed(part, &format!("from 1 to {MAX_STOPS} texts"), None);
        }
        Some(Value::List(items.iter().filter_map(|item| self.nonempty(item)).map(Value::Str).collect()))
    }

    /// Reads a duration in milliseconds, greater than 0.
    fn duration(&mut self, part: &PathNode<'_>) -> Option<u64> {
        let hint = match part.node.kind {
            Kind::Int(number) => &format!("name the unit, such as `{number}s`"),
            _ => "it is digits and one unit: `250ms 30s 10m 2h 3d`",
        };
        let read = part.as_str().and_then(duration_ms).filter(|ms| *ms > 0);
        read.or_else(|| self.not_allowed(part, "a duration such as `30s`", Some(hint)))
    }

    /// Reads a duration in milliseconds; `null` for `0` and `none`, which mean no limit.
    fn duration_or_never(&mut self, part: &PathNode<'_>) -> Option<Value> {
        let never = matches!(part.node.kind, Kind::Int(0)) || matches!(part.as_str(), Some("none"));
        let zero = part.as_str().and_then(duration_ms) == Some(0);
        if never || zero { Some(Value::Null) } else { self.duration(part).map(Value::from) }
    }

    /// Reads a size in bytes, greater than 0: an integer, or a size such as `32KiB`.
    fn size(&mut self, part: &PathNode<'_>) -> Option<u64> {
        let read = match part.node.kind {
            Kind::Int(bytes) => u64::try_from(bytes).ok(),
            _ => part.as_str().and_then(size_bytes),
        };
        let hint = "it is bytes, or digits and `KiB`, `MiB`, `GiB`";
        read.filter(|bytes| *bytes > 0).or_else(|| self.not_allowed(part, "a size such as `32KiB`", Some(hint)))
    }
}

/// The defaults of `T`, and in their place those of `values` that are members of it.
pub(super) fn over_defaults<T: Default + Serialize + DeserializeOwned>(values: &BTreeMap<String, Value>) -> T {
    fn put(members: &mut Value, values: &BTreeMap<String, Value>) {
        let Value::Object(members) = members else { return };
        for (name, member) in members {
            match (member, values.get(name)) {
                (member @ Value::Object(_), Some(Value::Object(values))) => put(member, values),
                (member, Some(value)) => *member = value.clone(),
                (_, None) => {}
            }
        }
    }
    let mut value = Value::from_serialize(&T::default()).unwrap_or_default();
    put(&mut value, values);
    let read = canonical::from_value(value);
    debug_assert!(read.is_ok(), "what the table of the format lets pass is what the type takes");
    read.unwrap_or_default()
}

/// The milliseconds of a duration such as `250ms 30s 10m 2h 3d`.
pub fn duration_ms(text: &str) -> Option<u64> {
    const SECOND: u64 = 1_000;
    const DAY: u64 = 24 * 60 * 60 * SECOND;
    /// A thousand years: beyond this, arithmetic on clocks could overflow.
    const LONGEST: u64 = 1_000 * 365 * DAY;
    let units = [("ms", 1), ("s", SECOND), ("m", 60 * SECOND), ("h", 60 * 60 * SECOND), ("d", DAY)];
    in_units(text, units).filter(|ms| *ms <= LONGEST)
}

/// The bytes of a size such as `32KiB 8MiB`.
pub fn size_bytes(text: &str) -> Option<u64> {
    in_units(text, [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
}

/// Digits and one of these units.
fn in_units<const N: usize>(text: &str, units: [(&str, u64); N]) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit())?)?;
    let (_, factor) = units.into_iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(factor)
}
