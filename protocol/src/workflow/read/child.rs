//! Child workflows: roles that run another file.

use super::name::not_a_name;
use super::output::{Output, status, text_field};
use super::path_node::{Fields, PathNode};
use super::role::named_output;
use super::{MAX_CHILD_DEPTH, MAX_CHILDREN, Reader};
use crate::canonical::Value;
use crate::diagnostic::{Code, did_you_mean};
use crate::id::{FieldName, Status};
use crate::source::excerpt;
use crate::workflow::types::{Field, of_type};
use crate::workflow::{Checked, Edge, Ordered, Outgoing, Target, Template, Workflow, WorkflowRole};

impl Reader<'_> {
    /// Reads the role and its output. Adds the policies of the child's roles to those of this file.
    pub(super) fn child_role(
        &mut self,
        part: &PathNode<'_>,
        fields: &Fields<'_>,
        input: Template,
    ) -> Option<(WorkflowRole, Output)> {
        let file = fields.get("workflow")?;
        let Checked { workflow, policy, warnings, places } = self.child(file)?;
        self.places.put_child(part.name(), places);
        self.child_faults.extend(warnings);
        self.child_policies.insert(part.name().to_owned(), policy);
        let ends = end_statuses(&workflow);
        let statuses = fields.get("statuses").map(|statuses| self.child_statuses(statuses, &ends));
        let output = child_output(&workflow, &ends, statuses.as_deref());
        let statuses = statuses.unwrap_or_default().into_iter().collect();
        Some((WorkflowRole { input, statuses, workflow }, output))
    }

    fn child(&mut self, part: &PathNode<'_>) -> Option<Checked> {
        let included = self.included(part)?;
        let limit = if self.family.open.contains(&included.path) {
            Some(format!("`{}` is still open: a workflow cannot play a role of itself", excerpt(&included.path)))
        } else if self.family.open.len() > MAX_CHILD_DEPTH {
            Some(format!("child workflows are nested deeper than {MAX_CHILD_DEPTH} levels"))
        } else {
            (self.family.children_left == 0).then(|| format!("there are more than {MAX_CHILDREN} child workflows"))
        };
        if let Some(message) = limit {
            return self.refuse(part, part.fault(Code::EndlessChildren, message));
        }
        self.family.children_left -= 1;
        let folder = included.path.rfind('/').and_then(|slash| included.path.get(..=slash)).unwrap_or_default();
        self.family.open.push(included.path.clone());
        let read = Reader::new(&included.shown, &included.text, folder, self.files, self.family).read();
        self.family.open.pop();
        let refused = |faults| {
            self.places.mark_incomplete(&part.path);
            self.child_faults.extend::<Vec<_>>(faults);
        };
        read.map_err(refused).ok()
    }

    /// Reads the map from the child's last status to the role's status.
    fn child_statuses(&mut self, part: &PathNode<'_>, ends: &[Status]) -> Vec<(String, Status)> {
        let mut statuses = Vec::new();
        for entry in self.given_entries(part).unwrap_or_default() {
            if !ends.iter().any(|end| end.as_str() == entry.name()) {
                let message = format!("no edge of the child ends at the status `{}`", excerpt(entry.name()));
                // Searching is limited to a few statuses per name.
                let hint = did_you_mean(entry.name(), ends.iter().map(Status::as_str).take(100));
                self.leave_out(&entry, entry.key_fault(Code::UnknownKey, message).with_hint_if(hint));
                continue;
            }
            let Some(text) = self.text(&entry) else { continue };
            match Status::new(&text) {
                Ok(name) => statuses.push((entry.name().to_owned(), name)),
                Err(error) => self.leave_out(&entry, entry.fault(Code::InvalidName, not_a_name(&error))),
            }
        }
        statuses
    }
}

/// The statuses that end the child, in file order.
fn end_statuses(workflow: &Workflow) -> Vec<Status> {
    let mut statuses: Vec<Status> = Vec::new();
    let routes = workflow.graph.iter().filter_map(|(_, outgoing)| match outgoing {
        Outgoing::Role(routes) => Some(routes),
        Outgoing::Start(_) => None,
    });
    for (status, edges) in routes.flatten() {
        if edges.iter().flat_map(ends).next().is_some() && !statuses.contains(status) {
            statuses.push(status.clone());
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
    if !output.iter().any(|(known, _)| known.as_str() == "failed") {
        output.extend(named_output([("failed", reason)]));
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
        field.optional = results.iter().any(|result| result.is_none_or(|result| result.0.get(name.as_str()).is_none()));
    }
    fields
}

/// The schema of one value of a result: a text that is exactly one `{{ expr }}` may yield anything.
fn result_schema(value: &Value) -> Value {
    match value {
        Value::Str(text) => {
            let trimmed = text.trim();
            let one = trimmed.starts_with("{{") && trimmed.ends_with("}}") && trimmed.matches("{{").count() == 1;
            if one { Value::empty_object() } else { of_type("string") }
        }
        Value::Bool(_) => of_type("boolean"),
        Value::Int(_) => of_type("integer"),
        Value::Float(_) => of_type("number"),
        Value::List(_) => of_type("array"),
        Value::Object(_) => of_type("object"),
        Value::Null => Value::empty_object(),
    }
}
