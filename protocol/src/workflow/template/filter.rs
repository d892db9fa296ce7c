//! The filters: named as in Jinja, bounded by the meter, and strict about their input. Each is linear in the bytes that
//! it reads, or pays each time it reads them.

use std::collections::{BTreeSet, HashSet};

use super::eval::{self, Env, List, Meter};
use super::expr::{Arithmetic, Filter, FilterKind};
use super::scope::View;
use super::{Cause, RenderError, kind_name, number};
use crate::canonical::{self, Value};

/// The maximum number of blanks that `indent` puts before a line, and `tojson` before a level.
const MAX_INDENT: usize = 64;
/// The maximum number of decimals that `round` keeps.
const MAX_DIGITS: i32 = 15;
/// How many bytes of text, each character looked up in a large set, cost as much as one node.
const BYTES_A_SEARCH: usize = 8;

/// Applies `filter` to `input`. For `default`, the caller evaluates the input leniently.
pub(super) fn apply<'a>(filter: &'a Filter, input: View<'a>, env: &Env<'a>) -> Result<View<'a>, RenderError> {
    let call = Call { filter, env: *env };
    let meter = env.meter;
    let made = match filter.kind() {
        FilterKind::Default if input.is_none() => return call.value(0).map(Option::unwrap_or_default),
        FilterKind::Default => return Ok(input),
        FilterKind::First => return call.end(&input, <[Value]>::first, |text| text.chars().next()),
        FilterKind::Last => return call.end(&input, <[Value]>::last, |text| text.chars().next_back()),
        FilterKind::Length => call.length(&input),
        FilterKind::Items => call.items(&input),
        FilterKind::Indent => {
            let (width, first, blank) = (call.count(0, 4, MAX_INDENT)?, call.flag(1)?, call.flag(2)?);
            call.text_made(&input, |text| indent(text, width, first, blank, meter))
        }
        FilterKind::Lower => call.text_made(&input, |text| Ok(text.to_lowercase())),
        FilterKind::Upper => call.text_made(&input, |text| Ok(text.to_uppercase())),
        FilterKind::Title => call.text_made(&input, |text| Ok(title(text))),
        FilterKind::Replace => {
            let (old, new) = (call.value(0)?.unwrap_or_default(), call.value(1)?.unwrap_or_default());
            let (old, new) = (call.text(&old)?, call.text(&new)?);
            meter.look(old.len())?;
            call.text_made(&input, |text| replace(text, old, new, meter))
        }
        FilterKind::Trim => {
            let characters = call.value(0)?;
            let characters = characters.as_ref().map(|view| call.text(view)).transpose()?;
            let given = characters.unwrap_or_default();
            meter.look(given.len())?;
            let searched = |text: &str| if given.is_ascii() { 0 } else { text.len() / BYTES_A_SEARCH };
            meter.work(searched(given))?;
            // A set, so that a long text of characters costs no pass for each one that is trimmed.
            let set: Option<BTreeSet<char>> = characters.map(|characters| characters.chars().collect());
            call.text_made(&input, |text| {
                meter.work(searched(text))?;
                Ok(set.map_or_else(|| text.trim(), |set| text.trim_matches(|c| set.contains(&c))).to_owned())
            })
        }
        FilterKind::Truncate => {
            let (length, killwords) = (call.count(0, 255, usize::MAX)?, call.flag(1)?);
            let end = call.value(2)?;
            let end = end.as_ref().map(|view| call.text(view)).transpose()?.unwrap_or("...");
            meter.look(end.len())?;
            meter.make(end.len())?;
            call.text_made(&input, |text| Ok(truncate(text, length, killwords, end)))
        }
        FilterKind::Reverse => call.reverse(&input),
        FilterKind::Round => {
            let digits = i32::try_from(call.integer(0, 0)?).unwrap_or(i32::MAX).clamp(-MAX_DIGITS, MAX_DIGITS);
            let number = input.as_value().ok_or_else(|| call.refuse(&input))?;
            Ok(number::round(number, digits, filter.rounding)?)
        }
        FilterKind::Join => call.join(&input),
        FilterKind::Map => match &filter.each {
            Some(inner) => call.each(&input, |item| {
                // The element is copied, because the result of a filter may be a part of it.
                apply(inner, View::Owned(call.copy(item)?), env).map(|view| Some(view.into_value()))
            }),
            None => call.map_attribute(&input),
        },
        FilterKind::Select | FilterKind::SelectAttribute => call.each(&input, |item| {
            let member = call.member(item);
            let holds = match (&filter.test, member) {
                (Some(test), member) => eval::holds(test, &View::Value(member), env)?,
                (None, Value::Bool(truth)) => *truth,
                (None, Value::Null) => false,
                (None, _) if filter.attribute.is_some() => true,
                (None, other) => return Err(Cause::NotACondition(kind_name(other)).into()),
            };
            call.kept(item, holds)
        }),
        FilterKind::Sort => call.sort(&input),
        FilterKind::Sum => call.sum(&input),
        FilterKind::ToJson => call.to_json(&input),
        FilterKind::Unique => call.unique(&input),
    };
    made.map(View::Owned)
}

/// Applies `filter` to a list that the scope returns one by one, if the filter does not need the whole list; `None` =
/// it does.
pub(super) fn of_list<'a>(filter: &'a Filter, list: List<'a>, env: &Env<'a>) -> Option<Result<View<'a>, Cause>> {
    let element = |index: usize| Ok(list.member(index, &[], env)?.unwrap_or_else(View::none));
    match (filter.kind(), &filter.attribute) {
        (FilterKind::Length, _) => Some(Ok(View::Owned(Value::from(u64::try_from(list.length).unwrap_or(u64::MAX))))),
        (FilterKind::First, _) => Some(element(0)),
        (FilterKind::Last, _) => Some(element(list.length.saturating_sub(1))),
        (FilterKind::Map, Some(attribute)) if filter.argument(0).is_none() => {
            let member = |index: usize| {
                env.meter.work(1)?;
                list.copied_member(index, attribute, env)
            };
            Some((0..list.length).map(member).collect::<Result<_, _>>().map(|items| View::Owned(Value::List(items))))
        }
        _ => None,
    }
}

struct Call<'a> {
    filter: &'a Filter,
    env: Env<'a>,
}

impl<'a> Call<'a> {
    fn refuse(&self, found: &View<'_>) -> RenderError {
        Cause::Operand { operation: self.filter.signature.name, found: found.kind_name() }.into()
    }

    fn value(&self, position: usize) -> Result<Option<View<'a>>, RenderError> {
        self.filter.argument(position).map(|expr| eval::eval(expr, &self.env)).transpose()
    }

    fn text<'v>(&self, view: &'v View<'_>) -> Result<&'v str, RenderError> {
        view.as_str().ok_or_else(|| self.refuse(view))
    }

    /// The part of an element named by `attribute`, or the element.
    fn member<'v>(&self, item: &'v Value) -> &'v Value {
        let mut segments = self.filter.attribute.iter().flatten();
        segments.try_fold(item, |value, segment| segment.of(value)).unwrap_or(&Value::Null)
    }

    /// Makes a text from a text, or from a number or boolean as printed. No filter here makes a text much longer than
    /// its input, except those that pay for it themselves.
    fn text_made(
        &self,
        input: &View<'_>,
        make: impl FnOnce(&str) -> Result<String, Cause>,
    ) -> Result<Value, RenderError> {
        let text = eval::printed(input).ok().flatten().ok_or_else(|| self.refuse(input))?;
        self.env.meter.look(text.len())?;
        self.env.meter.make(text.len())?;
        Ok(Value::Str(make(&text)?))
    }

    /// A count argument: cut to `max`.
    fn count(&self, position: usize, default: usize, max: usize) -> Result<usize, RenderError> {
        let count = self.integer(position, i128::try_from(default).unwrap_or_default())?;
        if count < 0 { Err(Cause::NumberRange.into()) } else { Ok(usize::try_from(count).unwrap_or(max).min(max)) }
    }

    fn integer(&self, position: usize, default: i128) -> Result<i128, RenderError> {
        let Some(view) = self.value(position)? else { return Ok(default) };
        match view.as_value() {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(self.refuse(&view)),
        }
    }

    fn flag(&self, position: usize) -> Result<bool, RenderError> {
        let Some(view) = self.value(position)? else { return Ok(false) };
        match view.as_value() {
            Some(Value::Bool(flag)) => Ok(*flag),
            _ => Err(self.refuse(&view)),
        }
    }

    fn copy(&self, value: &Value) -> Result<Value, RenderError> {
        self.env.meter.copy(value)?;
        Ok(value.clone())
    }

    fn kept(&self, item: &Value, holds: bool) -> Result<Option<Value>, RenderError> {
        if holds { self.copy(item).map(Some) } else { Ok(None) }
    }

    /// The elements of a list; pays for reading them.
    fn list<'v>(&self, view: &'v View<'_>) -> Result<&'v [Value], RenderError> {
        let Some(Value::List(items)) = view.as_value() else { return Err(self.refuse(view)) };
        self.env.meter.work(items.len())?;
        Ok(items)
    }

    /// The list of the results of `make` for each element, without `None`.
    fn each(
        &self,
        input: &View<'_>,
        make: impl FnMut(&Value) -> Result<Option<Value>, RenderError>,
    ) -> Result<Value, RenderError> {
        self.list(input)?.iter().map(make).filter_map(Result::transpose).collect::<Result<_, _>>().map(Value::List)
    }

    fn end(
        &self,
        input: &View<'a>,
        element: impl Fn(&[Value]) -> Option<&Value>,
        character: impl Fn(&str) -> Option<char>,
    ) -> Result<View<'a>, RenderError> {
        if let Some(text) = input.as_str() {
            return Ok(character(text).map_or_else(View::none, |end| View::Owned(Value::Str(end.to_string()))));
        }
        if let View::Value(Value::List(items)) = input {
            return Ok(element(items).map_or_else(View::none, View::Value));
        }
        element(self.list(input)?).map_or_else(|| Ok(View::none()), |end| self.copy(end).map(View::Owned))
    }

    fn length(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let length = match (input.as_str(), input.as_value()) {
            (Some(text), _) => {
                self.env.meter.look(text.len())?;
                text.chars().count()
            }
            (None, Some(Value::List(items))) => items.len(),
            (None, Some(Value::Object(members))) => members.len(),
            _ => return Err(self.refuse(input)),
        };
        Ok(Value::from(u64::try_from(length).unwrap_or(u64::MAX)))
    }

    fn items(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let Some(Value::Object(members)) = input.as_value() else { return Err(self.refuse(input)) };
        let pair = |(key, value): (&String, &Value)| {
            self.env.meter.look(key.len())?;
            self.env.meter.make(key.len())?;
            Ok(Value::List(vec![Value::from(key.as_str()), self.copy(value)?]))
        };
        members.iter().map(pair).collect::<Result<_, _>>().map(Value::List)
    }

    fn reverse(&self, input: &View<'_>) -> Result<Value, RenderError> {
        if input.as_str().is_some() {
            return self.text_made(input, |text| Ok(text.chars().rev().collect()));
        }
        self.list(input)?.iter().rev().map(|item| self.copy(item)).collect::<Result<_, _>>().map(Value::List)
    }

    fn join(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let separator = self.value(0)?;
        let separator = separator.as_ref().map(|view| self.text(view)).transpose()?.unwrap_or_default();
        let mut joined = String::new();
        for (index, item) in self.list(input)?.iter().enumerate() {
            let item = self.member(item);
            let length = joined.len();
            if index > 0 {
                self.env.meter.make(separator.len())?;
                joined.push_str(separator);
            }
            if let Value::Str(text) = item {
                self.env.meter.make(text.len())?;
            }
            let view = View::Value(item);
            joined.push_str(&eval::printed(&view).ok().flatten().ok_or_else(|| self.refuse(&view))?);
            // A number is paid for afterwards: it is at most a few bytes.
            self.env.meter.look(joined.len() - length)?;
        }
        Ok(Value::Str(joined))
    }

    fn map_attribute(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let default = self.value(0)?;
        self.each(input, |item| match (self.member(item), &default) {
            (Value::Null, Some(default)) => {
                self.env.meter.copy_view(default)?;
                Ok(Some(default.clone().into_value()))
            }
            (Value::Null, None) => Ok(Some(Value::Null)),
            (value, _) => self.copy(value).map(Some),
        })
    }

    fn sum(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let sum = self.list(input)?.iter().map(|item| self.member(item)).try_fold(Value::Int(0), |sum, item| {
            number::calculate(Arithmetic::Add, &sum, item).map_err(|cause| match cause {
                Cause::Operand { found, .. } => Cause::Operand { operation: "sum", found },
                other => other,
            })
        });
        Ok(sum?)
    }

    /// The key for sorting or comparing an element: lower case, unless case matters.
    fn key(&self, item: &Value, case_sensitive: bool) -> Result<Value, RenderError> {
        Ok(match self.copy(self.member(item))? {
            Value::Str(text) if !case_sensitive => Value::Str(text.to_lowercase()),
            other => other,
        })
    }

    fn sort(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let (reverse, case_sensitive) = (self.flag(0)?, self.flag(1)?);
        let keyed = self.list(input)?.iter().map(|item| Ok((self.key(item, case_sensitive)?, item)));
        let mut keyed = keyed.collect::<Result<Vec<_>, RenderError>>()?;
        // One pass over neighbours is enough to know that all can be ordered: numbers only with numbers, and texts only
        // with texts.
        for ((left, _), (right, _)) in keyed.iter().zip(keyed.iter().skip(1)) {
            if number::order(left, right).is_none() {
                return Err(Cause::NotOrdered { left: kind_name(left), right: kind_name(right) }.into());
            }
        }
        // A comparison may read whole keys, and each level of the sort all of them.
        let levels = usize::try_from(keyed.len().checked_ilog2().unwrap_or(0)).unwrap_or(0);
        let key_bytes: usize = keyed.iter().filter_map(|(key, _)| key.as_str()).map(str::len).sum();
        self.env.meter.look(key_bytes.saturating_mul(levels))?;
        self.env.meter.work(keyed.len().saturating_mul(levels))?;
        keyed.sort_by(|(left, _), (right, _)| {
            let order = number::order(left, right).unwrap_or(std::cmp::Ordering::Equal);
            if reverse { order.reverse() } else { order }
        });
        keyed.into_iter().map(|(_, item)| self.copy(item)).collect::<Result<_, _>>().map(Value::List)
    }

    fn unique(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let case_sensitive = self.flag(0)?;
        // Canonical text distinguishes values, and hashing it keeps this linear.
        let mut seen = HashSet::new();
        self.each(input, |item| {
            let text = self.json(&self.key(item, case_sensitive)?)?;
            self.kept(item, seen.insert(text))
        })
    }

    fn to_json(&self, input: &View<'_>) -> Result<Value, RenderError> {
        let indent = self.count(0, 0, MAX_INDENT)?;
        // A text that is not a value yet is converted.
        let value = if let Some(value) = input.as_value() {
            value
        } else {
            self.env.meter.copy_view(input)?;
            &input.clone().into_value()
        };
        let plain = self.json(value)?;
        if indent == 0 || !matches!(value, Value::List(_) | Value::Object(_)) {
            return Ok(Value::Str(plain));
        }
        let mut json = String::new();
        write_indented(value, indent, 0, &mut json, self.env.meter)?;
        Ok(Value::Str(json))
    }

    fn json(&self, value: &Value) -> Result<String, RenderError> {
        self.env.meter.copy(value)?;
        let bytes = canonical::to_bytes(value).map_err(|_| Cause::TooDeep)?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        // Escapes make it longer than the value.
        self.env.meter.make(text.len())?;
        Ok(text)
    }
}

fn indent(text: &str, width: usize, first: bool, blank: bool, meter: &Meter) -> Result<String, Cause> {
    let margin = " ".repeat(width);
    let mut indented = String::new();
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            indented.push('\n');
        }
        if (index > 0 || first) && (blank || !line.trim_end_matches('\r').is_empty()) {
            meter.make(width)?;
            indented.push_str(&margin);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

fn replace(text: &str, old: &str, new: &str, meter: &Meter) -> Result<String, Cause> {
    if old.is_empty() {
        return Ok(text.to_owned());
    }
    for _ in text.matches(old) {
        meter.make(new.len())?;
        meter.work(1)?;
    }
    Ok(text.replace(old, new))
}

fn title(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        let is_part = c.is_alphanumeric() || c == '\'';
        match (is_part, inside) {
            (true, false) => titled.extend(c.to_uppercase()),
            (true, true) => titled.extend(c.to_lowercase()),
            (false, _) => titled.push(c),
        }
        inside = is_part;
    }
    titled
}

/// Cuts to `length` characters including `end`, at a blank unless `killwords`.
fn truncate(text: &str, length: usize, killwords: bool, end: &str) -> String {
    if text.chars().nth(length).is_none() {
        return text.to_owned();
    }
    let room = length.saturating_sub(end.chars().count());
    let mut cut: &str = text.char_indices().nth(room).and_then(|(at, _)| text.get(..at)).unwrap_or(text);
    if !killwords && let Some(blank) = cut.rfind(char::is_whitespace) {
        cut = cut.get(..blank).unwrap_or(cut).trim_end();
    }
    format!("{cut}{end}")
}

/// Canonical JSON with each element on its own line.
fn write_indented(value: &Value, indent: usize, depth: usize, out: &mut String, meter: &Meter) -> Result<(), Cause> {
    let line = |out: &mut String, depth: usize| {
        let margin = indent * depth;
        meter.make(1 + margin)?;
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', margin));
        Ok::<(), Cause>(())
    };
    match value {
        Value::List(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, depth + 1)?;
                write_indented(item, indent, depth + 1, out, meter)?;
            }
            line(out, depth)?;
            out.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(out, depth + 1)?;
                out.push_str(&Value::from(key.as_str()).to_text());
                out.push_str(": ");
                write_indented(member, indent, depth + 1, out, meter)?;
            }
            line(out, depth)?;
            out.push('}');
        }
        other => out.push_str(&other.to_text()),
    }
    Ok(())
}
