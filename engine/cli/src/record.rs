use std::path::PathBuf;

use rondo::protocol::text::shell_argument;

use super::named_command::completed;
use super::run::{RunArgs, start};
use super::{Exit, Failure, Output, recording, working_folder};

/// Run a workflow and record the requests to its models and their answers
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// The recording to write; it must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// Runs a workflow and records it. Hooks that replay earlier answers pass every call, so that the recording contains
/// all answers of the run.
pub fn record(args: &RecordArgs, output: &mut Output) -> Result<Exit, Failure> {
    let to = recording::place(&args.to, &working_folder()?)?;
    let exit = start(&args.run, Some(to), output)?;
    if !args.run.view.quiet {
        let (file, inputs) = (args.to.to_string_lossy(), args.run.input.words());
        let (workflow, argument) = (shell_argument(&args.run.workflow), shell_argument(&file));
        let told = format!("recorded in {file}; `rondo run {workflow}{inputs} --recorded {argument}` plays it\n");
        output.tell(&completed(&told));
    }
    Ok(exit)
}
