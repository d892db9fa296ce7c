//! A workflow as scenarios are held to it: checked, with the places of its parts.

use rondo_agent_kit::model::script;
use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_protocol::workflow::{self, Checked, Files};

use super::report::Part;
use crate::resolved_roles;

/// A checked workflow, and where each of its parts stands.
#[derive(Debug)]
pub struct Definition {
    /// The file as it is shown.
    pub file: String,
    /// What it means.
    pub checked: Checked,
    /// Every role that a script answers for.
    pub(super) resolved_roles: script::Roles,
}

impl Definition {
    /// Reads the workflow `text`, which is the content of `file`. `files` gives what it includes, by paths from its
    /// folder.
    ///
    /// # Errors
    /// All faults of the workflow, also what this version does not run yet.
    pub fn read(file: &str, text: &str, files: &dyn Files) -> Result<Self, Vec<Diagnostic>> {
        Self::of(file, workflow::read(file, text, files)?)
    }

    /// The definition that `checked` is, read from `file`.
    ///
    /// # Errors
    /// What this version does not run yet.
    pub fn of(file: &str, checked: Checked) -> Result<Self, Vec<Diagnostic>> {
        if !checked.not_yet.is_empty() {
            return Err(checked.not_yet);
        }
        let unfit = |error: resolved_roles::Error| {
            vec![Diagnostic::at(Code::InternalFault, file, "", Span::default(), error.to_string())]
        };
        let resolved_roles = resolved_roles::script_parts(&checked.workflow).map_err(unfit)?;
        Ok(Self { file: file.to_owned(), checked, resolved_roles })
    }

    /// The part at `path`, with its place or that of the nearest part that holds it.
    pub fn part(&self, path: &str) -> Part {
        let Diagnostic { file, line, column, .. } = self.checked.places.fault(Code::SnapshotChanged, path, None, "");
        Part { path: path.to_owned(), file, line, column }
    }
}
