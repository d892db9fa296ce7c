//! Warnings about the prefixes of a workflow's requests, from its files alone: `rondo validate --prefix`.
//!
//! A provider serves the beginning of a request from its cache only if it is byte for byte the same, and long enough.
//! Layout 1 makes a role's requests start alike; this module checks what an author writes into them.
//!
//! - `volatile.rs`: text that changes from run to run before text that could be shared;
//! - `minimum.rs`: beginnings shorter than a provider's minimum;
//! - `unshared.rs`: texts that roles have in common but not at the beginning.
//!
//! It is pure: it must never know terminals, files, threads, or how settings are resolved; it receives
//! [`ResolvedRoles`].

mod minimum;
mod unshared;
mod volatile;

use std::collections::BTreeMap;

use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::id::RoleName;
use rondo_protocol::object::{Head, Parameters, ToolSpec};
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::{ModelRole, RoleKind, SourceMap, Workflow};

use rondo_core::resolved_roles;

/// The most warnings of one file and its children.
const MAX_WARNINGS: usize = 1_000;

/// The settings that affect a role's requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResolvedRoles {
    /// The provider's id of the model, if set.
    pub model: Option<String>,
    /// The role's tools, without those of servers, which only a running server can list.
    pub tools: Vec<ToolSpec>,
}

/// A model role, with the common beginning of its requests.
struct LintedRole<'w> {
    name: &'w RoleName,
    role: &'w ModelRole,
    model: Option<String>,
    /// Its request head without parameters, which are not part of a prefix.
    head: Head,
}

impl LintedRole<'_> {
    fn system(&self) -> String {
        key(&key("roles", self.name.as_str()), "system")
    }
}

/// Returns all warnings about the prefixes of a workflow and of its sub-workflows, by file and place. `resolved_roles`
/// returns the settings of a workflow's roles.
pub fn lint(
    workflow: &Workflow,
    places: &SourceMap,
    resolved_roles: &dyn Fn(&Workflow) -> BTreeMap<RoleName, ResolvedRoles>,
) -> Result<Vec<Diagnostic>, resolved_roles::Error> {
    let mut found = Vec::new();
    let mut open = vec![(workflow, places)];
    while let Some((workflow, places)) = open.pop() {
        let mut resolved_roles = resolved_roles(workflow);
        let contracts = resolved_roles::contracts(workflow)?;
        let parts: Vec<LintedRole<'_>> = resolved_roles::model_roles(workflow)
            .filter_map(|(name, _, role)| {
                let resolved_roles::Script { system, response_format } =
                    resolved_roles::script(workflow, name, role, contracts.get(name)?);
                let ResolvedRoles { model, tools } = resolved_roles.remove(name).unwrap_or_default();
                let parameters = Parameters::default();
                let head = Head { model: String::new(), parameters, response_format, system, tools };
                Some(LintedRole { name, role, model, head })
            })
            .collect();
        found.extend(volatile::lint(workflow, &parts, places));
        found.extend(minimum::lint(workflow, &parts, places));
        found.extend(unshared::lint(&parts, places));
        open.extend(workflow.roles.iter().filter_map(|(name, role)| match &role.kind {
            RoleKind::Workflow(child) => Some((&child.workflow, places.child(name.as_str())?)),
            _ => None,
        }));
    }
    found.sort_by(|a, b| (&a.file, a.span, a.code).cmp(&(&b.file, b.span, b.code)));
    // One file may play several roles.
    found.dedup();
    found.truncate(MAX_WARNINGS);
    Ok(found)
}

#[cfg(test)]
mod tests;
