//! `rondo gc`: gives back the space of what no thread needs.

use std::collections::BTreeSet;

use rondo::protocol::event::Durability;
use rondo::protocol::id::ThreadId;
use rondo::store::collect::Garbage;
use rondo::store::folder::DiskUsage;
use rondo::tell::{plural, size, tell};
use rondo::upkeep::{self, Collected};
use serde::Serialize;

use super::deletion::{Deleted, DeletionArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::prune::{self, PruneArgs};
use super::store_access::TrustedStore;
use super::upkeep_bar::UpkeepBar;

/// Give back the space of what no thread needs, also while threads run
#[derive(Debug, clap::Args)]
pub struct GcArgs {
    /// Before that, delete the threads that ended longer ago, such as 30d, as `rondo prune` does
    #[arg(long, value_name = "TIME", value_parser = prune::age)]
    older_than: Option<u64>,
    /// Before that, delete the threads that have ended, as `rondo prune` does, but keep the newest of them
    #[arg(long, value_name = "COUNT")]
    keep: Option<usize>,
    #[command(flatten)]
    pub(super) deletion: DeletionArgs,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "gc")]
struct GcLine {
    threads: u64,
    objects: u64,
    size_bytes: u64,
    disk_bytes_before: u64,
    disk_bytes_after: Option<u64>,
    damaged_disk_bytes: u64,
    deleted: bool,
}

impl GcLine {
    fn new(threads: &BTreeSet<ThreadId>, garbage: &Garbage, before: &DiskUsage) -> Self {
        Self {
            threads: u64::try_from(threads.len()).unwrap_or(u64::MAX),
            objects: garbage.count(),
            size_bytes: garbage.size_bytes,
            disk_bytes_before: before.bytes,
            disk_bytes_after: None,
            damaged_disk_bytes: before.damaged_bytes,
            deleted: false,
        }
    }

    fn text(&self) -> String {
        let objects = format!("{} that no thread needs ({})", plural(self.objects, "object"), size(self.size_bytes));
        match self.disk_bytes_after {
            None => format!("{objects} would be deleted; the store takes {}\n", size(self.disk_bytes_before)),
            Some(after) => {
                format!(
                    "deleted {objects}; the store took {} and takes {}\n",
                    size(self.disk_bytes_before),
                    size(after)
                )
            }
        }
    }
}

pub fn gc(args: &GcArgs, output: &mut Output) -> Result<Exit, Failure> {
    let GcArgs { older_than, keep, deletion } = args;
    let deleted = if older_than.is_some() || keep.is_some() {
        match prune::delete_old(&PruneArgs::of_ended(*older_than, *keep, deletion), output)? {
            Some(deleted) => deleted,
            None => return Ok(Exit::Done),
        }
    } else {
        Deleted::default()
    };
    let line = if deletion.dry_run {
        let folder = deletion.store.folder()?;
        deletion.store.existing()?;
        let bar = UpkeepBar::new();
        let found = upkeep::garbage(&folder, &deleted.threads, &mut |at| bar.show(at));
        bar.finish();
        let (garbage, usage) = found?;
        GcLine::new(&deleted.threads, &garbage, &usage)
    } else {
        let (store, durability) = deleted.store.map_or_else(
            || {
                deletion.store.existing()?;
                deletion.trusted_store(output).map(|(_, store, durability)| (store, durability))
            },
            Ok,
        )?;
        let Collected { garbage, before, after } = collect(store, durability)?;
        let disk_bytes_after = Some(after.bytes);
        GcLine { disk_bytes_after, deleted: true, ..GcLine::new(&deleted.threads, &garbage, &before) }
    };
    output.show(&line, || line.text())?;
    if line.damaged_disk_bytes > 0 && !output.is_json() {
        let bytes = size(line.damaged_disk_bytes);
        tell(&format!("{bytes} of that are damaged databases that recoveries left as `damaged-<n>`; they stay\n"));
    }
    Ok(Exit::Done)
}

/// Collects the garbage of a store, with a progress bar.
///
/// # Errors
/// See [`upkeep::gc`].
pub(super) fn collect(store: TrustedStore, durability: Durability) -> Result<Collected, Failure> {
    let bar = UpkeepBar::new();
    let collected = super::runtime()?.block_on(upkeep::gc(store, durability, &mut |at| bar.show(at)));
    bar.finish();
    collected
}
