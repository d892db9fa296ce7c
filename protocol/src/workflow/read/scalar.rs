//! Texts, numbers, words, durations and sizes.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Reader;
use super::path_node::{Fields, PathNode, listed};
use crate::canonical::{self, Value};
use crate::diagnostic::{Code, did_you_mean};
use crate::source::{Kind, comment_behind, excerpt, quote_in_text};
use crate::workflow::format::{Form, KeySpec, MAX_STOPS, Named, ONE_OR_MANY, Shape};

impl Reader<'_> {
    pub(super) fn text(&mut self, part: &PathNode<'_>) -> Option<String> {
        match &part.node.kind {
            Kind::Str(text) => Some(text.clone()),
            Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) => self.wrong_type(part, "a text", Some("put it in quotes")),
            _ => self.wrong_type(part, "a text", None),
        }
    }

    /// Reads a text for people or models: a comment after it may have cut it.
    pub(super) fn prose(&mut self, part: &PathNode<'_>) -> Option<String> {
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
        if let Kind::Bool(truth) = part.node.kind {
            return Some(truth.to_string());
        }
        self.template(part)
    }

    pub(super) fn boolean(&mut self, part: &PathNode<'_>) -> Option<bool> {
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
        match u64::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Some(number),
            _ => {
                let range = if most >= u64::from(u32::MAX) {
                    format!("of at least {least}")
                } else {
                    format!("from {least} to {most}")
                };
                self.not_allowed(part, &format!("an integer {range}"), None)
            }
        }
    }

    pub(super) fn number(&mut self, part: &PathNode<'_>, expected: &str, allowed: impl Fn(f64) -> bool) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "prices and probabilities are far smaller than 2^53")]
        let number = match part.node.kind {
            Kind::Int(number) => number as f64,
            Kind::Float(number) => number,
            _ => return self.wrong_type(part, expected, None),
        };
        if allowed(number) { Some(number) } else { self.not_allowed(part, expected, None) }
    }

    /// Reads one of the table's words as its value.
    pub(super) fn word<T: DeserializeOwned>(&mut self, part: &PathNode<'_>, words: &Named) -> Option<T> {
        let word = self.one_of(part, words.words().iter().map(|(word, _)| (*word, *word)))?;
        canonical::from_value(Value::from(word)).ok()
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
        self.not_allowed(part, &format!("one of {}", listed(&known)), hint)
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

    /// Reads a map with these keys as the defaults of `T`, overridden by the file.
    pub(super) fn with_defaults<T>(&mut self, part: &PathNode<'_>, keys: &[KeySpec]) -> T
    where
        T: Default + Serialize + DeserializeOwned,
    {
        let defaults = T::default();
        let (Some(fields), Ok(Value::Object(mut members))) =
            (self.fields(part, keys), Value::from_serialize(&defaults))
        else {
            return defaults;
        };
        members.extend(self.values(&fields, keys));
        canonical::from_value(Value::Object(members)).unwrap_or(defaults)
    }

    /// Reads a part of a simple shape. Other shapes have separate readers.
    pub(super) fn value(&mut self, part: &PathNode<'_>, shape: Shape) -> Option<Value> {
        match shape {
            Shape::NonEmpty => self.nonempty(part).map(Value::Str),
            Shape::RoleName => self.role_reference(part).map(|role| Value::from(role.as_str())),
            Shape::Count(least, most) => self.integer(part, least, most).map(Value::from),
            Shape::Number(least, most) => {
                let expected = format!("a number from {least} to {most}");
                let allowed = f64::from(least)..=f64::from(most);
                self.number(part, &expected, |number| allowed.contains(&number)).map(|_| part.node.to_value())
            }
            Shape::Integer => match part.node.to_value() {
                integer @ Value::Int(_) => Some(integer),
                _ => self.wrong_type(part, "an integer", None),
            },
            Shape::Duration => self.duration(part).map(Value::from),
            Shape::DurationOrNever => self.duration_or_never(part),
            Shape::Cost => {
                self.number(part, "US dollars, more than 0", |dollars| dollars > 0.0).map(|_| part.node.to_value())
            }
            Shape::Word(words) => self.one_of(part, words.iter().map(|(word, _)| (*word, *word))).map(Value::from),
            Shape::Named(named) if named.name == ONE_OR_MANY.name => self.one_or_many(part),
            Shape::Named(Named { form: Form::Words(words), .. }) => self.value(part, Shape::Word(words)),
            Shape::List(element, _) => {
                let items = self.items(part)?;
                Some(Value::List(items.iter().filter_map(|item| self.value(item, *element)).collect()))
            }
            Shape::Map(of) => {
                let mut members = BTreeMap::new();
                for entry in self.entries(part)? {
                    if self.is_given(&entry)
                        && let Some(value) = self.value(&entry, *of)
                    {
                        members.insert(entry.name().to_owned(), value);
                    }
                }
                Some(Value::Object(members))
            }
            Shape::Size => self.size(part).map(Value::from),
            _ => None,
        }
    }

    pub(super) fn nonempty(&mut self, part: &PathNode<'_>) -> Option<String> {
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

    pub(super) fn not_allowed<T>(&mut self, part: &PathNode<'_>, allowed: &str, hint: Option<String>) -> Option<T> {
        let subject = if part.key.is_some() { format!("`{}` wants", excerpt(part.name())) } else { "expected".into() };
        let mut fault = part.fault(Code::InvalidValue, format!("{subject} {allowed}, found {}", self.shown(part)));
        fault.hint = hint;
        self.refuse(part, fault)
    }

    /// Reads a duration in milliseconds, greater than 0.
    pub(super) fn duration(&mut self, part: &PathNode<'_>) -> Option<u64> {
        let hint = match part.node.kind {
            Kind::Int(number) => format!("name the unit, such as `{number}s`"),
            _ => "it is digits and one unit: `250ms 30s 10m 2h 3d`".to_owned(),
        };
        let read = part.as_str().and_then(duration_ms).filter(|ms| *ms > 0);
        read.or_else(|| self.not_allowed(part, "a duration such as `30s`", Some(hint)))
    }

    /// Reads a duration in milliseconds; `null` for `0` and `none`, which mean no limit.
    pub(super) fn duration_or_never(&mut self, part: &PathNode<'_>) -> Option<Value> {
        let never = matches!(part.node.kind, Kind::Int(0)) || matches!(part.as_str(), Some("none"));
        let zero = part.as_str().and_then(duration_ms) == Some(0);
        if never || zero { Some(Value::Null) } else { self.duration(part).map(Value::from) }
    }

    /// Reads a size in bytes, greater than 0: an integer, or a size such as `32KiB`.
    pub(super) fn size(&mut self, part: &PathNode<'_>) -> Option<u64> {
        let read = match part.node.kind {
            Kind::Int(bytes) => u64::try_from(bytes).ok(),
            _ => part.as_str().and_then(size_bytes),
        };
        let hint = "it is bytes, or digits and `KiB`, `MiB`, `GiB`".to_owned();
        let read = read.filter(|bytes| *bytes > 0);
        read.or_else(|| self.not_allowed(part, "a size such as `32KiB`", Some(hint)))
    }
}

/// A thousand years: beyond this, arithmetic on clocks could overflow.
const LONGEST_MS: u64 = 1_000 * 365 * 24 * 60 * 60 * 1_000;

/// The milliseconds of a duration such as `250ms 30s 10m 2h 3d`.
pub fn duration_ms(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit())?)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60 * 1_000,
        "h" => 60 * 60 * 1_000,
        "d" => 24 * 60 * 60 * 1_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit_ms).filter(|ms| *ms <= LONGEST_MS)
}

/// The bytes of a size such as `32KiB 8MiB`.
pub fn size_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit())?)?;
    let unit_bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit_bytes)
}
