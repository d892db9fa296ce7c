//! The step store: threads, their steps, and the objects that they share.
//!
//! What is acknowledged has been synced. A step is stored once, under its thread and sequence; large texts are shared
//! objects named by digest. There is one trait per need: [`Read`] for readers, [`StepStore`] for writers, [`ThreadDrivers`]
//! where several processes write. Every store keeps the same contract (`tests/contract.rs`); the one in memory is here.

pub mod chain;
pub mod codec;
mod commit;
pub mod error;
pub mod keys;
pub(crate) mod lineage;
mod memory;
mod pages;
pub mod references;
mod row;
pub mod tables;
mod thread_drivers;
mod write_log;

#[cfg(test)]
pub(crate) mod tests;

pub use codec::note_json;
pub use commit::{
    Commit, CommitHeader, Deletion, JournalRecord, MAX_COMMIT_BYTES, MAX_NAME_BYTES, NewStep, StepBytes, StoredRecord,
    StoredStep, VisitIndex, VisitKey,
};

pub use error::{Damage, Error, if_damaged};
pub use memory::MemoryStore;
pub use pages::{pages, pages_from};
pub use row::{Base, LaneRow, Parent, Raised, Row, Status, rows_after};
pub use thread_drivers::{CancelOutcome, ThreadDrivers};
pub use write_log::{Replica, WriteLog};

use std::ops::RangeInclusive;

use futures_util::future::BoxFuture;
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::Durability;
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;

/// Keys and values in key order.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads from any open store. Values read by digest are verified against it. Every method fails with
/// [`Error::Damaged`] if the stored data is not what was written.
pub trait Read: Send + Sync {
    /// The row of a thread.
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error>;

    /// Threads with their rows, oldest first: at most `limit`, and only those after `after`.
    fn rows(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, Error>;

    /// Open lanes of a thread with their rows, in path order: at most `limit`, and only those after `after`.
    fn lanes(
        &self,
        thread: &ThreadId,
        after: Option<&LanePath>,
        limit: usize,
    ) -> Result<Vec<(LanePath, LaneRow)>, Error>;

    /// The evaluated list of the `each` that step `opened_by` opened, as committed.
    fn list(&self, thread: &ThreadId, opened_by: u64) -> Result<Option<Vec<u8>>, Error>;

    /// The steps whose evaluated lists are stored, in order: see [`list`](Self::list).
    fn lists(&self, thread: &ThreadId) -> Result<Vec<u64>, Error>;

    /// Passes the records within `seqs` that are stored under this thread itself, in order and not verified, to
    /// `visit` until it returns `false`. A fork's first records are stored under its base.
    fn own_records(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StepBytes<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error>;

    /// One record with its note, if it is stored under this thread itself.
    fn own_record(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredRecord, Note)>, Error>;

    /// The entries of an index that are stored under this thread itself: `(visit, seq)` for visits within `visits`, in
    /// order.
    fn own_visits(
        &self,
        thread: &ThreadId,
        index: VisitIndex,
        of: (&LanePath, &RoleName),
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error>;

    /// The number of the step with a digest, if it is stored under this thread itself.
    fn own_place(&self, thread: &ThreadId, digest: Digest) -> Result<Option<u64>, Error>;

    /// The threads and numbers of the steps with a digest.
    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error>;

    /// The canonical bytes of an object, verified.
    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error>;

    /// The journal of a lane, in order of position.
    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error>;

    /// The lanes of a thread whose journal has records, in path order. One that has no step yet has no row.
    fn journaled_lanes(&self, thread: &ThreadId) -> Result<Vec<LanePath>, Error>;

    /// The record of a batch, as its owner wrote it.
    fn batch(&self, batch: &BatchId) -> Result<Option<Vec<u8>>, Error>;

    /// Batches, oldest first: at most `limit`, and only those after `after`.
    fn batches(&self, after: Option<&BatchId>, limit: usize) -> Result<Vec<BatchId>, Error>;

    /// The lines of a batch from number `from` on, in order, at most `limit`.
    fn batch_lines(&self, batch: &BatchId, from: u32, limit: usize) -> Result<Vec<(u32, Vec<u8>)>, Error>;

    /// A value of a hook's private key space.
    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Keys and values of a hook's private key space from `from` on, at most `limit`.
    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error>;

    /// Passes the records of a thread within `seqs` to `visit` in order, each with its note, until it returns `false`.
    /// A scan succeeds only if the iterator's status is good, the digest of each record is right, each names its
    /// predecessors, and none of the range up to the thread's end is missing.
    ///
    /// # Errors
    /// [`Error::Damaged`], also if the end is missing.
    fn scan(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StoredRecord, Note) -> bool,
    ) -> Result<(), Error> {
        lineage::scan(self, thread, seqs, visit)
    }

    /// Like [`scan`](Self::scan), without rebinds and compactions.
    fn steps(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StoredStep, Note) -> bool,
    ) -> Result<(), Error> {
        self.scan(thread, seqs, &mut |stored, note| stored.into_step().is_none_or(|step| visit(step, note)))
    }

    /// One record with its note.
    fn record_at(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredRecord, Note)>, Error> {
        lineage::record_at(self, thread, seq)
    }

    /// One step with its note; `None` also if this number is not that of a step.
    fn step(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredStep, Note)>, Error> {
        let found = self.record_at(thread, seq)?;
        Ok(found.and_then(|(stored, note)| stored.into_step().map(|step| (step, note))))
    }

    /// A role's visits in a lane and their steps: `(visit, seq)` for visits within `visits`, in order.
    fn visits(
        &self,
        thread: &ThreadId,
        lane: &LanePath,
        role: &RoleName,
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        lineage::visits(self, thread, VisitIndex::Steps, (lane, role), visits)
    }

    /// The compactions of a role's history in a lane: `(through_visit, seq)`, in order.
    fn compactions(&self, thread: &ThreadId, lane: &LanePath, role: &RoleName) -> Result<Vec<(u64, u64)>, Error> {
        lineage::visits(self, thread, VisitIndex::Compactions, (lane, role), 0..=u64::MAX)
    }

    /// The last record of the trunk up to number `at`.
    fn trunk_head(&self, thread: &ThreadId, at: u64) -> Result<Option<Digest>, Error> {
        lineage::trunk_head(self, thread, at)
    }

    /// The number of the record with a digest in a thread.
    fn place(&self, thread: &ThreadId, digest: Digest) -> Result<Option<u64>, Error> {
        lineage::place(self, thread, digest)
    }
}

/// A writable store. Every method fails with [`Error::Poisoned`] if its outcome is unknown, and with
/// [`Error::Malformed`] if the store rejects the input.
pub trait StepStore: Read {
    /// Stores a commit. When this returns `Ok`, it is as durable as [`durability`](Self::durability) says. Commits
    /// that wait at the same time share one sync; one that loses its compare-and-set is left out and the others
    /// continue. Commits of one thread may be submitted without waiting for earlier ones: each is checked against
    /// those before it, in the order of the calls.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another commit was stored first, or if the base of a new fork is not stored.
    ///
    /// # Cancel safety
    /// A commit is carried out even if the future is never polled.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>>;

    /// Deletes threads: their rows, steps, notes, index entries,
    /// lists, open lanes and journals. Objects stay, because other threads may name them ([`collect`]). All are deleted or none. When
    /// this returns `Ok`, it is as durable as a commit.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a row has changed, or if a thread that stays is a fork or a child of one of these.
    ///
    /// # Cancel safety
    /// As [`commit`](Self::commit).
    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<(), Error>>;

    /// Adds journal records of a thread. With `sync` they are durable when this returns; otherwise they are written
    /// with the next record or commit that is.
    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> BoxFuture<'_, Result<(), Error>>;

    /// Writes a value of a hook's private key space, or deletes it with `None`. Not synced: a hook's entries can be
    /// lost and are never required.
    fn put_hook_value(&self, space: &str, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>>;

    /// Writes lines of a batch, and with them its record if there is one: a batch without a record is not there.
    ///
    /// # Durability
    /// Like a commit.
    fn put_batch(
        &self,
        batch: &BatchId,
        lines: Vec<(u32, Vec<u8>)>,
        record: Option<Vec<u8>>,
    ) -> BoxFuture<'_, Result<(), Error>>;

    /// The durability of an acknowledged commit.
    fn durability(&self) -> Durability;

    /// Whether there is room for more than what is in flight. If not, nothing new may begin that costs anything.
    fn has_room(&self) -> bool;
}
