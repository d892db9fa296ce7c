//! The hooks of a run: lowers the workflow with them, sets up one hook per node, and computes the paths through them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::tool::{Offer, Toolbox};
use rondo_protocol::call::CallKind;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::hooks::HookKind;
use rondo_protocol::workflow::{HookUse, Policy, Workflow};

use super::{Engine, Error, RunConfig};
use crate::env::Env;
use crate::graph::Graph;
use crate::hook::{BuildContext, CallPath, Context, ModelView, Node, Past, Redactors, Reports, RoleView, ToolView};
use crate::models::ServedBy;
use crate::resolved_roles::ResolvedRoles;

/// How many characters of a name from a file are shown.
const SHOWN_NAME: usize = 60;

impl Engine {
    /// Lowers a workflow with the hooks of this engine's registry, and those that the operator imposes around them.
    ///
    /// # Errors
    /// If a stored definition does not fit this version.
    pub fn graph(&self, workflow: &Workflow, policy: &Policy, imposed: &[HookUse]) -> Result<Arc<Graph>, Error> {
        let hooks = self.parts.registry.nodes(workflow, policy, imposed);
        Ok(Arc::new(Graph::new(workflow, policy, hooks)?))
    }

    /// Whether a node changes requests or replies on their way. One whose patterns act at the port does not.
    fn alters(&self, hook: &HookUse) -> bool {
        let acts_at_port = self
            .parts
            .registry
            .kind(&hook.kind)
            .is_some_and(|kind| kind.patterns(hook).is_ok_and(|patterns| !patterns.is_empty()));
        !acts_at_port && HookKind::find(&hook.kind).is_none_or(|kind| kind.is_altering(&hook.settings))
    }

    pub(super) fn redactors(&self, graph: &Graph, run_config: &RunConfig) -> Result<Redactors, Error> {
        let roles = graph.roles().map(|(role, _)| role);
        Redactors::new(&run_config.redactor, graph.hooks(), roles, &self.parts.registry)
            .map_err(|(node, what)| Error::Hook { node, what })
    }

    /// Sets up one hook per node of a graph, and the paths through them.
    pub(super) fn paths(
        &self,
        graph: &Graph,
        roles: &BTreeMap<RoleName, RoleView>,
        run_config: &RunConfig,
        around: &HookSurroundings,
    ) -> Result<BTreeMap<RoleName, BTreeMap<CallKind, CallPath>>, Error> {
        let parts = &self.parts;
        let mut nodes = Vec::new();
        for (at, hook_node) in graph.hooks().iter().enumerate() {
            if around.replayed.as_ref().is_some_and(|only| *only != hook_node.hook.kind) {
                nodes.push(None);
                continue;
            }
            let failed = |what: String| Error::Hook { node: hook_node.name.clone(), what };
            let kind = parts
                .registry
                .kind(&hook_node.hook.kind)
                .ok_or_else(|| failed("its kind is not part of this build".to_owned()))?;
            let space = self.space(kind.name());
            let RunConfig { flags, hook_resources, .. } = run_config;
            if let Some(program) =
                kind.program(&hook_node.hook).filter(|name| !hook_resources.programs.contains_key(*name))
            {
                let (node, program) = (hook_node.name.clone(), program.chars().take(SHOWN_NAME).collect());
                return Err(Error::HookProgram { node, program });
            }
            let is_replay = around.replayed.is_some();
            let hook = &hook_node.hook;
            let of_kind = graph.hooks().iter().filter(|other| other.hook.kind == hook.kind);
            let of_kind =
                of_kind.flat_map(|other| roles.keys().filter(|role| other.hook.covers(role))).cloned().collect();
            let behind = graph.hooks().iter().skip(at + 1).filter(|other| self.alters(&other.hook));
            let behind = behind.filter(|other| other.hook.at == hook.at || hook.at == CallKind::Turn);
            let altered =
                behind.flat_map(|other| roles.keys().filter(|role| other.hook.covers(role))).cloned().collect();
            let (of_kind, altered) = (&of_kind, &altered);
            let build = BuildContext {
                hook,
                roles,
                flags,
                resources: hook_resources,
                space: &space,
                of_kind,
                altered,
                is_replay,
            };
            let hook = kind.build(&build).map_err(failed)?;
            let context = Context {
                node: hook_node.name.clone(),
                space,
                env: Arc::clone(&around.env),
                reports: Arc::clone(&around.reports),
                past: Arc::clone(&around.past),
            };
            nodes.push(Some(Arc::new(Node {
                on_error: kind.on_error(&hook_node.hook, hook_resources),
                hook,
                context,
            })));
        }
        let path = |role: &RoleName, kind: CallKind| {
            let through = graph.call_path(role, kind).iter();
            CallPath::new(through.filter_map(|at| nodes.get(*at).cloned().flatten()).collect())
        };
        let of_role = |role: &RoleName| CallKind::ALL.into_iter().map(|kind| (kind, path(role, kind))).collect();
        Ok(graph.roles().map(|(role, _)| (role.clone(), of_role(role))).collect())
    }
}

/// The environment of a run's hooks.
pub(super) struct HookSurroundings {
    pub(super) reports: Arc<dyn Reports>,
    pub(super) past: Arc<dyn Past>,
    pub(super) env: Arc<dyn Env>,
    /// The only kind of hooks to set up, when a thread's calls are replayed through them.
    pub(super) replayed: Option<String>,
}

/// What hooks may know of each role.
pub(super) fn views(
    graph: &Graph,
    resolved_roles: &ResolvedRoles,
    run_config: &RunConfig,
    redactors: &Redactors,
) -> BTreeMap<RoleName, RoleView> {
    let view = |role: &RoleName| {
        let runtime = resolved_roles.model_roles.get(role);
        let agent = runtime.map(|runtime| &runtime.agent);
        let toolbox = agent.map(|agent| &agent.tools);
        let toolbox = toolbox.or_else(|| resolved_roles.tool_roles.get(role).map(|runtime| &runtime.toolbox));
        let model = |name: &String| {
            let model = run_config.models.0.get(name)?;
            let ServedBy { provider, address } = model.served_by.clone();
            Some(ModelView { name: name.clone(), id: model.id.clone(), provider, address })
        };
        let tool = |(wire_name, offer): (&str, &Offer)| {
            let spec = offer.tool.spec();
            ToolView {
                name: spec.name.clone(),
                wire_name: wire_name.to_owned(),
                is_granted: offer.denied.is_none(),
                needs_approval: run_config.grants.asks_about(role, &spec.name),
                origin: spec.origin.clone(),
                definition: run_config.hook_resources.definition(spec),
            }
        };
        let view = RoleView {
            workflow: graph.name().to_owned(),
            models: runtime.iter().flat_map(|runtime| &runtime.heads).filter_map(|head| model(&head.model)).collect(),
            offers: toolbox.into_iter().flat_map(Toolbox::offers).map(tool).collect(),
            model_calls: agent.map_or(0, |agent| agent.model_calls),
            tool_calls: agent.map_or(0, |agent| agent.tool_calls),
            redaction: redactors.fingerprint(role),
            contract: agent.map(|agent| agent.contract.clone()),
        };
        (role.clone(), view)
    };
    graph.roles().map(|(role, _)| view(role)).collect()
}
