//! Which paths are present according to a condition, and which statuses steps have.

use crate::canonical::Value;
use crate::workflow::template::expr::{Comparison, Node, Root, Test};
use crate::workflow::template::{Expr, Path, Segment};

/// Adds the paths that are present when `test` is `truth`.
pub(super) fn implied(test: &Expr, truth: bool, present: &mut Vec<String>) {
    match (&test.node, truth) {
        (Node::Path(path), true) => add_prefixes(path, present),
        (Node::Not(operand), truth) => implied(operand, !truth, present),
        (Node::And(left, right), true) | (Node::Or(left, right), false) => {
            implied(left, truth, present);
            implied(right, truth, present);
        }
        (Node::Test(input, test), truth) => {
            if let (Node::Path(path), Test::Defined, true) | (Node::Path(path), Test::None, false) =
                (&input.node, &**test, truth)
            {
                add_prefixes(path, present);
            }
        }
        (Node::Compare(left, rest), truth) => {
            let [(comparison, right)] = rest.as_slice() else { return };
            let ((Node::Path(path), Node::Const(value)) | (Node::Const(value), Node::Path(path))) =
                (&left.node, &right.node)
            else {
                return;
            };
            let equals = match comparison {
                Comparison::Equal => truth,
                Comparison::NotEqual => !truth,
                _ => return,
            };
            // Equal to a value, or not equal to none.
            if equals != value.is_null() {
                add_prefixes(path, present);
            }
        }
        _ => {}
    }
}

/// Adds a path and its prefixes: a path is present only if all its prefixes are.
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

/// Adds the statuses that steps can only have when `test` is `truth`, within so many loops. A step is named by its path
/// as [`step_name`] writes it; the one that leads here by the empty text.
pub(super) fn narrowed(test: &Expr, truth: bool, loops: usize, narrowed_to: &mut Vec<(String, Vec<String>)>) {
    match (&test.node, truth) {
        (Node::Not(operand), truth) => narrowed(operand, !truth, loops, narrowed_to),
        (Node::And(left, right), true) | (Node::Or(left, right), false) => {
            narrowed(left, truth, loops, narrowed_to);
            narrowed(right, truth, loops, narrowed_to);
        }
        (Node::Compare(left, rest), truth) => {
            let [(comparison, right)] = rest.as_slice() else { return };
            let comparison = match (comparison, truth) {
                (Comparison::NotEqual, false) => Comparison::Equal,
                (Comparison::NotIn, false) => Comparison::In,
                (comparison @ (Comparison::Equal | Comparison::In), true) => *comparison,
                _ => return,
            };
            let (path, other) = match (&left.node, &right.node) {
                (Node::Path(path), _) => (path, right),
                (_, Node::Path(path)) if comparison == Comparison::Equal => (path, &**left),
                _ => return,
            };
            let Some((last, step)) = path.segments().split_last().map_or_else(
                || (path.root() == "status" && !path.is_local()).then(|| (None, String::new())),
                |(last, step)| Some((Some(last), step_name(path, step, loops)?)),
            ) else {
                return;
            };
            if last.is_none_or(|last| is_status(std::slice::from_ref(last))) {
                narrowed_to.extend(words(comparison, other).map(|words| (step, words)));
            }
        }
        (Node::Test(input, test), true) => {
            if let (Node::Path(path), Test::Compare(comparison, other)) = (&input.node, &**test)
                && let Some((last, step)) = path.segments().split_last()
                && is_status(std::slice::from_ref(last))
                && let Some(step) = step_name(path, step, loops)
            {
                narrowed_to.extend(words(*comparison, other).map(|words| (step, words)));
            }
        }
        _ => {}
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
