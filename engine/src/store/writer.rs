//! The writer: one thread owns every write of a store.
//!
//! Laws. Commits and synced records that wait at the same time go into one batch with one sync; each is checked against
//! the stored row and against those that stand before it in the batch, and a loser is left out while the others go on.
//! Nothing is acknowledged before the sync of its batch. A batch that fails is *unknown*: all who wait for it are told
//! so, nothing is tried again, and the store answers nothing more until it is opened anew. Before each batch the anchor
//! is read back: a writer that was displaced stops.
//!
//! The writer knows tables and the anchor, and nothing of RocksDB.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use futures_util::future::{self, BoxFuture};
use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, ThreadId};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::anchor::Anchor;
use super::codec::{self, Ledger};
use super::keys::{self, Family};
use super::tables::{Change, WriteTables};
use super::{Commit, Error, JournalRecord, MAX_COMMIT_BYTES, MAX_NAME_BYTES};

/// How much may wait for the writer; who comes later waits for room.
const QUEUE_LENGTH: usize = 1024;

/// How much goes into one batch. RocksDB takes a batch into memory whole.
const BATCH_LENGTH: usize = 1024;
const BATCH_BYTES: usize = 32 << 20;

/// Why a store answers nothing more, once it does not.
pub(super) type Failure = Arc<OnceLock<Error>>;

/// What a writer writes to.
pub(super) struct Target<T> {
    /// The database.
    pub(super) tables: Arc<T>,
    /// The anchor beside it.
    pub(super) anchor: Anchor,
    /// What the database holds.
    pub(super) ledger: Ledger,
    /// How far an acknowledged commit is safe.
    pub(super) durability: Durability,
    /// What is said when another process has taken the store over.
    pub(super) displaced: Error,
}

/// The handle of the writer's thread. Dropping it writes what waits, syncs, and ends the thread.
pub(super) struct Writer {
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    failure: Failure,
}

type Acknowledge = oneshot::Sender<Result<(), Error>>;

/// What waits for the writer.
struct Work {
    what: What,
    done: Acknowledge,
}

enum What {
    Commit(Box<Commit>),
    Records { thread: ThreadId, records: Vec<JournalRecord>, sync: bool },
    Change(Change),
}

impl What {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Commit(commit) => commit.size_bytes(),
            Self::Records { records, .. } => records.iter().map(|record| record.bytes.len()).sum(),
            Self::Change(change) => change.key.len() + change.value.as_ref().map_or(0, Vec::len),
        }
    }
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Io`] when the system gives no thread.
    pub(super) fn start<T: WriteTables + 'static>(target: Target<T>, failure: Failure) -> Result<Self, Error> {
        let (queue, waiting) = mpsc::channel(QUEUE_LENGTH);
        let desk = Desk { target, failure: Arc::clone(&failure) };
        let thread = std::thread::Builder::new()
            .name("rondo-writer".to_owned())
            .spawn(move || desk.run(waiting))
            .map_err(|error| Error::Io { path: "the writer's thread".to_owned(), what: error.to_string() })?;
        Ok(Self { queue: Some(queue), thread: Some(thread), failure })
    }

    /// Hands over a commit.
    pub(super) fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>> {
        self.hand_over(What::Commit(Box::new(commit)))
    }

    /// Hands over journal records.
    pub(super) fn record(
        &self,
        thread: ThreadId,
        records: Vec<JournalRecord>,
        sync: bool,
    ) -> BoxFuture<'_, Result<(), Error>> {
        if records.iter().any(|record| record.lane.as_str().len() > MAX_NAME_BYTES)
            || records.iter().map(|record| record.bytes.len()).sum::<usize>() > MAX_COMMIT_BYTES
        {
            let what = format!("thread {thread}: journal records are too large");
            return Box::pin(future::ready(Err(Error::Malformed { what })));
        }
        self.hand_over(What::Records { thread, records, sync })
    }

    /// Hands over a change that need not be synced.
    pub(super) fn change(&self, change: Change) -> BoxFuture<'_, Result<(), Error>> {
        self.hand_over(What::Change(change))
    }

    fn hand_over(&self, what: What) -> BoxFuture<'_, Result<(), Error>> {
        if let Some(error) = self.failure.get() {
            return Box::pin(future::ready(Err(error.clone())));
        }
        let (done, outcome) = oneshot::channel();
        // The writer's thread drops an acknowledgement only when it has died.
        let died = || Error::Poisoned { what: "the writer has ended".to_owned() };
        let wait = async move { outcome.await.unwrap_or_else(|_| Err(died())) };
        match self.queue.as_ref().map(|queue| (queue, queue.try_send(Work { what, done }))) {
            Some((_, Ok(()))) => Box::pin(wait),
            Some((queue, Err(TrySendError::Full(work)))) => Box::pin(async move {
                queue.send(work).await.map_err(|_| died())?;
                wait.await
            }),
            Some((_, Err(TrySendError::Closed(_)))) | None => Box::pin(future::ready(Err(died()))),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The writer's thread at work.
struct Desk<T> {
    target: Target<T>,
    failure: Failure,
}

/// What is written at once, and who waits for it.
struct Batch {
    changes: Vec<Change>,
    waiting: Vec<Acknowledge>,
    /// The ledger after this batch.
    ledger: Ledger,
    /// Version and last step of the rows that this batch writes.
    rows: BTreeMap<ThreadId, (u64, u64)>,
    /// The journal keys that this batch writes.
    records: BTreeMap<(ThreadId, LanePath), Vec<Vec<u8>>>,
    /// Whether it holds more than what can be lost.
    counts: bool,
    sync: bool,
}

impl<T: WriteTables> Desk<T> {
    fn run(mut self, mut waiting: mpsc::Receiver<Work>) {
        while let Some(first) = waiting.blocking_recv() {
            let mut batch = self.empty_batch();
            let mut size_bytes = first.what.size_bytes();
            let mut taken = 1;
            self.take(&mut batch, first);
            while taken < BATCH_LENGTH && size_bytes < BATCH_BYTES {
                let Ok(work) = waiting.try_recv() else { break };
                size_bytes += work.what.size_bytes();
                taken += 1;
                self.take(&mut batch, work);
            }
            self.write(batch);
        }
        self.close();
    }

    fn empty_batch(&self) -> Batch {
        Batch {
            changes: Vec::new(),
            waiting: Vec::new(),
            ledger: self.target.ledger,
            rows: BTreeMap::new(),
            records: BTreeMap::new(),
            counts: false,
            sync: false,
        }
    }

    /// Takes a piece of work into the batch, or tells who waits for it why not.
    fn take(&self, batch: &mut Batch, work: Work) {
        let taken = match self.failure.get() {
            Some(error) => Err(error.clone()),
            None => match work.what {
                What::Commit(commit) => self.take_commit(batch, *commit),
                What::Records { thread, records, sync } => {
                    batch.take_records(&thread, records, sync);
                    Ok(())
                }
                What::Change(change) => {
                    batch.changes.push(change);
                    Ok(())
                }
            },
        };
        match taken {
            Ok(()) => batch.waiting.push(work.done),
            // Who no longer waits is not told.
            Err(error) => drop(work.done.send(Err(error))),
        }
    }

    fn take_commit(&self, batch: &mut Batch, commit: Commit) -> Result<(), Error> {
        let (version, seq) = match batch.rows.get(&commit.thread) {
            Some(end) => *end,
            None => match self.target.tables.get(Family::Threads, &keys::row(&commit.thread))? {
                Some(value) => codec::read_row_end(&value)?,
                None => (0, 0),
            },
        };
        commit.may_follow(version, seq)?;
        let cleared = self.cleared(batch, &commit)?;
        let Commit { thread, row, step, objects, lanes, lists, .. } = commit;
        let note = step.as_ref().map(|step| codec::write_note(&step.note)).transpose()?;
        // From here on nothing fails: the batch holds all of the commit or nothing.
        for key in cleared {
            batch.changes.push(Change { family: Family::Journal, key, value: None });
        }
        for (kind, digest, bytes) in objects {
            batch.put(Family::Objects, keys::object(digest), codec::write_object(kind, &bytes));
        }
        let digest = step.as_ref().map_or([0; 32], |step| step.digest.0);
        batch.chain(&[&keys::row(&thread), &row.version.to_be_bytes(), &digest]);
        if let (Some(step), Some(note)) = (step, note) {
            let (digest, seq) = (step.digest, step.seq);
            batch.put(Family::Steps, keys::step(&thread, seq), codec::write_step(digest, step.visit, &step.bytes));
            batch.put(Family::Notes, keys::note(&thread, seq), note);
            batch.put(Family::Index, keys::place(digest, &thread, seq), Vec::new());
            let visit = keys::visit(&thread, &step.lane, &step.role, step.visit);
            batch.put(Family::Index, visit, codec::write_seq(seq));
            batch.ledger.steps = batch.ledger.steps.saturating_add(1);
        }
        for (lane, row) in lanes {
            let value = row.map(|row| codec::write_lane(&row));
            batch.changes.push(Change { family: Family::Threads, key: keys::lane(&thread, &lane), value });
        }
        for (opened_by, list) in lists {
            let value = list.map(|list| codec::write_list(&list));
            batch.changes.push(Change { family: Family::Threads, key: keys::list(&thread, opened_by), value });
        }
        batch.put(Family::Threads, keys::row(&thread), codec::write_row(&row));
        batch.rows.insert(thread, (row.version, row.seq));
        batch.sync = true;
        Ok(())
    }

    /// The journal keys that a commit deletes: the stored ones and those of the batch.
    fn cleared(&self, batch: &mut Batch, commit: &Commit) -> Result<Vec<Vec<u8>>, Error> {
        let mut cleared = Vec::new();
        for lane in &commit.clear_journal {
            let range = keys::records(&commit.thread, lane);
            self.target.tables.range(Family::Journal, range, &mut |key, _| {
                cleared.push(key.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
            cleared.extend(batch.records.remove(&(commit.thread.clone(), lane.clone())).into_iter().flatten());
        }
        Ok(cleared)
    }

    fn write(&mut self, mut batch: Batch) {
        if batch.changes.is_empty() {
            return;
        }
        let sync = batch.sync && self.target.durability == Durability::Sync;
        let outcome = self.write_batch(&mut batch, sync);
        if let Err(error) = &outcome {
            // The first failure stays; there is no second, because nothing is written after it.
            let _ = self.failure.set(error.clone());
        }
        for done in batch.waiting {
            // Who no longer waits is not told.
            let _ = done.send(outcome.clone());
        }
        if outcome.is_ok()
            && let Err(error) = self.target.anchor.sync_when_due()
        {
            let _ = self.failure.set(Error::Poisoned { what: error.to_string() });
        }
    }

    fn write_batch(&mut self, batch: &mut Batch, sync: bool) -> Result<(), Error> {
        let unknown = |error: &dyn std::fmt::Display| Error::Poisoned { what: error.to_string() };
        let target = &mut self.target;
        if !target.anchor.is_ours().map_err(|error| unknown(&error))? {
            return Err(target.displaced.clone());
        }
        if batch.counts {
            batch.ledger.batches = batch.ledger.batches.saturating_add(1);
            let ledger = codec::write_ledger(&batch.ledger);
            batch.put(Family::Meta, keys::LEDGER.to_vec(), ledger);
        }
        target.tables.write(&batch.changes, sync).map_err(|error| unknown(&error))?;
        target.ledger = batch.ledger;
        if sync {
            target.anchor.write(batch.ledger).map_err(|error| unknown(&error))?;
        }
        Ok(())
    }

    /// Puts everything on the device. A failure here is not said: what was acknowledged is safe, and what was not may
    /// be lost.
    fn close(mut self) {
        if self.failure.get().is_some() || !self.target.anchor.is_ours().unwrap_or(false) {
            return;
        }
        if self.target.tables.close().is_ok() && self.target.anchor.write(self.target.ledger).is_ok() {
            let _ = self.target.anchor.sync();
        }
    }
}

impl Batch {
    fn put(&mut self, family: Family, key: Vec<u8>, value: Vec<u8>) {
        self.changes.push(Change { family, key, value: Some(value) });
    }

    fn take_records(&mut self, thread: &ThreadId, records: Vec<JournalRecord>, sync: bool) {
        for record in records {
            let key = keys::record(thread, &record.lane, record.position);
            self.chain(&[&key]);
            self.put(Family::Journal, key.clone(), codec::write_record(&record.bytes));
            self.records.entry((thread.clone(), record.lane)).or_default().push(key);
        }
        self.sync |= sync;
    }

    /// Takes what identifies a write into the ledger's chain.
    fn chain(&mut self, parts: &[&[u8]]) {
        let mut hasher = Sha256::new();
        hasher.update(self.ledger.chain);
        for part in parts {
            hasher.update(part);
        }
        self.ledger.chain = hasher.finalize().into();
        self.counts = true;
    }
}

#[cfg(test)]
mod tests;
