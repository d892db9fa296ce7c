//! Types and presence within one template: the type of each path where it is used, and whether it may be used there.

mod branch;
mod filter;
mod path;
mod presence;

use std::ops::Range;

pub(super) use self::branch::{Branches, branch};
pub(super) use self::path::listed;
use self::presence::Facts;
use super::flow::{Flow, State};
use super::indexed_graph::IndexedGraph;
use super::types::{Known, Type};
use crate::canonical::Value;
use crate::diagnostic::{Code, did_you_mean};
use crate::source::{SourceError, excerpt};
use crate::workflow::template::expr::{Comparison, Node, Test};
use crate::workflow::template::{Expr, Statement};

pub(super) struct TypeEnv<'p, 'w> {
    pub(super) indexed: &'p IndexedGraph<'w>,
    pub(super) flow: &'p Flow<'p, 'w>,
    pub(super) state: State,
    /// The possible preceding steps, by role and status.
    pub(super) steps: Vec<(usize, usize)>,
    /// Whether something other than one step leads here: `start`, or the lanes of a fan-out.
    pub(super) without_step: Option<&'static str>,
    /// What `branches` is, if in scope.
    pub(super) branches: Option<Branches<'w>>,
    /// The names that lanes define.
    pub(super) names: Vec<(&'w str, Known<'w>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Print,
    /// By an operator or a filter, which does not accept none.
    Operand,
    /// Kept with its type, or compared: none is a value.
    Value,
    /// As a condition: an optional part of it may be absent.
    Condition,
    /// By `default`, or a test for none: the path may break off anywhere.
    Presence,
}

pub(super) struct Typing<'p, 'w> {
    env: &'p TypeEnv<'p, 'w>,
    faults: Vec<SourceError>,
    facts: Facts,
    /// The types of the names of each open loop.
    loops: Vec<Vec<Known<'w>>>,
}

impl<'p, 'w> Typing<'p, 'w> {
    pub(super) fn new(env: &'p TypeEnv<'p, 'w>) -> Self {
        Self { env, faults: Vec::new(), facts: Facts::default(), loops: Vec::new() }
    }

    pub(super) fn finish(mut self) -> Vec<SourceError> {
        self.faults.sort_by_key(|fault| fault.span);
        self.faults
    }

    pub(super) fn text(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Text { braced, .. } => braced.iter().for_each(|path| self.braced(path)),
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
                        // Two names require pairs, which lists of lists and `items` yield.
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

    /// A path in single braces: a slip if it is one that could be printed here.
    fn braced(&mut self, path: &Expr) {
        let before = self.faults.len();
        self.expr(path, Want::Presence);
        let is_unknown = |fault: SourceError| matches!(fault.code, Code::UnknownVariable | Code::UnknownField);
        let Node::Path(name) = &path.node else { return };
        if self.faults.drain(before..).any(is_unknown) {
            return;
        }
        let message = format!("`{{{name}}}` is plain text: single braces print nothing");
        let hint = format!("write `{{{{ {name} }}}}`; if the braces are meant, `{{{{ \"{{{name}}}\" }}}}`");
        self.fault(Code::SingleBraces, &path.range, message, hint);
    }

    /// An expression whose value is kept with its type.
    pub(super) fn value(&mut self, expr: &Expr) -> Known<'w> {
        let known = self.expr(expr, Want::Value);
        if matches!(known.kind, Type::Step(_) | Type::PastStep(..)) {
            let hint = "name the part that is meant, such as `.output` or `.body`";
            self.fault(Code::PrintedCollection, &expr.range, "a step as a whole is not a value", hint);
        }
        known
    }

    /// The element type of the list of an `each` or `for`.
    pub(super) fn element(&mut self, over: &Expr) -> Known<'w> {
        let known = self.expr(over, Want::Operand);
        match known.kind {
            Type::List(element) => *element,
            Type::Any => Type::Any.into(),
            other => {
                let hint = if other.is_object() { "`| items` makes a list of pairs of it" } else { "name a list" };
                let message = format!("a loop goes over a list, and this is a {}", other.name());
                self.fault(Code::WrongOperand, &over.range, message, hint);
                Type::Any.into()
            }
        }
    }

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
                let want = if path.whole_step().is_some() { Want::Presence } else { Want::Condition };
                let known = self.path(path, &expr.range, want);
                if !known.optional && !matches!(known.kind, Type::Step(_)) {
                    self.boolean(expr, &known);
                }
            }
            _ => {
                let known = self.expr(expr, Want::Value);
                self.boolean(expr, &known);
            }
        }
    }

    fn boolean(&mut self, expr: &Expr, known: &Known<'w>) {
        let hint = match known.kind {
            Type::Any | Type::Boolean => return,
            Type::Text => "compare it: `!= \"\"`, `== \"...\"`",
            Type::Number => "compare it: `> 0`, `== 3`",
            Type::List(_) => "ask for its length: `| length > 0`",
            _ => "compare it, or ask for something that may be absent",
        };
        let message = format!("a {} that is always there is not a condition", known.kind.name());
        self.fault(Code::NotACondition, &expr.range, message, hint);
    }

    fn fault(&mut self, code: Code, range: &Range<usize>, message: impl Into<String>, hint: impl Into<String>) {
        self.faults.push(SourceError::new(code, range.clone(), message).with_hint(hint));
    }

    fn printed(&mut self, expr: &Expr) {
        if let Node::If { test, then, otherwise } = &expr.node {
            self.condition(test);
            self.assuming(test, true, |typing| typing.printed(then));
            self.assuming(test, false, |typing| typing.printed(otherwise));
            return;
        }
        let kind = self.expr(expr, Want::Print).kind;
        let hint = match &kind {
            Type::List(_) => "write `| join(\", \")`, `| tojson`, or a `for` loop",
            Type::Step(_) | Type::PastStep(..) => "name the part that is meant, such as `.body`",
            Type::None => {
                return self.fault(Code::OptionalUnguarded, &expr.range, "none cannot be printed", "print a text");
            }
            kind if kind.is_object() => "write `| tojson`, or print its members",
            _ => return,
        };
        self.fault(Code::PrintedCollection, &expr.range, format!("a {} is printed as it is", kind.name()), hint);
    }

    /// Runs `then` with what follows from `test` being `truth`.
    fn assuming<T>(&mut self, test: &Expr, truth: bool, then: impl FnOnce(&mut Self) -> T) -> T {
        let (present, narrowed) = (self.facts.present.len(), self.facts.narrowed.len());
        self.facts.add(test, truth, self.loops.len());
        let result = then(self);
        self.facts.present.truncate(present);
        self.facts.narrowed.truncate(narrowed);
        result
    }

    /// Those of a role's statuses that have one of these names; all if none has, which is reported elsewhere.
    fn with_words(&self, role: usize, statuses: Vec<usize>, words: &[String]) -> Vec<usize> {
        let is_one = |status: &&usize| {
            self.env.indexed.status(role, **status).is_some_and(|name| words.iter().any(|word| word == name))
        };
        let left: Vec<usize> = statuses.iter().filter(is_one).copied().collect();
        if left.is_empty() { statuses } else { left }
    }

    /// The steps that lead here, with the statuses that they can have.
    fn steps_here(&self) -> Vec<(usize, usize)> {
        let words = self.facts.narrowed.iter().filter(|(written, _)| written.is_empty()).map(|(_, words)| words);
        let is_left = |(role, status): &&(usize, usize)| {
            let name = self.env.indexed.status(*role, *status);
            name.is_none_or(|name| words.clone().all(|words| words.iter().any(|word| word == name)))
        };
        let left: Vec<(usize, usize)> = self.env.steps.iter().filter(is_left).copied().collect();
        if left.is_empty() { self.env.steps.clone() } else { left }
    }

    fn is_present(&self, path: &str) -> bool {
        self.facts.present.iter().any(|present| present == path)
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
            Node::Negate(operand) => self.numbers(&[operand], "-"),
            Node::Arithmetic(operator, left, right) => self.numbers(&[left, right], operator.symbol()),
            Node::Concat(left, right) => {
                for side in [left, right] {
                    let kind = self.expr(side, Want::Operand).kind;
                    if !matches!(kind, Type::Any | Type::Text | Type::Number | Type::Boolean) {
                        let message = format!("`~` takes texts and numbers, and this is a {}", kind.name());
                        let hint = "`| join(...)` or `| tojson` makes a text of it";
                        self.fault(Code::WrongOperand, &side.range, message, hint);
                    }
                }
                Type::Text.into()
            }
            Node::Compare(first, rest) => {
                self.compare(first, rest);
                Type::Boolean.into()
            }
            Node::If { test, then, otherwise } => {
                self.condition(test);
                let yes = self.assuming(test, true, |typing| typing.expr(then, want));
                either(yes, self.assuming(test, false, |typing| typing.expr(otherwise, want)))
            }
            Node::Filter(input, filter) => self.filter(input, filter, want),
            Node::Test(input, test) => {
                let want = if matches!(**test, Test::Defined | Test::None) { Want::Presence } else { Want::Value };
                let known = self.expr(input, want);
                if let Some(argument) = test.argument() {
                    self.expr(argument, Want::Value);
                }
                self.tested(input, &known, test);
                Type::Boolean.into()
            }
        }
    }

    fn numbers(&mut self, operands: &[&Expr], operation: &str) -> Known<'w> {
        for operand in operands {
            let kind = self.expr(operand, Want::Operand).kind;
            if !matches!(kind, Type::Any | Type::Number) {
                let message = format!("`{operation}` calculates with numbers, and this is a {}", kind.name());
                let hint = "texts are joined with `~`; `| length` counts";
                self.fault(Code::WrongOperand, &operand.range, message, hint);
            }
        }
        Type::Number.into()
    }

    fn compare(&mut self, first: &Expr, rest: &[(Comparison, Expr)]) {
        let is_order = |at: usize| rest.get(at).is_some_and(|(comparison, _)| comparison.is_order());
        let want = |ordered: bool, other: Option<&Expr>| match other {
            // A comparison with none asks whether a value is present.
            Some(Expr { node: Node::Const(Value::Null), .. }) => Want::Presence,
            _ if ordered => Want::Operand,
            _ => Want::Value,
        };
        let mut left = (first, self.expr(first, want(is_order(0), rest.first().map(|(_, right)| right))));
        for (at, (comparison, operand)) in rest.iter().enumerate() {
            let ordered = comparison.is_order() || is_order(at + 1);
            let right = self.expr(operand, want(ordered, Some(left.0)));
            self.compared(*comparison, &left.1, &right, operand);
            self.words(*comparison, (left.0, &left.1), (operand, &right));
            left = (operand, right);
        }
    }

    /// Reports a constant on one side that the value on the other never is.
    fn words(&mut self, comparison: Comparison, left: (&Expr, &Known<'w>), right: (&Expr, &Known<'w>)) {
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {
                self.known_word(left.0, &left.1.words, right.0);
                self.known_word(right.0, &right.1.words, left.0);
            }
            Comparison::In | Comparison::NotIn => {
                if let Node::List(items) = &right.0.node {
                    for item in items {
                        self.known_word(left.0, &left.1.words, item);
                    }
                }
                if let Type::List(element) = &right.1.kind {
                    self.known_word(right.0, &element.words, left.0);
                }
            }
            Comparison::Less | Comparison::LessOrEqual | Comparison::Greater | Comparison::GreaterOrEqual => {}
        }
    }

    /// The same, of a test such as `is eq("high")` or one within a filter.
    fn tested(&mut self, input: &Expr, known: &Known<'w>, test: &Test) {
        if let Test::Compare(comparison, other) = test {
            self.words(*comparison, (input, known), (other, &Type::Any.into()));
        }
    }

    fn known_word(&mut self, value: &Expr, words: &[&str], other: &Expr) {
        let Node::Const(Value::Str(word)) = &other.node else { return };
        if words.is_empty() || words.contains(&word.as_str()) {
            return;
        }
        let what = value.path().map_or_else(|| "this value".to_owned(), |path| format!("`{path}`"));
        let one_of = path::listed(words.iter().copied());
        let near = did_you_mean(word, words.iter().copied()).map_or_else(String::new, |near| format!("{near} "));
        let hint = format!("{near}it is one of {one_of}");
        self.fault(Code::UnknownWord, &other.range, format!("{what} is never `{}`", excerpt(word)), hint);
    }

    fn compared(&mut self, comparison: Comparison, left: &Known<'w>, right: &Known<'w>, operand: &Expr) {
        let (left, right) = (&left.kind, &right.kind);
        let scalar = |kind: &Type<'_>| matches!(kind, Type::Text | Type::Number | Type::Boolean);
        let (message, hint) = match comparison {
            Comparison::In | Comparison::NotIn => {
                if right.is_object() || matches!(right, Type::Any | Type::Text | Type::List(_)) {
                    return;
                }
                let hint = "`in` takes a list, a text or a map on its right";
                (format!("nothing is in a {}", right.name()), hint)
            }
            Comparison::Equal | Comparison::NotEqual if scalar(left) && scalar(right) && left != right => {
                let message = format!("a {} never equals a {}", left.name(), right.name());
                (message, "compare values of one type")
            }
            order if order.is_order() => {
                if let (Type::Any, _) | (_, Type::Any) | (Type::Number, Type::Number) | (Type::Text, Type::Text) =
                    (left, right)
                {
                    return;
                }
                let message = format!("`{}` does not order a {} and a {}", order.symbol(), left.name(), right.name());
                (message, "compare two numbers, or two texts")
            }
            _ => return,
        };
        self.fault(Code::WrongOperand, &operand.range, message, hint);
    }
}

pub(super) fn either<'w>(left: Known<'w>, right: Known<'w>) -> Known<'w> {
    let optional = left.optional || right.optional;
    let mut words = Vec::new();
    if !left.words.is_empty() && !right.words.is_empty() {
        words = left.words;
        for word in right.words {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    let kind = match (left.kind, right.kind) {
        (left, right) if left == right => left,
        (Type::List(_), Type::List(_)) => Type::list(),
        _ => Type::Any,
    };
    Known { kind, optional, words }
}
