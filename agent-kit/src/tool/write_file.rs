use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_protocol::call::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::bound::grouped;
use super::files::{Room, named, on_a_thread};
use super::{BuiltIn, Error, Invocation};
use crate::sandbox::files::Workspace;

/// Writes a file whole.
#[derive(Debug)]
pub struct WriteFile {
    workspace: Arc<Workspace>,
}

/// What [`WriteFile`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The file, relative to the workspace's root. Folders that are missing are made.
    path: String,
    /// The whole text of the file, without line numbers.
    text: String,
}

impl WriteFile {
    /// Writes files of this workspace.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

impl BuiltIn for WriteFile {
    type Arguments = Arguments;

    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Writes a file: creates it, or replaces all that it holds. To change a part of a \
        file use `edit_file`.";

    fn effect(&self, arguments: &Arguments) -> Effect {
        Effect::Writes(vec![named(&self.workspace, &arguments.path)])
    }

    fn run<'a>(&'a self, arguments: Arguments, _: &'a Invocation) -> BoxFuture<'a, Result<String, Error>> {
        let workspace = Arc::clone(&self.workspace);
        on_a_thread(Room::Piece, move |patience| {
            let mut target = workspace.target(&arguments.path)?;
            patience.check()?;
            let written = target.replace(arguments.text.as_bytes())?;
            let done = if written.is_new { "created" } else { "replaced" };
            Ok(format!("{done} {} ({} bytes)\n", target.path(), grouped(written.bytes)))
        })
    }
}
