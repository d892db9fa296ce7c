//! The cast of a workflow: for each model role what it needs to speak, made once for a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::history::{Telling, system_text};
use rondo_agent_kit::react::Agent;
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::RoleName;
use rondo_protocol::object::{Head, Parameters};
use rondo_protocol::workflow::{Limits, ModelRole, RoleKind, RolePolicy, Workflow};

use crate::models::Models;

/// A role that a model plays, ready to speak.
#[derive(Debug)]
pub struct Player {
    /// The loop's part.
    pub agent: Agent,
    /// How it is told its history.
    pub telling: Telling,
    /// The head for its first model, then for each fallback.
    pub heads: Vec<PlayerHead>,
}

/// A request head of a player.
#[derive(Debug, Clone)]
pub struct PlayerHead {
    /// The logical model.
    pub model: String,
    /// The head.
    pub head: Arc<Head>,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Arc<[u8]>,
}

/// Why a role cannot be cast.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A logical model is not resolved.
    #[error("the model {model:?} of role {role} is not resolved to a provider's model")]
    UnresolvedModel {
        /// The role.
        role: RoleName,
        /// The logical model.
        model: String,
    },
    /// The definition does not fit this version.
    #[error("role {role}: {what}")]
    Unfit {
        /// The role.
        role: RoleName,
        /// What does not fit.
        what: String,
    },
}

/// The parts of a request head that the workflow alone decides: system text, tools and response format. Model and
/// parameters come from whoever resolves models.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The system text.
    pub system: String,
    /// The JSON Schema that the provider holds the answer to.
    pub response_format: Option<String>,
}

/// The contract of each model role.
///
/// # Errors
/// [`Error::Unfit`] when a field's schema cannot be compiled.
pub fn contracts(workflow: &Workflow) -> Result<BTreeMap<RoleName, Contract>, Error> {
    model_roles(workflow)
        .map(|(name, role, model)| {
            let contract = Contract::new(model.format, &role.output)
                .map_err(|error| Error::Unfit { role: name.clone(), what: error.to_string() })?;
            Ok((name.clone(), contract))
        })
        .collect()
}

/// What the workflow decides of a role's request head.
pub fn script(model: &ModelRole, contract: &Contract) -> Script {
    Script { system: system_text(&model.system, &contract.text()), response_format: contract.response_format() }
}

/// How a role is told its history.
pub fn telling(model: &ModelRole) -> Telling {
    Telling { history: model.history, context: model.context.clone() }
}

/// Every role that a model plays.
pub fn model_roles(
    workflow: &Workflow,
) -> impl Iterator<Item = (&RoleName, &rondo_protocol::workflow::Role, &ModelRole)> {
    workflow.roles.iter().filter_map(|(name, role)| match &role.kind {
        RoleKind::Model(model) => Some((name, role, model)),
        _ => None,
    })
}

/// Casts every model role of a workflow.
///
/// # Errors
/// When a model is not resolved, or the definition does not fit this version.
pub fn cast(
    workflow: &Workflow,
    policies: &BTreeMap<String, RolePolicy>,
    limits: &Limits,
    models: &Models,
) -> Result<BTreeMap<RoleName, Player>, Error> {
    let mut contracts = contracts(workflow)?;
    let mut players = BTreeMap::new();
    for (name, _, role) in model_roles(workflow) {
        let Some(contract) = contracts.remove(name) else { continue };
        let policy = policies.get(name.as_str());
        let script = script(role, &contract);
        let fallback = policy.map(|policy| policy.fallback.as_slice()).unwrap_or_default();
        let heads = std::iter::once(&role.model)
            .chain(fallback)
            .map(|model| head(name, model, workflow, models, &script))
            .collect::<Result<_, _>>()?;
        let own = policy.map(|policy| policy.limits.clone()).unwrap_or_default();
        let agent = Agent {
            contract,
            model: role.model.clone(),
            model_calls: own.model_calls.map_or(limits.model_calls, |own| own.min(limits.model_calls)),
            tool_calls: own.tool_calls.map_or(limits.tool_calls, |own| own.min(limits.tool_calls)),
            effects: BTreeMap::new(),
        };
        players.insert(name.clone(), Player { agent, telling: telling(role), heads });
    }
    Ok(players)
}

fn head(
    role: &RoleName,
    model: &str,
    workflow: &Workflow,
    models: &Models,
    script: &Script,
) -> Result<PlayerHead, Error> {
    let unresolved = || Error::UnresolvedModel { role: role.clone(), model: model.to_owned() };
    let resolved = models.0.get(model).ok_or_else(unresolved)?;
    let parameters = workflow.models.get(model).map_or_else(Parameters::default, |spec| spec.parameters.clone());
    let head = Head {
        model: resolved.id.clone(),
        parameters,
        response_format: script.response_format.clone(),
        system: script.system.clone(),
        tools: Vec::new(),
    };
    let (digest, bytes) =
        Digest::of(Kind::Head, &head).map_err(|error| Error::Unfit { role: role.clone(), what: error.to_string() })?;
    Ok(PlayerHead { model: model.to_owned(), head: Arc::new(head), digest, bytes: bytes.into() })
}
