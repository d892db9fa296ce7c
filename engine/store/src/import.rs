//! Takes verified threads into a store, all or none.
//!
//! Laws. An import first writes its mark: which threads and batches it brings. Then it writes their parts, in writes of
//! bounded size, and last, in one synced write, their rows, the records of the batches, and the end of the mark. A
//! thread without a row is not there, so nothing is visible before that last write. Whoever finds a mark at an opening,
//! or begins another import, removes what was written under it. A part without its mark is refused.
//!
//! Objects that an interrupted import wrote stay until the next collection of garbage (`collect.rs`).

use std::ops::ControlFlow;

use rondo_protocol::id::ThreadId;
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
    let of_threads = mark.threads.iter().flat_map(|thread| keys::of(thread).map(|range| (Some(thread), range)));
    let of_batches = mark.batches.iter().map(|batch| (None, (Family::Threads, keys::batch_lines(batch, 0))));
    for (thread, (family, mut range)) in of_threads.chain(of_batches) {
        loop {
            let mut changes = Vec::new();
            tables.range(family, range.clone(), &mut |key, value| {
                if let (Family::Steps, Some(thread), Some(seq)) = (family, thread, keys::seq(key)) {
                    let digest = codec::read_step(value)?.digest;
                    let key = keys::place(digest, thread, seq);
                    changes.push(Change { family: Family::Index, key, value: None });
                }
                changes.push(Change { family, key: key.to_vec(), value: None });
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
    /// A thread or batch is there with other contents.
    #[error("{what} is in the store already, with other contents")]
    Differs {
        /// `thread ID` or `batch ID`.
        what: String,
    },
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
/// [`ImportError::Differs`], and any error of the store.
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
            return Err(ImportError::Differs { what: format!("thread {thread}") });
        }
        imported.present += 1;
    }
    for batch in staged.batches(None, usize::MAX)? {
        match store.batch(&batch)? {
            None => new.batches.push(batch),
            Some(found) if staged.batch(&batch)?.as_ref() == Some(&found) => {}
            Some(_) => return Err(ImportError::Differs { what: format!("batch {batch}") }),
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
mod tests {
    use super::super::check::check;
    use super::super::tests::steps::{Trunk, answers, thread};
    use super::super::{Commit, Options, RocksReader, RocksStore, StepStore as _};
    use super::*;

    const FIRST: [u8; 16] = [1; 16];
    const SECOND: [u8; 16] = [2; 16];

    fn open(folder: &std::path::Path) -> (RocksStore, Vec<String>) {
        let (store, opened) = RocksStore::open(folder, Options::default()).unwrap();
        (store, opened.notices)
    }

    fn begin(token: [u8; 16], thread: &ThreadId) -> ImportWrite {
        ImportWrite::Begin(ImportMark { token, threads: vec![thread.clone()], batches: Vec::new() })
    }

    /// The steps of a thread as a part, and its row as the end.
    fn parts(token: [u8; 16], trunk: &mut Trunk, steps: u64) -> (ImportWrite, ImportWrite) {
        let commits: Vec<Commit> = (0..steps).map(|number| trunk.next(&number.to_string())).collect();
        let of = |commit: &Commit| write::step(&trunk.thread, commit.step.as_ref().unwrap()).unwrap();
        let changes = commits.iter().flat_map(of).collect();
        let row = ImportedThread::new(trunk.thread.clone(), &commits.last().unwrap().row);
        let finish = ImportWrite::Finish { token, threads: vec![row], batches: Vec::new(), sync: true };
        (ImportWrite::Part { token, changes }, finish)
    }

    async fn submit(store: &RocksStore, write: ImportWrite) -> Result<(), Error> {
        WriteStore::submit(store, Write::Import(Box::new(write))).await
    }

    fn count(store: &impl Tables, family: Family) -> usize {
        let mut count = 0;
        let mut each = |_: &[u8], _: &[u8]| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        };
        store.range(family, Vec::new()..vec![u8::MAX], &mut each).unwrap();
        count
    }

    #[tokio::test]
    async fn an_import_is_visible_when_it_is_complete_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path());
        let mut trunk = Trunk::new(1);
        let (part, finish) = parts(FIRST, &mut trunk, 3);
        submit(&store, begin(FIRST, &trunk.thread)).await.unwrap();
        submit(&store, part).await.unwrap();
        assert_eq!(RocksReader::open(folder.path()).unwrap().0.rows(None, 9), Ok(Vec::new()));
        let examined = check(folder.path(), &mut |_| ()).unwrap();
        assert_eq!((examined.faults, examined.notices.len()), (Vec::new(), 1));
        // A run of the same thread must not mix with it.
        let run = store.commit(Trunk::new(1).next("mine")).await;
        assert_eq!(run, Err(Error::Conflict { thread: trunk.thread.clone() }));
        submit(&store, finish).await.unwrap();
        assert_eq!(answers(&store, &trunk.thread).unwrap(), ["0", "1", "2"]);
        // It continues by ordinary commits, also in another process.
        store.commit(trunk.next("3")).await.unwrap();
        drop(store);
        let (store, notices) = open(folder.path());
        assert_eq!(notices, Vec::<String>::new());
        store.commit(trunk.next("4")).await.unwrap();
        assert_eq!(answers(&store, &trunk.thread).unwrap().len(), 5);
        assert_eq!(store.get(Family::Meta, keys::IMPORT), Ok(None));
    }

    #[tokio::test]
    async fn what_an_interrupted_import_wrote_is_removed_by_the_next_opening() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path());
        let mut own = Trunk::new(2);
        store.commit(own.next("own")).await.unwrap();
        let mut trunk = Trunk::new(1);
        let (part, finish) = parts(FIRST, &mut trunk, 3);
        submit(&store, begin(FIRST, &trunk.thread)).await.unwrap();
        submit(&store, part.clone()).await.unwrap();
        drop(store);
        let (store, notices) = open(folder.path());
        assert_eq!(notices, ["an import was interrupted; what it had written has been removed"]);
        let left = [Family::Steps, Family::Notes, Family::Index].map(|family| count(&store, family));
        // The step of the other thread, its note, its place and its visit.
        assert_eq!(left, [1, 1, 2]);
        assert_eq!(answers(&store, &thread(2)).unwrap(), ["own"]);
        for late in [part, finish] {
            assert_eq!(submit(&store, late).await, Err(Error::ImportEnded));
        }
        drop(store);
        assert_eq!(open(folder.path()).1, Vec::<String>::new());
    }

    #[tokio::test]
    async fn of_two_imports_the_later_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path());
        let (mut one, mut other) = (Trunk::new(1), Trunk::new(2));
        let (part, finish) = parts(FIRST, &mut one, 2);
        submit(&store, begin(FIRST, &one.thread)).await.unwrap();
        submit(&store, part).await.unwrap();
        submit(&store, begin(SECOND, &other.thread)).await.unwrap();
        assert_eq!(count(&store, Family::Steps), 0);
        assert_eq!(submit(&store, finish).await, Err(Error::ImportEnded));
        submit(&store, ImportWrite::Abandon { token: FIRST }).await.unwrap();
        let (part, finish) = parts(SECOND, &mut other, 2);
        submit(&store, part).await.unwrap();
        submit(&store, finish).await.unwrap();
        assert_eq!(store.rows(None, 9).unwrap().len(), 1);
        // What is there already is not brought a second time.
        let again = submit(&store, begin(FIRST, &other.thread)).await;
        assert_eq!(again, Err(Error::Conflict { thread: other.thread.clone() }));
    }

    #[tokio::test]
    async fn a_thread_whose_base_was_deleted_meanwhile_is_not_imported() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path());
        let mut trunk = Trunk::new(1);
        let (part, finish) = parts(FIRST, &mut trunk, 1);
        let ImportWrite::Finish { token, mut threads, batches, sync } = finish else { panic!() };
        threads[0].needs = vec![thread(7)];
        submit(&store, begin(FIRST, &trunk.thread)).await.unwrap();
        submit(&store, part).await.unwrap();
        let refused = submit(&store, ImportWrite::Finish { token, threads, batches, sync }).await;
        assert_eq!(refused, Err(Error::Conflict { thread: thread(7) }));
        assert_eq!(store.row(&trunk.thread), Ok(None));
    }
}
