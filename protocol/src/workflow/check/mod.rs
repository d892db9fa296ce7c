//! The checker: what a file demands of the whole, beyond the shape of its parts.

use super::places::Places;
use super::{Policy, Workflow};
use crate::diagnostic::Diagnostic;

/// Everything that is wrong with, or odd about, a workflow, in source order.
pub fn check(_workflow: &Workflow, _policy: &Policy, _places: &Places) -> Vec<Diagnostic> {
    Vec::new()
}
