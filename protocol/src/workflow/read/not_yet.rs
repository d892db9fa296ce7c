//! What is read and checked but not run by this version: named at its key, so that `validate` can warn and `run` can
//! refuse before anything is paid for.

use std::collections::BTreeSet;

use super::Reader;
use crate::diagnostic::Code;
use crate::workflow::hooks::HookKind;
use crate::workflow::{ModelRole, Policy, Role, RoleKind, Workflow, places};

impl Reader<'_> {
    /// Notes what cannot be run yet, and warns of transparent hooks that are passed through.
    pub(super) fn not_yet_run(&mut self, workflow: &Workflow, policy: &Policy) {
        for (name, role) in &workflow.roles {
            self.role_not_yet(&places::key("roles", name.as_str()), role);
        }
        let transparent = policy.hooks.iter().map(|hook| hook.kind.as_str());
        let of_roles =
            policy.roles.iter().filter(|(name, _)| !name.contains('/')).flat_map(|(_, role)| role.with.keys());
        let named: BTreeSet<&str> = transparent.chain(of_roles.map(String::as_str)).collect();
        for kind in named.into_iter().filter_map(HookKind::find).filter(|kind| !kind.built) {
            let path = self.use_of(kind.name, false);
            let message = format!("this version has no `{}` hook: calls pass through", kind.name);
            let warning = self.places.key_fault(Code::HookPassedThrough, &path, message);
            self.keep(warning);
        }
        let altering = workflow.hooks.iter().map(|hook| hook.kind.as_str());
        let of_roles = workflow.roles.iter().flat_map(|(_, role)| role.with.keys());
        let named: BTreeSet<&str> = altering.chain(of_roles.map(String::as_str)).collect();
        for kind in named.into_iter().filter_map(HookKind::find).filter(|kind| !kind.built) {
            let path = self.use_of(kind.name, true);
            self.not_yet(&path, &format!("the altering hook `{}`", kind.name));
        }
    }

    fn role_not_yet(&mut self, path: &str, role: &Role) {
        match &role.kind {
            RoleKind::Model(model) => self.model_not_yet(path, model),
            RoleKind::Tool(_) => {}
            kind => self.not_yet(&places::key(path, "kind"), &format!("a {} role", kind.name())),
        }
    }

    fn model_not_yet(&mut self, path: &str, model: &ModelRole) {
        if model.compact.is_some() {
            self.not_yet(&places::key(path, "compact"), "`compact`");
        }
    }

    fn not_yet(&mut self, path: &str, what: &str) {
        if self.not_yet.len() < super::MAX_FAULTS {
            let message = format!("this version cannot run {what} yet");
            let fault = self.places.key_fault(Code::NotYetRun, path, message);
            self.not_yet.push(fault);
        }
    }

    /// Where the file first uses a hook kind in this way.
    fn use_of(&self, name: &str, alters: bool) -> String {
        let known = HookKind::find(name).and_then(|kind| self.hook_uses.get(&(kind.name, alters)));
        known.cloned().unwrap_or_else(|| "hooks".to_owned())
    }
}
