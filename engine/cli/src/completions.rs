use clap::CommandFactory;
use clap_complete::Shell;

use super::{Exit, Failure, Output};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub fn completions(args: &CompletionsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::CommandLine::command(), "rondo", &mut script);
    output.write(&script).map(|()| Exit::Done)
}
