//! `NAME` and `ROLE=NAME`: another model for one run.
//!
//! NAME is a logical model of the workflow or of the settings, or else a provider's id. An id takes the place of the
//! one in use; parameters and provider stay.

use rondo_protocol::diagnostic::{Code, did_you_mean};
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{Role, Workflow};
use rondo_settings::{Model, Origin, Settings, Sourced};

use crate::failure::Failure;

const FLAG: &str = "--model";

/// Applies the options to the workflow and the settings of a run.
pub(crate) fn set_models(words: &[String], workflow: &mut Workflow, settings: &mut Settings) -> Result<(), Failure> {
    for word in words {
        let (role, name) = word.split_once('=').map_or((None, word.as_str()), |(role, name)| (Some(role), name));
        if name.is_empty() {
            return Err(Failure::new(Code::ModelUnclear, format!("{FLAG} {word}: the name of the model is missing")));
        }
        let known = workflow.models.contains_key(name) || settings.models.contains_key(name);
        let asks_model = |(_, role): &&(RoleName, Role)| role.kind.model().is_some();
        let roles: Vec<String> = workflow.roles.iter().filter(asks_model).map(|(name, _)| name.to_string()).collect();
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
        if let Some(spec) = workflow.models.get(&old).cloned() {
            workflow.models.insert(model.model.clone(), spec);
        }
    }
    let logical = model.model.clone();
    let provider = settings.models.get(&old).and_then(|stated| stated.provider.clone());
    let id = Sourced { value: name.to_owned(), from: Origin::Flag(FLAG.to_owned()) };
    // A price that was set for another model is not the price of this one.
    settings.models.insert(logical, Model { provider, model: Some(id), price: None });
}

fn no_role(role: &str, roles: &[String]) -> Failure {
    let shown: String = role.chars().take(40).collect();
    let hint = did_you_mean(role, roles.iter().map(String::as_str))
        .unwrap_or_else(|| format!("roles that do: {}", roles.join(", ")));
    Failure::new(Code::ModelUnclear, format!("{FLAG} {shown}=...: no role `{shown}` asks a model")).with_hint(hint)
}
