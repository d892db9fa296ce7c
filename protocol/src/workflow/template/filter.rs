//! The filters: Jinja's by name, bounded by the meter, and strict about what they take. Each is linear in the bytes that
//! it looks at, or pays for every time that it looks at one.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::eval::{self, Env, List, Meter};
use super::expr::{Attribute, Expr, Filter};
use super::scope::View;
use super::{Cause, RenderError, kind_name, number};
use crate::canonical::{self, Value};

/// The most blanks that `indent` puts before a line, and `tojson` before a level.
const MAX_INDENT: usize = 64;
/// The most digits after the point that `round` keeps.
const MAX_DIGITS: i32 = 15;
/// How many bytes of text are looked up in a tree, character by character, for the price of one node.
const BYTES_A_SEARCH: usize = 8;

/// What `filter` makes of `input`. `default` is not one of these: it is for the evaluator, which must look at what stands
/// before it.
pub(super) fn apply<'a>(
    filter: &'a Filter,
    input: View<'a>,
    range: &Range<usize>,
    env: &Env<'a>,
) -> Result<View<'a>, RenderError> {
    let call = Call { name: filter.name(), range, env };
    match filter {
        Filter::Default(default) => {
            if input.is_none() {
                eval::eval(default, env)
            } else {
                Ok(input)
            }
        }
        Filter::First | Filter::Last => call.end(&input, matches!(filter, Filter::First)),
        Filter::Length => call.length(&input),
        Filter::Items => call.items(&input),
        Filter::Indent { width, first, blank } => {
            let (width, first, blank) =
                (call.count(width.as_ref(), 4, MAX_INDENT)?, call.flag(first.as_ref())?, call.flag(blank.as_ref())?);
            call.text_made(&input, |text| indent(text, width, first, blank, env.meter))
        }
        Filter::Lower => call.text_made(&input, |text| Ok(text.to_lowercase())),
        Filter::Upper => call.text_made(&input, |text| Ok(text.to_uppercase())),
        Filter::Title => call.text_made(&input, |text| Ok(title(text))),
        Filter::Replace(old, new) => {
            let (old, new) = (eval::eval(old, env)?, eval::eval(new, env)?);
            let (old, new) = (call.text(&old)?, call.text(&new)?);
            call.look(old.len())?;
            call.text_made(&input, |text| replace(text, old, new, env.meter))
        }
        Filter::Trim(characters) => {
            let characters = characters.as_ref().map(|expr| eval::eval(expr, env)).transpose()?;
            let characters = characters.as_ref().map(|view| call.text(view)).transpose()?;
            let set = characters.map(|characters| Characters::of(characters, env.meter)).transpose();
            let set = set.map_err(|cause| call.fault(cause))?;
            call.text_made(&input, |text| {
                if set.as_ref().is_some_and(|set| !set.others.is_empty()) {
                    env.meter.work(text.len() / BYTES_A_SEARCH)?;
                }
                Ok(set.map_or_else(|| text.trim(), |set| text.trim_matches(|c| set.contains(c))).to_owned())
            })
        }
        Filter::Truncate { length, killwords, end } => {
            let length = call.count(length.as_ref(), 255, usize::MAX)?;
            let killwords = call.flag(killwords.as_ref())?;
            let end = end.as_ref().map(|expr| eval::eval(expr, env)).transpose()?;
            let end = end.as_ref().map(|view| call.text(view)).transpose()?.unwrap_or("...");
            call.look(end.len())?;
            env.meter.make(end.len()).map_err(|cause| call.fault(cause))?;
            call.text_made(&input, |text| Ok(truncate(text, length, killwords, end)))
        }
        Filter::Reverse => call.reverse(&input),
        Filter::Round { digits, rounding } => {
            let digits = call.integer(digits.as_ref(), 0)?;
            let digits = i32::try_from(digits).unwrap_or(i32::MAX).clamp(-MAX_DIGITS, MAX_DIGITS);
            let number = input.as_value().ok_or_else(|| call.refuse(&input))?;
            number::round(number, digits, *rounding).map(View::Owned).map_err(|cause| call.fault(cause))
        }
        Filter::Join { separator, attribute } => call.join(&input, separator.as_ref(), attribute.as_ref()),
        Filter::MapAttribute(attribute, default) => call.map_attribute(&input, attribute, default.as_ref()),
        Filter::MapEach(inner) => call.each(&input, |item| {
            // The element is copied, because what a filter gives back may be a part of it.
            env.meter.copy(item).map_err(|cause| call.fault(cause))?;
            apply(inner, View::Owned(item.clone()), range, env).map(|view| Some(view.into_value()))
        }),
        Filter::Select(test) => call.each(&input, |item| {
            let holds = match test {
                Some(test) => eval::holds(test, &View::Value(item), range, env)?,
                None => call.is_true(item)?,
            };
            call.kept(item, holds)
        }),
        Filter::SelectAttribute(attribute, test) => call.each(&input, |item| {
            let member = attribute.of(item).unwrap_or(&Value::Null);
            let holds = match test {
                Some(test) => eval::holds(test, &View::Value(member), range, env)?,
                None => !matches!(member, Value::Null | Value::Bool(false)),
            };
            call.kept(item, holds)
        }),
        Filter::Sort { reverse, case_sensitive, attribute } => {
            let (reverse, case_sensitive) = (call.flag(reverse.as_ref())?, call.flag(case_sensitive.as_ref())?);
            call.sort(&input, reverse, case_sensitive, attribute.as_ref())
        }
        Filter::Sum(attribute) => call.sum(&input, attribute.as_ref()),
        Filter::ToJson(indent) => call.to_json(&input, indent.as_ref()),
        Filter::Unique { case_sensitive, attribute } => {
            let case_sensitive = call.flag(case_sensitive.as_ref())?;
            call.unique(&input, case_sensitive, attribute.as_ref())
        }
    }
}

/// What `filter` makes of a list that the scope gives one by one, where it need not have all of it at once; `None` =
/// it needs it.
pub(super) fn of_list<'a>(filter: &'a Filter, list: List<'a>, env: &Env<'a>) -> Option<Result<View<'a>, Cause>> {
    let element = |index: usize| Ok(list.member(index, &[], env)?.unwrap_or_else(View::none));
    match filter {
        Filter::Length => Some(Ok(View::Owned(Value::from(u64::try_from(list.len()).unwrap_or(u64::MAX))))),
        Filter::First => Some(element(0)),
        Filter::Last => Some(element(list.len().saturating_sub(1))),
        Filter::MapAttribute(attribute, None) => {
            let member = |index: usize| {
                env.meter.work(1)?;
                let view = list.member(index, &attribute.0, env)?.unwrap_or_else(View::none);
                if !matches!(view, View::Owned(_)) {
                    env.meter.copy_view(&view)?;
                }
                Ok(view.into_value())
            };
            Some((0..list.len()).map(member).collect::<Result<_, _>>().map(|items| View::Owned(Value::List(items))))
        }
        _ => None,
    }
}

/// A set of characters that `trim` takes away: asked in the same time however many there are.
struct Characters {
    ascii: u128,
    others: BTreeSet<char>,
}

impl Characters {
    fn of(text: &str, meter: &Meter) -> Result<Self, Cause> {
        let mut set = Self { ascii: 0, others: BTreeSet::new() };
        meter.look(text.len())?;
        if !text.is_ascii() {
            meter.work(text.len() / BYTES_A_SEARCH)?;
        }
        for c in text.chars() {
            if c.is_ascii() {
                set.ascii |= 1 << u32::from(c);
            } else {
                set.others.insert(c);
            }
        }
        Ok(set)
    }

    fn contains(&self, c: char) -> bool {
        if c.is_ascii() { self.ascii & (1 << u32::from(c)) != 0 } else { self.others.contains(&c) }
    }
}

impl Attribute {
    /// What is meant of `item`, if it is there.
    fn of<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(item, |value, segment| segment.of(value))
    }
}

/// One use of a filter.
struct Call<'c, 'a> {
    name: &'static str,
    range: &'c Range<usize>,
    env: &'c Env<'a>,
}

impl<'a> Call<'_, 'a> {
    fn fault(&self, cause: Cause) -> RenderError {
        cause.at(self.range)
    }

    fn refuse(&self, found: &View<'_>) -> RenderError {
        self.fault(Cause::Operand { operation: self.name, found: found.kind_name() })
    }

    fn look(&self, bytes: usize) -> Result<(), RenderError> {
        self.env.meter.look(bytes).map_err(|cause| self.fault(cause))
    }

    fn text<'v>(&self, view: &'v View<'_>) -> Result<&'v str, RenderError> {
        view.as_str().ok_or_else(|| self.refuse(view))
    }

    /// A text made of a text, or of a number or a boolean as it is printed. Nothing here makes a text much longer than
    /// the one it is given, but for those that pay for themselves.
    fn text_made(
        &self,
        input: &View<'_>,
        make: impl FnOnce(&str) -> Result<String, Cause>,
    ) -> Result<View<'a>, RenderError> {
        let mut scalar = String::new();
        let text = match (input.as_str(), input.as_value()) {
            (Some(text), _) => text,
            (None, Some(value @ (Value::Bool(_) | Value::Int(_) | Value::Float(_)))) => {
                eval::write_scalar(value, &mut scalar);
                &scalar
            }
            _ => return Err(self.refuse(input)),
        };
        self.look(text.len())?;
        self.env.meter.make(text.len()).map_err(|cause| self.fault(cause))?;
        make(text).map(|text| View::Owned(Value::Str(text))).map_err(|cause| self.fault(cause))
    }

    /// An argument that counts something: cut to `max`.
    fn count(&self, argument: Option<&'a Expr>, default: usize, max: usize) -> Result<usize, RenderError> {
        let Some(expr) = argument else { return Ok(default) };
        let view = eval::eval(expr, self.env)?;
        match view.as_value() {
            Some(Value::Int(count)) if *count >= 0 => Ok(usize::try_from(*count).unwrap_or(max).min(max)),
            Some(Value::Int(_)) => Err(self.fault(Cause::NumberRange)),
            _ => Err(self.refuse(&view)),
        }
    }

    fn integer(&self, argument: Option<&'a Expr>, default: i128) -> Result<i128, RenderError> {
        let Some(expr) = argument else { return Ok(default) };
        let view = eval::eval(expr, self.env)?;
        match view.as_value() {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(self.refuse(&view)),
        }
    }

    fn flag(&self, argument: Option<&'a Expr>) -> Result<bool, RenderError> {
        let Some(expr) = argument else { return Ok(false) };
        let view = eval::eval(expr, self.env)?;
        match view.as_value() {
            Some(Value::Bool(flag)) => Ok(*flag),
            _ => Err(self.refuse(&view)),
        }
    }

    fn is_true(&self, item: &Value) -> Result<bool, RenderError> {
        match item {
            Value::Bool(truth) => Ok(*truth),
            Value::Null => Ok(false),
            other => Err(self.fault(Cause::NotACondition(kind_name(other)))),
        }
    }

    /// A copy of `value`, paid for.
    fn copy(&self, value: &Value) -> Result<Value, RenderError> {
        self.env.meter.copy(value).map_err(|cause| self.fault(cause))?;
        Ok(value.clone())
    }

    fn kept(&self, item: &Value, holds: bool) -> Result<Option<Value>, RenderError> {
        if holds { self.copy(item).map(Some) } else { Ok(None) }
    }

    /// The elements of a list, paid for.
    fn list<'v>(&self, view: &'v View<'_>) -> Result<&'v [Value], RenderError> {
        let Some(Value::List(items)) = view.as_value() else { return Err(self.refuse(view)) };
        self.env.meter.work(items.len()).map_err(|cause| self.fault(cause))?;
        Ok(items)
    }

    /// The list of what `make` makes of each element, without those of which it makes nothing.
    fn each(
        &self,
        input: &View<'_>,
        mut make: impl FnMut(&Value) -> Result<Option<Value>, RenderError>,
    ) -> Result<View<'a>, RenderError> {
        let mut kept = Vec::new();
        for item in self.list(input)? {
            if let Some(item) = make(item)? {
                kept.push(item);
            }
        }
        Ok(View::Owned(Value::List(kept)))
    }

    fn end(&self, input: &View<'a>, first: bool) -> Result<View<'a>, RenderError> {
        if let Some(text) = input.as_str() {
            let end = if first { text.chars().next() } else { text.chars().next_back() };
            return Ok(end.map_or_else(View::none, |end| View::Owned(Value::Str(end.to_string()))));
        }
        if let View::Value(Value::List(items)) = input {
            let end = if first { items.first() } else { items.last() };
            return Ok(end.map_or_else(View::none, View::Value));
        }
        let items = self.list(input)?;
        let end = if first { items.first() } else { items.last() };
        end.map_or_else(|| Ok(View::none()), |end| self.copy(end).map(View::Owned))
    }

    fn length(&self, input: &View<'_>) -> Result<View<'a>, RenderError> {
        let length = match (input.as_str(), input.as_value()) {
            (Some(text), _) => {
                self.look(text.len())?;
                text.chars().count()
            }
            (None, Some(Value::List(items))) => items.len(),
            (None, Some(Value::Object(members))) => members.len(),
            _ => return Err(self.refuse(input)),
        };
        Ok(View::Owned(Value::from(u64::try_from(length).unwrap_or(u64::MAX))))
    }

    fn items(&self, input: &View<'_>) -> Result<View<'a>, RenderError> {
        let Some(Value::Object(members)) = input.as_value() else { return Err(self.refuse(input)) };
        let pairs: Result<Vec<Value>, RenderError> = members
            .iter()
            .map(|(key, value)| {
                self.look(key.len())?;
                self.env.meter.make(key.len()).map_err(|cause| self.fault(cause))?;
                Ok(Value::List(vec![Value::from(key.as_str()), self.copy(value)?]))
            })
            .collect();
        Ok(View::Owned(Value::List(pairs?)))
    }

    fn reverse(&self, input: &View<'_>) -> Result<View<'a>, RenderError> {
        if input.as_str().is_some() {
            return self.text_made(input, |text| Ok(text.chars().rev().collect()));
        }
        let items: Result<Vec<Value>, RenderError> =
            self.list(input)?.iter().rev().map(|item| self.copy(item)).collect();
        Ok(View::Owned(Value::List(items?)))
    }

    fn join(
        &self,
        input: &View<'_>,
        separator: Option<&'a Expr>,
        attribute: Option<&Attribute>,
    ) -> Result<View<'a>, RenderError> {
        let separator = separator.map(|expr| eval::eval(expr, self.env)).transpose()?;
        let separator = separator.as_ref().map(|view| self.text(view)).transpose()?.unwrap_or_default();
        let mut joined = String::new();
        for (index, item) in self.list(input)?.iter().enumerate() {
            let item = attribute.map_or(Some(item), |attribute| attribute.of(item)).unwrap_or(&Value::Null);
            let length = joined.len();
            if index > 0 {
                self.env.meter.make(separator.len()).map_err(|cause| self.fault(cause))?;
                joined.push_str(separator);
            }
            match item {
                Value::Null | Value::List(_) | Value::Object(_) => return Err(self.refuse(&View::Value(item))),
                Value::Str(text) => {
                    self.env.meter.make(text.len()).map_err(|cause| self.fault(cause))?;
                    joined.push_str(text);
                }
                scalar => eval::write_scalar(scalar, &mut joined),
            }
            // What a number takes is paid afterwards: it is at most a few bytes.
            self.look(joined.len() - length)?;
        }
        Ok(View::Owned(Value::Str(joined)))
    }

    fn map_attribute(
        &self,
        input: &View<'_>,
        attribute: &Attribute,
        default: Option<&'a Expr>,
    ) -> Result<View<'a>, RenderError> {
        let default = default.map(|expr| eval::eval(expr, self.env)).transpose()?;
        self.each(input, |item| match (attribute.of(item).filter(|value| !value.is_null()), &default) {
            (Some(value), _) => self.copy(value).map(Some),
            (None, Some(default)) => {
                self.env.meter.copy_view(default).map_err(|cause| self.fault(cause))?;
                Ok(Some(default.clone().into_value()))
            }
            (None, None) => Ok(Some(Value::Null)),
        })
    }

    fn sum(&self, input: &View<'_>, attribute: Option<&Attribute>) -> Result<View<'a>, RenderError> {
        use super::expr::Arithmetic;
        self.list(input)?
            .iter()
            .map(|item| attribute.map_or(Some(item), |attribute| attribute.of(item)).unwrap_or(&Value::Null))
            .try_fold(Value::Int(0), |sum, item| {
                number::calculate(Arithmetic::Add, &sum, item).map_err(|cause| match cause {
                    Cause::Operand { found, .. } => self.fault(Cause::Operand { operation: "sum", found }),
                    other => self.fault(other),
                })
            })
            .map(View::Owned)
    }

    /// What an element is sorted or told apart by: with upper case folded, unless it matters.
    fn key(&self, item: &Value, case_sensitive: bool, attribute: Option<&Attribute>) -> Result<Value, RenderError> {
        let key = attribute.map_or(Some(item), |attribute| attribute.of(item)).unwrap_or(&Value::Null);
        let key = self.copy(key)?;
        Ok(match key {
            Value::Str(text) if !case_sensitive => Value::Str(text.to_lowercase()),
            other => other,
        })
    }

    fn sort(
        &self,
        input: &View<'_>,
        reverse: bool,
        case_sensitive: bool,
        attribute: Option<&Attribute>,
    ) -> Result<View<'a>, RenderError> {
        let mut keyed = Vec::new();
        for item in self.list(input)? {
            keyed.push((self.key(item, case_sensitive, attribute)?, item));
        }
        // One pass of neighbours is enough to know that all can be ordered: only numbers go with numbers, and texts
        // with texts.
        let clash = keyed.windows(2).find_map(|pair| match pair {
            [(left, _), (right, _)] if number::order(left, right).is_none() => {
                Some(Cause::NotOrdered { left: kind_name(left), right: kind_name(right) })
            }
            _ => None,
        });
        if let Some(cause) = clash {
            return Err(self.fault(cause));
        }
        // A comparison may look at whole keys, and each level of the sort at all of them.
        let levels = usize::try_from(keyed.len().checked_ilog2().unwrap_or(0)).unwrap_or(0);
        let key_bytes: usize = keyed.iter().filter_map(|(key, _)| key.as_str()).map(str::len).sum();
        self.look(key_bytes.saturating_mul(levels))?;
        self.env.meter.work(keyed.len().saturating_mul(levels)).map_err(|cause| self.fault(cause))?;
        keyed.sort_by(|(left, _), (right, _)| {
            let order = number::order(left, right).unwrap_or(std::cmp::Ordering::Equal);
            if reverse { order.reverse() } else { order }
        });
        let sorted: Result<Vec<Value>, RenderError> = keyed.into_iter().map(|(_, item)| self.copy(item)).collect();
        Ok(View::Owned(Value::List(sorted?)))
    }

    fn unique(
        &self,
        input: &View<'_>,
        case_sensitive: bool,
        attribute: Option<&Attribute>,
    ) -> Result<View<'a>, RenderError> {
        // Canonical text tells values apart, and a hash of it keeps this linear.
        let mut seen = HashSet::new();
        self.each(input, |item| {
            let text = self.json(&self.key(item, case_sensitive, attribute)?)?;
            self.kept(item, seen.insert(text))
        })
    }

    fn to_json(&self, input: &View<'_>, indent: Option<&'a Expr>) -> Result<View<'a>, RenderError> {
        let indent = self.count(indent, 0, MAX_INDENT)?;
        // A text that is no value yet becomes one.
        let text;
        let value = if let Some(value) = input.as_value() {
            value
        } else {
            self.env.meter.copy_view(input).map_err(|cause| self.fault(cause))?;
            text = input.clone().into_value();
            &text
        };
        let plain = self.json(value)?;
        if indent == 0 || !matches!(value, Value::List(_) | Value::Object(_)) {
            return Ok(View::Owned(Value::Str(plain)));
        }
        let mut json = String::new();
        write_indented(value, indent, 0, &mut json, self.env.meter).map_err(|cause| self.fault(cause))?;
        Ok(View::Owned(Value::Str(json)))
    }

    /// The canonical text of a value, paid for.
    fn json(&self, value: &Value) -> Result<String, RenderError> {
        self.env.meter.copy(value).map_err(|cause| self.fault(cause))?;
        let text = String::from_utf8(canonical::to_bytes(value).map_err(|_| self.fault(Cause::TooDeep))?);
        let text = text.unwrap_or_default();
        // Escapes make it longer than the value.
        self.env.meter.make(text.len()).map_err(|cause| self.fault(cause))?;
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
    let mut replaced = String::new();
    let mut parts = text.split(old);
    replaced.push_str(parts.next().unwrap_or_default());
    for part in parts {
        meter.make(new.len())?;
        meter.work(1)?;
        replaced.push_str(new);
        replaced.push_str(part);
    }
    Ok(replaced)
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

/// Cut to `length` characters with `end` counted in, at a blank unless `killwords`.
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
