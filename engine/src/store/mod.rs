//! The step store: threads, their steps, and the objects that they share.
//!
//! What is acknowledged has been synced. A step is stored once, under its thread and sequence; large texts are objects
//! named by digest and shared. Traits by need: a reader asks for [`Read`], whoever commits asks for [`StepStore`].
//! Two stores keep the same contract (`contract.rs`): RocksDB in `rocks.rs`, and memory in `memory.rs`.
//!
//! This module knows nothing of graphs, moderators, hooks, models or terminals. RocksDB is named in `rocks.rs` alone.

mod anchor;
mod codec;
pub mod folder;
mod keys;
mod lock;
mod memory;
mod recovery;
mod rocks;
mod tables;
mod trail;
mod writer;

#[cfg(test)]
mod contract;

pub use lock::holder;
pub use memory::MemoryStore;
pub use rocks::{Opened, Options, RocksReader, RocksStore, is_unwritten};

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use futures_util::future::BoxFuture;
use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Note, Step};
use serde::{Deserialize, Serialize};

/// Where a thread stands. One row a thread; compare-and-set is on `version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Grows by one with each commit; 0 = the thread is not stored.
    pub version: u64,
    /// For each open lane the last step; the trunk is the empty path.
    pub frontier: BTreeMap<LanePath, Digest>,
    /// Object `workflow`.
    pub workflow: Digest,
    /// Object `policy`.
    pub policy: Digest,
    /// Object `start`.
    pub start: Digest,
    /// How it stands.
    pub status: Status,
    /// The number of the last step, 0 before the first.
    pub seq: u64,
    /// The fold over all steps, as the thread module writes it: JSON, opaque here. Not hashed.
    pub checkpoint: Vec<u8>,
    /// What is known of the thread and not hashed, as the thread module writes it: JSON, opaque here.
    pub origin: Vec<u8>,
}

/// How a thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Begun and not ended; whether somebody works on it now is for the lock to say.
    Running,
    /// It waits for a person.
    Waiting,
    /// It stopped on a fault or a limit and can be resumed.
    Stopped,
    /// It reached `end`.
    Done,
    /// It reached `fail`.
    Failed,
    /// It was cancelled for good.
    Cancelled,
}

/// A step as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredStep {
    /// Its place in the thread, from 1.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// The role's visit in its lane, from 1.
    pub visit: u64,
    /// The step.
    pub step: Step,
}

/// A step to be stored.
#[derive(Debug, Clone)]
pub struct NewStep {
    /// Its place: the row's `seq` after this commit.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// Who spoke.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// The role's visit in that lane, from 1.
    pub visit: u64,
    /// What is known of it and not hashed.
    pub note: Note,
}

/// One commit: all of it or nothing.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Which thread.
    pub thread: ThreadId,
    /// The row's version before this commit; 0 for a new thread.
    pub expected: u64,
    /// The row after it; its `version` is `expected + 1`.
    pub row: Row,
    /// The step, if this commit adds one.
    pub step: Option<NewStep>,
    /// Objects that are not known to be stored yet: kind, digest, canonical bytes.
    pub objects: Vec<(Kind, Digest, Vec<u8>)>,
    /// Lanes whose journal is cleared.
    pub clear_journal: Vec<LanePath>,
}

/// The longest name of a lane or a role that a store takes, in bytes. Both stand in keys.
pub const MAX_NAME_BYTES: usize = 4096;

/// The largest commit, and the largest set of journal records, that a store takes at once.
pub const MAX_COMMIT_BYTES: usize = 256 << 20;

impl Commit {
    /// Whether this commit may follow a row of `version` that ends at `seq`; both 0 for a thread that is not stored.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the row has moved on, [`Error::Malformed`] when the commit would leave a gap.
    pub(crate) fn may_follow(&self, version: u64, seq: u64) -> Result<(), Error> {
        let malformed = |what: &str| Err(Error::Malformed { what: format!("thread {}: {what}", self.thread) });
        if version != self.expected {
            return Err(Error::Conflict { thread: self.thread.clone() });
        }
        if self.expected.checked_add(1) != Some(self.row.version) {
            return malformed("the row's version is not the expected one and 1");
        }
        match &self.step {
            None if self.row.seq != seq => return malformed("the row ends at another step and no step is added"),
            Some(step) if seq.checked_add(1) != Some(step.seq) => return malformed("the step is not the next one"),
            Some(step) if step.seq != self.row.seq => return malformed("the row does not end at the step"),
            Some(step) if step.lane.as_str().len().max(step.role.as_str().len()) > MAX_NAME_BYTES => {
                return malformed("the name of a lane or role is too long");
            }
            _ => {}
        }
        if self.size_bytes() > MAX_COMMIT_BYTES { malformed("the commit is too large") } else { Ok(()) }
    }

    /// How much it writes, about.
    pub(crate) fn size_bytes(&self) -> usize {
        let step = self.step.as_ref().map_or(0, |step| step.bytes.len());
        let objects: usize = self.objects.iter().map(|(_, _, bytes)| bytes.len()).sum();
        let frontier: usize = self.row.frontier.keys().map(|lane| lane.as_str().len() + 32).sum();
        step + objects + frontier + self.row.checkpoint.len() + self.row.origin.len()
    }
}

/// One record of a journal: what the step in flight in a lane has been answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    /// The lane.
    pub lane: LanePath,
    /// Its place among the records of the lane, from 0.
    pub position: u32,
    /// The record, as the scheduler writes it.
    pub bytes: Vec<u8>,
}

/// Why the store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The row has another version than expected: somebody else committed.
    #[error("thread {thread} was changed by another run")]
    Conflict {
        /// Which thread.
        thread: ThreadId,
    },
    /// What was handed over breaks a rule of the store. Nothing of it is stored, and nothing else is affected.
    #[error("the store refuses what it was given: {what}")]
    Malformed {
        /// Which rule.
        what: String,
    },
    /// A stored thing is not what its digest says, cannot be read, or is missing.
    #[error("the store is damaged: {what}")]
    Damaged {
        /// What, and where.
        what: String,
    },
    /// A sync failed before; whether the last commits are stored is unknown until the store is opened anew.
    #[error("the store could not write: {what}; what was written last is unknown until the store is opened again")]
    Poisoned {
        /// What failed.
        what: String,
    },
    /// Somebody else holds the store.
    #[error("the store is in use by process {pid}")]
    Busy {
        /// Of the holder; 0 if unknown.
        pid: u32,
    },
    /// The folder or a file in it cannot be used.
    #[error("{path}: {what}")]
    Io {
        /// Which path.
        path: String,
        /// What the system says.
        what: String,
    },
    /// Something in the store's folder could make this process read or write elsewhere, or belongs to another user.
    #[error("{path} {what}; a store holds plain files of its user and nothing else")]
    Unsafe {
        /// Which path.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// This handle only reads.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// Written by a newer version.
    #[error("the store has format {found}; this version reads up to {known}")]
    Format {
        /// What is there.
        found: u32,
        /// What is understood.
        known: u32,
    },
}

impl Error {
    /// The code, which has a page.
    pub fn code(&self) -> Code {
        match self {
            Self::Conflict { .. } => Code::StoreConflict,
            Self::Damaged { .. } => Code::StoreDamaged,
            Self::Poisoned { .. } => Code::StorePoisoned,
            Self::Busy { .. } => Code::StoreBusy,
            Self::Io { .. } => Code::StoreUnusable,
            Self::Unsafe { .. } => Code::StoreUnsafe,
            Self::ReadOnly => Code::StoreReadOnly,
            Self::Format { .. } => Code::StoreFormat,
            Self::Malformed { .. } => Code::StoreRefused,
        }
    }
}

impl Error {
    fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), what: error.to_string() }
    }
}

/// Keys and values, in order of the keys.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What can be asked of a store that is open in any way. Everything read by digest is verified against it.
pub trait Read: Send + Sync {
    /// The row of a thread.
    ///
    /// # Errors
    /// [`Error::Damaged`] when it cannot be read as a row.
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error>;

    /// Every thread with its row, oldest first.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn rows(&self) -> Result<Vec<(ThreadId, Row)>, Error>;

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
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn step(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredStep, Note)>, Error>;

    /// Where a role's visits in a lane stand: `(visit, seq)` for visits within `visits`, in order.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn visits(
        &self,
        thread: &ThreadId,
        lane: &LanePath,
        role: &RoleName,
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error>;

    /// Where the step of that digest stands; a digest may stand in several threads.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error>;

    /// The canonical bytes of an object, verified.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the bytes are not those of the digest.
    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error>;

    /// The journal of a lane, in order of position.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error>;

    /// A value of a hook's private key space.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Keys and values of a hook's private key space from `from` on, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error>;
}

/// A store that can be written.
pub trait StepStore: Read {
    /// Stores a commit. When this returns `Ok`, it has been made as durable as [`durability`](Self::durability) says.
    /// Commits that wait at the same time share one sync; one that loses its compare-and-set is left out and the
    /// others go on.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Poisoned`] (the outcome is unknown), [`Error::Io`].
    ///
    /// # Cancel safety
    /// A commit that has been handed over is carried out whether or not the future is polled on.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>>;

    /// Adds journal records of a thread. With `sync` they are durable when this returns; otherwise they ride with the
    /// next record or commit that is.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Io`].
    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> BoxFuture<'_, Result<(), Error>>;

    /// Writes a value of a hook's private key space, or deletes it with `None`. Not synced: what a hook keeps can be
    /// lost and is never needed.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Io`].
    fn put_hook_value(&self, space: &str, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>>;

    /// How far an acknowledged commit is safe.
    fn durability(&self) -> Durability;
}
