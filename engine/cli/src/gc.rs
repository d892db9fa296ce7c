use rondo::tell::{plural, size};
use rondo::upkeep::{self, Collected};

use super::deletion::{Deleted, DeletionArgs};
use super::prune::{self, PruneArgs};
use super::store_access::TrustedStore;
use super::upkeep_bar::with_bar;
use super::{Exit, Failure, Output, json_line};

/// Free the space of what no thread needs, also while threads run
#[derive(Debug, clap::Args)]
pub struct GcArgs {
    /// Before that, delete the threads that ended longer ago, such as 30d, as `rondo prune` does
    #[arg(long, value_name = "TIME", value_parser = prune::age)]
    older_than: Option<u64>,
    /// Before that, delete the threads that have ended, as `rondo prune` does, but keep the newest ones
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
    #[command(flatten)]
    pub(super) deletion: DeletionArgs,
}

pub fn gc(args: &GcArgs, output: &mut Output) -> Result<Exit, Failure> {
    let GcArgs { older_than, keep, deletion } = args;
    let mut deleted = Deleted::default();
    if older_than.is_some() || keep.is_some() {
        let old = prune::delete_old(&PruneArgs::of_ended(*older_than, *keep, deletion), output)?;
        let Some(old) = old else { return Ok(Exit::Done) };
        deleted = old;
    }
    let (garbage, before, after) = if deletion.dry_run {
        let folder = deletion.store.folder()?;
        deletion.store.existing()?;
        let (garbage, usage) = with_bar(|bar| upkeep::garbage(&folder, &deleted.threads, &mut |at| bar.show(at)))?;
        (garbage, usage, None)
    } else {
        let store = if let Some(written) = deleted.store {
            written
        } else {
            deletion.store.existing()?;
            deletion.store.trusted(output)?.1
        };
        let Collected { garbage, before, after } = collect(store)?;
        (garbage, before, Some(after.bytes))
    };
    let line = json_line!(
        "gc",
        threads: deleted.threads.len(),
        objects: garbage.count(),
        size_bytes: garbage.size_bytes,
        disk_bytes_before: before.bytes,
        disk_bytes_after: after,
        damaged_disk_bytes: before.damaged_bytes,
        deleted: !deletion.dry_run,
    );
    output.show(&line, || {
        let (bytes, took) = (size(garbage.size_bytes), size(before.bytes));
        let objects = format!("{} that no thread needs ({bytes})", plural(garbage.count(), "object"));
        match after {
            None => format!("{objects} would be deleted; the store takes {took}\n"),
            Some(after) => format!("deleted {objects}; the store took {took} and takes {}\n", size(after)),
        }
    })?;
    if before.damaged_bytes > 0 {
        let bytes = size(before.damaged_bytes);
        output
            .tell(&format!("{bytes} of that are damaged databases that recoveries left as `damaged-<n>`; they stay\n"));
    }
    Ok(Exit::Done)
}

pub(super) fn collect(store: TrustedStore) -> Result<Collected, Failure> {
    let runtime = super::runtime()?;
    with_bar(|bar| runtime.block_on(upkeep::gc(store, &mut |at| bar.show(at))))
}
