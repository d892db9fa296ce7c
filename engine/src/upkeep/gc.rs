//! The collection of garbage: objects that no thread needs are deleted, and the space of all that was deleted is given
//! back.

use std::collections::BTreeSet;
use std::path::Path;

use rondo_core::env::{Env as _, SystemEnv};
use rondo_core::exit::Exit;
use rondo_protocol::id::ThreadId;
use rondo_store as store;
use rondo_store::check::Progress;
use rondo_store::collect::{self, Garbage};
use rondo_store::folder::{DiskUsage, disk_usage};
use rondo_store::{RocksReader, holder};

use super::trusted_store::with_store;
use crate::failure::Failure;
use crate::host::store_access::TrustedStore;

/// How often a store is read anew if a writer replaced files while they were read.
const ATTEMPTS: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    pub garbage: Garbage,
    pub before: DiskUsage,
    pub after: DiskUsage,
}

/// Deletes the objects of a store that no thread needs, and compacts its tables. Other processes may use the store
/// meanwhile. Blocks.
///
/// # Errors
/// [`Code::StoreDamaged`] if something that had to be read is damaged: then nothing is deleted. [`Code::StoreBusy`]
/// while an import is under way; any other error of the store.
pub async fn gc(store: TrustedStore, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Collected, Failure> {
    let folder = store.opening.folder.clone();
    let before = disk_usage(&folder)?;
    let env = SystemEnv::default();
    let collected = with_store(store, async |shared| {
        let garbage = collect::collect(shared, || env.random().to_le_bytes(), progress).await?;
        shared.compact().map(|()| garbage)
    });
    let garbage = collected.await?.map_err(explained)?;
    Ok(Collected { garbage, before, after: disk_usage(&folder)? })
}

/// The objects that no thread would need if the threads in `without` were not there, and the space that the store
/// takes. Changes nothing.
pub fn garbage(
    folder: &Path,
    without: &BTreeSet<ThreadId>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(Garbage, DiskUsage), Failure> {
    let mut attempts = 1..=ATTEMPTS;
    loop {
        attempts.next();
        match RocksReader::open(folder).and_then(|(reader, _)| collect::find(&reader, without, progress)) {
            // A reader beside a writer does not see tables that the writer replaced meanwhile.
            Err(store::Error::Damaged(_)) if !attempts.is_empty() && holder(folder)?.is_some() => {}
            found => return Ok((found.map_err(explained)?, disk_usage(folder)?)),
        }
    }
}

fn explained(error: store::Error) -> Failure {
    match error {
        store::Error::Damaged(damage) => {
            let message = format!("the store is damaged, so no object is deleted: {}", damage.what);
            Failure::new(damage.code, message).with_exit(Exit::Damaged).with_hint(store::if_damaged())
        }
        error => error.into(),
    }
}
