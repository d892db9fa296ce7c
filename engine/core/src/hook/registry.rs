//! The registry of hook kinds: what a file may name and who makes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::redact::Pattern;
use rondo_protocol::Value;
use rondo_protocol::call::CallKind;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{HookNode, HookUse, OnHookError, Policy, Workflow};

use super::{Hook, HookResources, KeySpace, RoleView, Subcommand};

/// A kind of hook. Its file contains all of it: settings, when it adds itself to a role, subcommands, flags, the hook.
pub trait HookKind: Send + Sync {
    /// The name in files.
    fn name(&self) -> &'static str;

    /// The kind of calls for which it adds itself to a role with settings for it under `with`.
    fn injected_at(&self) -> Option<CallKind> {
        None
    }

    /// The operator's program that a use of this kind runs, if any. A run whose workflow names an undeclared one is
    /// refused before anything is set up.
    fn program<'h>(&self, hook: &'h HookUse) -> Option<&'h str> {
        let _ = hook;
        None
    }

    /// What happens when the hook of this use fails itself. The operator may be stricter than the file.
    fn on_error(&self, hook: &HookUse, resources: &HookResources) -> OnHookError {
        let _ = resources;
        hook.on_error
    }

    /// Verbs that it adds to the command line. Kinds that add the same verb share it: each is asked, in their order.
    fn subcommands(&self) -> Vec<Subcommand> {
        Vec::new()
    }

    /// Flags that it adds to `run` and `resume`. Kinds that add the same flag share it.
    fn flags(&self) -> Vec<Flag> {
        Vec::new()
    }

    /// The patterns that it adds to the redaction of what enters the thread through its calls.
    ///
    /// # Errors
    /// Which pattern cannot be used, and why.
    fn patterns(&self, hook: &HookUse) -> Result<Vec<Pattern>, String> {
        let _ = hook;
        Ok(Vec::new())
    }

    /// Makes the hook of one node for one run of a thread.
    ///
    /// # Errors
    /// What is wrong with the settings, in words.
    fn build(&self, build: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String>;
}

/// What a hook is built from.
pub struct BuildContext<'a> {
    /// What the author wrote for this node.
    pub hook: &'a HookUse,
    /// The roles, as far as a hook may know them.
    pub roles: &'a BTreeMap<RoleName, RoleView>,
    /// The flags of this run that kinds brought along, by name.
    pub flags: &'a BTreeMap<String, String>,
    /// What the operator lets hooks use.
    pub resources: &'a HookResources,
    /// The kind's own keys and values, the same for each of its nodes.
    pub space: &'a KeySpace,
    /// The roles that any node of this kind covers.
    pub of_kind: &'a BTreeSet<RoleName>,
    /// The roles whose calls or replies may be changed between this node and the port: their replies do not answer the
    /// call as this node sees it.
    pub altered: &'a BTreeSet<RoleName>,
    /// Whether the calls to come are those of a finished thread, sent again: they count in no metric.
    pub is_replay: bool,
}

/// A flag that a kind adds to `run` and `resume`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// The words that it takes; the first one is the default.
    pub values: &'static [&'static str],
    /// One line of help.
    pub about: &'static str,
    /// The value with which every call reaches its port, used for a run that is recorded; `None` = the flag has no effect
    /// on that.
    pub reaching: Option<&'static str>,
}

/// The kinds that are built in.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<&'static str, Arc<dyn HookKind>>,
}

impl Registry {
    /// A registry of `kinds`.
    pub fn new(kinds: impl IntoIterator<Item = Arc<dyn HookKind>>) -> Self {
        Self { kinds: kinds.into_iter().map(|kind| (kind.name(), kind)).collect() }
    }

    /// The same with another kind, in place of one of its name.
    #[must_use]
    pub fn with(mut self, kind: Arc<dyn HookKind>) -> Self {
        self.kinds.insert(kind.name(), kind);
        self
    }

    /// The kind of that name.
    pub fn kind(&self, name: &str) -> Option<&Arc<dyn HookKind>> {
        self.kinds.get(name)
    }

    /// Every kind, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<dyn HookKind>> {
        self.kinds.values()
    }

    /// The hook nodes of a workflow, outermost first: those that the operator imposes, those that kinds add themselves,
    /// those of the file. A kind that is not in this build lets calls through, so it has no node.
    pub fn nodes(&self, workflow: &Workflow, policy: &Policy, imposed: &[HookUse]) -> Vec<HookNode> {
        let numbered = imposed.iter().enumerate();
        let imposed = numbered
            .map(|(at, hook)| HookNode { name: format!("imposed_{}_{}", at + 1, hook.kind), hook: hook.clone() });
        let written = policy.hooks.iter().chain(&workflow.hooks);
        let written = written.filter(|hook| self.kinds.contains_key(hook.kind.as_str())).cloned();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let own = self.injected(workflow, policy).into_iter().chain(written).map(|hook| {
            let count = counts.entry(hook.kind.clone()).or_default();
            *count += 1;
            let name = if *count == 1 { hook.kind.clone() } else { format!("{}_{count}", hook.kind) };
            HookNode { name, hook }
        });
        imposed.chain(own).collect()
    }

    /// The uses that kinds add because a role's `with` holds settings for them.
    fn injected(&self, workflow: &Workflow, policy: &Policy) -> Vec<HookUse> {
        let mut injected: Vec<HookUse> = Vec::new();
        let kinds = self.kinds.values().filter_map(|kind| Some((kind.name(), kind.injected_at()?)));
        let roles: BTreeMap<_, _> = workflow.roles.iter().map(|(name, role)| (name, role)).collect();
        for (kind, at) in kinds {
            for (name, role) in &roles {
                let transparent = policy.roles.get(name.as_str()).and_then(|policy| policy.with.get(kind));
                let Some(Value::Object(settings)) = role.with.get(kind).or(transparent) else { continue };
                let hook = HookUse {
                    at,
                    on_error: OnHookError::Bypass,
                    roles: Some(vec![RoleName::clone(name)]),
                    settings: settings.clone(),
                    kind: kind.to_owned(),
                };
                // Roles that say the same share a node.
                match injected.iter_mut().find(|other| other.is_as(&hook)) {
                    Some(HookUse { roles: Some(roles), .. }) => roles.extend(hook.roles.into_iter().flatten()),
                    _ => injected.push(hook),
                }
            }
        }
        injected
    }
}
