//! Child workflows: roles that run another file.

use super::output::{Output, status, text_field};
use super::path_node::{Fields, PathNode};
use super::role::named_output;
use super::{MAX_CHILD_DEPTH, MAX_CHILDREN, Reader};
use crate::canonical::Value;
use crate::diagnostic::{Code, did_you_mean};
use crate::id::{FieldName, Status};
use crate::source::excerpt;
use crate::workflow::types::Field;
use crate::workflow::{Checked, Edge, Ordered, Outgoing, Target, Template, Workflow, WorkflowRole};

impl Reader<'_> {
    /// Reads the role and its output. Adds the policies of the child's roles to those of this file.
    pub(super) fn child_role(&mut self, part: &PathNode<'_>, fields: &Fields<'_>) -> Option<(WorkflowRole, Output)> {
        let input = fields.get("input").and_then(|input| self.template_map(input));
        let file = fields.get("workflow")?;
        let Checked { workflow, policy, warnings, places, .. } = self.child(file)?;
        self.places.put_child(part.name(), places);
        self.child_faults.extend(warnings);
        self.child_policies.insert(part.name().to_owned(), policy);
        let ends = end_statuses(&workflow);
        let statuses = fields.get("statuses").map(|statuses| self.child_statuses(statuses, &ends));
        let output = child_output(&workflow, &ends, statuses.as_deref());
        let statuses = statuses.unwrap_or_default().into_iter().collect();
        let input = input.unwrap_or_else(|| Template(Value::empty_object()));
        Some((WorkflowRole { input, statuses, workflow }, output))
    }

    fn child(&mut self, part: &PathNode<'_>) -> Option<Checked> {
        let depth = self.family.open.len();
        let included = self.included(part)?;
        let limit = if self.family.open.contains(&included.path) {
            Some(format!("`{}` is still open: a workflow cannot play a role of itself", excerpt(&included.path)))
        } else if depth > MAX_CHILD_DEPTH {
            Some(format!("child workflows are nested deeper than {MAX_CHILD_DEPTH} levels"))
        } else if self.family.children_left == 0 {
            Some(format!("there are more than {MAX_CHILDREN} child workflows"))
        } else {
            None
        };
        if let Some(message) = limit {
            return self.refuse(part, part.fault(Code::EndlessChildren, message));
        }
        self.family.children_left -= 1;
        let folder = included.path.rfind('/').and_then(|slash| included.path.get(..=slash)).unwrap_or_default();
        self.family.open.push(included.path.clone());
        let read = Reader::new(&included.shown, &included.text, folder, self.files, self.family).read();
        self.family.open.pop();
        match read {
            Ok(child) => Some(child),
            Err(faults) => {
                self.places.mark_incomplete(&part.path);
                self.child_faults.extend(faults);
                None
            }
        }
    }

    /// Reads the map from the child's last status to the role's status.
    fn child_statuses(&mut self, part: &PathNode<'_>, ends: &[Status]) -> Vec<(String, Status)> {
        let mut statuses = Vec::new();
        for entry in self.entries(part).unwrap_or_default() {
            if !self.is_given(&entry) {
                continue;
            }
            if !ends.iter().any(|end| end.as_str() == entry.name()) {
                let message = format!("no edge of the child ends at the status `{}`", excerpt(entry.name()));
                let mut fault = entry.key_fault(Code::UnknownKey, message);
                // Searching is limited to a few statuses per name.
                fault.hint = did_you_mean(entry.name(), ends.iter().map(Status::as_str).take(100));
                self.leave_out(&entry, fault);
                continue;
            }
            let Some(text) = self.text(&entry) else { continue };
            match Status::new(&text) {
                Ok(name) => statuses.push((entry.name().to_owned(), name)),
                Err(error) => {
                    let message = format!("`{}` is not a {}: {}", excerpt(&text), error.kind, error.rule);
                    self.leave_out(&entry, entry.fault(Code::InvalidName, message));
                }
            }
        }
        statuses
    }
}

/// The statuses that end the child, in file order.
fn end_statuses(workflow: &Workflow) -> Vec<Status> {
    let mut statuses: Vec<Status> = Vec::new();
    for (_, outgoing) in &workflow.graph {
        let Outgoing::Role(outgoing) = outgoing else { continue };
        for (status, edges) in outgoing {
            if edges.iter().flat_map(ends).next().is_some() && !statuses.contains(status) {
                statuses.push(status.clone());
            }
        }
    }
    statuses
}

/// The edge and its `on_max` edges that lead to the end.
fn ends(edge: &Edge) -> impl Iterator<Item = &Edge> {
    edge.with_on_max().filter(|edge| matches!(edge.to, Target::End))
}

fn child_output(workflow: &Workflow, ends: &[Status], mapped: Option<&[(String, Status)]>) -> Output {
    let result = result_fields(workflow);
    let reason: Vec<_> = text_field("reason").into_iter().collect();
    let Some(mapped) = mapped else { return named_output([("done", result), ("failed", reason)]) };
    let mut output: Output = Vec::new();
    let unmapped = ends.iter().any(|end| !mapped.iter().any(|(name, _)| name == end.as_str()));
    let rest = if unmapped { status("done") } else { None };
    for name in mapped.iter().map(|(_, status)| status.clone()).chain(rest) {
        if !output.iter().any(|(known, _)| *known == name) {
            output.push((name, result.clone()));
        }
    }
    if let Some(failed) = status("failed")
        && !output.iter().any(|(known, _)| *known == failed)
    {
        output.push((failed, reason));
    }
    output
}

/// The fields of the child's results: a field that not every result has is optional, one whose type differs may hold
/// anything. Without a declared result there are none.
fn result_fields(workflow: &Workflow) -> Ordered<FieldName, Field> {
    let results: Vec<Option<&Template>> =
        workflow.edges().flat_map(ends).map(|edge| edge.result.as_ref().or(workflow.result.as_ref())).collect();
    let mut fields: Ordered<FieldName, Field> = Vec::new();
    for result in results.iter().flatten() {
        let Value::Object(members) = &result.0 else { continue };
        for (name, value) in members {
            let Ok(name) = FieldName::new(name) else { continue };
            let schema = result_schema(value);
            match fields.iter_mut().find(|(known, _)| *known == name) {
                Some((_, field)) if field.schema == schema => {}
                Some((_, field)) => field.schema = Value::empty_object(),
                None => fields.push((name, Field { optional: false, schema })),
            }
        }
    }
    for (name, field) in &mut fields {
        let has = |result: Option<&Template>| result.is_some_and(|result| result.0.get(name.as_str()).is_some());
        field.optional = !results.iter().all(|result| has(*result));
    }
    fields
}

/// The schema of one value of a result: a text that is exactly one `{{ expr }}` may yield anything.
fn result_schema(value: &Value) -> Value {
    let of = |word: &str| [("type", Value::from(word))].into_iter().collect();
    match value {
        Value::Str(text) => {
            let trimmed = text.trim();
            let one = trimmed.starts_with("{{") && trimmed.ends_with("}}") && trimmed.matches("{{").count() == 1;
            if one { Value::empty_object() } else { of("string") }
        }
        Value::Bool(_) => of("boolean"),
        Value::Int(_) => of("integer"),
        Value::Float(_) => of("number"),
        Value::List(_) => of("array"),
        Value::Object(_) => of("object"),
        Value::Null => Value::empty_object(),
    }
}
