//! The filters: Jinja's by name, bounded by the meter, and strict about what they take.

use std::ops::Range;

use super::eval::{self, Env, Meter};
use super::expr::{Attribute, Expr, Filter};
use super::scope::View;
use super::{Cause, RenderError, kind_name, number};
use crate::canonical::Value;

/// The most blanks that `indent` puts before a line, and `tojson` before a level.
const MAX_INDENT: usize = 64;
/// The most digits after the point that `round` keeps.
const MAX_DIGITS: i32 = 15;

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
            call.text_made(&input, |text| replace(text, old, new, env.meter))
        }
        Filter::Trim(characters) => {
            let characters = characters.as_ref().map(|expr| eval::eval(expr, env)).transpose()?;
            let characters = characters.as_ref().map(|view| call.text(view)).transpose()?;
            call.text_made(&input, |text| {
                Ok(characters.map_or_else(|| text.trim(), |set| text.trim_matches(|c| set.contains(c))).to_owned())
            })
        }
        Filter::Truncate { length, killwords, end } => {
            let length = call.count(length.as_ref(), 255, usize::MAX)?;
            let killwords = call.flag(killwords.as_ref())?;
            let end = end.as_ref().map(|expr| eval::eval(expr, env)).transpose()?;
            let end = end.as_ref().map(|view| call.text(view)).transpose()?.unwrap_or("...");
            call.text_made(&input, |text| Ok(truncate(text, length, killwords, end)))
        }
        Filter::Reverse => call.reverse(&input),
        Filter::Round { digits, rounding } => {
            let digits = call.integer(digits.as_ref(), 0)?;
            let digits = i32::try_from(digits).unwrap_or(i32::MAX).clamp(-MAX_DIGITS, MAX_DIGITS);
            number::round(&input.as_value(), digits, *rounding).map(View::Owned).map_err(|cause| call.fault(cause))
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

    fn refuse(&self, found: &Value) -> RenderError {
        self.fault(Cause::Operand { operation: self.name, found: kind_name(found) })
    }

    fn text<'v>(&self, view: &'v View<'_>) -> Result<&'v str, RenderError> {
        view.as_str().ok_or_else(|| self.refuse(&view.as_value()))
    }

    /// A text made of a text, or of a number or a boolean as it is printed. Nothing here makes a text much longer than
    /// the one it is given, but for those that pay for themselves.
    fn text_made(
        &self,
        input: &View<'_>,
        make: impl FnOnce(&str) -> Result<String, Cause>,
    ) -> Result<View<'a>, RenderError> {
        let mut scalar = String::new();
        let text = match (input.as_str(), &*input.as_value_unless_text()) {
            (Some(text), _) => text,
            (None, value @ (Value::Bool(_) | Value::Int(_) | Value::Float(_))) => {
                eval::write_scalar(value, &mut scalar);
                &scalar
            }
            (None, other) => return Err(self.refuse(other)),
        };
        self.env.meter.make(text.len()).map_err(|cause| self.fault(cause))?;
        make(text).map(|text| View::Owned(Value::Str(text))).map_err(|cause| self.fault(cause))
    }

    /// An argument that counts something: cut to `max`.
    fn count(&self, argument: Option<&'a Expr>, default: usize, max: usize) -> Result<usize, RenderError> {
        let Some(expr) = argument else { return Ok(default) };
        match &*eval::eval(expr, self.env)?.as_value() {
            Value::Int(count) if *count >= 0 => Ok(usize::try_from(*count).unwrap_or(max).min(max)),
            Value::Int(_) => Err(self.fault(Cause::NumberRange)),
            other => Err(self.refuse(other)),
        }
    }

    fn integer(&self, argument: Option<&'a Expr>, default: i128) -> Result<i128, RenderError> {
        let Some(expr) = argument else { return Ok(default) };
        match &*eval::eval(expr, self.env)?.as_value() {
            Value::Int(number) => Ok(*number),
            other => Err(self.refuse(other)),
        }
    }

    fn flag(&self, argument: Option<&'a Expr>) -> Result<bool, RenderError> {
        let Some(expr) = argument else { return Ok(false) };
        match &*eval::eval(expr, self.env)?.as_value() {
            Value::Bool(flag) => Ok(*flag),
            other => Err(self.refuse(other)),
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
    fn list<'v>(&self, value: &'v Value) -> Result<&'v [Value], RenderError> {
        let Value::List(items) = value else { return Err(self.refuse(value)) };
        self.env.meter.work(items.len()).map_err(|cause| self.fault(cause))?;
        Ok(items)
    }

    /// The list of what `make` makes of each element, without those of which it makes nothing.
    fn each(
        &self,
        input: &View<'_>,
        mut make: impl FnMut(&Value) -> Result<Option<Value>, RenderError>,
    ) -> Result<View<'a>, RenderError> {
        let value = input.as_value();
        let mut kept = Vec::new();
        for item in self.list(&value)? {
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
        let value = input.as_value();
        let items = self.list(&value)?;
        let end = if first { items.first() } else { items.last() };
        end.map_or_else(|| Ok(View::none()), |end| self.copy(end).map(View::Owned))
    }

    fn length(&self, input: &View<'_>) -> Result<View<'a>, RenderError> {
        let length = match (input.as_str(), &*input.as_value_unless_text()) {
            (Some(text), _) => {
                self.env.meter.work(text.len() / 64).map_err(|cause| self.fault(cause))?;
                text.chars().count()
            }
            (None, Value::List(items)) => items.len(),
            (None, Value::Object(members)) => members.len(),
            (None, other) => return Err(self.refuse(other)),
        };
        Ok(View::Owned(Value::from(u64::try_from(length).unwrap_or(u64::MAX))))
    }

    fn items(&self, input: &View<'_>) -> Result<View<'a>, RenderError> {
        let value = input.as_value();
        let Value::Object(members) = &*value else { return Err(self.refuse(&value)) };
        let pairs: Result<Vec<Value>, RenderError> = members
            .iter()
            .map(|(key, value)| {
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
        let value = input.as_value();
        let items: Result<Vec<Value>, RenderError> =
            self.list(&value)?.iter().rev().map(|item| self.copy(item)).collect();
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
        let value = input.as_value();
        let mut joined = String::new();
        for (index, item) in self.list(&value)?.iter().enumerate() {
            let item = attribute.map_or(Some(item), |attribute| attribute.of(item)).unwrap_or(&Value::Null);
            let length = joined.len();
            if index > 0 {
                self.env.meter.make(separator.len()).map_err(|cause| self.fault(cause))?;
                joined.push_str(separator);
            }
            match item {
                Value::Null | Value::List(_) | Value::Object(_) => return Err(self.refuse(item)),
                Value::Str(text) => {
                    self.env.meter.make(text.len()).map_err(|cause| self.fault(cause))?;
                    joined.push_str(text);
                }
                scalar => eval::write_scalar(scalar, &mut joined),
            }
            // What a number takes is paid afterwards: it is at most a few bytes.
            self.env.meter.work(1 + (joined.len() - length) / 64).map_err(|cause| self.fault(cause))?;
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
        let default = default.as_ref().map(View::as_value);
        self.each(input, |item| {
            let found = attribute.of(item).filter(|value| !value.is_null());
            match found.or(default.as_deref()) {
                Some(value) => self.copy(value).map(Some),
                None => Ok(Some(Value::Null)),
            }
        })
    }

    fn sum(&self, input: &View<'_>, attribute: Option<&Attribute>) -> Result<View<'a>, RenderError> {
        use super::expr::Arithmetic;
        let value = input.as_value();
        self.list(&value)?
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
        let value = input.as_value();
        let mut keyed = Vec::new();
        for item in self.list(&value)? {
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
        // Comparisons look at whole keys: each level of the sort is paid for.
        let levels = usize::try_from(keyed.len().checked_ilog2().unwrap_or(0)).unwrap_or(0);
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
        // Canonical bytes tell values apart, and a set of them keeps this linear.
        let mut seen = std::collections::BTreeSet::new();
        self.each(input, |item| {
            let key = self.key(item, case_sensitive, attribute)?;
            self.kept(item, seen.insert(key.to_text()))
        })
    }

    fn to_json(&self, input: &View<'_>, indent: Option<&'a Expr>) -> Result<View<'a>, RenderError> {
        let indent = self.count(indent, 0, MAX_INDENT)?;
        let value = input.as_value();
        let mut json = String::new();
        self.env.meter.copy(&value).map_err(|cause| self.fault(cause))?;
        if indent == 0 {
            json = value.to_text();
        } else {
            write_indented(&value, indent, 0, &mut json, self.env.meter).map_err(|cause| self.fault(cause))?;
        }
        Ok(View::Owned(Value::Str(json)))
    }
}

impl View<'_> {
    /// As [`View::as_value`], but none for a text: for those who have looked for a text already.
    fn as_value_unless_text(&self) -> std::borrow::Cow<'_, Value> {
        match self {
            Self::Text(_) => std::borrow::Cow::Owned(Value::Null),
            other => other.as_value(),
        }
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
