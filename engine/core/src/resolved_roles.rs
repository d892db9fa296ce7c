//! Resolves the roles of a workflow: what each needs to run, built once per run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::conversation::{HistoryPolicy, choices_text, system_text};
use rondo_agent_kit::model::script::{ScriptRole, ScriptRoles};
use rondo_agent_kit::model::scripted::Scripted;
use rondo_agent_kit::react::{Agent, REPAIRS, SELECTOR_REPAIRS};
use rondo_agent_kit::tool::{ToolSet, Toolbox};
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{FieldName, RoleName, Status};
use rondo_protocol::object::{Head, Parameters, ToolSpec};
use rondo_protocol::workflow::check::lane_depths;
use rondo_protocol::workflow::types::Validator;
use rondo_protocol::workflow::{
    AnswerFormat, Edge, Limits, ModelRole, Outgoing, Role, RoleKind, RolePolicy, Target, Workflow,
};

use crate::grant::Grants;
use crate::models::Models;

/// Every resolved role of a workflow.
#[derive(Debug, Default)]
pub struct ResolvedRoles {
    /// Model roles.
    pub model_roles: BTreeMap<RoleName, RoleRuntime>,
    /// Tool roles.
    pub tool_roles: BTreeMap<RoleName, ToolRoleRuntime>,
    /// How to read the answers of each role.
    pub body_readers: BTreeMap<RoleName, BodyReader>,
}

/// A resolved tool role.
#[derive(Debug)]
pub struct ToolRoleRuntime {
    /// The tool, by its name in the workflow.
    pub tool: String,
    /// A toolbox with only this tool, if the operator has and grants it.
    pub toolbox: Toolbox,
    /// The fields to read from the result, which is then JSON, if any.
    pub fields: Option<ResultFields>,
    /// The status on success.
    pub ok: Status,
    /// The status on failure.
    pub failed: Status,
    /// Answers in place of the tool if it has entries for the role.
    pub script: Option<Arc<Scripted>>,
}

/// The fields that are read from a tool's result.
#[derive(Debug)]
pub struct ResultFields {
    /// Their names.
    pub names: Vec<FieldName>,
    /// The schema of all of them together.
    pub schema: Validator,
}

/// How to read the body of an answer.
#[derive(Debug, Clone)]
pub enum BodyReader {
    /// By the role's contract.
    Contract(Contract),
    /// The whole answer is the body.
    Text,
}

impl BodyReader {
    /// The body of an answer; empty if there is none or it cannot be read.
    pub fn body(&self, answer: &str) -> String {
        match self {
            Self::Contract(_) if answer.is_empty() => String::new(),
            Self::Contract(contract) => contract.parse(answer).map(|answer| answer.body).unwrap_or_default(),
            Self::Text => answer.to_owned(),
        }
    }
}

/// A resolved model role.
#[derive(Debug)]
pub struct RoleRuntime {
    /// The agent loop.
    pub agent: Agent,
    /// How its history is built.
    pub history_policy: HistoryPolicy,
    /// The head for its first model, then one per fallback.
    pub heads: Vec<ModelHead>,
    /// Identifies the endpoint of its first model.
    pub served_by: Option<String>,
}

/// A request head of a role.
#[derive(Debug, Clone)]
pub struct ModelHead {
    /// The logical model.
    pub model: String,
    /// The head.
    pub head: Arc<Head>,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Arc<[u8]>,
}

/// Why a role cannot be resolved.
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
    /// The definition is not supported by this version.
    #[error("role {role}: {what}")]
    Unfit {
        /// The role.
        role: RoleName,
        /// The unsupported part.
        what: String,
    },
}

/// The parts of a request head that depend only on the workflow: the system text and the schema of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The system text.
    pub system: String,
    /// The JSON Schema of the answer; the provider decides which form of it to send.
    pub response_format: Option<String>,
}

/// How to read the answers of each role.
pub fn body_readers(workflow: &Workflow) -> Result<BTreeMap<RoleName, BodyReader>, Error> {
    let contracts = contracts(workflow)?.into_iter().map(|(name, contract)| (name, BodyReader::Contract(contract)));
    let is_text = |(_, role): &&(RoleName, Role)| matches!(role.kind, RoleKind::Tool(_) | RoleKind::Workflow(_));
    let texts = workflow.roles.iter().filter(is_text).map(|(name, _)| (name.clone(), BodyReader::Text));
    Ok(contracts.chain(texts).collect())
}

/// The contract of each role that a model or a person answers for.
///
/// # Errors
/// [`Error::Unfit`] if a field's schema cannot be compiled.
pub fn contracts(workflow: &Workflow) -> Result<BTreeMap<RoleName, Contract>, Error> {
    let formats = workflow.roles.iter().filter_map(|(name, role)| Some((name, role, answer_format(&role.kind)?)));
    let contracts = formats.map(|(name, role, format)| {
        let contract = Contract::new(format, &role.output).map_err(|error| unfit(name, &error))?;
        Ok((name.clone(), contract))
    });
    contracts.collect()
}

/// How the answers of a role are written, if a model or a person gives them. Those of a selector by rotation or
/// expression are never read, but a script may have some, so that who chooses can be changed alone.
fn answer_format(kind: &RoleKind) -> Option<AnswerFormat> {
    let is_json = matches!(kind, RoleKind::Human | RoleKind::Selector(_));
    kind.model().map(|model| model.format).or(is_json.then_some(AnswerFormat::Json))
}

/// The roles that a script can answer for.
pub fn script_roles(workflow: &Workflow) -> Result<ScriptRoles, Error> {
    let mut found = ScriptRoles::default();
    for (path, workflow) in workflow.tree() {
        let models = contracts(workflow)?.into_iter();
        found.roles.extend(models.map(|(role, contract)| (format!("{path}{role}"), ScriptRole::Model(contract))));
        let is_tool = |(_, role): &&(RoleName, Role)| matches!(role.kind, RoleKind::Tool(_));
        let tools = workflow.roles.iter().filter(is_tool);
        found.roles.extend(tools.map(|(name, _)| (format!("{path}{name}"), ScriptRole::Tool)));
        let depths = lane_depths(workflow).into_iter();
        found.depths.extend(depths.map(|(role, depths)| (format!("{path}{role}"), depths)));
    }
    Ok(found)
}

/// The toolbox of each role that may call tools.
pub fn toolboxes(workflow: &Workflow, tools: &ToolSet, grants: &Grants) -> BTreeMap<RoleName, Toolbox> {
    let toolbox = |(name, role): &(RoleName, Role)| {
        let named = role.kind.tools();
        if named.is_empty() {
            return None;
        }
        Some((name.clone(), Toolbox::new(named, tools, |tool| grants.denied(Some(name), tool.spec()))))
    };
    workflow.roles.iter().filter_map(toolbox).collect()
}

/// The parts of a role's request head that depend only on the workflow.
pub fn script(workflow: &Workflow, name: &RoleName, model: &ModelRole, contract: &Contract) -> Script {
    let choices = choices(workflow, name);
    let choices: Vec<(&str, &str)> = choices.iter().map(|(status, to)| (status.as_str(), to.as_str())).collect();
    let system = if choices.is_empty() {
        system_text(&model.system, &contract.text())
    } else {
        system_text(&model.system, &system_text(&choices_text(&choices), &contract.text()))
    };
    Script { system, response_format: contract.response_format() }
}

/// Where each status of a selector leads, in words; empty for other roles.
fn choices(workflow: &Workflow, name: &RoleName) -> Vec<(Status, String)> {
    let Some(Role { kind: RoleKind::Selector(_), output, .. }) = workflow.role(name.as_str()) else {
        return Vec::new();
    };
    let outgoing = workflow.graph.iter().find(|(from, _)| from == name.as_str()).map(|(_, outgoing)| outgoing);
    let Some(Outgoing::Role(routes)) = outgoing else { return Vec::new() };
    let role = |role: &RoleName| match workflow.role(role.as_str()).map(|role| role.description.trim()) {
        Some(description) if !description.is_empty() => format!("{role} ({})", words(description)),
        _ => role.to_string(),
    };
    let target = |edge: &Edge| match &edge.to {
        Target::Role(to) => role(to),
        Target::Fan(fan) => {
            let all: Vec<String> = fan.branches.iter().map(|branch| role(&branch.to)).collect();
            all.join(" and ")
        }
        Target::Back => "the role that asks you".to_owned(),
        Target::End => "the end".to_owned(),
        Target::Fail => "the end, as a failure".to_owned(),
    };
    let choice = |(status, _): &(Status, _)| {
        let (_, edges) = routes.iter().find(|(known, _)| known == status)?;
        let targets: Vec<String> = edges.iter().map(target).collect();
        Some((status.clone(), targets.join(" or ")))
    };
    output.iter().filter_map(choice).collect()
}

/// A text on one line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A role's history policy.
pub fn history_policy(model: &ModelRole) -> HistoryPolicy {
    HistoryPolicy { history: model.history, context: model.context.clone() }
}

/// Every model role.
pub fn model_roles(
    workflow: &Workflow,
) -> impl Iterator<Item = (&RoleName, &rondo_protocol::workflow::Role, &ModelRole)> {
    workflow.roles.iter().filter_map(|(name, role)| Some((name, role, role.kind.model()?)))
}

/// Resolves every model and tool role of a workflow. `script` answers in place of tools if it has entries.
pub fn resolve(
    workflow: &Workflow,
    policies: &BTreeMap<String, RolePolicy>,
    limits: &Limits,
    models: &Models,
    mut toolboxes: BTreeMap<RoleName, Toolbox>,
    script: Option<&Arc<Scripted>>,
) -> Result<ResolvedRoles, Error> {
    let mut resolved_roles = ResolvedRoles { body_readers: body_readers(workflow)?, ..ResolvedRoles::default() };
    for (name, role) in &workflow.roles {
        let toolbox = toolboxes.remove(name).unwrap_or_default();
        match (&role.kind, role.kind.model().zip(resolved_roles.body_readers.get(name))) {
            (_, Some((model, BodyReader::Contract(contract)))) => {
                let policy = policies.get(name.as_str());
                let script = self::script(workflow, name, model, contract);
                let fallback = policy.map(|policy| policy.fallback.as_slice()).unwrap_or_default();
                let specs = toolbox.specs();
                let heads = std::iter::once(&model.model)
                    .chain(fallback)
                    .map(|model| head(name, model, workflow, models, &script, &specs))
                    .collect::<Result<_, _>>()?;
                let own = policy.map(|policy| policy.limits.clone()).unwrap_or_default();
                let is_selector = matches!(role.kind, RoleKind::Selector(_));
                let agent = Agent {
                    contract: contract.clone(),
                    repairs: if is_selector { SELECTOR_REPAIRS } else { REPAIRS },
                    model: model.model.clone(),
                    model_calls: own.model_calls.map_or(limits.model_calls, |own| own.min(limits.model_calls)),
                    tool_calls: own.tool_calls.map_or(limits.tool_calls, |own| own.min(limits.tool_calls)),
                    tools: toolbox,
                };
                let served_by = models.0.get(&model.model).map(|model| model.served_by.mark());
                resolved_roles.model_roles.insert(
                    name.clone(),
                    RoleRuntime { agent, history_policy: history_policy(model), heads, served_by },
                );
            }
            (RoleKind::Tool(tool), _) => {
                let runtime = ToolRoleRuntime {
                    tool: tool.tool.clone(),
                    toolbox,
                    fields: fields(name, role)?,
                    ok: status(name, TOOL_OK)?,
                    failed: status(name, TOOL_FAILED)?,
                    script: script.cloned(),
                };
                resolved_roles.tool_roles.insert(name.clone(), runtime);
            }
            _ => {}
        }
    }
    Ok(resolved_roles)
}

/// The fields to read from a tool role's result: those of `ok`, if it declares any.
fn fields(name: &RoleName, role: &Role) -> Result<Option<ResultFields>, Error> {
    let ok = role.output.iter().find(|(status, _)| status.as_str() == TOOL_OK).map(|(_, fields)| fields);
    let Some(declared) = ok.filter(|fields| !fields.is_empty()) else { return Ok(None) };
    let schema = Validator::of_fields(declared).map_err(|error| unfit(name, &error))?;
    Ok(Some(ResultFields { names: declared.iter().map(|(name, _)| name.clone()).collect(), schema }))
}

fn status(role: &RoleName, word: &str) -> Result<Status, Error> {
    Status::new(word).map_err(|error| unfit(role, &error))
}

fn unfit(role: &RoleName, error: &dyn fmt::Display) -> Error {
    Error::Unfit { role: role.clone(), what: error.to_string() }
}

const TOOL_OK: &str = "ok";
const TOOL_FAILED: &str = "failed";

fn head(
    role: &RoleName,
    model: &str,
    workflow: &Workflow,
    models: &Models,
    script: &Script,
    tools: &[ToolSpec],
) -> Result<ModelHead, Error> {
    let unresolved = || Error::UnresolvedModel { role: role.clone(), model: model.to_owned() };
    let resolved = models.0.get(model).ok_or_else(unresolved)?;
    let parameters = workflow.models.get(model).map_or_else(Parameters::default, |spec| spec.parameters.clone());
    let head = Head {
        model: resolved.id.clone(),
        parameters,
        response_format: resolved.response_format.in_head(script.response_format.as_deref()).map(str::to_owned),
        system: script.system.clone(),
        tools: tools.to_vec(),
    };
    let (digest, bytes) = Digest::of(Kind::Head, &head).map_err(|error| unfit(role, &error))?;
    Ok(ModelHead { model: model.to_owned(), head: Arc::new(head), digest, bytes: bytes.into() })
}
