//! Which paths are present according to a condition.

use crate::workflow::template::expr::{Comparison, Node, Test};
use crate::workflow::template::{Expr, Path};

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
