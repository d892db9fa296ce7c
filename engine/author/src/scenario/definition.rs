//! The workflow that scenarios are checked against, with the places of its parts.

use rondo_agent_kit::model::script;
use rondo_core::resolved_roles;
use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_protocol::workflow::{self, Checked, Files};

use super::report::Part;

#[derive(Debug)]
pub struct Definition {
    pub file: String,
    pub checked: Checked,
    /// Every role that a script can answer for.
    pub(super) resolved_roles: script::Roles,
}

impl Definition {
    /// Reads the workflow `text`, the content of `file`. `files` reads what it includes, by paths relative to its
    /// folder.
    ///
    /// # Errors
    /// All faults of the workflow, including features that this version does not run yet.
    pub fn read(file: &str, text: &str, files: &dyn Files) -> Result<Self, Vec<Diagnostic>> {
        Self::of(file, workflow::read(file, text, files)?)
    }

    pub fn of(file: &str, checked: Checked) -> Result<Self, Vec<Diagnostic>> {
        let unfit = |error: resolved_roles::Error| {
            vec![Diagnostic::at(Code::InternalFault, file, "", Span::default(), error.to_string())]
        };
        let resolved_roles = resolved_roles::script_parts(&checked.workflow).map_err(unfit)?;
        Ok(Self { file: file.to_owned(), checked, resolved_roles })
    }

    /// The part at `path`, with its place or that of the nearest enclosing part.
    pub fn part(&self, path: &str) -> Part {
        let Diagnostic { file, line, column, .. } = self.checked.places.fault(Code::SnapshotChanged, path, None, "");
        Part { path: path.to_owned(), file, line, column }
    }
}
