use rondo_protocol::call::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{FileCall, PIECE_MIB, Patience, named};
use super::{Content, Error};
use crate::bound::grouped;
use crate::redact::Redactor;
use crate::sandbox::files::Workspace;

/// What [`WriteFile`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// The file, relative to the workspace's root. Folders that are missing are made.
    path: String,
    /// The whole text of the file, without line numbers.
    text: String,
}

impl FileCall for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Writes a file: creates it, or replaces all that it holds. To change a part of a \
        file use `edit_file`.";
    const ROOM_MIB: u32 = PIECE_MIB;
    const ONLY_READS: bool = false;

    fn effect(&self, workspace: &Workspace) -> Effect {
        Effect::Writes(vec![named(workspace, &self.path)])
    }

    fn run(self, workspace: &Workspace, _: Redactor, patience: &Patience) -> Result<Content, Error> {
        let mut target = workspace.target(&self.path)?;
        patience.check()?;
        let done = if target.is_new() { "created" } else { "replaced" };
        target.replace(self.text.as_bytes())?;
        Ok(format!("{done} {} ({} bytes)\n", target.path(), grouped(self.text.len() as u64)).into())
    }
}
