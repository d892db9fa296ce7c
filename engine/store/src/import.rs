//! Takes verified threads into a store, all or none.
//!
//! Laws. An import first writes its mark: which threads and batches it brings. Then it writes their parts, in writes of
//! bounded size, and last, in one synced write, their rows, the records of the batches, and the end of the mark. A
//! thread without a row is not there, so nothing is visible before that last write. Whoever finds a mark at an opening,
//! or begins another import, removes what was written under it. A part without its mark is refused.
//!
//! Objects that an interrupted import wrote stay until the next collection of garbage (`collect.rs`).

use std::ops::ControlFlow;

use rondo_protocol::id::{BatchId, ThreadId};
use serde::{Deserialize, Serialize};

use super::codec::{self, ImportMark};
use super::keys::{self, Family};
use super::staging::Staging;
use super::tables::{Change, Tables};
use super::write::{self, Write, WriteStore};
use super::writer::WriteTables;
use super::{Error, MAX_COMMIT_BYTES, Read as _, Row, rows_after};

/// How many bytes of entries are written at a time.
const PART_BYTES: usize = 4 << 20;

const DELETIONS: usize = 10_000;

/// How often an import begins again when the store changes its holder.
const ATTEMPTS: u32 = 3;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ImportWrite {
    /// Sets the mark, in place of an earlier import that did not end.
    Begin(ImportMark),
    /// Entries of the marked threads and batches, and objects.
    Part { token: [u8; 16], changes: Vec<Change> },
    /// Makes them visible.
    Finish { token: [u8; 16], threads: Vec<ImportedThread>, batches: Vec<Change>, sync: bool },
    /// Removes what was written.
    Abandon { token: [u8; 16] },
}

/// The row of an imported thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImportedThread {
    pub(super) thread: ThreadId,
    pub(super) version: u64,
    pub(super) seq: u64,
    /// The threads that must be in the store with it.
    pub(super) needs: Vec<ThreadId>,
    /// How many steps are stored under the thread itself.
    pub(super) steps: u64,
    /// What the ledger's chain hashes for it.
    pub(super) link: Vec<u8>,
    pub(super) row: Vec<u8>,
}

impl ImportedThread {
    fn new(thread: ThreadId, row: &Row) -> Self {
        let head = row.head.map_or([0; 32], |head| head.0);
        let link = [&keys::row(&thread)[..], &row.version.to_be_bytes(), &head].concat();
        let steps = row.seq.saturating_sub(row.shared());
        let (version, seq, needs) = (row.version, row.seq, row.needs().cloned().collect());
        Self { thread, version, seq, needs, steps, link, row: codec::write_row(row) }
    }

    pub(super) fn change(&self) -> Change {
        Change { family: Family::Threads, key: keys::row(&self.thread), value: Some(self.row.clone()) }
    }
}

impl ImportWrite {
    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Self::Begin(mark) => size_of_val(mark.threads.as_slice()) + size_of_val(mark.batches.as_slice()),
            Self::Part { changes, .. } => write::size_of_changes(changes),
            Self::Finish { threads, batches, .. } => {
                let of_rows: usize = threads.iter().map(|thread| thread.row.len() + thread.link.len()).sum();
                of_rows + write::size_of_changes(batches)
            }
            Self::Abandon { .. } => 0,
        }
    }

    /// See [`Write::is_stored`].
    pub(super) fn is_stored(&self, store: &impl Tables) -> Result<bool, Error> {
        let Self::Finish { threads, batches, .. } = self else { return Ok(false) };
        let rows = threads.iter().map(ImportedThread::change).chain(batches.iter().cloned());
        for Change { family, key, value } in rows {
            if store.get(family, &key)? != value {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The mark of an import that has not ended.
pub(super) fn mark(tables: &impl Tables) -> Result<Option<ImportMark>, Error> {
    tables.get(Family::Meta, keys::IMPORT)?.map(|value| codec::read_import_mark(&value)).transpose()
}

/// Removes what was written under a mark, and the mark at the end.
pub(super) fn abandon(tables: &impl WriteTables, mark: &ImportMark) -> Result<(), Error> {
    let write = |changes: Vec<Change>| tables.write(changes, false).map_err(|what| Error::Poisoned { what });
    let of_threads = mark.threads.iter().flat_map(keys::of);
    let of_batches = mark.batches.iter().map(|batch| (Family::Threads, keys::batch_lines(batch, 0)));
    for (family, mut range) in of_threads.chain(of_batches) {
        loop {
            let mut changes = Vec::new();
            tables.range(family, range.clone(), &mut |key, value| {
                write::delete(&mut changes, family, key, value)?;
                Ok(if changes.len() < DELETIONS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
            let Some(last) = changes.last() else { break };
            range.start.clone_from(&last.key);
            range.start.push(0);
            write(changes)?;
        }
    }
    write(vec![Change { family: Family::Meta, key: keys::IMPORT.to_vec(), value: None }])
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    pub threads: u64,
    /// Threads that were there already, with the same steps.
    pub present: u64,
    pub steps: u64,
    pub batches: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A thread is there with other contents.
    #[error("thread {0} is in the store already, with other contents")]
    ThreadDiffers(ThreadId),
    /// A batch is there with other contents.
    #[error("batch {0} is in the store already, with other contents")]
    BatchDiffers(BatchId),
    #[error(transparent)]
    Store(#[from] Error),
}

/// Takes all threads and batches of `staging` into `store`, or none. What is there already with the same steps stays as
/// it is. `token` is random.
///
/// # Durability
/// When this returns `Ok`, everything is as durable as a commit.
///
/// # Errors
/// [`ImportError::ThreadDiffers`], [`ImportError::BatchDiffers`], and any error of the store.
#[expect(private_bounds, reason = "only stores of this crate accept encoded writes")]
pub async fn import<S: WriteStore>(
    staging: &Staging,
    store: &S,
    mut token: impl FnMut() -> [u8; 16],
) -> Result<Imported, ImportError> {
    let mut attempts = 1..=ATTEMPTS;
    loop {
        attempts.next();
        let (mut new, mut imported) = compared(staging, store)?;
        if new.threads.is_empty() && new.batches.is_empty() {
            return Ok(imported);
        }
        new.token = token();
        match written(staging, store, &new).await {
            Ok(steps) => {
                imported.steps = steps;
                return Ok(imported);
            }
            // The process that held the store has ended, and the next one removed what was written.
            Err(Error::ImportEnded) if !attempts.is_empty() => {}
            Err(error) => {
                // If that fails too, the next opening does it.
                let _ = store.submit(Write::Import(Box::new(ImportWrite::Abandon { token: new.token }))).await;
                return Err(error.into());
            }
        }
    }
}

/// What is new to a store, in order and without a token.
fn compared<S: WriteStore>(staging: &Staging, store: &S) -> Result<(ImportMark, Imported), ImportError> {
    let staged = staging.store();
    let (mut new, mut imported) = (ImportMark::default(), Imported::default());
    for row in rows_after(staged, None) {
        let (thread, row) = row?;
        let Some(found) = store.row(&thread)? else {
            imported.threads += 1;
            new.threads.push(thread);
            continue;
        };
        let last = |record: Option<(super::StoredRecord, _)>| record.map(|(stored, _)| stored.digest);
        let is_same = (found.seq, found.head, found.start) == (row.seq, row.head, row.start)
            && last(staged.record_at(&thread, row.seq)?) == last(store.record_at(&thread, row.seq)?);
        if !is_same {
            return Err(ImportError::ThreadDiffers(thread));
        }
        imported.present += 1;
    }
    for batch in staged.batches(None, usize::MAX)? {
        match store.batch(&batch)? {
            None => new.batches.push(batch),
            Some(found) if staged.batch(&batch)?.as_ref() == Some(&found) => {}
            Some(_) => return Err(ImportError::BatchDiffers(batch)),
        }
    }
    new.threads.sort_unstable();
    new.batches.sort_unstable();
    imported.batches = u64::try_from(new.batches.len()).unwrap_or(u64::MAX);
    Ok((new, imported))
}

/// Writes what is new; returns the number of its steps.
async fn written<S: WriteStore>(staging: &Staging, store: &S, new: &ImportMark) -> Result<u64, Error> {
    let submit = |write| store.submit(Write::Import(Box::new(write)));
    let (staged, token) = (staging.store(), new.token);
    submit(ImportWrite::Begin(new.clone())).await?;
    for family in Family::ALL {
        let mut from = Some(Vec::new());
        while let Some(begin) = from.take() {
            let (mut changes, mut bytes) = (Vec::new(), 0);
            staged.range(family, begin..vec![u8::MAX], &mut |key, value| {
                if is_part(new, family, key) {
                    bytes += key.len() + value.len();
                    changes.push(Change { family, key: key.to_vec(), value: Some(value.to_vec()) });
                }
                if bytes < PART_BYTES {
                    return Ok(ControlFlow::Continue(()));
                }
                from = Some([key, &[0]].concat());
                Ok(ControlFlow::Break(()))
            })?;
            if !changes.is_empty() {
                submit(ImportWrite::Part { token, changes }).await?;
            }
        }
    }
    let mut rows = Vec::with_capacity(new.threads.len());
    for thread in &new.threads {
        rows.extend(staged.row(thread)?.map(|row| ImportedThread::new(thread.clone(), &row)));
    }
    let mut records = Vec::new();
    for batch in &new.batches {
        records.extend(staged.batch(batch)?.map(|record| write::batch(batch, &record)));
    }
    let steps = rows.iter().map(|thread| thread.steps).sum();
    let sync = store.durability() == rondo_protocol::event::Durability::Sync;
    let finish = ImportWrite::Finish { token, threads: rows, batches: records, sync };
    if finish.size_bytes() > MAX_COMMIT_BYTES {
        let what = format!("{} threads are too many for one import: export them in parts", new.threads.len());
        return Err(Error::Malformed { what });
    }
    submit(finish).await?;
    Ok(steps)
}

/// Whether an entry is a part: all but the rows of threads, the records of batches, and what is not new.
fn is_part(new: &ImportMark, family: Family, key: &[u8]) -> bool {
    match (family, keys::thread_of(key), keys::batch_of_line(key)) {
        (Family::Objects, ..) => true,
        (Family::Meta | Family::Hooks, ..) => false,
        (_, Some(thread), _) => keys::thread_of_row(key).is_none() && new.threads.binary_search(&thread).is_ok(),
        (_, _, Some(batch)) => new.batches.binary_search(&batch).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
