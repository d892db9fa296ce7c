//! What a workflow asks of its models that their providers do not take, said before a run costs anything.

use std::collections::BTreeSet;

use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::model::ResponseFormat;
use rondo_core::models::Models;
use rondo_core::resolved_roles;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::{Code, Diagnostic};
use rondo_protocol::id::{FieldName, RoleName};
use rondo_protocol::workflow::{Checked, Edge, Policy, RoleKind, SourceMap, Target, Workflow};
use rondo_settings::{Resolved, Settings};

use super::run_config::Provided;
use crate::failure::Failure;

/// Warnings about parameters that a model does not take, and about schemas that its answers cannot be held to, of a
/// workflow and its children. Models that the program brings along take what they take.
pub fn untaken(checked: &Checked, settings: &Settings, provided: &Provided) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut open = vec![(&checked.workflow, &checked.policy, &checked.places)];
    while let Some((workflow, policy, places)) = open.pop() {
        found.extend(of_one(workflow, policy, places, settings, provided));
        open.extend(workflow.roles.iter().filter_map(|(name, role)| match &role.kind {
            RoleKind::Workflow(child) => {
                Some((&child.workflow, policy.children.get(name.as_str())?, places.child(name.as_str())?))
            }
            _ => None,
        }));
    }
    found.sort_by(|a, b| (&a.file, a.span, a.code, &a.message).cmp(&(&b.file, b.span, b.code, &b.message)));
    // One file may play several roles.
    found.dedup();
    found
}

fn of_one(
    workflow: &Workflow,
    policy: &Policy,
    places: &SourceMap,
    settings: &Settings,
    provided: &Provided,
) -> Vec<Diagnostic> {
    // A schema that cannot be compiled fails the run.
    let Ok(contracts) = resolved_roles::contracts(workflow) else { return Vec::new() };
    let (mut found, mut told) = (Vec::new(), BTreeSet::new());
    for (role, its, model) in resolved_roles::model_roles(workflow) {
        let fallback = policy.roles.get(role.as_str()).map(|own| own.fallback.as_slice()).unwrap_or_default();
        let schema = contracts.get(role).and_then(Contract::response_format);
        for name in std::iter::once(&model.model).chain(fallback).filter(|name| !provided.models.contains_key(*name)) {
            let Ok(Resolved { provider, model: id, .. }) = settings.model(name, workflow.models.get(name), Some(""))
            else {
                continue;
            };
            let Some(protocol) = settings.protocol(&provider).filter(|_| !id.is_empty()) else { continue };
            let whom = format!("the model `{name}` ({id} at provider {provider})");
            if told.insert(name) {
                let given = workflow.models.get(name).map(|spec| &spec.parameters.0);
                for (parameter, value) in given.into_iter().flatten() {
                    let says = if protocol.ignores(&id).contains(&parameter.as_str()) {
                        "it is left out of requests"
                    } else if protocol.refuses(&id).contains(&parameter.as_str()) && !is_default(parameter, value) {
                        "it refuses a request with it"
                    } else {
                        continue;
                    };
                    let (key, message) =
                        (format!("models.{name}.{parameter}"), format!("{whom} takes no `{parameter}`: {says}"));
                    let fault = places.key_fault(Code::ParameterNotTaken, &key, message);
                    found.push(fault.with_hint("remove it, or choose a model that takes it"));
                }
            }
            let is_sent = settings.response_format(&provider) == ResponseFormat::JsonSchema;
            let has_tools = !its.kind.tools().is_empty();
            let schema = schema.as_deref().filter(|_| is_sent);
            if let Some(why) = schema.and_then(|schema| protocol.open_schema(&id, schema, has_tools)) {
                let what = format!("answers of role `{role}` cannot be held to their schema by {whom}");
                let message = format!("{what}: {why}; they are checked");
                let fault = places.key_fault(Code::SchemaNotHeld, &format!("roles.{role}.output"), message);
                found.push(fault.with_hint("an answer that breaks its contract goes back to the model for a repair"));
            }
        }
    }
    found
}

/// Refuses files of a thread's input that the provider of a role they are attached for does not take.
pub fn files(workflow: &Workflow, input: &Value, models: &Models, settings: &Settings) -> Result<(), Failure> {
    for (role, names) in attached(workflow) {
        let Some(model) = workflow.role(role.as_str()).and_then(|role| role.kind.model()) else { continue };
        let Some(served_by) = models.0.get(&model.model).map(|model| &model.served_by) else { continue };
        let Some(protocol) = settings.protocol(&served_by.provider) else { continue };
        let given = names.iter().filter_map(|name| input.get(name.as_str()));
        let each = given.flat_map(|value| match value {
            Value::List(items) => items.iter().collect(),
            value => vec![value],
        });
        for file in each {
            let text = |key: &str| file.get(key).and_then(Value::as_str).unwrap_or_default();
            if !protocol.takes_file(text("media_type")) {
                let (name, media_type, provider) = (text("name"), text("media_type"), &served_by.provider);
                let what = format!("the file {name} is of type {media_type}");
                let message = format!("{what}, which provider {provider} of role `{role}` does not take");
                let hint = format!("it takes {}", protocol.media_types().join(", "));
                return Err(Failure::new(Code::InvalidInput, message).with_hint(hint));
            }
        }
    }
    Ok(())
}

/// The roles that files are attached for, with the inputs that hold them.
fn attached(workflow: &Workflow) -> Vec<(&RoleName, &[FieldName])> {
    let mut found = Vec::new();
    for edge in workflow.edges().flat_map(Edge::with_on_max) {
        match &edge.to {
            Target::Role(role) => found.push((role, edge.attach.as_slice())),
            Target::Fan(fan) => found.extend(fan.branches.iter().map(|one| (&one.to, one.attach.as_slice()))),
            Target::End | Target::Fail | Target::Back => {}
        }
    }
    found.retain(|(_, names)| !names.is_empty());
    found
}

/// Whether a value is the one that models take for granted.
fn is_default(parameter: &str, value: &Value) -> bool {
    let default = match parameter {
        "temperature" | "top_p" => 1,
        "presence_penalty" | "frequency_penalty" => 0,
        _ => return false,
    };
    match value {
        Value::Int(number) => *number == default,
        #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "0 and 1 are floats as they are")]
        Value::Float(number) => *number == default as f64,
        _ => false,
    }
}
