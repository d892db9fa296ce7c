//! The registry of hook kinds: what a file may name and who makes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::call::CallKind;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{HookUse, OnHookError};

use super::Hook;

/// A kind of hook. Everything that belongs to it stands in its own file: its settings, when it adds itself to a role,
/// its verbs, and the hook.
pub trait HookKind: Send + Sync {
    /// The name in files.
    fn name(&self) -> &'static str;

    /// The JSON Schema of its settings.
    fn settings_schema(&self) -> Value;

    /// The settings with which it adds itself to a role that no file named it for, if it does: `with` of the role
    /// holds what the author wrote for this kind.
    fn auto_inject(&self, role: &RoleView) -> Option<HookUse> {
        let _ = role;
        None
    }

    /// Verbs that it adds to the command line: name and one line of help.
    fn verbs(&self) -> Vec<Verb> {
        Vec::new()
    }

    /// Makes the hook of one node.
    ///
    /// # Errors
    /// What is wrong with the settings, in words.
    fn build(
        &self,
        settings: &BTreeMap<String, Value>,
        roles: &BTreeMap<RoleName, RoleView>,
    ) -> Result<Arc<dyn Hook>, String>;
}

/// A verb that a kind adds to the command line.
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Runs it with the words that follow and the kind's space; gives the text to print.
    pub run: fn(&[String], &super::Space) -> Result<String, String>,
}

/// What a hook may know of a role.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleView {
    /// Its name.
    pub role: RoleName,
    /// The name of its workflow.
    pub workflow: String,
    /// What the author wrote for hook kinds in the role's `with`, by kind.
    pub with: BTreeMap<String, Value>,
    /// The tools that it may use.
    pub tools: Vec<String>,
}

/// A use of a kind as the graph holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The name of the node: the kind's, with a number where it is used more than once.
    pub node: String,
    /// What was written, or what the kind wrote itself.
    pub hook: HookUse,
    /// Whether the kind added itself.
    pub injected: bool,
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

    /// The kind of that name.
    pub fn kind(&self, name: &str) -> Option<&Arc<dyn HookKind>> {
        self.kinds.get(name)
    }

    /// Every kind, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<dyn HookKind>> {
        self.kinds.values()
    }

    /// The nodes of a workflow, outermost first: those that kinds add themselves, then those of the file. A kind that
    /// is not here passes calls through, so it has no node.
    pub fn place(&self, uses: &[HookUse], roles: &BTreeMap<RoleName, RoleView>) -> Vec<Placed> {
        let injected = self.kinds.values().flat_map(|kind| roles.values().filter_map(|role| kind.auto_inject(role)));
        let written = uses.iter().filter(|hook| self.kinds.contains_key(hook.kind.as_str())).cloned();
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        injected
            .map(|hook| (hook, true))
            .chain(written.map(|hook| (hook, false)))
            .map(|(hook, injected)| {
                let count = seen.entry(hook.kind.clone()).or_default();
                *count += 1;
                let node = if *count == 1 { hook.kind.clone() } else { format!("{}_{count}", hook.kind) };
                Placed { node, hook, injected }
            })
            .collect()
    }
}

impl Placed {
    /// Whether calls of that kind by that role pass this node.
    pub fn stands_before(&self, role: &RoleName, kind: CallKind) -> bool {
        self.hook.at == kind && self.hook.roles.as_ref().is_none_or(|roles| roles.contains(role))
    }

    /// What happens when the hook fails itself.
    pub fn on_error(&self) -> OnHookError {
        self.hook.on_error
    }
}
