//! Rendering: statements and expressions over a scope.
//!
//! Values are borrowed from the scope as long as nothing changes them. The meter counts what is done and made; every
//! loop here and every filter pays it before it works.

use std::cell::Cell;
use std::ops::Range;

use super::expr::{Comparison, Expr, Filter, Node, Path, Root, Segment, Test, TypeTest};
use super::scope::{Found, MAX_NAMES, Scope, View};
use super::{Cause, RenderError, Statement, filter, kind_name, number};
use crate::canonical::Value;

/// The most nodes that a render evaluates, and elements that its filters look at.
const MAX_WORK: usize = 1_000_000;
/// The most bytes of values that a render makes on the way, its output not counted.
const MAX_MADE_BYTES: usize = 16 * 1024 * 1024;

/// How many bytes of text are looked at for the price of one node.
const BYTES_A_UNIT: usize = 64;

/// What a render has left.
pub(super) struct Meter {
    work: Cell<usize>,
    made_bytes: Cell<usize>,
}

impl Meter {
    fn new() -> Self {
        Self { work: Cell::new(MAX_WORK), made_bytes: Cell::new(MAX_MADE_BYTES) }
    }

    /// Pays for looking at `count` things.
    pub(super) fn work(&self, count: usize) -> Result<(), Cause> {
        pay(&self.work, count)
    }

    /// Pays for a text of `bytes` bytes.
    pub(super) fn make(&self, bytes: usize) -> Result<(), Cause> {
        pay(&self.made_bytes, bytes)
    }

    /// Pays for a copy of `value`, before it is made.
    pub(super) fn copy(&self, value: &Value) -> Result<(), Cause> {
        self.work(1)?;
        match value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.make(size_of::<Value>()),
            Value::Str(text) => self.make(size_of::<Value>() + text.len()),
            Value::List(items) => {
                self.make(size_of::<Value>())?;
                items.iter().try_for_each(|item| self.copy(item))
            }
            Value::Object(members) => {
                self.make(size_of::<Value>())?;
                members.iter().try_for_each(|(key, value)| {
                    self.make(key.len())?;
                    self.copy(value)
                })
            }
        }
    }
}

fn pay(left: &Cell<usize>, count: usize) -> Result<(), Cause> {
    left.set(left.get().checked_sub(count).ok_or(Cause::TooMuchWork)?);
    Ok(())
}

/// Where an expression is evaluated.
#[derive(Clone, Copy)]
pub(super) struct Env<'a> {
    scope: &'a dyn Scope,
    round: Option<&'a Round<'a>>,
    pub(super) meter: &'a Meter,
}

/// One round of a loop.
struct Round<'a> {
    outer: Option<&'a Round<'a>>,
    names: [Option<&'a Value>; 2],
    index: usize,
}

/// The text of a template.
pub(super) fn render(statements: &[Statement], scope: &dyn Scope, max_bytes: usize) -> Result<String, RenderError> {
    let meter = Meter::new();
    let mut out = Output { text: String::new(), max_bytes };
    let env = Env { scope, round: None, meter: &meter };
    run(statements, &env, &mut out)?;
    Ok(out.text)
}

/// The value of an expression.
pub(super) fn value(expr: &Expr, scope: &dyn Scope) -> Result<Value, RenderError> {
    let meter = Meter::new();
    keep(expr, &Env { scope, round: None, meter: &meter })
}

/// The value of an expression that takes its size from `left`.
pub(super) fn value_within(expr: &Expr, scope: &dyn Scope, left: &mut usize) -> Result<Value, RenderError> {
    let max_bytes = *left;
    let meter = Meter::new();
    let env = Env { scope, round: None, meter: &meter };
    let view = eval(expr, &env)?;
    let size = Meter { work: Cell::new(MAX_WORK), made_bytes: Cell::new(max_bytes) };
    size.copy(&view.as_value()).map_err(|_| Cause::TooLarge { max_bytes }.at(&expr.range))?;
    *left = size.made_bytes.get();
    Ok(view.into_value())
}

/// Whether a condition holds.
pub(super) fn condition(expr: &Expr, scope: &dyn Scope) -> Result<bool, RenderError> {
    let meter = Meter::new();
    truth(expr, &Env { scope, round: None, meter: &meter })
}

struct Output {
    text: String,
    max_bytes: usize,
}

impl Output {
    fn push(&mut self, text: &str) -> Result<(), Cause> {
        if text.len() > self.max_bytes - self.text.len() {
            return Err(Cause::TooLarge { max_bytes: self.max_bytes });
        }
        self.text.push_str(text);
        Ok(())
    }
}

fn run(statements: &[Statement], env: &Env<'_>, out: &mut Output) -> Result<(), RenderError> {
    for statement in statements {
        match statement {
            Statement::Text(text) => out.push(text).map_err(|cause| cause.at(&(0..0)))?,
            Statement::Print(expr) => {
                let view = eval(expr, env)?;
                print(expr, &view, out).map_err(|cause| cause.at(&expr.range))?;
            }
            Statement::If { test, then, otherwise } => {
                run(if truth(test, env)? { then } else { otherwise }, env, out)?;
            }
            Statement::For { names, over, body, otherwise } => {
                let list = eval(over, env)?;
                let list = list.as_value();
                let Value::List(items) = &*list else {
                    let cause = match &*list {
                        Value::Null => Cause::BreaksOff(described(over)),
                        other => Cause::Operand { operation: "for", found: kind_name(other) },
                    };
                    return Err(cause.at(&over.range));
                };
                if items.is_empty() {
                    run(otherwise, env, out)?;
                }
                for (index, item) in items.iter().enumerate() {
                    env.meter.work(1 + body.len()).map_err(|cause| cause.at(&over.range))?;
                    let names = unpack(item, names.len()).map_err(|cause| cause.at(&over.range))?;
                    let round = Round { outer: env.round, names, index: index + 1 };
                    run(body, &Env { scope: env.scope, round: Some(&round), meter: env.meter }, out)?;
                }
            }
        }
    }
    Ok(())
}

fn unpack(item: &Value, names: usize) -> Result<[Option<&Value>; 2], Cause> {
    match item {
        _ if names < 2 => Ok([Some(item), None]),
        Value::List(pair) if pair.len() == 2 => Ok([pair.first(), pair.last()]),
        other => Err(Cause::Operand { operation: "for key, value", found: kind_name(other) }),
    }
}

fn print(expr: &Expr, view: &View<'_>, out: &mut Output) -> Result<(), Cause> {
    if let Some(text) = view.as_str() {
        return out.push(text);
    }
    match &*view.as_value() {
        Value::Null => Err(Cause::NonePrinted(described(expr))),
        Value::List(_) => Err(Cause::NotPrintable("list")),
        Value::Object(_) => Err(Cause::NotPrintable("map")),
        other => {
            let mut text = String::new();
            write_scalar(other, &mut text);
            out.push(&text)
        }
    }
}

/// Appends a boolean, a number or a text as it is printed.
pub(super) fn write_scalar(value: &Value, out: &mut String) {
    match value {
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Str(text) => out.push_str(text),
        other => number::write(other, out),
    }
}

/// What an expression is called in messages.
fn described(expr: &Expr) -> String {
    match &expr.node {
        Node::Path(path) => path.to_string(),
        Node::Filter(input, _) => described(input),
        _ => "this value".to_owned(),
    }
}

/// The value of `expr` for keeping.
fn keep(expr: &Expr, env: &Env<'_>) -> Result<Value, RenderError> {
    let view = eval(expr, env)?;
    if let View::Value(value) = &view {
        env.meter.copy(value).map_err(|cause| cause.at(&expr.range))?;
    }
    Ok(view.into_value())
}

/// The value of `expr`.
pub(super) fn eval<'a>(expr: &'a Expr, env: &Env<'a>) -> Result<View<'a>, RenderError> {
    let at = |cause: Cause| cause.at(&expr.range);
    env.meter.work(1).map_err(at)?;
    match &expr.node {
        Node::Const(value) => Ok(View::Value(value)),
        Node::Path(path) => look_up(path, env).ok_or_else(|| Cause::BreaksOff(path.to_string()).at(&expr.range)),
        Node::LoopIndex => {
            let index = env.round.map_or(0, |round| round.index);
            Ok(View::Owned(Value::from(u64::try_from(index).unwrap_or(u64::MAX))))
        }
        Node::Member(base, segment) => {
            let view = eval(base, env)?;
            view.member(segment)
                .ok_or_else(|| Cause::BreaksOff(format!("{}{segment}", described(base))).at(&expr.range))
        }
        Node::List(items) => {
            let items: Result<Vec<Value>, RenderError> = items.iter().map(|item| keep(item, env)).collect();
            Ok(View::Owned(Value::List(items?)))
        }
        Node::Negate(operand) => {
            let view = eval(operand, env)?;
            number::negate(&view.as_value()).map(View::Owned).map_err(at)
        }
        Node::Arithmetic(operator, left, right) => {
            let (left, right) = (eval(left, env)?, eval(right, env)?);
            number::calculate(*operator, &left.as_value(), &right.as_value()).map(View::Owned).map_err(at)
        }
        Node::Concat(left, right) => {
            let (left, right) = (eval(left, env)?, eval(right, env)?);
            concat(&left, &right, env.meter).map(View::Owned).map_err(at)
        }
        Node::If { test, then, otherwise } => eval(if truth(test, env)? { then } else { otherwise }, env),
        Node::Filter(input, filter) => match &**filter {
            Filter::Default(default) => match eval_leniently(input, env)? {
                view if view.is_none() => eval(default, env),
                view => Ok(view),
            },
            filter => {
                let input = eval(input, env)?;
                filter::apply(filter, input, &expr.range, env)
            }
        },
        Node::Not(_) | Node::And(..) | Node::Or(..) | Node::Compare(..) | Node::Test(..) => {
            truth(expr, env).map(|truth| View::Owned(Value::Bool(truth)))
        }
    }
}

/// The value of what stands before `default`: none, wherever its path breaks off.
fn eval_leniently<'a>(expr: &'a Expr, env: &Env<'a>) -> Result<View<'a>, RenderError> {
    match &expr.node {
        Node::Path(path) => {
            env.meter.work(1).map_err(|cause| cause.at(&expr.range))?;
            Ok(look_up(path, env).unwrap_or_else(View::none))
        }
        Node::Member(base, segment) => Ok(eval_leniently(base, env)?.member(segment).unwrap_or_else(View::none)),
        Node::Filter(input, filter) if !matches!(**filter, Filter::Default(_)) => match eval_leniently(input, env)? {
            view if view.is_none() => Ok(view),
            view => filter::apply(filter, view, &expr.range, env),
        },
        _ => eval(expr, env),
    }
}

/// What stands at a path; `None` where it breaks off.
fn look_up<'a>(path: &'a Path, env: &Env<'a>) -> Option<View<'a>> {
    let (view, rest) = match &path.root {
        Root::Local { up, slot, .. } => (View::Value(local(*up, *slot, env)?), path.segments.as_slice()),
        Root::Name(root) => find(root, &path.segments, env.scope)?,
    };
    rest.iter().try_fold(view, View::member)
}

fn local<'a>(up: usize, slot: usize, env: &Env<'a>) -> Option<&'a Value> {
    let mut round = env.round?;
    for _ in 0..up {
        round = round.outer?;
    }
    round.names.get(slot).copied().flatten()
}

fn find<'a>(root: &'a str, segments: &'a [Segment], scope: &'a dyn Scope) -> Option<(View<'a>, &'a [Segment])> {
    let mut names = [root; MAX_NAMES];
    let mut count = 1;
    for (place, segment) in names.iter_mut().skip(1).zip(segments) {
        let Segment::Name(name) = segment else { break };
        *place = name;
        count += 1;
    }
    let Found { view, used } = scope.find(names.get(..count)?);
    Some((view, segments.get(used.saturating_sub(1)..)?))
}

/// Whether `expr` holds.
pub(super) fn truth(expr: &Expr, env: &Env<'_>) -> Result<bool, RenderError> {
    let at = |cause: Cause| cause.at(&expr.range);
    env.meter.work(1).map_err(at)?;
    match &expr.node {
        Node::Path(path) => Ok(match path.whole_step() {
            Some(role) => env.scope.has_run(role),
            None => match look_up(path, env).as_ref().map(View::as_value).as_deref() {
                None | Some(Value::Null) => false,
                Some(Value::Bool(truth)) => *truth,
                Some(_) => true,
            },
        }),
        Node::Not(operand) => truth(operand, env).map(|truth| !truth),
        Node::And(left, right) => Ok(truth(left, env)? && truth(right, env)?),
        Node::Or(left, right) => Ok(truth(left, env)? || truth(right, env)?),
        Node::Compare(first, rest) => {
            let mut left = eval(first, env)?;
            for (comparison, operand) in rest {
                let right = eval(operand, env)?;
                if !compare(*comparison, &left, &right, env.meter).map_err(at)? {
                    return Ok(false);
                }
                left = right;
            }
            Ok(true)
        }
        Node::Test(input, test) => match &**test {
            Test::Defined => Ok(is_there(input, env)?),
            Test::None => Ok(!is_there(input, env)?),
            test => holds(test, &eval(input, env)?, &expr.range, env),
        },
        _ => match &*eval(expr, env)?.as_value() {
            Value::Bool(truth) => Ok(*truth),
            Value::Null => Ok(false),
            other => Err(at(Cause::NotACondition(kind_name(other)))),
        },
    }
}

fn is_there(expr: &Expr, env: &Env<'_>) -> Result<bool, RenderError> {
    if let Node::Path(path) = &expr.node
        && let Some(role) = path.whole_step()
    {
        return Ok(env.scope.has_run(role));
    }
    Ok(!eval_leniently(expr, env)?.is_none())
}

/// Whether a test holds of a value.
pub(super) fn holds(test: &Test, view: &View<'_>, range: &Range<usize>, env: &Env<'_>) -> Result<bool, RenderError> {
    let value = view.as_value();
    let operand = |operation| Cause::Operand { operation, found: kind_name(&value) }.at(range);
    let integer = |operation| match &*value {
        Value::Int(number) => Ok(*number),
        _ => Err(operand(operation)),
    };
    match test {
        Test::Defined => Ok(!view.is_none()),
        Test::None => Ok(view.is_none()),
        Test::Compare(comparison, other) => {
            compare(*comparison, view, &eval(other, env)?, env.meter).map_err(|cause| cause.at(range))
        }
        Test::Boolean(wanted) => Ok(*value == Value::Bool(*wanted)),
        Test::Type(wanted) => Ok(is_of_type(&value, *wanted)),
        Test::Even(even) => Ok((integer("even")? % 2 == 0) == *even),
        Test::DivisibleBy(divisor) => {
            let number = integer("divisibleby")?;
            match &*eval(divisor, env)?.as_value() {
                Value::Int(0) => Err(Cause::DivisionByZero.at(range)),
                Value::Int(divisor) => Ok(number % divisor == 0),
                other => Err(Cause::Operand { operation: "divisibleby", found: kind_name(other) }.at(range)),
            }
        }
        Test::StartingWith(part) | Test::EndingWith(part) => {
            let part = eval(part, env)?;
            match (view.as_str(), part.as_str()) {
                (Some(whole), Some(part)) if matches!(test, Test::StartingWith(_)) => Ok(whole.starts_with(part)),
                (Some(whole), Some(part)) => Ok(whole.ends_with(part)),
                (None, _) => Err(operand("startingwith")),
                (_, None) => {
                    Err(Cause::Operand { operation: "startingwith", found: kind_name(&part.as_value()) }.at(range))
                }
            }
        }
    }
}

fn is_of_type(value: &Value, wanted: TypeTest) -> bool {
    match wanted {
        TypeTest::Text => matches!(value, Value::Str(_)),
        TypeTest::Number => matches!(value, Value::Int(_) | Value::Float(_)),
        TypeTest::Integer => matches!(value, Value::Int(_)),
        TypeTest::Boolean => matches!(value, Value::Bool(_)),
        TypeTest::List => matches!(value, Value::List(_)),
        TypeTest::Object => matches!(value, Value::Object(_)),
    }
}

fn compare(comparison: Comparison, left: &View<'_>, right: &View<'_>, meter: &Meter) -> Result<bool, Cause> {
    match comparison {
        Comparison::Equal => equal(left, right, meter),
        Comparison::NotEqual => equal(left, right, meter).map(|equal| !equal),
        Comparison::In => contains(right, left, meter),
        Comparison::NotIn => contains(right, left, meter).map(|contains| !contains),
        Comparison::Less => order(left, right).map(std::cmp::Ordering::is_lt),
        Comparison::LessOrEqual => order(left, right).map(std::cmp::Ordering::is_le),
        Comparison::Greater => order(left, right).map(std::cmp::Ordering::is_gt),
        Comparison::GreaterOrEqual => order(left, right).map(std::cmp::Ordering::is_ge),
    }
}

fn equal(left: &View<'_>, right: &View<'_>, meter: &Meter) -> Result<bool, Cause> {
    match (left.as_str(), right.as_str()) {
        (Some(left), Some(right)) => equal_texts(left, right, meter),
        (None, None) => equal_values(&left.as_value(), &right.as_value(), meter),
        _ => Ok(false),
    }
}

fn equal_texts(left: &str, right: &str, meter: &Meter) -> Result<bool, Cause> {
    if left.len() != right.len() {
        return Ok(false);
    }
    meter.work(1 + left.len() / BYTES_A_UNIT)?;
    Ok(left == right)
}

/// Equality that is paid for as far as it looks.
pub(super) fn equal_values(left: &Value, right: &Value, meter: &Meter) -> Result<bool, Cause> {
    meter.work(1)?;
    match (left, right) {
        (Value::Str(left), Value::Str(right)) => equal_texts(left, right, meter),
        (Value::List(left), Value::List(right)) if left.len() == right.len() => {
            all(left.iter().zip(right), |(left, right)| equal_values(left, right, meter))
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            all(left.iter().zip(right), |((key, left), (other, right))| {
                Ok(equal_texts(key, other, meter)? && equal_values(left, right, meter)?)
            })
        }
        (Value::List(_) | Value::Object(_), _) => Ok(false),
        (left, right) => Ok(left == right),
    }
}

fn all<T>(pairs: impl Iterator<Item = T>, mut holds: impl FnMut(T) -> Result<bool, Cause>) -> Result<bool, Cause> {
    for pair in pairs {
        if !holds(pair)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn order(left: &View<'_>, right: &View<'_>) -> Result<std::cmp::Ordering, Cause> {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return Ok(left.cmp(right));
    }
    let (left, right) = (left.as_value(), right.as_value());
    number::order(&left, &right).ok_or(Cause::NotOrdered { left: kind_name(&left), right: kind_name(&right) })
}

fn contains(container: &View<'_>, element: &View<'_>, meter: &Meter) -> Result<bool, Cause> {
    if let Some(text) = container.as_str() {
        let part = element.as_str();
        meter.work(1 + text.len() / BYTES_A_UNIT)?;
        return part
            .map(|part| text.contains(part))
            .ok_or_else(|| Cause::Operand { operation: "in", found: kind_name(&element.as_value()) });
    }
    match &*container.as_value() {
        Value::List(items) => {
            let element = element.as_value();
            all(items.iter(), |item| equal_values(item, &element, meter).map(|equal| !equal)).map(|none| !none)
        }
        Value::Object(members) => Ok(element.as_str().is_some_and(|key| members.contains_key(key))),
        other => Err(Cause::Operand { operation: "in", found: kind_name(other) }),
    }
}

fn concat(left: &View<'_>, right: &View<'_>, meter: &Meter) -> Result<Value, Cause> {
    let mut text = String::new();
    for side in [left, right] {
        if let Some(part) = side.as_str() {
            meter.make(part.len())?;
            text.push_str(part);
            continue;
        }
        match &*side.as_value() {
            Value::Null => return Err(Cause::Operand { operation: "~", found: "none" }),
            Value::List(_) => return Err(Cause::NotPrintable("list")),
            Value::Object(_) => return Err(Cause::NotPrintable("map")),
            other => write_scalar(other, &mut text),
        }
    }
    Ok(Value::Str(text))
}
