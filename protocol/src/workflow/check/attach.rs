//! The files that go with a prompt: they are inputs of a type for files, and only models are sent any.

use super::Findings;
use super::indexed_graph::IndexedGraph;
use crate::diagnostic::{Code, did_you_mean};
use crate::id::{FieldName, RoleName};
use crate::workflow::source_map::{item, key};
use crate::workflow::{RoleKind, Target, Workflow};

pub(super) fn check(indexed: &IndexedGraph<'_>, findings: &mut Findings<'_>) {
    for way in &indexed.edges {
        of_prompt(indexed.workflow, &way.path, &way.edge.attach, role_of(&way.edge.to), findings);
        if let Target::Fan(fan) = &way.edge.to {
            for (at, branch) in fan.branches.iter().enumerate() {
                let path = item(&key(&way.path, "to"), at);
                of_prompt(indexed.workflow, &path, &branch.attach, Some(&branch.to), findings);
            }
        }
    }
}

fn role_of(target: &Target) -> Option<&RoleName> {
    match target {
        Target::Role(role) => Some(role),
        Target::End | Target::Fail | Target::Back | Target::Fan(_) => None,
    }
}

fn of_prompt(
    workflow: &Workflow,
    path: &str,
    attach: &[FieldName],
    to: Option<&RoleName>,
    findings: &mut Findings<'_>,
) {
    let path = key(path, "attach");
    let of_files = || workflow.input.iter().filter(|(_, field)| field.takes_files());
    for (at, name) in attach.iter().enumerate() {
        if of_files().any(|(known, _)| known == name) {
            continue;
        }
        let is_declared = workflow.input.iter().any(|(known, _)| known == name);
        let message =
            if is_declared { format!("the input `{name}` is no file") } else { format!("there is no input `{name}`") };
        let known = of_files().map(|(known, _)| known.as_str());
        let hint = did_you_mean(name.as_str(), known)
            .unwrap_or_else(|| format!("declare it under `input`, as `{name}: file` or `{name}: \"file[]\"`"));
        findings.at(Code::UnknownInput, &item(&path, at), message, hint);
    }
    let target = to.filter(|_| !attach.is_empty()).and_then(|to| workflow.role(to.as_str()).map(|role| (to, role)));
    if let Some((to, role)) = target
        && !matches!(role.kind, RoleKind::Model(_) | RoleKind::Selector(_))
    {
        let message = format!("`{to}` is a {} role, which is sent no files", role.kind.name());
        findings.at(Code::InvalidValue, &path, message, "only a model role takes files");
    }
}
