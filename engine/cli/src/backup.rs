use std::path::PathBuf;

use rondo::store::check::Examination;
use rondo::tell::{plural, size};
use rondo::upkeep;

use super::upkeep_bar::with_bar;
use super::{Exit, Failure, Output, StoreArgs, json, json_line};

/// Copy the store, also while threads run, and verify the copy
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct BackupArgs {
    /// The folder of the copy; it must be new or empty
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn backup(args: &BackupArgs, output: &mut Output) -> Result<Exit, Failure> {
    let folder = args.store.folder()?;
    let Examination { threads, steps, objects, bytes, .. } =
        with_bar(|bar| upkeep::backup(&folder, &args.to, &mut |at| bar.show(at)))?;
    let shown = args.to.display().to_string();
    let line = json_line!("backup", folder: &shown, threads, steps, objects, size_bytes: bytes);
    output.show(&line, || {
        let (threads, steps, objects) = (plural(threads, "thread"), plural(steps, "step"), plural(objects, "object"));
        let bytes = size(bytes);
        format!("{shown} is a whole copy: {threads}, {steps} and {objects} ({bytes}); `--store {shown}` uses it\n")
    })?;
    Ok(Exit::Done)
}
