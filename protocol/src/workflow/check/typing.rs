//! Types and presence within one template: what each path stands for at its place, and whether it may stand there.

use std::ops::Range;

use super::flow::{Flow, State};
use super::plan::Plan;
use super::types::{Known, Member, Type};
use crate::canonical::Value;
use crate::diagnostic::{Code, nearest};
use crate::id::FieldName;
use crate::workflow::Field;
use crate::workflow::template::expr::{Attribute, Comparison, Filter, Node, Root, Test};
use crate::workflow::template::{Expr, Path, Segment, Statement, TemplateFault};

/// What a template can see at its place.
pub(super) struct Place<'p, 'w> {
    pub(super) plan: &'p Plan<'w>,
    pub(super) flow: &'p Flow<'p, 'w>,
    /// What has run.
    pub(super) state: State,
    /// The steps that may lead here, by role and status.
    pub(super) steps: Vec<(usize, usize)>,
    /// Whether something leads here that is not one step: `start`, or the lanes of a fan-out.
    pub(super) without_step: Option<&'static str>,
    /// Whether lanes have met here.
    pub(super) has_branches: bool,
    /// The names that lanes give.
    pub(super) names: Vec<(&'w str, Known<'w>)>,
}

/// What an expression is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    /// To be printed.
    Print,
    /// For an operator or a filter, which does not take none.
    Operand,
    /// To be kept with its type, or compared: none is a value.
    Value,
    /// As a condition: an optional part of it may be absent.
    Condition,
    /// By `default`, or a test for none: it may break off anywhere.
    Presence,
}

/// The walk over one template.
pub(super) struct Typing<'p, 'w> {
    place: &'p Place<'p, 'w>,
    faults: Vec<TemplateFault>,
    /// Paths that are known to be there, as they are written.
    present: Vec<String>,
    /// What the names of each open loop stand for.
    loops: Vec<Vec<Known<'w>>>,
}

impl<'p, 'w> Typing<'p, 'w> {
    pub(super) fn new(place: &'p Place<'p, 'w>) -> Self {
        Self { place, faults: Vec::new(), present: Vec::new(), loops: Vec::new() }
    }

    /// What was found, in source order.
    pub(super) fn finish(mut self) -> Vec<TemplateFault> {
        self.faults.sort_by_key(|fault| (fault.range.start, fault.range.end));
        self.faults
    }

    /// A template that becomes a text.
    pub(super) fn text(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Text(_) => {}
                Statement::Print(expr) => self.printed(expr),
                Statement::If { test, then, otherwise } => {
                    self.condition(test);
                    self.assuming(test, true, |typing| typing.text(then));
                    self.assuming(test, false, |typing| typing.text(otherwise));
                }
                Statement::For { names, over, body, otherwise } => {
                    let element = self.element(over);
                    let given = match names.len() {
                        1 => vec![element],
                        // Two names are for pairs, which lists of lists and `items` give.
                        count => vec![Type::Any.into(); count],
                    };
                    self.loops.push(given);
                    self.text(body);
                    self.loops.pop();
                    self.text(otherwise);
                }
            }
        }
    }

    /// An expression whose value is kept with its type.
    pub(super) fn value(&mut self, expr: &Expr) -> Known<'w> {
        let known = self.expr(expr, Want::Value);
        if matches!(known.kind, Type::Step(_) | Type::PastStep(_)) {
            self.fault(
                Code::PrintedCollection,
                &expr.range,
                "a step as a whole is not a value".to_owned(),
                "name what of it is meant, such as `.output` or `.body`",
            );
        }
        known
    }

    /// The elements of what `each` or `for` goes over.
    pub(super) fn element(&mut self, over: &Expr) -> Known<'w> {
        let known = self.expr(over, Want::Operand);
        match known.kind {
            Type::List(element) => *element,
            Type::Any => Type::Any.into(),
            other => {
                let hint = if other.is_object() { "`| items` makes a list of pairs of it" } else { "name a list" };
                self.fault(
                    Code::WrongOperand,
                    &over.range,
                    format!("a loop goes over a list, and this is a {}", other.name()),
                    hint,
                );
                Type::Any.into()
            }
        }
    }

    /// A condition.
    pub(super) fn condition(&mut self, expr: &Expr) {
        match &expr.node {
            Node::Not(operand) => self.condition(operand),
            Node::And(left, right) => {
                self.condition(left);
                self.assuming(left, true, |typing| typing.condition(right));
            }
            Node::Or(left, right) => {
                self.condition(left);
                self.assuming(left, false, |typing| typing.condition(right));
            }
            Node::If { test, then, otherwise } => {
                self.condition(test);
                self.assuming(test, true, |typing| typing.condition(then));
                self.assuming(test, false, |typing| typing.condition(otherwise));
            }
            Node::Path(path) => {
                let known = self.path(
                    path,
                    &expr.range,
                    if path.whole_step().is_some() { Want::Presence } else { Want::Condition },
                );
                let is_asked = known.optional || matches!(known.kind, Type::Any | Type::Boolean | Type::Step(_));
                if !is_asked {
                    self.not_a_condition(expr, &known);
                }
            }
            _ => {
                let known = self.expr(expr, Want::Value);
                if !matches!(known.kind, Type::Any | Type::Boolean) {
                    self.not_a_condition(expr, &known);
                }
            }
        }
    }

    fn not_a_condition(&mut self, expr: &Expr, known: &Known<'w>) {
        let hint = match known.kind {
            Type::Text => "compare it: `!= \"\"`, `== \"...\"`",
            Type::Number => "compare it: `> 0`, `== 3`",
            Type::List(_) => "ask for its length: `| length > 0`",
            _ => "compare it, or ask for something that may be absent",
        };
        let message = format!("a {} that is always there is not a condition", known.kind.name());
        self.fault(Code::NotACondition, &expr.range, message, hint);
    }

    fn fault(&mut self, code: Code, range: &Range<usize>, message: String, hint: impl Into<String>) {
        self.faults.push(TemplateFault::new(code, range.clone(), message).with_hint(hint));
    }

    fn printed(&mut self, expr: &Expr) {
        if let Node::If { test, then, otherwise } = &expr.node {
            self.condition(test);
            self.assuming(test, true, |typing| typing.printed(then));
            self.assuming(test, false, |typing| typing.printed(otherwise));
            return;
        }
        let known = self.expr(expr, Want::Print);
        match &known.kind {
            Type::List(_) => self.fault(
                Code::PrintedCollection,
                &expr.range,
                "a list is printed as it is".to_owned(),
                "write `| join(\", \")`, `| tojson`, or a `for` loop",
            ),
            kind if kind.is_object() => {
                let message = format!("a {} is printed as it is", kind.name());
                let hint = if matches!(kind, Type::Step(_) | Type::PastStep(_)) {
                    "name what of it is meant, such as `.body`"
                } else {
                    "write `| tojson`, or print its members"
                };
                self.fault(Code::PrintedCollection, &expr.range, message, hint);
            }
            Type::None => {
                self.fault(Code::OptionalUnguarded, &expr.range, "none cannot be printed".to_owned(), "print a text");
            }
            _ => {}
        }
    }

    /// Runs `then` with what is known when `test` is `truth`.
    fn assuming(&mut self, test: &Expr, truth: bool, then: impl FnOnce(&mut Self)) {
        let known = self.present.len();
        implied(test, truth, &mut self.present);
        then(self);
        self.present.truncate(known);
    }

    fn is_present(&self, path: &str) -> bool {
        self.present.iter().any(|present| present == path)
    }

    fn expr(&mut self, expr: &Expr, want: Want) -> Known<'w> {
        match &expr.node {
            Node::Const(value) => Type::of_value(value).into(),
            Node::Path(path) => self.path(path, &expr.range, want),
            Node::LoopIndex => Type::Number.into(),
            Node::Member(base, segment) => {
                let base_known = self.expr(base, if want == Want::Presence { want } else { Want::Operand });
                self.member(&base_known, segment, &expr.range)
            }
            Node::List(items) => {
                for item in items {
                    self.expr(item, Want::Value);
                }
                Type::list().into()
            }
            Node::Not(_) | Node::And(..) | Node::Or(..) => {
                self.condition(expr);
                Type::Boolean.into()
            }
            Node::Negate(operand) => {
                self.number(operand, "-");
                Type::Number.into()
            }
            Node::Arithmetic(operator, left, right) => {
                self.number(left, operator.symbol());
                self.number(right, operator.symbol());
                Type::Number.into()
            }
            Node::Concat(left, right) => {
                self.scalar(left, "~");
                self.scalar(right, "~");
                Type::Text.into()
            }
            Node::Compare(first, rest) => {
                self.compare(first, rest);
                Type::Boolean.into()
            }
            Node::If { test, then, otherwise } => {
                self.condition(test);
                let (mut yes, mut no) = (Type::Any.into(), Type::Any.into());
                self.assuming(test, true, |typing| yes = typing.expr(then, want));
                self.assuming(test, false, |typing| no = typing.expr(otherwise, want));
                either(yes, no)
            }
            Node::Filter(input, filter) => self.filter(input, filter, want),
            Node::Test(input, test) => {
                let want = if matches!(**test, Test::Defined | Test::None) { Want::Presence } else { Want::Value };
                self.expr(input, want);
                if let Some(argument) = test.argument() {
                    self.expr(argument, Want::Value);
                }
                Type::Boolean.into()
            }
        }
    }

    fn number(&mut self, expr: &Expr, operation: &str) {
        let known = self.expr(expr, Want::Operand);
        if !matches!(known.kind, Type::Any | Type::Number) {
            let message = format!("`{operation}` calculates with numbers, and this is a {}", known.kind.name());
            self.fault(Code::WrongOperand, &expr.range, message, "texts are joined with `~`; `| length` counts");
        }
    }

    fn scalar(&mut self, expr: &Expr, operation: &str) {
        let known = self.expr(expr, Want::Operand);
        if !matches!(known.kind, Type::Any | Type::Text | Type::Number | Type::Boolean) {
            let message = format!("`{operation}` takes texts and numbers, and this is a {}", known.kind.name());
            self.fault(Code::WrongOperand, &expr.range, message, "`| join(...)` or `| tojson` makes a text of it");
        }
    }

    fn compare(&mut self, first: &Expr, rest: &[(Comparison, Expr)]) {
        let is_order = |at: usize| rest.get(at).is_some_and(|(comparison, _)| comparison.is_order());
        let want = |ordered: bool| if ordered { Want::Operand } else { Want::Value };
        let mut left =
            (first, self.comparable(first, want(is_order(0)), is_none(rest.first().map(|(_, right)| right))));
        for (at, (comparison, operand)) in rest.iter().enumerate() {
            let ordered = comparison.is_order() || is_order(at + 1);
            let right = self.comparable(operand, want(ordered), is_none(Some(left.0)));
            self.compared(*comparison, &left.1, &right, operand);
            left = (operand, right);
        }
    }

    fn comparable(&mut self, expr: &Expr, want: Want, with_none: bool) -> Known<'w> {
        self.expr(expr, if with_none { Want::Presence } else { want })
    }

    fn compared(&mut self, comparison: Comparison, left: &Known<'w>, right: &Known<'w>, operand: &Expr) {
        let (left, right) = (&left.kind, &right.kind);
        let either_any = matches!(left, Type::Any) || matches!(right, Type::Any);
        if comparison.is_order() {
            let fits = either_any || matches!((left, right), (Type::Number, Type::Number) | (Type::Text, Type::Text));
            if !fits {
                let message =
                    format!("`{}` does not order a {} and a {}", comparison.symbol(), left.name(), right.name());
                self.fault(Code::WrongOperand, &operand.range, message, "compare two numbers, or two texts");
            }
        } else if matches!(comparison, Comparison::In | Comparison::NotIn) {
            let fits = matches!(right, Type::Any | Type::Text | Type::List(_)) || right.is_object();
            if !fits {
                let message = format!("nothing is in a {}", right.name());
                self.fault(
                    Code::WrongOperand,
                    &operand.range,
                    message,
                    "`in` takes a list, a text or a map on its right",
                );
            }
        } else {
            let scalar = |kind: &Type<'_>| matches!(kind, Type::Text | Type::Number | Type::Boolean);
            if scalar(left) && scalar(right) && left != right {
                let message = format!("a {} never equals a {}", left.name(), right.name());
                self.fault(Code::WrongOperand, &operand.range, message, "compare values of one type");
            }
        }
    }

    fn filter(&mut self, input: &Expr, filter: &Filter, want: Want) -> Known<'w> {
        if let Filter::Default(default) = filter {
            let known = self.expr(input, Want::Presence);
            let default = self.expr(default, if want == Want::Presence { Want::Value } else { want });
            return either(Known { optional: false, ..known }, default);
        }
        let known = self.expr(input, if want == Want::Presence { want } else { Want::Operand });
        for argument in filter.arguments() {
            self.expr(argument, Want::Value);
        }
        self.filtered(&known, filter, &input.range).or_absent(want == Want::Presence && known.optional)
    }

    /// The type of what a filter makes of a value of a known type.
    fn filtered(&mut self, known: &Known<'w>, filter: &Filter, range: &Range<usize>) -> Known<'w> {
        let kind = &known.kind;
        let is_any = matches!(kind, Type::Any);
        let (takes, fits) = match filter {
            Filter::Default(_) | Filter::ToJson(_) => ("anything", !matches!(kind, Type::Step(_) | Type::PastStep(_))),
            Filter::First | Filter::Last | Filter::Reverse => {
                ("lists and texts", matches!(kind, Type::List(_) | Type::Text))
            }
            Filter::Length => ("lists, maps and texts", matches!(kind, Type::List(_) | Type::Text) || kind.is_object()),
            Filter::Items => ("maps", kind.is_object()),
            Filter::Indent { .. }
            | Filter::Lower
            | Filter::Replace(..)
            | Filter::Title
            | Filter::Trim(_)
            | Filter::Truncate { .. }
            | Filter::Upper => ("texts", matches!(kind, Type::Text | Type::Number | Type::Boolean)),
            Filter::Round { .. } => ("numbers", matches!(kind, Type::Number)),
            Filter::Join { .. }
            | Filter::MapAttribute(..)
            | Filter::MapFilter(_)
            | Filter::Select(_)
            | Filter::SelectAttribute(..)
            | Filter::Sort { .. }
            | Filter::Sum(_)
            | Filter::Unique { .. } => ("lists", matches!(kind, Type::List(_))),
        };
        if !is_any && !fits {
            let message = format!("`{}` takes {takes}, and this is a {}", filter.name(), kind.name());
            self.fault(Code::WrongOperand, range, message, "choose another filter, or mend the path before it");
            return Type::Any.into();
        }
        let element: Known<'w> = match kind {
            Type::List(element) => (**element).clone(),
            _ => Type::Any.into(),
        };
        match filter {
            Filter::First | Filter::Last if matches!(kind, Type::Text) => Known { kind: Type::Text, optional: true },
            Filter::First | Filter::Last => element.or_absent(true),
            Filter::Items => Type::list().into(),
            Filter::Length | Filter::Round { .. } => Type::Number.into(),
            Filter::Sum(attribute) => {
                let each =
                    attribute.as_ref().map_or(element.clone(), |attribute| self.attribute(&element, attribute, range));
                self.expect(&each, matches!(each.kind, Type::Any | Type::Number), "`sum` adds numbers", range);
                Type::Number.into()
            }
            Filter::Join { attribute, .. } => {
                let each =
                    attribute.as_ref().map_or(element.clone(), |attribute| self.attribute(&element, attribute, range));
                let fits = matches!(each.kind, Type::Any | Type::Text | Type::Number | Type::Boolean);
                self.expect(&each, fits, "`join` takes a list of texts", range);
                Type::Text.into()
            }
            Filter::MapAttribute(attribute, default) => {
                let member = self.attribute(&element, attribute, range);
                let optional = member.optional && default.is_none();
                Type::List(Box::new(Known { optional, ..member })).into()
            }
            Filter::MapFilter(inner) => {
                let made = self.filtered(&element, inner, range);
                Type::List(Box::new(made)).into()
            }
            Filter::SelectAttribute(attribute, _) => {
                self.attribute(&element, attribute, range);
                known.kind.clone().into()
            }
            Filter::Sort { attribute, .. } | Filter::Unique { attribute, .. } => {
                if let Some(attribute) = attribute {
                    self.attribute(&element, attribute, range);
                }
                known.kind.clone().into()
            }
            Filter::Select(_) | Filter::Default(_) => known.kind.clone().into(),
            Filter::Reverse => known.kind.clone().into(),
            Filter::Indent { .. }
            | Filter::Lower
            | Filter::Replace(..)
            | Filter::Title
            | Filter::ToJson(_)
            | Filter::Trim(_)
            | Filter::Truncate { .. }
            | Filter::Upper => Type::Text.into(),
        }
    }

    fn expect(&mut self, known: &Known<'w>, fits: bool, rule: &str, range: &Range<usize>) {
        if !fits {
            let message = format!("{rule}, and these are of type {}", known.kind.name());
            self.fault(Code::WrongOperand, range, message, "take one member of each: `map(attribute=\"...\")`");
        }
    }

    fn attribute(&mut self, element: &Known<'w>, attribute: &Attribute, range: &Range<usize>) -> Known<'w> {
        attribute.0.iter().fold(element.clone(), |known, segment| {
            let member = self.member(&known, segment, range);
            member.or_absent(known.optional)
        })
    }

    /// A member of a value that is not reached by a path.
    fn member(&mut self, base: &Known<'w>, segment: &Segment, range: &Range<usize>) -> Known<'w> {
        let found = match base.kind {
            Type::Step(role) | Type::PastStep(role) => self.step_member(role, segment, &all_statuses(self.place, role)),
            _ => base.kind.member(segment),
        };
        match found {
            Member::Known(known) => known,
            Member::Unknown(known) => {
                self.unknown_member("this", segment, &known, range);
                Type::Any.into()
            }
            Member::NotAnObject => {
                self.not_an_object("this", &base.kind, segment, range);
                Type::Any.into()
            }
        }
    }

    fn unknown_member(&mut self, of: &str, segment: &Segment, known: &[String], range: &Range<usize>) {
        let name = segment.to_string();
        let name = name.trim_start_matches('.');
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "it has no fields".to_owned(),
            None => format!("it has {}", listed(known.iter().map(String::as_str))),
        };
        self.fault(Code::UnknownField, range, format!("{of} has no `{name}`"), hint);
    }

    fn not_an_object(&mut self, of: &str, kind: &Type<'_>, segment: &Segment, range: &Range<usize>) {
        let name = segment.to_string();
        let message = format!("{of} is a {} and has no `{}`", kind.name(), name.trim_start_matches('.'));
        let hint = if matches!(kind, Type::List(_)) {
            "go over it with `for`, or take `| first`"
        } else {
            "end the path here"
        };
        self.fault(Code::UnknownField, range, message, hint);
    }

    fn path(&mut self, path: &Path, range: &Range<usize>, want: Want) -> Known<'w> {
        let mut written = path.root().to_owned();
        let (mut known, rest) = match &path.root {
            Root::Local { up, slot, .. } => {
                let given = self.loops.iter().rev().nth(*up).and_then(|names| names.get(*slot));
                (given.cloned().unwrap_or(Type::Any.into()), path.segments())
            }
            Root::Name(name) if &**name == "steps" => match path.segments() {
                [] => return Type::Object.into(),
                [Segment::Name(role), rest @ ..] => {
                    written = format!("steps.{role}");
                    match self.step(role, range, want) {
                        Some(known) => (known, rest),
                        None => return Type::Any.into(),
                    }
                }
                [segment, ..] => {
                    self.unknown_member("steps", segment, &[], range);
                    return Type::Any.into();
                }
            },
            Root::Name(name) => match self.root(name, range) {
                Some(known) => (known, path.segments()),
                None => return Type::Any.into(),
            },
        };
        for segment in rest {
            // Where this part is absent the path breaks off, and all of it is.
            let mut breaks_off = known.optional && !self.is_present(&written);
            if breaks_off && !matches!(want, Want::Presence | Want::Condition) {
                self.absent(&written, range);
                breaks_off = false;
            }
            let found = match known.kind {
                Type::Step(role) => {
                    let statuses = self.place.flow.statuses(&self.place.state, role);
                    self.step_member(role, segment, &statuses)
                }
                Type::PastStep(role) => self.step_member(role, segment, &all_statuses(self.place, role)),
                ref kind => kind.member(segment),
            };
            let of = format!("`{written}`");
            written.push_str(&segment.to_string());
            known = match found {
                Member::Known(next) => next.or_absent(breaks_off),
                Member::Unknown(names) => {
                    self.missing_field(&of, segment, &names, &known, range, want);
                    return Type::Any.into();
                }
                Member::NotAnObject => {
                    self.not_an_object(&of, &known.kind, segment, range);
                    return Type::Any.into();
                }
            };
        }
        if self.is_present(&written) {
            known.optional = false;
        }
        if known.optional && matches!(want, Want::Print | Want::Operand) {
            self.absent(&written, range);
            known.optional = false;
        }
        known
    }

    fn absent(&mut self, written: &str, range: &Range<usize>) {
        let hint = format!("ask first, `{{% if {written} %}}`, or write `| default(...)` behind it");
        self.fault(Code::OptionalUnguarded, range, format!("`{written}` may be absent"), hint);
    }

    /// A field that none of the statuses declares, or that only some of them do.
    fn missing_field(
        &mut self,
        of: &str,
        segment: &Segment,
        names: &[String],
        base: &Known<'w>,
        range: &Range<usize>,
        want: Want,
    ) {
        let Segment::Name(name) = segment else { return self.unknown_member(of, segment, names, range) };
        let Type::Fields(_) = base.kind else { return self.unknown_member(of, segment, names, range) };
        let steps = self.statuses_of(of);
        let without: Vec<&str> = steps
            .iter()
            .filter(|(role, status)| {
                !fields_of(self.place.plan, *role, *status).iter().any(|(field, _)| **field == **name)
            })
            .filter_map(|(role, status)| self.place.plan.role(*role)?.statuses.get(*status).copied())
            .collect();
        if without.is_empty() || without.len() == steps.len() {
            return self.unknown_member(of, segment, names, range);
        }
        if want == Want::Presence {
            return;
        }
        let message =
            format!("{of} has no `{name}` when the status is {}, which may lead here", listed(without.into_iter()));
        let hint = format!("declare `{name}` under each of these statuses, or write `| default(...)` behind it");
        self.fault(Code::FieldNotInEveryStatus, range, message, hint);
    }

    /// The steps whose output is written `output` or `steps.ROLE.output`.
    fn statuses_of(&self, of: &str) -> Vec<(usize, usize)> {
        let written = of.trim_matches('`');
        let role = written.strip_prefix("steps.").and_then(|rest| rest.strip_suffix(".output"));
        match role.and_then(|role| self.place.plan.number(role)) {
            Some(role) => {
                self.place.flow.statuses(&self.place.state, role).into_iter().map(|status| (role, status)).collect()
            }
            None => self.place.steps.clone(),
        }
    }

    fn root(&mut self, name: &str, range: &Range<usize>) -> Option<Known<'w>> {
        let place = self.place;
        if let Some((_, known)) = place.names.iter().find(|(given, _)| *given == name) {
            return Some(known.clone());
        }
        match name {
            "input" => {
                let inputs = place.plan.workflow.input.iter();
                return Some(
                    Type::Fields(inputs.map(|(name, field)| (name.as_str().to_owned(), input(field))).collect()).into(),
                );
            }
            "output" | "body" | "status" => {
                if let Some(why) = place.without_step {
                    let message = format!("`{name}` is not in scope: {why}");
                    let hint = if place.has_branches { "use `branches`, or `steps.ROLE`" } else { "use `input`" };
                    self.fault(Code::UnknownVariable, range, message, hint);
                    return None;
                }
                return Some(if name == "output" {
                    common_fields(place.plan, &place.steps).into()
                } else {
                    Type::Text.into()
                });
            }
            "branches" if place.has_branches => return Some(Type::List(Box::new(branch().into())).into()),
            _ => {}
        }
        let hint = self.meant(name);
        self.fault(Code::UnknownVariable, range, format!("nothing called `{name}` is in scope here"), hint);
        None
    }

    /// What may be meant by a name that is not in scope.
    fn meant(&self, name: &str) -> String {
        let place = self.place;
        let is_field = place
            .steps
            .iter()
            .any(|(role, status)| fields_of(place.plan, *role, *status).iter().any(|(field, _)| **field == *name));
        if place.plan.workflow.input.iter().any(|(input, _)| input.as_str() == name) {
            return format!("an input is written `input.{name}`");
        }
        if is_field {
            return format!("a field is written `output.{name}`");
        }
        if place.plan.number(name).is_some() {
            return format!("a role's step is written `steps.{name}`");
        }
        match name {
            "branches" => return "`branches` is in scope in a join's prompt and on the edges of its role".to_owned(),
            "item" | "index" => return "this is in scope in a lane".to_owned(),
            _ => {}
        }
        let roots = ["input", "output", "body", "status", "steps"].into_iter();
        match nearest(name, roots.chain(place.names.iter().map(|(given, _)| *given))) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "in scope are `input`, `output`, `body`, `status` and `steps`".to_owned(),
        }
    }

    fn step(&mut self, role: &str, range: &Range<usize>, want: Want) -> Option<Known<'w>> {
        let place = self.place;
        let Some(number) = place.plan.number(role) else {
            let hint = match nearest(role, place.plan.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the roles are {}", listed(place.plan.names())),
            };
            self.fault(Code::UnknownField, range, format!("there is no role `{role}`"), hint);
            return None;
        };
        let missing = place.flow.may_be_missing(&place.state, number);
        if missing && want != Want::Presence && !self.is_present(&format!("steps.{role}")) {
            let message = format!("`{role}` may not have run when this is read");
            let hint = format!("ask first, `{{% if steps.{role} %}}`, or write `| default(...)` behind it");
            self.fault(Code::StepMayBeMissing, range, message, hint);
            return None;
        }
        Some(Type::Step(number).into())
    }

    /// A member of a role's step, which may have one of these statuses.
    fn step_member(&self, role: usize, segment: &Segment, statuses: &[usize]) -> Member<'w> {
        let Segment::Name(name) = segment else { return Member::NotAnObject };
        let steps: Vec<(usize, usize)> = statuses.iter().map(|status| (role, *status)).collect();
        match &**name {
            "status" | "body" | "prompt" => Member::Known(Type::Text.into()),
            "visits" => Member::Known(Type::Number.into()),
            "output" => Member::Known(common_fields(self.place.plan, &steps).into()),
            "all" => Member::Known(Type::List(Box::new(Type::PastStep(role).into())).into()),
            _ => Member::Unknown(["status", "output", "body", "prompt", "visits", "all"].map(str::to_owned).to_vec()),
        }
    }
}

fn is_none(expr: Option<&Expr>) -> bool {
    matches!(expr, Some(Expr { node: Node::Const(Value::Null), .. }))
}

fn all_statuses(place: &Place<'_, '_>, role: usize) -> Vec<usize> {
    // A step with a reserved status is there only where an edge takes it.
    place.plan.role(role).map_or_else(Vec::new, |role| (0..role.role.output.len()).collect())
}

/// One of two types: what they have in common.
fn either<'w>(left: Known<'w>, right: Known<'w>) -> Known<'w> {
    let optional = left.optional || right.optional;
    let kind = match (left.kind, right.kind) {
        (left, right) if left == right => left,
        (Type::List(_), Type::List(_)) => Type::list(),
        _ => Type::Any,
    };
    Known { kind, optional }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<String> = names.take(SHOWN + 1).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        names.truncate(SHOWN);
        names.push("...".to_owned());
    }
    names.join(", ")
}

/// An input with a default is always there.
fn input(field: &Field) -> Known<'_> {
    let optional = field.optional && field.schema.get("default").is_none();
    Known::of(&field.schema).or_absent(optional)
}

/// The fields that a role's answer with a status has.
fn fields_of<'w>(plan: &Plan<'w>, role: usize, status: usize) -> Vec<(&'w str, Known<'w>)> {
    let Some(role) = plan.role(role) else { return Vec::new() };
    match role.role.output.get(status) {
        Some((_, fields)) => fields.iter().map(|(name, field)| field_of(name, field)).collect(),
        // A reserved status.
        None => vec![("code", Type::Text.into()), ("message", Type::Text.into())],
    }
}

fn field_of<'w>(name: &'w FieldName, field: &'w Field) -> (&'w str, Known<'w>) {
    (name.as_str(), Known::of(&field.schema).or_absent(field.optional))
}

/// The fields that all of these steps have.
fn common_fields<'w>(plan: &Plan<'w>, steps: &[(usize, usize)]) -> Type<'w> {
    let mut steps = steps.iter();
    let Some((role, status)) = steps.next() else { return Type::Any };
    let first = fields_of(plan, *role, *status);
    let common = steps.fold(first, |common, (role, status)| {
        let other = fields_of(plan, *role, *status);
        common
            .into_iter()
            .filter_map(|(name, known)| {
                let (_, found) = other.iter().find(|(field, _)| *field == name)?;
                Some((name, either(known, found.clone())))
            })
            .collect()
    });
    Type::Fields(common.into_iter().map(|(name, known)| (name.to_owned(), known)).collect())
}

/// An entry of `branches`.
fn branch<'w>() -> Type<'w> {
    let text = || Known::from(Type::Text);
    let absent = || Known { kind: Type::Any, optional: true };
    let fields = [
        ("role", text()),
        ("index", Type::Number.into()),
        ("item", Type::Any.into()),
        ("status", text()),
        ("output", Type::Any.into()),
        ("body", text()),
        ("part", text()),
        ("error", absent()),
    ];
    Type::Fields(fields.into_iter().map(|(name, known)| (name.to_owned(), known)).collect())
}

/// The paths that are there when `test` is `truth`.
fn implied(test: &Expr, truth: bool, present: &mut Vec<String>) {
    match (&test.node, truth) {
        (Node::Path(path), true) => add_prefixes(path, present),
        (Node::Not(operand), truth) => implied(operand, !truth, present),
        (Node::And(left, right), true) | (Node::Or(left, right), false) => {
            implied(left, truth, present);
            implied(right, truth, present);
        }
        (Node::Test(input, test), truth) => {
            let is_there = match **test {
                Test::Defined => truth,
                Test::None => !truth,
                _ => false,
            };
            if let Node::Path(path) = &input.node
                && is_there
            {
                add_prefixes(path, present);
            }
        }
        (Node::Compare(left, rest), truth) => {
            let [(comparison, right)] = rest.as_slice() else { return };
            let path = match (&left.node, &right.node) {
                (Node::Path(path), Node::Const(value)) | (Node::Const(value), Node::Path(path)) => {
                    Some((path, value.is_null()))
                }
                _ => None,
            };
            let Some((path, is_null)) = path else { return };
            let equals = match comparison {
                Comparison::Equal => truth,
                Comparison::NotEqual => !truth,
                _ => return,
            };
            // Equal to a value, or not equal to none.
            if equals != is_null {
                add_prefixes(path, present);
            }
        }
        _ => {}
    }
}

/// A path is there only when all that it goes through is.
fn add_prefixes(path: &Path, present: &mut Vec<String>) {
    let mut written = path.root().to_owned();
    for segment in path.segments() {
        written.push_str(&segment.to_string());
        present.push(written.clone());
    }
    if path.segments().is_empty() {
        present.push(written);
    }
}
