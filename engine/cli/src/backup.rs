//! `rondo backup`: copies a store.

use std::path::PathBuf;

use rondo::store::check::Examination;
use rondo::tell::{plural, size};
use rondo::upkeep;
use serde::Serialize;

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::upkeep_bar::UpkeepBar;
use super::{JsonArgs, StoreArgs};

/// Copy the store, also while threads run, and prove that the copy is whole
#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// The folder of the copy; it must be new or empty
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "backup")]
struct BackupLine<'a> {
    folder: &'a str,
    threads: u64,
    steps: u64,
    objects: u64,
    size_bytes: u64,
}

pub fn backup(args: &BackupArgs, output: &mut Output) -> Result<Exit, Failure> {
    let folder = args.store.folder()?;
    let bar = UpkeepBar::new();
    let copied = upkeep::backup(&folder, &args.to, &mut |at| bar.show(at));
    bar.finish();
    let Examination { threads, steps, objects, bytes, .. } = copied?;
    let shown = args.to.display().to_string();
    let line = BackupLine { folder: &shown, threads, steps, objects, size_bytes: bytes };
    output.show(&line, || {
        let held =
            format!("{}, {} and {}", plural(threads, "thread"), plural(steps, "step"), plural(objects, "object"));
        format!("{shown} is a whole copy: {held} ({}); `--store {shown}` uses it\n", size(bytes))
    })?;
    Ok(Exit::Done)
}
