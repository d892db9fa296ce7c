//! The step store: threads, their steps, and the objects that they share.
//!
//! What is acknowledged has been synced. A step is stored once, under its thread and sequence; large texts are objects
//! named by digest and shared. Traits by need: a reader asks for [`Read`], a writer for [`StepStore`].
//! Two stores keep the same contract (`tests/contract.rs`): RocksDB in `rocks.rs`, and memory in `memory.rs`.
//!
//! This module knows nothing of graphs, hooks, models or terminals. RocksDB is named in `rocks.rs` alone.

mod anchor;
mod blocking;
mod chain;
mod codec;
mod commit;
mod error;
pub mod folder;
mod frames;
mod keys;
mod lock;
mod manifest;
mod memory;
mod recovery;
mod rocks;
mod row;
mod tables;
mod write;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub use commit::{Commit, JournalRecord, MAX_COMMIT_BYTES, MAX_NAME_BYTES, NewStep, StoredStep};
pub use error::{Damage, Error};
pub(crate) use keys::Family;
pub use lock::holder;
pub use memory::MemoryStore;
pub use rocks::{Opened, Options, RocksReader, RocksStore, is_unwritten};
pub use row::{Base, LaneRow, Parent, Raised, Row, Status};

pub(crate) use tables::{Tables, Visited};
pub(crate) use write::{Write, WriteStore};

use std::ops::RangeInclusive;

use futures_util::future::BoxFuture;
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;

/// Keys and values, in order of the keys.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What can be read of any open store. What is read by digest is verified against it. Every method fails with
/// [`Error::Damaged`] when what it reads is not what was written.
pub trait Read: Send + Sync {
    /// The row of a thread.
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error>;

    /// Threads with their rows, oldest first: at most `limit`, and only those behind `after`.
    fn rows(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, Error>;

    /// The row of an open lane.
    fn lane(&self, thread: &ThreadId, lane: &LanePath) -> Result<Option<LaneRow>, Error>;

    /// Open lanes of a thread with their rows, in order of their paths: at most `limit`, and only those behind `after`.
    fn lanes(
        &self,
        thread: &ThreadId,
        after: Option<&LanePath>,
        limit: usize,
    ) -> Result<Vec<(LanePath, LaneRow)>, Error>;

    /// The evaluated list of the `each` that the step numbered `opened_by` opened, as it was committed.
    fn list(&self, thread: &ThreadId, opened_by: u64) -> Result<Option<Vec<u8>>, Error>;

    /// The steps of a thread within `seqs`, in order, each handed to `visit` with its note until it says stop
    /// (`false`). A scan is believed only if the iterator's status is good, the digest of each step is right, each
    /// names its predecessors, and no step of the range is missing.
    ///
    /// # Errors
    /// [`Error::Damaged`], also when the damage is a missing end.
    fn scan(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StoredStep, Note) -> bool,
    ) -> Result<(), Error>;

    /// One step with its note.
    fn step(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredStep, Note)>, Error>;

    /// A role's visits in a lane and their steps: `(visit, seq)` for visits within `visits`, in order.
    fn visits(
        &self,
        thread: &ThreadId,
        lane: &LanePath,
        role: &RoleName,
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error>;

    /// The threads and numbers of the steps with that digest.
    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error>;

    /// The canonical bytes of an object, verified.
    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error>;

    /// The journal of a lane, in order of position.
    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error>;

    /// A value of a hook's private key space.
    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Keys and values of a hook's private key space from `from` on, at most `limit`.
    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error>;
}

/// A store that can be written. Every method fails with [`Error::Poisoned`] when its outcome is unknown, and with
/// [`Error::Malformed`] when the store does not take what it was given.
pub trait StepStore: Read {
    /// Stores a commit. When this returns `Ok`, it has been made as durable as [`durability`](Self::durability) says.
    /// Commits that wait at the same time share one sync; one that loses its compare-and-set is left out and the
    /// others go on. Commits of one thread may be submitted one after the other without waiting for the earlier
    /// ones: each is checked against those before it, in the order of the calls.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another commit was stored first.
    ///
    /// # Cancel safety
    /// A commit is carried out whether or not the future is polled.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>>;

    /// Adds journal records of a thread. With `sync` they are durable when this returns; otherwise they ride with the
    /// next record or commit that is.
    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> BoxFuture<'_, Result<(), Error>>;

    /// Writes a value of a hook's private key space, or deletes it with `None`. Not synced: what a hook keeps can be
    /// lost and is never needed.
    fn put_hook_value(&self, space: &str, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>>;

    /// How far an acknowledged commit is safe.
    fn durability(&self) -> Durability;
}
