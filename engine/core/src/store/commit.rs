//! The input of a store: commits and journal records, and their rules.

use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Note, Record, Step};

use serde::{Deserialize, Serialize};

use super::{Base, Error, LaneRow, Row};

/// A stored step.
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

/// A stored record of any kind.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    /// Its place in the thread, from 1.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Of a step, the role's visit in its lane, from 1; of a compaction, the last visit that it covers; else 0.
    pub visit: u64,
    /// The record.
    pub record: Record,
}

impl StoredRecord {
    /// The step, if it is one.
    pub fn into_step(self) -> Option<StoredStep> {
        let Self { seq, digest, visit, record } = self;
        match record {
            Record::Step(step) => Some(StoredStep { seq, digest, visit, step: *step }),
            Record::Rebind(_) | Record::Compaction(_) => None,
        }
    }
}

/// A record as it lies in the store, before it is verified.
#[derive(Debug)]
pub struct StepBytes<'a> {
    /// Its place.
    pub seq: u64,
    /// The digest that it was stored with.
    pub digest: Digest,
    /// See [`StoredRecord::visit`].
    pub visit: u64,
    /// Its canonical bytes.
    pub bytes: &'a [u8],
    /// Its note.
    pub note: Note,
}

/// What finds records by role and lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VisitIndex {
    /// Steps by visit.
    Steps,
    /// Compactions by the last visit that they cover.
    Compactions,
}

/// The entry of a record in a [`VisitIndex`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitKey {
    /// The index.
    pub index: VisitIndex,
    /// The lane.
    pub lane: LanePath,
    /// The role.
    pub role: RoleName,
    /// The visit.
    pub visit: u64,
}

impl VisitKey {
    /// Where a record is found: a step by its visit, a compaction by the last visit that it covers, a rebind not at
    /// all.
    pub fn of(record: &Record, visit: u64) -> Option<Self> {
        let (index, lane, role) = match record {
            Record::Step(step) => (VisitIndex::Steps, &step.lane, &step.role),
            Record::Compaction(compaction) => (VisitIndex::Compactions, &compaction.lane, &compaction.role),
            Record::Rebind(_) => return None,
        };
        Some(Self { index, lane: lane.clone(), role: role.clone(), visit })
    }
}

/// A record to store.
#[derive(Debug, Clone)]
pub struct NewStep {
    /// Its place: the row's `seq` after this commit.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// Where it is found by role; `None` for a rebind.
    pub found_by: Option<VisitKey>,
    /// The note, which is not hashed.
    pub note: Note,
}

impl NewStep {
    /// See [`StoredRecord::visit`].
    pub fn visit(&self) -> u64 {
        self.found_by.as_ref().map_or(0, |key| key.visit)
    }
}

/// One commit, stored completely or not at all.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The thread.
    pub thread: ThreadId,
    /// The row's version before this commit; 0 for a new thread.
    pub expected: u64,
    /// The row after it; its `version` is `expected + 1`.
    pub row: Row,
    /// The step, if this commit adds one.
    pub step: Option<NewStep>,
    /// Objects: kind, digest, canonical bytes. Each that the row, the record or one of these names must be among them,
    /// unless the row before it or a record of the same thread names it already: only those are sure to be there, because
    /// a collection of garbage deletes what no thread names.
    pub objects: Vec<(Kind, Digest, Vec<u8>)>,
    /// Rows of lanes after it; `None` deletes one.
    pub lanes: Vec<(LanePath, Option<LaneRow>)>,
    /// The evaluated list of the `each` that a step opened, by its number; `None` deletes one.
    pub lists: Vec<(u64, Option<Vec<u8>>)>,
    /// Lanes whose journal is cleared.
    pub clear_journal: Vec<LanePath>,
}

/// Threads to delete, and what is written with that.
#[derive(Debug, Clone, Default)]
pub struct Deletion {
    /// The threads, each with the version that its row is expected to have.
    pub threads: Vec<(ThreadId, u64)>,
    /// Lines of batches to replace, by their numbers.
    pub lines: Vec<(BatchId, u32, Vec<u8>)>,
}

/// The longest name of a lane or a role in bytes. Both are parts of keys.
pub const MAX_NAME_BYTES: usize = 4096;

/// The largest commit, and the largest set of journal records in one call.
pub const MAX_COMMIT_BYTES: usize = 256 << 20;

impl Commit {
    /// A commit that writes only the thread's row.
    pub fn of_row(thread: ThreadId, row: Row) -> Self {
        Self {
            thread,
            expected: row.version.saturating_sub(1),
            row,
            step: None,
            objects: Vec::new(),
            lanes: Vec::new(),
            lists: Vec::new(),
            clear_journal: Vec::new(),
        }
    }

    /// Makes all checks that do not need the stored row.
    pub fn check(&self) -> Result<(), Error> {
        let malformed = |what: &str| Err(Error::Malformed { what: format!("thread {}: {what}", self.thread) });
        let found_by = || self.step.iter().filter_map(|step| step.found_by.as_ref());
        let role = found_by().map(|key| key.role.as_str());
        let lane = found_by().map(|key| key.lane.as_str());
        let lanes = self.lanes.iter().map(|(lane, _)| lane).chain(&self.clear_journal).map(LanePath::as_str);
        if role.chain(lane).chain(lanes).any(|name| name.len() > MAX_NAME_BYTES) {
            return malformed("the name of a lane or role is too long");
        }
        if self.size_bytes() > MAX_COMMIT_BYTES { malformed("the commit is too large") } else { Ok(()) }
    }

    /// What decides whether it may be stored.
    pub fn header(&self) -> CommitHeader {
        CommitHeader {
            thread: self.thread.clone(),
            expected: self.expected,
            version: self.row.version,
            seq: self.row.seq,
            base: self.row.base.clone(),
            needs: if self.expected == 0 { self.row.needs().cloned().collect() } else { Vec::new() },
            step: self.step.as_ref().map(|step| step.seq),
        }
    }

    fn size_bytes(&self) -> usize {
        let step = self.step.as_ref().map_or(0, |step| step.bytes.len());
        let objects: usize = self.objects.iter().map(|(_, _, bytes)| bytes.len()).sum();
        let lane = |row: &Option<LaneRow>| row.as_ref().map_or(0, |row| row.fold.len());
        let lanes: usize = self.lanes.iter().map(|(path, row)| path.as_str().len() + lane(row)).sum();
        let lists: usize = self.lists.iter().map(|(_, list)| list.as_ref().map_or(0, Vec::len)).sum();
        let words: usize = self.row.tags.iter().chain(&self.row.label).map(String::len).sum();
        step + objects + lanes + lists + words + self.row.checkpoint.len() + self.row.origin.len()
    }
}

/// The data that decides whether a commit may be stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommitHeader {
    /// The thread.
    pub thread: ThreadId,
    /// The row's version before it.
    expected: u64,
    /// The row's version after it.
    pub version: u64,
    /// The number of the last step after it.
    pub seq: u64,
    /// For a fork, where it leaves the original thread.
    pub base: Option<Base>,
    /// For a new thread, those that must be stored for as long as it is.
    pub needs: Vec<ThreadId>,
    /// The number of its step, if it has one.
    pub step: Option<u64>,
}

impl CommitHeader {
    /// Checks that the commit may follow a row of `version` that ends at `seq`; both are 0 for a thread that is not
    /// stored.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the row has changed, [`Error::Malformed`] if the commit would leave a gap.
    pub fn check_follows(&self, version: u64, seq: u64) -> Result<(), Error> {
        let malformed = |what: &str| Err(Error::Malformed { what: format!("thread {}: {what}", self.thread) });
        if version != self.expected {
            return Err(Error::Conflict { thread: self.thread.clone() });
        }
        if self.expected.checked_add(1) != Some(self.version) {
            return malformed("the row's version is not the expected one and 1");
        }
        let seq = if version == 0 { self.base.as_ref().map_or(0, |base| base.seq) } else { seq };
        match self.step {
            None if self.seq != seq => malformed("the row ends at another step and no step is added"),
            Some(step) if seq.checked_add(1) != Some(step) => malformed("the step is not the next one"),
            Some(step) if step != self.seq => malformed("the row does not end at the step"),
            _ => Ok(()),
        }
    }
}

/// One journal record: an answer that the step in flight in a lane already has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalRecord {
    /// The lane.
    pub lane: LanePath,
    /// Its place among the records of the lane, from 0.
    pub position: u32,
    /// The record, as the driver writes it.
    pub bytes: Vec<u8>,
}
