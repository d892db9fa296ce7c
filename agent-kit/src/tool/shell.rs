//! `shell`: runs a program or a script in the workspace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use super::program::outcome;
use super::{BuiltIn, Content, Error, Invocation};
use crate::sandbox::process::{Command, Processes, WorkingDir};

const TIMEOUT_S: u64 = 120;
const TIMEOUT_MAX_S: u64 = 3600;

#[derive(Debug, Clone)]
pub struct Shell {
    processes: Arc<Processes>,
}

impl Shell {
    pub fn new(processes: Arc<Processes>) -> Self {
        Self { processes }
    }
}

/// What to run: exactly one of argv and script.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShellArguments {
    /// A program and its arguments, each as it is: no shell reads them. Give this or script.
    #[serde(default)]
    argv: Option<Vec<String>>,
    /// A script for /bin/sh. Give this or argv.
    #[serde(default)]
    script: Option<String>,
    /// The folder of the workspace to run in; the workspace itself when left out.
    #[serde(default)]
    working_dir: Option<PathBuf>,
    /// How many seconds it may take, at most 3600; 120 when left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u64>,
}

impl ShellArguments {
    fn argv(&self) -> Result<Vec<String>, Error> {
        match (&self.argv, &self.script) {
            (Some(argv), None) if !argv.is_empty() => Ok(argv.clone()),
            (None, Some(script)) => Ok(vec!["/bin/sh".to_owned(), "-c".to_owned(), script.clone()]),
            _ => Err(Error::new(Code::ToolArguments, "give either argv, with at least a program, or script")),
        }
    }
}

impl BuiltIn for Shell {
    type Arguments = ShellArguments;

    const NAME: &'static str = "shell";
    const DESCRIPTION: &'static str = "Runs a program (argv) or a script of /bin/sh (script) in the workspace, and \
        returns what it puts out on both streams. It has no network and no input, writes below the workspace and in \
        $TMPDIR only, cannot reach .git, and everything it started ends with it. Another exit code than 0 is an error \
        with the output. The middle of a long output is left out.";

    fn effect(&self, _: &ShellArguments) -> Effect {
        Effect::External
    }

    fn run<'a>(
        &'a self,
        arguments: ShellArguments,
        invocation: &'a Invocation,
    ) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            let seconds = arguments.timeout_seconds.unwrap_or(TIMEOUT_S).clamp(1, TIMEOUT_MAX_S);
            let mut command = Command::new(arguments.argv()?);
            command.redactor = invocation.redactor.clone();
            command.timeout = Duration::from_secs(seconds);
            command.working_dir = arguments.working_dir.map_or(command.working_dir, WorkingDir::Folder);
            // The programs are the project's own, and their modules lie beside them.
            command.has_safe_imports = false;
            command.env.insert(super::program::KEY_VARIABLE.to_owned(), invocation.idempotency_key.clone());
            outcome(self.processes.run(command).await?).map(Content::from)
        })
    }
}
