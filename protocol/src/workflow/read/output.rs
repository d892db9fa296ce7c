//! The output of a role: its statuses, each with its fields.

use super::Reader;
use super::path_node::PathNode;
use super::role::named_output;
use crate::diagnostic::Code;
use crate::id::{FieldName, Status};
use crate::source::{Kind, excerpt};
use crate::workflow::types::{Field, of_type};
use crate::workflow::{Ordered, Rule};

pub(super) type Output = Ordered<Status, Ordered<FieldName, Field>>;

impl Reader<'_> {
    /// Reads the statuses under `output`; by default the one status `done` without fields.
    pub(super) fn output(&mut self, part: Option<&PathNode<'_>>) -> Output {
        let Some(part) = part else { return named_output([("done", Vec::new())]) };
        let mut output = Vec::new();
        let entries = self.entries(part).unwrap_or_default();
        self.some_status(part, entries.len());
        if let Some(field) = entries.first().filter(|_| entries.iter().all(|entry| entry.as_str().is_some())) {
            let fault = field.key_fault(Code::WrongType, "expected the statuses of the role, found fields");
            let hint = format!("name the status above them: `done: {{ {}: ... }}`", excerpt(field.name()));
            self.leave_out(part, fault.with_hint(hint));
            return output;
        }
        for entry in entries {
            let name = self.status_name(&entry);
            let fields = self.status_fields(&entry);
            output.extend(name.map(|name| (name, fields)));
        }
        output
    }

    /// Reads the statuses of a rule role, each with its condition and an expression for each field, and the resulting
    /// output.
    pub(super) fn rules(&mut self, part: &PathNode<'_>) -> (Ordered<Status, Rule>, Output) {
        let (mut rules, mut output) = (Vec::new(), Vec::new());
        let entries = self.entries(part).unwrap_or_default();
        self.some_status(part, entries.len());
        self.rule_order(&entries);
        for entry in entries {
            let name = self.status_name(&entry);
            let (mut when, mut expressions, mut fields) = (None, Vec::new(), Vec::new());
            let is_null = entry.node.kind == Kind::Null;
            for field in if is_null { Vec::new() } else { self.entries(&entry).unwrap_or_default() } {
                if field.name() == "when" {
                    when = if self.is_given(&field) { self.expression(&field) } else { None };
                    continue;
                }
                let Some((field_name, optional)) = self.field_name(&field) else { continue };
                if optional {
                    self.not_allowed::<()>(&field, "a name without `?`, because a rule sets every field", None);
                } else if self.is_given(&field)
                    && let Some(expression) = self.expression_or_number(&field)
                {
                    expressions.push((field_name.clone(), expression));
                    // The type of an expression is known only when it is evaluated.
                    fields.push((field_name, Field { optional: false, schema: crate::Value::empty_object() }));
                }
            }
            if let Some(name) = name {
                rules.push((name.clone(), Rule { fields: expressions, when }));
                output.push((name, fields));
            }
        }
        (rules, output)
    }

    /// Checks that every status of a rule but the last has a condition.
    fn rule_order(&mut self, entries: &[PathNode<'_>]) {
        let Some((last, before)) = entries.split_last() else { return };
        let is_read = |entry: &&PathNode<'_>| matches!(entry.node.kind, Kind::Null | Kind::Map(_));
        let mut is_ordered = true;
        for entry in before.iter().filter(is_read).filter(|entry| entry.node.get("when").is_none()) {
            is_ordered = false;
            let message = format!("`{}` has no `when` and is not the last status of its rule", excerpt(entry.name()));
            let hint = "statuses are tried in order: write `when: EXPR` into it, or move it to the end";
            self.report(entry.key_fault(Code::EdgeList, message).with_hint(hint));
        }
        let when = last.node.get("when").filter(|when| matches!(when.kind, Kind::Str(_) | Kind::Bool(_)));
        if let Some(node) = when.filter(|_| is_ordered) {
            let message = "the last status of a rule has a condition, and nothing is chosen when it does not hold";
            let fault = PathNode { key: None, node, ..last.clone() }.fault(Code::EdgeList, message);
            self.report(fault.with_hint("take out its `when`, or add a last status without one"));
        }
    }

    fn expression_or_number(&mut self, part: &PathNode<'_>) -> Option<String> {
        match part.node.kind {
            Kind::Int(_) | Kind::Float(_) => Some(part.node.to_value().to_text()),
            _ => self.expression(part),
        }
    }

    fn some_status(&mut self, part: &PathNode<'_>, statuses: usize) {
        if statuses == 0 && matches!(part.node.kind, Kind::Map(_)) {
            let hint = "left out, it is the one status `done`";
            self.not_allowed::<()>(part, "at least one status", Some(hint));
        }
    }
}

pub(super) fn status(name: &str) -> Option<Status> {
    Status::new(name).ok()
}

pub(super) fn text_field(name: &str) -> Option<(FieldName, Field)> {
    Some((FieldName::new(name).ok()?, Field { optional: false, schema: of_type("string") }))
}
