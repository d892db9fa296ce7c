//! What the result of a child workflow may hold. A template that is exactly one value, such as
//! `{{ steps.writer.output.title }}`, yields what the child declares of that value; a definition leaves it untyped.

use rondo_protocol::Value;
use rondo_protocol::id::FieldName;
use rondo_protocol::workflow::{Field, Ordered, RoleKind, Target, Template, Workflow};

use crate::{LocatedEdge, edges};

/// The fields of a status of a child role, each untyped one by what every result of the child says of it.
pub fn fields(kind: &RoleKind, declared: &Ordered<FieldName, Field>) -> Ordered<FieldName, Field> {
    let RoleKind::Workflow(child) = kind else { return declared.clone() };
    let typed = |(name, field): &(FieldName, Field)| {
        let is_untyped = field.schema == Value::empty_object();
        let schema = is_untyped.then(|| schema_of(&child.workflow, name.as_str())).flatten();
        (name.clone(), Field { schema: schema.unwrap_or_else(|| field.schema.clone()), ..field.clone() })
    };
    declared.iter().map(typed).collect()
}

/// What every result of `workflow` that has the member `name` declares of it; `None` if one declares nothing, or they
/// differ.
fn schema_of(workflow: &Workflow, name: &str) -> Option<Value> {
    let mut known: Option<Value> = None;
    let ends = edges(workflow).into_iter().filter(|located| matches!(located.edge.to, Target::End));
    for LocatedEdge { from, status, edge, .. } in ends {
        let result = edge.result.as_ref().or(workflow.result.as_ref());
        let Some(member) = result.and_then(|Template(it)| it.get(name)) else { continue };
        let schema = declared(workflow, status.map(|status| (from, status.as_str())), member.as_str()?)?;
        if known.get_or_insert_with(|| schema.clone()) != &schema {
            return None;
        }
    }
    known
}

/// What the workflow declares of the value that a template yields on an edge of the status `at` of a role.
fn declared(workflow: &Workflow, at: Option<(&str, &str)>, template: &str) -> Option<Value> {
    let path = template.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let field = |role: &str, status: Option<&str>, name: &str| -> Option<Value> {
        let output = &workflow.role(role)?.output;
        let mut schemas = output
            .iter()
            .filter(|(own, _)| status.is_none_or(|status| own.as_str() == status))
            .map(|(_, fields)| fields.iter().find(|(own, field)| own.as_str() == name && !field.optional));
        let (_, first) = schemas.next()??;
        schemas.all(|other| other.is_some_and(|(_, field)| field.schema == first.schema)).then(|| first.schema.clone())
    };
    let text = || Value::from_iter([("type", Value::from("string"))]);
    let schema = match (path.split('.').collect::<Vec<_>>().as_slice(), at) {
        (["body"], Some(_)) | (["steps", _, "body"], _) => text(),
        (["output", name], Some((role, status))) => field(role, Some(status), name)?,
        (["steps", role, "output", name], Some((own, status))) if *role == own => field(role, Some(status), name)?,
        (["steps", role, "output", name], _) => field(role, None, name)?,
        (["input", name], _) => {
            let (_, input) = workflow.input.iter().find(|(own, _)| own.as_str() == *name)?;
            (!input.optional).then(|| input.schema.clone())?
        }
        _ => return None,
    };
    (schema != Value::empty_object()).then_some(schema)
}
