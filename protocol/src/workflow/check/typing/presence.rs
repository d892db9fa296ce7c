//! Which paths are present according to a condition, and which statuses steps have.

use crate::canonical::Value;
use crate::workflow::template::expr::{Comparison, Node, Root, Test};
use crate::workflow::template::{Expr, Path, Segment};

/// What follows from conditions that hold.
#[derive(Default)]
pub(super) struct Facts {
    /// Paths known to be present, as written.
    pub(super) present: Vec<String>,
    /// The statuses that steps can only have here. A step is named by its path as [`step_name`] writes it, the one that
    /// leads here by the empty text.
    pub(super) narrowed: Vec<(String, Vec<String>)>,
}

impl Facts {
    /// Adds what follows from `test` being `truth`, within so many loops.
    pub(super) fn add(&mut self, test: &Expr, truth: bool, loops: usize) {
        match (&test.node, truth) {
            (Node::Path(path), true) => self.present(path),
            (Node::Not(operand), truth) => self.add(operand, !truth, loops),
            (Node::And(left, right), true) | (Node::Or(left, right), false) => {
                self.add(left, truth, loops);
                self.add(right, truth, loops);
            }
            (Node::Test(input, test), truth) => match (&input.node, &**test, truth) {
                (Node::Path(path), Test::Defined, true) | (Node::Path(path), Test::None, false) => self.present(path),
                (Node::Path(path), Test::Compare(comparison, other), true) if !path.segments().is_empty() => {
                    self.narrow(path, *comparison, other, loops);
                }
                _ => {}
            },
            (Node::Compare(left, rest), truth) => {
                let [(comparison, right)] = rest.as_slice() else { return };
                let comparison = match (comparison, truth) {
                    (Comparison::Equal, true) | (Comparison::NotEqual, false) => Comparison::Equal,
                    (Comparison::Equal, false) | (Comparison::NotEqual, true) => Comparison::NotEqual,
                    (Comparison::In, true) | (Comparison::NotIn, false) => Comparison::In,
                    _ => return,
                };
                let (path, other) = match (&left.node, &right.node) {
                    (Node::Path(path), _) => (path, right),
                    (_, Node::Path(path)) if comparison != Comparison::In => (path, &**left),
                    _ => return,
                };
                // Equal to a value, or not equal to none.
                if comparison != Comparison::In
                    && let Node::Const(value) = &other.node
                    && (comparison == Comparison::Equal) != value.is_null()
                {
                    self.present(path);
                }
                self.narrow(path, comparison, other, loops);
            }
            _ => {}
        }
    }

    /// Adds a path and its prefixes: a path is present only if all its prefixes are.
    fn present(&mut self, path: &Path) {
        let mut written = path.root().to_owned();
        for segment in path.segments() {
            written.push_str(&segment.to_string());
            self.present.push(written.clone());
        }
        if path.segments().is_empty() {
            self.present.push(written);
        }
    }

    /// Adds the statuses of a step whose status is at `path`, for which a comparison holds.
    fn narrow(&mut self, path: &Path, comparison: Comparison, other: &Expr, loops: usize) {
        let step = match path.segments() {
            [] if path.root() == "status" && !path.is_local() => Some(String::new()),
            [step @ .., last] if is_status(std::slice::from_ref(last)) => step_name(path, step, loops),
            _ => None,
        };
        self.narrowed.extend(step.zip(words(comparison, other)));
    }
}

/// How a step is named in what is narrowed: an element of a loop by the loop and its name, `steps.ROLE` by the role.
pub(super) fn step_name(path: &Path, step: &[Segment], loops: usize) -> Option<String> {
    match (&path.root, step) {
        (Root::Local { up, slot, .. }, []) => Some(format!("{} {slot}", loops.checked_sub(up + 1)?)),
        (Root::Name(name), [Segment::Name(role)]) if &**name == "steps" => Some(format!("steps.{role}")),
        _ => None,
    }
}

pub(super) fn is_status(path: &[Segment]) -> bool {
    matches!(path, [Segment::Name(name)] if &**name == "status")
}

/// The only words that a value can be of which a comparison holds.
pub(super) fn words(comparison: Comparison, other: &Expr) -> Option<Vec<String>> {
    let word = |expr: &Expr| match &expr.node {
        Node::Const(Value::Str(word)) => Some(word.clone()),
        _ => None,
    };
    match (comparison, &other.node) {
        (Comparison::Equal, _) => word(other).map(|word| vec![word]),
        (Comparison::In, Node::List(items)) => items.iter().map(word).collect(),
        (Comparison::In, Node::Const(Value::List(items))) => {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}
