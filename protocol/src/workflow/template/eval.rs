//! Rendering: statements and expressions over a scope.
//!
//! Values are borrowed from the scope until something changes them. The meter counts work and allocations: every loop,
//! comparison and filter pays for the bytes it reads before it reads them.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use super::expr::{Arithmetic, Comparison, Expr, FilterKind, Node, Path, Root, Segment, Test, TypeTest};
use super::scope::{Lookup, MAX_NAMES, Scope, View};
use super::{Cause, RenderError, Statement, filter, kind_name, number};
use crate::canonical::Value;

/// The maximum number of nodes that a render evaluates, plus elements that its filters read.
const MAX_WORK: usize = 1_000_000;
/// The maximum bytes of intermediate values of a render, without its output.
const MAX_MADE_BYTES: usize = 16 * 1024 * 1024;

/// How many bytes of text cost as much as one node.
const BYTES_A_UNIT: usize = 64;

/// The remaining budget of a render. All texts of a [`ValueTemplate`](super::ValueTemplate) share one meter.
pub(super) struct Meter {
    work: Cell<usize>,
    made_bytes: Cell<usize>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { work: Cell::new(MAX_WORK), made_bytes: Cell::new(MAX_MADE_BYTES) }
    }

    /// The work and bytes spent so far.
    #[cfg(test)]
    pub(super) fn spent(&self) -> (usize, usize) {
        (MAX_WORK - self.work.get(), MAX_MADE_BYTES - self.made_bytes.get())
    }

    /// Pays for reading `count` items.
    pub(super) fn work(&self, count: usize) -> Result<(), Cause> {
        pay(&self.work, count)
    }

    /// Pays for reading `bytes` bytes of text once.
    pub(super) fn look(&self, bytes: usize) -> Result<(), Cause> {
        self.work(1 + bytes / BYTES_A_UNIT)
    }

    /// Pays for creating a text of `bytes` bytes.
    pub(super) fn make(&self, bytes: usize) -> Result<(), Cause> {
        pay(&self.made_bytes, bytes)
    }

    /// Pays for a copy of the content of `view`, before it is made.
    pub(super) fn copy_view(&self, view: &View<'_>) -> Result<(), Cause> {
        match (view.as_value(), view.as_str()) {
            (Some(value), _) => self.copy(value),
            (None, text) => self.copy_text(text.unwrap_or_default()),
        }
    }

    /// The value of `view`; pays for a copy, unless it is owned and so paid for.
    fn copied(&self, view: View<'_>) -> Result<Value, Cause> {
        if !matches!(view, View::Owned(_)) {
            self.copy_view(&view)?;
        }
        Ok(view.into_value())
    }

    fn copy_text(&self, text: &str) -> Result<(), Cause> {
        self.look(text.len())?;
        self.make(size_of::<Value>() + text.len())
    }

    /// Pays for a copy of `value`, before it is made.
    pub(super) fn copy(&self, value: &Value) -> Result<(), Cause> {
        if let Value::Str(text) = value {
            return self.copy_text(text);
        }
        self.work(1)?;
        self.make(size_of::<Value>())?;
        match value {
            Value::List(items) => items.iter().try_for_each(|item| self.copy(item)),
            Value::Object(members) => members.iter().try_for_each(|(key, value)| {
                self.make(key.len())?;
                self.copy(value)
            }),
            _ => Ok(()),
        }
    }
}

fn pay(left: &Cell<usize>, count: usize) -> Result<(), Cause> {
    left.set(left.get().checked_sub(count).ok_or(Cause::TooMuchWork)?);
    Ok(())
}

#[derive(Clone, Copy)]
pub(super) struct Env<'a> {
    scope: &'a dyn Scope,
    round: Option<&'a Round<'a>>,
    pub(super) meter: &'a Meter,
}

impl<'a> Env<'a> {
    fn new(scope: &'a dyn Scope, meter: &'a Meter) -> Self {
        Self { scope, round: None, meter }
    }
}

struct Round<'a> {
    outer: Option<&'a Round<'a>>,
    names: [Option<Named<'a>>; 2],
    index: usize,
}

#[derive(Clone, Copy)]
enum Named<'a> {
    Value(&'a Value),
    /// The element `index` of a list that the scope returns one by one.
    Item {
        list: Names<'a>,
        index: usize,
    },
}

/// The leading names of a path.
#[derive(Clone, Copy)]
struct Names<'a> {
    names: [&'a str; MAX_NAMES],
    count: usize,
}

impl<'a> Names<'a> {
    /// `first`, if given, and the leading names of `segments`, as far as there is room.
    fn leading(first: Option<&'a str>, segments: &'a [Segment]) -> Self {
        let name = |segment: &'a Segment| if let Segment::Name(name) = segment { Some(&**name) } else { None };
        let mut leading = Self { names: [""; MAX_NAMES], count: 0 };
        for (place, name) in leading.names.iter_mut().zip(first.into_iter().chain(segments.iter().map_while(name))) {
            *place = name;
            leading.count += 1;
        }
        leading
    }

    fn as_slice(&self) -> &[&'a str] {
        self.names.get(..self.count).unwrap_or_default()
    }
}

/// A list whose elements the scope returns one by one.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    names: Names<'a>,
    pub(super) length: usize,
}

impl<'a> List<'a> {
    /// The value at `path` in the element `index`; `None` if the path breaks off.
    pub(super) fn member(self, index: usize, path: &'a [Segment], env: &Env<'a>) -> Result<Option<View<'a>>, Cause> {
        if index >= self.length {
            return Ok(path.iter().try_fold(View::none(), View::member));
        }
        let names = Names::leading(None, path);
        let Lookup { view, used } = env.scope.item(self.names.as_slice(), index, names.as_slice());
        walk(view, path.get(used..), env.meter)
    }

    fn view(self, env: &Env<'a>) -> Result<View<'a>, Cause> {
        let items = (0..self.length).map(|index| self.copied_member(index, &[], env));
        Ok(View::Owned(Value::List(items.collect::<Result<_, _>>()?)))
    }

    /// A copy of the value at `path` in the element `index`; pays for it.
    pub(super) fn copied_member(self, index: usize, path: &'a [Segment], env: &Env<'a>) -> Result<Value, Cause> {
        env.meter.copied(self.member(index, path, env)?.unwrap_or_else(View::none))
    }
}

/// Follows the rest of a path from the result of a scope. Pays for an owned value as for a copy.
fn walk<'a>(view: View<'a>, rest: Option<&'a [Segment]>, meter: &Meter) -> Result<Option<View<'a>>, Cause> {
    if let View::Owned(value) = &view {
        meter.copy(value)?;
    }
    Ok(rest.and_then(|rest| rest.iter().try_fold(view, View::member)))
}

pub(super) fn render_within(
    statements: &[Statement],
    scope: &dyn Scope,
    max_bytes: usize,
    meter: &Meter,
) -> Result<String, RenderError> {
    let mut out = Output { text: String::new(), max_bytes };
    run(statements, &Env::new(scope, meter), &mut out)?;
    Ok(out.text)
}

pub(super) fn value(expr: &Expr, scope: &dyn Scope) -> Result<Value, RenderError> {
    let value = keep(expr, &Env::new(scope, &Meter::new()))?;
    checked_depth(value).map_err(|cause| cause.within(&expr.range))
}

fn checked_depth(value: Value) -> Result<Value, Cause> {
    value.check_depth().map_err(|_| Cause::TooDeep).map(|()| value)
}

/// Evaluates an expression with a shared meter, and subtracts its size from `left`.
pub(super) fn value_within(
    expr: &Expr,
    scope: &dyn Scope,
    left: &mut usize,
    meter: &Meter,
) -> Result<Value, RenderError> {
    let max_bytes = *left;
    let view = eval(expr, &Env::new(scope, meter))?;
    let size = Meter { work: Cell::new(MAX_WORK), made_bytes: Cell::new(max_bytes) };
    let copied = size.copy_view(&view).map_err(|_| Cause::TooLarge { max_bytes });
    *left = size.made_bytes.get();
    copied.and_then(|()| checked_depth(view.into_value())).map_err(|cause| cause.within(&expr.range))
}

pub(super) fn condition(expr: &Expr, scope: &dyn Scope) -> Result<bool, RenderError> {
    truth(expr, &Env::new(scope, &Meter::new()))
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
            Statement::Text { text, .. } => out.push(text)?,
            Statement::Print(expr) => {
                let view = eval(expr, env)?;
                print(expr, &view, out).map_err(|cause| cause.within(&expr.range))?;
            }
            Statement::If { test, then, otherwise } => {
                run(if truth(test, env)? { then } else { otherwise }, env, out)?;
            }
            Statement::For { names, over, body, otherwise } => {
                let at = |cause: Cause| cause.within(&over.range);
                let list = whole_list(over, env).map_err(at)?;
                let view = if list.is_some() { View::none() } else { eval(over, env)? };
                let items: &[Value] = match view.as_value() {
                    Some(Value::List(items)) => items,
                    _ if list.is_some() => &[],
                    Some(Value::Null) => return Err(at(Cause::BreaksOff(described(over)))),
                    _ => return Err(at(Cause::Operand { operation: "for", found: view.kind_name() })),
                };
                let length = list.map_or(items.len(), |list| list.length);
                if length == 0 {
                    run(otherwise, env, out)?;
                }
                for index in 0..length {
                    env.meter.work(1 + body.len()).map_err(at)?;
                    let made;
                    let names = match (list, items.get(index)) {
                        (Some(list), _) if names.len() < 2 => [Some(Named::Item { list: list.names, index }), None],
                        (Some(list), _) => {
                            made = list.member(index, &[], env).map_err(at)?.unwrap_or_else(View::none);
                            unpack(made.as_value().unwrap_or(&Value::Null), 2).map_err(at)?
                        }
                        (None, item) => unpack(item.unwrap_or(&Value::Null), names.len()).map_err(at)?,
                    };
                    let round = Round { outer: env.round, names, index: index + 1 };
                    run(body, &Env { scope: env.scope, round: Some(&round), meter: env.meter }, out)?;
                }
            }
        }
    }
    Ok(())
}

fn unpack(item: &Value, names: usize) -> Result<[Option<Named<'_>>; 2], Cause> {
    match item {
        _ if names < 2 => Ok([Some(Named::Value(item)), None]),
        Value::List(pair) if pair.len() == 2 => Ok([pair.first().map(Named::Value), pair.last().map(Named::Value)]),
        other => Err(Cause::Operand { operation: "for key, value", found: kind_name(other) }),
    }
}

fn print(expr: &Expr, view: &View<'_>, out: &mut Output) -> Result<(), Cause> {
    match printed(view)? {
        Some(text) => out.push(&text).map_err(|_| {
            let max_bytes = out.max_bytes;
            Cause::TooLargeBy { of: described(expr), bytes: text.len(), max_bytes }
        }),
        None => Err(Cause::NonePrinted(described(expr))),
    }
}

/// A text, a number or a boolean as printed; `None` for none.
pub(super) fn printed<'v>(view: &'v View<'_>) -> Result<Option<Cow<'v, str>>, Cause> {
    match (view.as_str(), view.as_value()) {
        (Some(text), _) => Ok(Some(Cow::Borrowed(text))),
        (None, None | Some(Value::Null)) => Ok(None),
        (None, Some(value @ (Value::List(_) | Value::Object(_)))) => Err(Cause::NotPrintable(kind_name(value))),
        (None, Some(scalar)) => Ok(Some(Cow::Owned(scalar.to_text()))),
    }
}

fn described(expr: &Expr) -> String {
    match &expr.node {
        Node::Path(path) => path.to_string(),
        Node::Filter(input, _) => described(input),
        _ => "this value".to_owned(),
    }
}

fn keep(expr: &Expr, env: &Env<'_>) -> Result<Value, RenderError> {
    env.meter.copied(eval(expr, env)?).map_err(|cause| cause.within(&expr.range))
}

pub(super) fn eval<'a>(expr: &'a Expr, env: &Env<'a>) -> Result<View<'a>, RenderError> {
    evaluated(expr, env).map_err(|error| error.within(&expr.range))
}

fn evaluated<'a>(expr: &'a Expr, env: &Env<'a>) -> Result<View<'a>, RenderError> {
    env.meter.work(1)?;
    let made = match &expr.node {
        Node::Const(value) => return Ok(View::Value(value)),
        Node::Path(path) => {
            return look_up(path, env)?.ok_or_else(|| Cause::BreaksOff(path.to_string()).into());
        }
        Node::Member(base, segment) => {
            let breaks_off = || Cause::BreaksOff(format!("{}{segment}", described(base))).into();
            return eval(base, env)?.member(segment).ok_or_else(breaks_off);
        }
        Node::If { test, then, otherwise } => return eval(if truth(test, env)? { then } else { otherwise }, env),
        Node::Filter(input, filter) if filter.kind() == FilterKind::Default => {
            return filter::apply(filter, eval_leniently(input, env)?, env);
        }
        Node::Filter(input, filter) => {
            if let Some(list) = whole_list(input, env)?
                && let Some(found) = filter::of_list(filter, list, env)
            {
                return Ok(found?);
            }
            return filter::apply(filter, eval(input, env)?, env);
        }
        Node::LoopIndex => Value::from(u64::try_from(env.round.map_or(0, |round| round.index)).unwrap_or(u64::MAX)),
        Node::List(items) => Value::List(items.iter().map(|item| keep(item, env)).collect::<Result<_, _>>()?),
        Node::Negate(operand) => {
            let operand = eval(operand, env)?;
            number::calculate(Arithmetic::Subtract, &Value::Int(0), number(&operand, "-")?)?
        }
        Node::Arithmetic(operator, left, right) => {
            let (left, right) = (eval(left, env)?, eval(right, env)?);
            number::calculate(*operator, number(&left, operator.symbol())?, number(&right, operator.symbol())?)?
        }
        Node::Concat(left, right) => concat(&eval(left, env)?, &eval(right, env)?, env.meter)?,
        Node::Not(_) | Node::And(..) | Node::Or(..) | Node::Compare(..) | Node::Test(..) => {
            Value::Bool(truth(expr, env)?)
        }
    };
    Ok(View::Owned(made))
}

/// The value of the input of `default`: none, wherever its path breaks off.
fn eval_leniently<'a>(expr: &'a Expr, env: &Env<'a>) -> Result<View<'a>, RenderError> {
    match &expr.node {
        Node::Path(path) => {
            let view =
                env.meter.work(1).and_then(|()| look_up(path, env)).map_err(|cause| cause.within(&expr.range))?;
            Ok(view.unwrap_or_else(View::none))
        }
        Node::Member(base, segment) => Ok(eval_leniently(base, env)?.member(segment).unwrap_or_else(View::none)),
        Node::Filter(input, filter) if filter.kind() != FilterKind::Default => match eval_leniently(input, env)? {
            view if view.is_none() => Ok(view),
            view => filter::apply(filter, view, env).map_err(|error| error.within(&expr.range)),
        },
        _ => eval(expr, env),
    }
}

enum Resolved<'a> {
    View(View<'a>),
    /// A whole list whose elements the scope returns one by one.
    List(List<'a>),
}

/// The value at a path; `None` if it breaks off.
fn look_up<'a>(path: &'a Path, env: &Env<'a>) -> Result<Option<View<'a>>, Cause> {
    Ok(match place(path, env)? {
        Some(Resolved::List(list)) => Some(list.view(env)?),
        Some(Resolved::View(view)) => Some(view),
        None => None,
    })
}

/// The list that `expr` names, if the scope returns its elements one by one.
fn whole_list<'a>(expr: &'a Expr, env: &Env<'a>) -> Result<Option<List<'a>>, Cause> {
    let Node::Path(path) = &expr.node else { return Ok(None) };
    let Root::Name(root) = &path.root else { return Ok(None) };
    env.meter.work(1)?;
    Ok(list_at(root, &path.segments, env.scope).filter(|list| path.segments.len() < list.names.count))
}

/// The list at the beginning of a path, if the scope returns its elements one by one.
fn list_at<'a>(root: &'a str, segments: &'a [Segment], scope: &dyn Scope) -> Option<List<'a>> {
    let names = Names::leading(Some(root), segments);
    // All names up to an index or the end must belong to the list.
    let ends = segments.get(names.count - 1).is_none_or(|next| matches!(next, Segment::Index(_)));
    let length = if ends { scope.length(names.as_slice()) } else { None };
    length.map(|length| List { names, length })
}

fn place<'a>(path: &'a Path, env: &Env<'a>) -> Result<Option<Resolved<'a>>, Cause> {
    let segments = path.segments.as_slice();
    let view = match &path.root {
        Root::Local { up, slot, .. } => match local(*up, *slot, env) {
            Some(Named::Value(value)) => segments.iter().try_fold(View::Value(value), View::member),
            Some(Named::Item { list, index }) => {
                List { names: list, length: usize::MAX }.member(index, segments, env)?
            }
            None => None,
        },
        Root::Name(root) => {
            if let Some(list) = list_at(root, segments, env.scope) {
                let Some([Segment::Index(index), rest @ ..]) = segments.get(list.names.count - 1..) else {
                    return Ok(Some(Resolved::List(list)));
                };
                list.member(*index, rest, env)?
            } else {
                let names = Names::leading(Some(root), segments);
                let Lookup { view, used } = env.scope.find(names.as_slice());
                walk(view, segments.get(used.saturating_sub(1)..), env.meter)?
            }
        }
    };
    Ok(view.map(Resolved::View))
}

fn local<'a>(up: usize, slot: usize, env: &Env<'a>) -> Option<Named<'a>> {
    std::iter::successors(env.round, |round| round.outer).nth(up)?.names.get(slot).copied().flatten()
}

fn number<'v>(view: &'v View<'_>, operation: &'static str) -> Result<&'v Value, Cause> {
    view.as_value().ok_or(Cause::Operand { operation, found: "text" })
}

pub(super) fn truth(expr: &Expr, env: &Env<'_>) -> Result<bool, RenderError> {
    is_true(expr, env).map_err(|error| error.within(&expr.range))
}

fn is_true(expr: &Expr, env: &Env<'_>) -> Result<bool, RenderError> {
    env.meter.work(1)?;
    match &expr.node {
        Node::Path(path) => Ok(match path.whole_step() {
            Some(role) => env.scope.has_run(role),
            None => match place(path, env)? {
                None => false,
                Some(Resolved::List(_)) => true,
                Some(Resolved::View(view)) => !matches!(view.as_value(), Some(Value::Null | Value::Bool(false))),
            },
        }),
        Node::Not(operand) => truth(operand, env).map(|truth| !truth),
        Node::And(left, right) => Ok(truth(left, env)? && truth(right, env)?),
        Node::Or(left, right) => Ok(truth(left, env)? || truth(right, env)?),
        Node::Compare(first, rest) => {
            let mut left = eval(first, env)?;
            for (comparison, operand) in rest {
                let right = eval(operand, env)?;
                if !compare(*comparison, &left, &right, env.meter)? {
                    return Ok(false);
                }
                left = right;
            }
            Ok(true)
        }
        Node::Test(input, test) => match &**test {
            Test::Defined => Ok(is_there(input, env)?),
            Test::None => Ok(!is_there(input, env)?),
            test => holds(test, &eval(input, env)?, env),
        },
        _ => {
            let view = eval(expr, env)?;
            match view.as_value() {
                Some(Value::Bool(truth)) => Ok(*truth),
                Some(Value::Null) => Ok(false),
                _ => Err(Cause::NotACondition(view.kind_name()).into()),
            }
        }
    }
}

fn is_there(expr: &Expr, env: &Env<'_>) -> Result<bool, RenderError> {
    if let Node::Path(path) = &expr.node
        && let Some(role) = path.whole_step()
    {
        return Ok(env.scope.has_run(role));
    }
    let is_list = whole_list(expr, env).map_err(|cause| cause.within(&expr.range))?.is_some();
    Ok(is_list || !eval_leniently(expr, env)?.is_none())
}

pub(super) fn holds(test: &Test, view: &View<'_>, env: &Env<'_>) -> Result<bool, RenderError> {
    let operand = |operation, view: &View<'_>| Cause::Operand { operation, found: view.kind_name() };
    let integer = |operation, view: &View<'_>| match view.as_value() {
        Some(Value::Int(number)) => Ok(*number),
        _ => Err(operand(operation, view)),
    };
    match test {
        Test::Defined => Ok(!view.is_none()),
        Test::None => Ok(view.is_none()),
        Test::Compare(comparison, other) => Ok(compare(*comparison, view, &eval(other, env)?, env.meter)?),
        Test::Boolean(wanted) => Ok(matches!(view.as_value(), Some(Value::Bool(truth)) if truth == wanted)),
        Test::Type(wanted) => Ok(is_of_type(view, *wanted)),
        Test::Even(even) => Ok((integer("even", view)? % 2 == 0) == *even),
        Test::DivisibleBy(divisor) => {
            let number = integer("divisibleby", view)?;
            let divisor = integer("divisibleby", &eval(divisor, env)?)?;
            let rest = number.checked_rem(divisor).ok_or(Cause::DivisionByZero)?;
            Ok(rest == 0)
        }
        Test::StartingWith(part) | Test::EndingWith(part) => {
            let is_start = matches!(test, Test::StartingWith(_));
            let name = if is_start { "startingwith" } else { "endingwith" };
            let part = eval(part, env)?;
            let whole = view.as_str().ok_or_else(|| operand(name, view))?;
            let part = part.as_str().ok_or_else(|| operand(name, &part))?;
            env.meter.look(part.len().min(whole.len()))?;
            Ok(if is_start { whole.starts_with(part) } else { whole.ends_with(part) })
        }
    }
}

fn is_of_type(view: &View<'_>, wanted: TypeTest) -> bool {
    let value = view.as_value();
    match wanted {
        TypeTest::Text => view.as_str().is_some(),
        TypeTest::Number => matches!(value, Some(Value::Int(_) | Value::Float(_))),
        TypeTest::Integer => matches!(value, Some(Value::Int(_))),
        TypeTest::Boolean => matches!(value, Some(Value::Bool(_))),
        TypeTest::List => matches!(value, Some(Value::List(_))),
        TypeTest::Object => matches!(value, Some(Value::Object(_))),
    }
}

fn compare(comparison: Comparison, left: &View<'_>, right: &View<'_>, meter: &Meter) -> Result<bool, Cause> {
    match comparison {
        Comparison::Equal => equal(left, right, meter),
        Comparison::NotEqual => equal(left, right, meter).map(|equal| !equal),
        Comparison::In => contains(right, left, meter),
        Comparison::NotIn => contains(right, left, meter).map(|contains| !contains),
        Comparison::Less => order(left, right, meter).map(Ordering::is_lt),
        Comparison::LessOrEqual => order(left, right, meter).map(Ordering::is_le),
        Comparison::Greater => order(left, right, meter).map(Ordering::is_gt),
        Comparison::GreaterOrEqual => order(left, right, meter).map(Ordering::is_ge),
    }
}

fn equal(left: &View<'_>, right: &View<'_>, meter: &Meter) -> Result<bool, Cause> {
    match (left.as_value(), right.as_value()) {
        (Some(left), Some(right)) => equal_values(left, right, meter),
        _ => match (left.as_str(), right.as_str()) {
            (Some(left), Some(right)) => equal_texts(left, right, meter),
            _ => Ok(false),
        },
    }
}

fn equal_texts(left: &str, right: &str, meter: &Meter) -> Result<bool, Cause> {
    if left.len() != right.len() {
        return Ok(false);
    }
    meter.look(left.len())?;
    Ok(left == right)
}

/// Whether two values are equal; pays for the compared parts.
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

fn all<T>(items: impl IntoIterator<Item = T>, mut holds: impl FnMut(T) -> Result<bool, Cause>) -> Result<bool, Cause> {
    for item in items {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn order(left: &View<'_>, right: &View<'_>, meter: &Meter) -> Result<Ordering, Cause> {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        meter.look(left.len().min(right.len()))?;
        return Ok(left.cmp(right));
    }
    let ordered = left.as_value().zip(right.as_value()).and_then(|(left, right)| number::order(left, right));
    ordered.ok_or(Cause::NotOrdered { left: left.kind_name(), right: right.kind_name() })
}

fn contains(container: &View<'_>, element: &View<'_>, meter: &Meter) -> Result<bool, Cause> {
    if let Some(text) = container.as_str() {
        let refused = Cause::Operand { operation: "in", found: element.kind_name() };
        let part = element.as_str().ok_or(refused)?;
        // The search is linear in both: it preprocesses the needle first, however short the text is.
        meter.look(text.len().saturating_add(part.len()))?;
        return Ok(text.contains(part));
    }
    match container.as_value() {
        Some(Value::List(items)) => {
            let differs = |item| {
                meter.work(1)?;
                equal(&View::Value(item), element, meter).map(|equal| !equal)
            };
            all(items, differs).map(|none| !none)
        }
        Some(Value::Object(members)) => {
            let Some(key) = element.as_str() else { return Ok(false) };
            // Each level of the tree may read the whole key.
            let levels = usize::try_from(members.len().checked_ilog2().unwrap_or(0)).unwrap_or(0);
            meter.look(key.len().saturating_mul(1 + levels))?;
            Ok(members.contains_key(key))
        }
        _ => Err(Cause::Operand { operation: "in", found: container.kind_name() }),
    }
}

fn concat(left: &View<'_>, right: &View<'_>, meter: &Meter) -> Result<Value, Cause> {
    let mut text = String::new();
    for side in [left, right] {
        if let Some(part) = side.as_str() {
            meter.look(part.len())?;
            meter.make(part.len())?;
        }
        text.push_str(&printed(side)?.ok_or(Cause::Operand { operation: "~", found: "none" })?);
    }
    Ok(Value::Str(text))
}
