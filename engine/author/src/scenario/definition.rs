//! The workflow that scenarios are checked against, with the places of its parts.

use rondo_agent_kit::model::script::ScriptRoles;
use rondo_core::resolved_roles;
use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_protocol::workflow::Checked;

use super::report::DefinitionPart;

#[derive(Debug)]
pub struct Definition {
    pub file: String,
    pub checked: Checked,
    pub(super) script_roles: ScriptRoles,
}

impl Definition {
    /// The workflow that was read from `file`.
    pub fn of(file: &str, checked: Checked) -> Result<Self, Vec<Diagnostic>> {
        let unfit = |error: resolved_roles::Error| {
            vec![Diagnostic::at(Code::InternalFault, file, "", Span::default(), error.to_string())]
        };
        let script_roles = resolved_roles::script_roles(&checked.workflow).map_err(unfit)?;
        Ok(Self { file: file.to_owned(), checked, script_roles })
    }

    /// The part at `path`, with its place or that of the nearest enclosing part.
    pub fn part(&self, path: &str) -> DefinitionPart {
        let Diagnostic { file, line, column, .. } = self.checked.places.fault(Code::SnapshotChanged, path, None, "");
        DefinitionPart { path: path.to_owned(), file, line, column }
    }
}
