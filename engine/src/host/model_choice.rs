//! `NAME` and `ROLE=NAME`: another model for one run.
//!
//! NAME is a logical model of the workflow or of the settings, or else a provider's id. An id takes the place of the
//! one in use; parameters and provider stay.

use rondo_protocol::diagnostic::{Code, did_you_mean};
use rondo_protocol::workflow::{RoleKind, Workflow};
use rondo_settings::{Model, Origin, Settings, Sourced};

use crate::failure::Failure;

const FLAG: &str = "--model";

/// Applies the options to the workflow and the settings of a run.
///
/// # Errors
/// [`Code::ModelUnclear`] if a role is no model role of the workflow, or a name is empty.
pub(crate) fn set_models(words: &[String], workflow: &mut Workflow, settings: &mut Settings) -> Result<(), Failure> {
    for word in words {
        let (role, name) = word.split_once('=').map_or((None, word.as_str()), |(role, name)| (Some(role), name));
        if name.is_empty() {
            return Err(Failure::new(Code::ModelUnclear, format!("{FLAG} {word}: the name of the model is missing")));
        }
        let known = workflow.models.contains_key(name) || settings.models.contains_key(name);
        let roles: Vec<String> = names(workflow);
        if let Some(role) = role.filter(|role| !roles.iter().any(|name| name == role)) {
            return Err(no_role(role, &roles));
        }
        for chosen in roles.iter().filter(|name| role.is_none_or(|role| role == *name)) {
            set_model(chosen, (name, known), role.is_some(), workflow, settings);
        }
    }
    Ok(())
}

/// Sets the model of a role: `is_known` if `name` is a logical one, `is_own` if only this role gets it.
fn set_model(
    role: &str,
    (name, is_known): (&str, bool),
    is_own: bool,
    workflow: &mut Workflow,
    settings: &mut Settings,
) {
    let found = workflow.roles.iter_mut().find(|(known, _)| known.as_str() == role);
    let Some(model) = found.and_then(|(_, role)| role.kind.model_mut()) else { return };
    if is_known {
        name.clone_into(&mut model.model);
        return;
    }
    let old = model.model.clone();
    if is_own {
        // A logical model of its own, so that the other roles keep theirs.
        let is_taken = old != role && workflow.models.contains_key(role);
        model.model = if is_taken { format!("{role}_model") } else { role.to_owned() };
        let own = model.model.clone();
        if let Some(spec) = workflow.models.get(&old).cloned() {
            workflow.models.insert(own, spec);
        }
    }
    let logical = model.model.clone();
    let provider = settings.models.get(&old).and_then(|stated| stated.provider.clone());
    let id = Sourced { value: name.to_owned(), from: Origin::Flag(FLAG.to_owned()) };
    // A price that was set for another model is not the price of this one.
    settings.models.insert(logical, Model { provider, model: Some(id), price: None });
}

fn names(workflow: &Workflow) -> Vec<String> {
    let is_asked = |kind: &RoleKind| kind.model().is_some();
    workflow.roles.iter().filter(|(_, role)| is_asked(&role.kind)).map(|(name, _)| name.to_string()).collect()
}

fn no_role(role: &str, roles: &[String]) -> Failure {
    let shown: String = role.chars().take(40).collect();
    let failure = Failure::new(Code::ModelUnclear, format!("{FLAG} {shown}=...: no role `{shown}` asks a model"));
    match did_you_mean(role, roles.iter().map(String::as_str)) {
        Some(meant) => failure.with_hint(meant),
        None => failure.with_hint(format!("roles that do: {}", roles.join(", "))),
    }
}
