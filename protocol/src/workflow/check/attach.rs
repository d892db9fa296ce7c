//! The files that go with a prompt: they are inputs of a type for files, and only models are sent any.

use super::Findings;
use crate::diagnostic::{Code, did_you_mean};
use crate::id::{FieldName, RoleName};
use crate::workflow::source_map::{item, key};
use crate::workflow::{RoleKind, Target};

impl Findings<'_, '_> {
    pub(super) fn attached(&mut self) {
        for way in &self.indexed.edges {
            let to = if let Target::Role(role) = &way.edge.to { Some(role) } else { None };
            self.attached_to(&way.path, &way.edge.attach, to);
            if let Target::Fan(fan) = &way.edge.to {
                for (at, branch) in fan.branches.iter().enumerate() {
                    self.attached_to(&item(&key(&way.path, "to"), at), &branch.attach, Some(&branch.to));
                }
            }
        }
    }

    fn attached_to(&mut self, path: &str, attach: &[FieldName], to: Option<&RoleName>) {
        let path = key(path, "attach");
        let workflow = self.indexed.workflow;
        for (at, name) in attach.iter().enumerate() {
            let message = match workflow.input.iter().find(|(known, _)| known == name) {
                Some((_, field)) if field.takes_files() => continue,
                Some(_) => format!("the input `{name}` is no file"),
                None => format!("there is no input `{name}`"),
            };
            let of_files = workflow.input.iter().filter(|(_, field)| field.takes_files());
            let hint = did_you_mean(name.as_str(), of_files.map(|(known, _)| known.as_str()))
                .unwrap_or_else(|| format!("declare it under `input`, as `{name}: file` or `{name}: \"file[]\"`"));
            self.at(Code::UnknownInput, &item(&path, at), message, hint);
        }
        if let Some(to) = to.filter(|_| !attach.is_empty())
            && let Some(role) = workflow.role(to.as_str())
            && !matches!(role.kind, RoleKind::Model(_) | RoleKind::Selector(_))
        {
            let message = format!("`{to}` is a {} role, which is sent no files", role.kind.name());
            self.at(Code::InvalidValue, &path, message, "only a model role takes files");
        }
    }
}
