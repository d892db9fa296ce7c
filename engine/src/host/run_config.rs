//! Builds the configuration of a run from the operator's settings: which provider serves each model, what must never
//! enter a thread, and which limits apply.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rondo_agent_kit::model::Model;
use rondo_agent_kit::model::recorded::Cassette;
use rondo_agent_kit::model::script::{Script, ScriptRoles};
use rondo_agent_kit::model::scripted::Scripted;
use rondo_agent_kit::sandbox::files::Workspace;
use rondo_agent_kit::tool::{InDoubt, Tool, ToolSet};
use rondo_core::grant::{Approver, Grants};
use rondo_core::hook::{HookProgram, HookResources};
use rondo_core::local::RaisedLimits;
use rondo_core::models::{Models, RECORDING_PROVIDER, ResolvedModel, SCRIPT_PROVIDER, ServedBy};
use rondo_core::{RunConfig, resolved_roles};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::{HookUse, RoleKind, Workflow};
use rondo_protocol::{Digest, canonical};
use rondo_settings::{Provider, SCRIPTED_MODEL, Settings, Unresolved};

use super::answers_from::ReplaySource;
use super::key_command::used_providers;
use super::resources::Resources;
use super::tooling::{self, NoServer};
use crate::failure::Failure;

/// What one run may use: its settings and grants, and the resources that it shares with other threads.
pub struct Equipment {
    settings: Settings,
    grants: Grants,
    provided: Arc<Provided>,
    resources: Arc<Resources>,
    local: Mutex<Option<Local>>,
    hook_programs: Mutex<Option<BTreeMap<String, HookProgram>>>,
}

/// What the program that embeds rondo brings along.
#[derive(Default)]
pub struct Provided {
    /// By logical name. They answer in place of providers.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    pub tools: Vec<Arc<dyn Tool>>,
}

type Local = (ToolSet, Arc<Workspace>);

/// Creates the approver of each thread's tool calls.
pub type Approvers = Arc<dyn Fn() -> Arc<dyn Approver> + Send + Sync>;

#[derive(Clone)]
pub struct RunSpec {
    pub equipment: Arc<Equipment>,
    pub replay: ReplaySource,
    /// The file to record the run to, as an absolute path.
    pub record: Option<PathBuf>,
    /// The policy for calls that may have had their effect, overriding that of each tool.
    pub in_doubt: Option<InDoubt>,
    pub approvers: Option<Approvers>,
    pub raised: RaisedLimits,
    /// The flags of hook kinds, by name.
    pub flags: BTreeMap<String, String>,
}

/// What serves the models that the program brings along, where a provider has its name.
const PROVIDED: &str = "provided";

/// The roles of a workflow that a script can answer for.
pub(crate) fn script_roles(workflow: &Workflow) -> Result<ScriptRoles, Failure> {
    resolved_roles::script_roles(workflow).map_err(Failure::internal)
}

/// The configuration of a run, and notices to print, one sentence each.
pub type Given = (RunConfig, Vec<String>);

/// Builds the configuration of a run of `workflow`, and starts its MCP servers.
///
/// # Errors
/// Exit 5 if a model that a role uses has no id or no provider; exit 3 if a tool that a role names does not exist or
/// is not granted. With answers from a script or a recording a missing tool fails only when it is called.
///
/// # Cancel safety
/// A server that is starting ends; the next run starts it again.
pub async fn run_config(workflow: &Workflow, run_spec: &RunSpec) -> Result<Given, Failure> {
    run_spec.read_keys(workflow).await?;
    let script = scripted(workflow, run_spec)?;
    let (run_config, notices) = with_children(workflow, run_spec, script).await?;
    Ok((RunConfig { raised: run_spec.raised.clone(), ..run_config }, notices))
}

async fn with_children(workflow: &Workflow, run_spec: &RunSpec, script: Option<Scripted>) -> Result<Given, Failure> {
    let (mut children, mut notices) = (BTreeMap::new(), Vec::new());
    for (name, role) in &workflow.roles {
        let RoleKind::Workflow(child) = &role.kind else { continue };
        // Where the child runs, the script answers for its roles.
        let given = Box::pin(with_children(&child.workflow, run_spec, script.clone())).await;
        let (run_config, told) =
            given.map_err(|failure| failure.within(&format!("role {name}, workflow {}", child.workflow.name)))?;
        children.insert(name.clone(), run_config);
        notices.extend(told);
    }
    let (run_config, told) = of_one(workflow, run_spec, script).await?;
    notices.extend(told);
    notices.sort();
    notices.dedup();
    Ok((RunConfig { children, ..run_config }, notices))
}

async fn of_one(workflow: &Workflow, run_spec: &RunSpec, script: Option<Scripted>) -> Result<Given, Failure> {
    let run_config = resolve_models_with(workflow, run_spec, script)?;
    let Equipment { settings, grants, .. } = &*run_spec.equipment;
    let is_replay = run_spec.replay.is_any();
    let Tools { set: tools, files, notices } = run_spec.equipment.tools(workflow, is_replay).await?;
    let grants = grants.clone();
    if !is_replay {
        let toolboxes = resolved_roles::toolboxes(workflow, &tools, &grants);
        let missing = toolboxes.iter().find_map(|(role, toolbox)| Some((role, toolbox.missing().into_iter().next()?)));
        if let Some((role, missing)) = missing {
            return Err(Failure::new(missing.code, format!("role {role}: {}", missing.message)));
        }
    }
    let (approver, in_doubt) = (run_spec.approvers.as_ref().map(|make| make()), run_spec.in_doubt);
    let programs = run_spec.equipment.hook_programs()?;
    let (redactor, backends) = (Arc::clone(&run_config.redactor), tooling::backends(settings));
    let (hook_resources, imposed) = (HookResources { files, programs, redactor, backends }, imposed(settings));
    Ok((RunConfig { tools, grants, imposed, approver, in_doubt, hook_resources, ..run_config }, notices))
}

/// The configuration for sending a thread's calls through hooks again: the current models, and the tools available
/// without a server.
pub fn replaying(workflow: &Workflow, run_spec: &RunSpec) -> Result<RunConfig, Failure> {
    let (tools, files) = run_spec.equipment.local()?;
    let backends = tooling::backends(&run_spec.equipment.settings);
    let hook_resources = HookResources { files: Some(files), backends, ..HookResources::default() };
    let grants = run_spec.equipment.grants.clone();
    Ok(RunConfig { tools, grants, hook_resources, ..resolve_models(workflow, run_spec)? })
}

#[derive(Default)]
struct Tools {
    set: ToolSet,
    /// The files that they see; `None` if there are no tools.
    files: Option<Arc<Workspace>>,
    notices: Vec<String>,
}

impl RunSpec {
    /// Reads the keys of the providers that a run asks, so that they are known.
    pub(crate) async fn read_keys(&self, workflow: &Workflow) -> Result<(), Failure> {
        if self.replay.is_any() {
            return Ok(());
        }
        let used = used_providers(self.equipment.settings(), workflow);
        self.equipment.resources.read_keys(used.iter().map(String::as_str)).await
    }

    /// What decides how a thread begins, before anything is called.
    pub fn of_beginning(&self) -> RunConfig {
        let Equipment { settings, resources, .. } = &*self.equipment;
        RunConfig {
            redactor: Arc::new(resources.redactor()),
            files: settings.files.clone(),
            imposed: imposed(settings),
            ..RunConfig::default()
        }
    }
}

impl Equipment {
    /// Tools and programs are made ready on first use, not here.
    pub fn new(settings: Settings, grants: Grants, provided: Arc<Provided>) -> Self {
        let (local, hook_programs) = Default::default();
        Self { resources: Resources::of(&settings), settings, grants, provided, local, hook_programs }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    fn local(&self) -> Result<Local, Failure> {
        made_once(&self.local, || {
            let (mut tools, files) = tooling::local(&self.settings)?;
            self.provided.tools.iter().try_for_each(|tool| tooling::add(&mut tools, Arc::clone(tool)))?;
            Ok((tools, files))
        })
    }

    fn hook_programs(&self) -> Result<BTreeMap<String, HookProgram>, Failure> {
        made_once(&self.hook_programs, || tooling::hook_programs(&self.settings))
    }

    /// The tools of a run of `workflow`: the local ones, and those of each server with a granted tool that a role
    /// names. In a run from a script or a recording a server starts when one of its tools is called.
    async fn tools(&self, workflow: &Workflow, is_replay: bool) -> Result<Tools, Failure> {
        if tooling::named(workflow).is_empty() {
            return Ok(Tools::default());
        }
        let settings = &self.settings;
        let asked = tooling::asked(workflow, settings, &self.grants);
        let (mut tools, files) = self.local()?;
        // Boxed: the type of a run's future would be deeper than what the compiler follows in a program of its own.
        let starting = asked.into_iter().map(|name| {
            let server: BoxFuture<'_, _> = Box::pin(self.resources.server(name, is_replay, settings));
            server.map(move |server| (name, server))
        });
        let mut notices = Vec::new();
        for (name, started) in futures_util::future::join_all(starting).await {
            match started {
                Ok((server, told)) => {
                    server.tools().into_iter().try_for_each(|tool| tooling::add(&mut tools, tool))?;
                    notices.extend(told);
                }
                Err(NoServer::Unusable(failure)) => tools.miss(name.to_owned(), failure.to_string()),
                Err(NoServer::Refused(failure)) => return Err(failure),
            }
        }
        Ok(Tools { set: tools, files: Some(files), notices })
    }
}

/// The value of a cell, which the first who asks makes; what failed is tried again.
fn made_once<T: Clone>(cell: &Mutex<Option<T>>, make: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut cell = cell.lock();
    match &*cell {
        Some(before) => Ok(before.clone()),
        None => Ok(cell.insert(make()?).clone()),
    }
}

/// The configuration of a run of `workflow` without tools.
pub fn resolve_models(workflow: &Workflow, run_spec: &RunSpec) -> Result<RunConfig, Failure> {
    resolve_models_with(workflow, run_spec, scripted(workflow, run_spec)?)
}

/// The script of a run, for the roles of its workflow and of its children.
fn scripted(workflow: &Workflow, run_spec: &RunSpec) -> Result<Option<Scripted>, Failure> {
    let Some((script, _)) = &run_spec.replay.script else { return Ok(None) };
    Ok(Some(Scripted::new(Arc::new(script.clone()), Arc::new(script_roles(workflow)?))))
}

fn resolve_models_with(
    workflow: &Workflow,
    run_spec: &RunSpec,
    from_script: Option<Scripted>,
) -> Result<RunConfig, Failure> {
    let RunSpec { equipment, replay: ReplaySource { script, recorded, .. }, .. } = run_spec;
    let Equipment { settings, provided, resources, .. } = &**equipment;
    let redactor = Arc::new(resources.redactor());
    let cassette = recorded.as_ref().map(|recorded| Arc::clone(&recorded.cassette));
    let of_recording = cassette.clone().map(|cassette| cassette as Arc<dyn Model>);
    let runtime = of_recording.or_else(|| Some(Arc::new(from_script.clone()?)));
    let replay_source = replay_source(script.as_ref().map(|(script, _)| script), cassette.as_deref())?;
    let used: BTreeSet<&str> = resolved_roles::model_roles(workflow).map(|(_, _, role)| role.model.as_str()).collect();
    let names = workflow.models.keys().map(String::as_str).chain(used.iter().copied());
    let mut models = BTreeMap::new();
    for name in names.collect::<BTreeSet<_>>() {
        // A recording contains the model ids, so it can be played without settings.
        let recorded_id = cassette.as_ref().and_then(|cassette| cassette.model(name));
        let unnamed = runtime.as_ref().map(|_| recorded_id.unwrap_or(SCRIPTED_MODEL));
        if let (Some(own), None) = (provided.models.get(name), &runtime) {
            models.insert(name.to_owned(), provided_model(name, Arc::clone(own)));
            continue;
        }
        let resolved = match settings.model(name, workflow.models.get(name), unnamed) {
            Ok(resolved) => resolved,
            // A model that no role uses first fails only when it is needed.
            Err(_) if !used.contains(name) => continue,
            Err(error) => return Err(unresolved(&error)),
        };
        let provider = match &runtime {
            Some(runtime) => Arc::clone(runtime),
            None => resources.client(&resolved.provider)?,
        };
        let address = |provider: &Provider| provider.base_url.value.clone();
        let served_by = replay_source.clone().unwrap_or_else(|| ServedBy {
            address: settings.providers.get(&resolved.provider).map(address).unwrap_or_default(),
            provider: resolved.provider.clone(),
        });
        // A script costs nothing, and a recording costs what was recorded.
        let listed = runtime.is_none().then(|| rondo_settings::list_price(&resolved.model)).flatten();
        let price = resolved.price.or(listed);
        let is_price_claimed = price.as_ref().is_some_and(|price| price.is_claim);
        let price = price.map(|price| price.dollars);
        let recorded_format = cassette.as_ref().and_then(|cassette| cassette.response_format(name));
        let response_format = recorded_format.unwrap_or_else(|| settings.response_format(&resolved.provider));
        let model = ResolvedModel { id: resolved.model, provider, price, is_price_claimed, served_by, response_format };
        models.insert(name.to_owned(), model);
    }
    let totals = settings.providers.values().filter_map(|provider| provider.total_timeout_ms.as_ref());
    Ok(RunConfig {
        models: Models(models),
        script: from_script.map(Arc::new),
        redactor,
        ceilings: settings.limits.clone(),
        files: settings.files.clone(),
        call_total_ms: totals.map(|total| total.value).min(),
        flags: run_spec.flags.clone(),
        held: vec![Arc::clone(resources) as _],
        ..RunConfig::default()
    })
}

/// Identifies the endpoint of a script or a recording. An edited one is another provider: answers of the old one or of
/// a real provider are not its answers.
fn replay_source(script: Option<&Script>, cassette: Option<&Cassette>) -> Result<Option<ServedBy>, Failure> {
    let (provider, digest) = match (cassette, script) {
        (Some(cassette), _) => (RECORDING_PROVIDER, cassette.digest()),
        (None, Some(script)) => (SCRIPT_PROVIDER, Digest::sha256(&canonical::to_bytes(script)?)),
        (None, None) => return Ok(None),
    };
    Ok(Some(ServedBy { provider: provider.to_owned(), address: format!("sha256:{digest}") }))
}

pub(super) fn imposed(settings: &Settings) -> Vec<HookUse> {
    settings.imposed.iter().map(|imposed| imposed.hook.clone()).collect()
}

/// A model that the program brings along is known by its logical name, and has no price.
fn provided_model(name: &str, provider: Arc<dyn Model>) -> ResolvedModel {
    let served_by = ServedBy { provider: PROVIDED.to_owned(), address: String::new() };
    let (price, is_price_claimed, response_format) = Default::default();
    ResolvedModel { id: name.to_owned(), provider, price, is_price_claimed, served_by, response_format }
}

fn unresolved(error: &Unresolved) -> Failure {
    let ways = match error {
        Unresolved::UnknownProvider { provider, .. } => format!("add [provider.{provider}] to rondo.toml"),
        Unresolved::NoModel { name } => format!("set RONDO_MODEL, or `model` in [model.{name}] of rondo.toml"),
        Unresolved::NoKey { key_env, usable, .. } => match usable.first() {
            Some(usable) => format!("set {key_env}, or name a model of {usable}: --model {usable}/MODEL"),
            None => format!("set {key_env}, or OPENAI_BASE_URL for a server that needs no key"),
        },
    };
    let offline = match error {
        Unresolved::UnknownProvider { .. } => "",
        _ => "; --offline answers from a script",
    };
    Failure::new(Code::NoProvider, error.to_string()).with_hint(format!("{ways}{offline}"))
}
