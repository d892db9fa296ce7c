//! The names and arguments of filters and tests.

use std::ops::Range;

use super::expr::{Comparison, Expr, FILTERS, Filter, FilterKind, Node, Rounding, Segment, Test, TypeTest};
use crate::canonical::Value;
use crate::diagnostic::{Code, nearest};
use crate::source::SourceError;

/// How a test is built.
enum Make {
    Plain(Test),
    /// With the operand `other`.
    Compare(Comparison),
    /// With one argument of this name.
    Of(&'static str, fn(Expr) -> Test),
}

/// Every test with its names, in the order of the first.
static TESTS: [(&[&str], Make); 22] = [
    (&["boolean"], Make::Plain(Test::Type(TypeTest::Boolean))),
    (&["defined"], Make::Plain(Test::Defined)),
    (&["divisibleby"], Make::Of("num", Test::DivisibleBy)),
    (&["endingwith"], Make::Of("suffix", Test::EndingWith)),
    (&["eq", "==", "equalto", "sameas"], Make::Compare(Comparison::Equal)),
    (&["even"], Make::Plain(Test::Even(true))),
    (&["false"], Make::Plain(Test::Boolean(false))),
    (&["ge", ">="], Make::Compare(Comparison::GreaterOrEqual)),
    (&["gt", ">", "greaterthan"], Make::Compare(Comparison::Greater)),
    (&["in"], Make::Compare(Comparison::In)),
    (&["integer"], Make::Plain(Test::Type(TypeTest::Integer))),
    (&["le", "<="], Make::Compare(Comparison::LessOrEqual)),
    (&["list", "sequence"], Make::Plain(Test::Type(TypeTest::List))),
    (&["lt", "<", "lessthan"], Make::Compare(Comparison::Less)),
    (&["mapping"], Make::Plain(Test::Type(TypeTest::Object))),
    (&["ne", "!="], Make::Compare(Comparison::NotEqual)),
    (&["none", "undefined"], Make::Plain(Test::None)),
    (&["number"], Make::Plain(Test::Type(TypeTest::Number))),
    (&["odd"], Make::Plain(Test::Even(false))),
    (&["startingwith"], Make::Of("prefix", Test::StartingWith)),
    (&["string"], Make::Plain(Test::Type(TypeTest::Text))),
    (&["true"], Make::Plain(Test::Boolean(true))),
];

const MAX_ATTRIBUTE_NAMES: usize = 8;

#[derive(Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(Box<str>, Expr)>,
}

/// The filter that does what other languages call `name`.
pub(crate) fn filter_called(name: &str) -> Option<&'static str> {
    let filter = match name {
        "capitalize" => "title",
        "count" | "len" | "size" => "length",
        "d" => "default",
        "dumps" | "json" | "stringify" | "to_json" | "toJSON" => "tojson",
        "filter" => "select",
        "lowercase" | "toLowerCase" | "to_lower" | "tolower" => "lower",
        "reversed" => "reverse",
        "sorted" => "sort",
        "strip" => "trim",
        "toUpperCase" | "to_upper" | "toupper" | "uppercase" => "upper",
        "uniq" => "unique",
        _ => FILTERS.iter().find(|signature| signature.name == name)?.name,
    };
    Some(filter)
}

/// What to write instead of a call of `name` on `value`.
pub(super) fn instead_of_call(name: &str, value: &str) -> String {
    match name {
        "range" => "loop over a list; there are no ranges".to_owned(),
        "get" => format!("write the path followed by `| default(...)`: `{value}.NAME | default(...)`"),
        "contains" | "includes" => format!("write `\"word\" in {value}`"),
        "endsWith" | "ends_with" | "endswith" => format!("write `{value} is endingwith(\"...\")`"),
        "startsWith" | "starts_with" | "startswith" => format!("write `{value} is startingwith(\"...\")`"),
        "bool" | "float" | "int" | "str" => "leave it out; a field's declared type says what it is".to_owned(),
        _ => match filter_called(name) {
            Some(filter) if FILTERS.iter().any(|signature| signature.name == filter && signature.required > 0) => {
                format!("write `{value} | {filter}(...)`")
            }
            Some(filter) => format!("write `{value} | {filter}`"),
            None => "there are only filters: `value | NAME`".to_owned(),
        },
    }
}

pub(super) fn filter(name: &str, mut given: Arguments, range: Range<usize>) -> Result<Filter, SourceError> {
    let Some(signature) = FILTERS.iter().find(|signature| signature.name == name) else {
        return Err(unknown_name("filter", name, &FILTERS.each_ref().map(|signature| signature.name), range));
    };
    let mut filter = Filter::new(signature);
    match signature.kind {
        FilterKind::Map if !given.positional.is_empty() => {
            filter.each = Some(Box::new(applied_to_each(given)?));
            return Ok(filter);
        }
        FilterKind::Select | FilterKind::SelectAttribute => return select(filter, given, range),
        _ => {}
    }
    let mut taken = Taken { name, given: &mut given, range: range.clone() };
    for (position, parameter) in signature.parameters.iter().enumerate() {
        match *parameter {
            "attribute" => filter.attribute = taken.next("attribute").map(|expr| attribute(&expr)).transpose()?,
            "method" => filter.rounding = taken.rounding()?,
            required if position < signature.required => filter.given.push(Some(taken.required(required)?)),
            optional => filter.given.push(taken.next(optional)),
        }
    }
    taken.finish()?;
    if signature.kind == FilterKind::Map && filter.attribute.is_none() {
        let fault = arguments_fault(range, "`map` needs what to take of each element");
        return Err(fault.with_hint("write `map(attribute=\"title\")` or `map(\"upper\")`"));
    }
    Ok(filter)
}

pub(super) fn test(name: &str, mut given: Arguments, range: Range<usize>) -> Result<Test, SourceError> {
    let Some((_, make)) = TESTS.iter().find(|(names, _)| names.contains(&name)) else {
        let known: Vec<&str> = TESTS.iter().filter_map(|(names, _)| names.first().copied()).collect();
        return Err(unknown_name("test", name, &known, range));
    };
    let mut taken = Taken { name, given: &mut given, range };
    let test = match make {
        Make::Plain(test) => test.clone(),
        Make::Compare(comparison) => Test::Compare(*comparison, taken.required("other")?),
        Make::Of(parameter, make) => make(taken.required(parameter)?),
    };
    taken.finish()?;
    Ok(test)
}

/// The filter that `map("upper")` applies, with the arguments after its name.
fn applied_to_each(mut given: Arguments) -> Result<Filter, SourceError> {
    let first = given.positional.remove(0);
    let inner = constant_text(&first, "the filter that `map` applies")?;
    if matches!(inner, "map" | "select" | "selectattr" | "default") {
        return Err(arguments_fault(first.range.clone(), format!("`map` does not apply `{inner}`")));
    }
    filter(inner, given, first.range.clone())
}

/// `select(test, argument)` and `selectattr(attribute, test, argument)`.
fn select(mut filter: Filter, mut given: Arguments, range: Range<usize>) -> Result<Filter, SourceError> {
    if filter.kind() == FilterKind::SelectAttribute {
        if given.positional.is_empty() {
            return Err(arguments_fault(range, "`selectattr` needs the name of a member")
                .with_hint("write `selectattr(\"severity\", \"==\", \"high\")`"));
        }
        filter.attribute = Some(attribute(&given.positional.remove(0))?);
    }
    if given.positional.is_empty() {
        Taken { name: filter.signature.name, given: &mut given, range }.finish()?;
        return Ok(filter);
    }
    let first = given.positional.remove(0);
    let inner = constant_text(&first, "the name of a test")?;
    filter.test = Some(test(inner, given, first.range.clone())?);
    Ok(filter)
}

/// The arguments still to be used: positional ones first, then named ones.
struct Taken<'a> {
    name: &'a str,
    given: &'a mut Arguments,
    range: Range<usize>,
}

impl Taken<'_> {
    fn next(&mut self, name: &str) -> Option<Expr> {
        if !self.given.positional.is_empty() {
            return Some(self.given.positional.remove(0));
        }
        let at = self.given.named.iter().position(|(given, _)| **given == *name)?;
        Some(self.given.named.remove(at).1)
    }

    fn required(&mut self, name: &str) -> Result<Expr, SourceError> {
        self.next(name)
            .ok_or_else(|| arguments_fault(self.range.clone(), format!("`{}` needs an argument `{name}`", self.name)))
    }

    fn rounding(&mut self) -> Result<Rounding, SourceError> {
        let Some(expr) = self.next("method") else { return Ok(Rounding::Common) };
        match constant_text(&expr, "the way of rounding")? {
            "common" => Ok(Rounding::Common),
            "floor" => Ok(Rounding::Floor),
            "ceil" => Ok(Rounding::Ceil),
            other => Err(arguments_fault(expr.range.clone(), format!("`{other}` is not a way of rounding"))
                .with_hint("it is `common`, `floor` or `ceil`")),
        }
    }

    fn finish(self) -> Result<(), SourceError> {
        if let Some(expr) = self.given.positional.first() {
            return Err(arguments_fault(expr.range.clone(), format!("`{}` takes fewer arguments", self.name)));
        }
        let Some((unknown, expr)) = self.given.named.first() else { return Ok(()) };
        Err(arguments_fault(expr.range.clone(), format!("`{}` has no argument `{unknown}`", self.name)))
    }
}

fn attribute(expr: &Expr) -> Result<Vec<Segment>, SourceError> {
    let text = constant_text(expr, "the name of a member")?;
    let names: Vec<&str> = text.split('.').collect();
    if names.len() > MAX_ATTRIBUTE_NAMES || names.iter().any(|name| name.is_empty()) {
        return Err(arguments_fault(expr.range.clone(), "this is not the name of a member"));
    }
    let segment = |name: &str| name.parse().map_or_else(|_| Segment::Name(name.into()), Segment::Index);
    Ok(names.into_iter().map(segment).collect())
}

fn constant_text<'a>(expr: &'a Expr, what: &str) -> Result<&'a str, SourceError> {
    match &expr.node {
        Node::Const(Value::Str(text)) => Ok(text),
        _ => Err(arguments_fault(expr.range.clone(), format!("{what} is a text in quotes"))),
    }
}

fn arguments_fault(range: Range<usize>, message: impl Into<String>) -> SourceError {
    SourceError::new(Code::FilterArguments, range, message)
}

fn unknown_name(kind: &str, name: &str, known: &[&str], range: Range<usize>) -> SourceError {
    let same = if kind == "filter" { filter_called(name) } else { None };
    let hint = match same.or_else(|| nearest(name, known.iter().copied())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the {kind}s are {}", known.join(", ")),
    };
    SourceError::new(Code::UnknownFilter, range, format!("there is no {kind} `{name}`")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_a_row_for_every_filter_and_test() {
        let page = include_str!("../../../../engine/docs/workflow.md");
        let names = |row: &'static str| {
            let first = row.strip_prefix("| `")?.split(" | ").next()?;
            Some(first.split('`').step_by(2).collect::<Vec<_>>())
        };
        let rows_of = |heading: &str| -> Vec<Vec<&str>> {
            let (_, section) = page.split_once(heading).unwrap();
            section.split("\n#").next().unwrap().lines().filter_map(names).collect()
        };
        let filters: Vec<&str> =
            rows_of("\n### Filters\n").concat().into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(filters, FILTERS.iter().map(|filter| filter.name).collect::<Vec<_>>());
        let tests = rows_of("\n### Tests\n").concat();
        for name in TESTS.iter().flat_map(|(names, _)| *names) {
            assert!(tests.contains(name), "no row for the test `{name}`");
        }
    }
}
