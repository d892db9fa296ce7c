//! Rows: the state of a thread, and of each of its open lanes.
//!
//! A thread's row does not grow with its lanes; each lane has its own row, written by the lane's commits and deleted
//! by the commit that follows its join.

use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::FromRepr;

use super::{Error, Read, pages};

/// How many rows [`rows_after`] reads at a time. A row carries a checkpoint, which can take kilobytes.
const ROWS: usize = 256;

/// The state of a thread. One row per thread; compare-and-set is on `version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Grows by one with each commit; 0 means the thread is not stored.
    pub version: u64,
    /// Its status.
    pub status: Status,
    /// The number of the last step, 0 before the first.
    pub seq: u64,
    /// The last step of the trunk; `None` before its first.
    pub head: Option<Digest>,
    /// Object `workflow`.
    pub workflow: Digest,
    /// Object `policy`.
    pub policy: Digest,
    /// Object `start`.
    pub start: Digest,
    /// For a fork, where it leaves the original thread.
    pub base: Option<Base>,
    /// For a child, the visit that started it.
    pub parent: Option<Parent>,
    /// A name given by a person.
    pub label: Option<String>,
    /// Words added by a person.
    pub tags: Vec<String>,
    /// Limits that were changed after the start, in order.
    pub raised: Vec<Raised>,
    /// The fold over the trunk's steps, as the thread module writes it: opaque here, not hashed.
    pub checkpoint: Vec<u8>,
    /// Metadata that is not hashed, as the thread module writes it: JSON, opaque here.
    pub origin: Vec<u8>,
}

/// The threads of a store with their rows, oldest first and only those after `after`: see [`pages`].
pub fn rows_after<S: Read + ?Sized>(
    store: &S,
    after: Option<ThreadId>,
) -> impl Iterator<Item = Result<(ThreadId, Row), Error>> {
    pages(ROWS, after, move |after, limit| store.rows(after, limit))
}

/// Where a fork leaves the original thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The original thread.
    pub thread: ThreadId,
    /// The last common step.
    pub seq: u64,
}

impl Row {
    /// The number of records that it shares with its base, which come first and are stored there.
    pub fn shared(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.seq)
    }

    /// The threads that must be stored for as long as this one is: its base and its parent.
    pub fn needs(&self) -> impl Iterator<Item = &ThreadId> {
        let base = self.base.iter().map(|base| &base.thread);
        base.chain(self.parent.iter().map(|parent| &parent.thread))
    }
}

/// The visit of a role that started a child thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// The thread of the role.
    pub thread: ThreadId,
    /// The role.
    pub role: RoleName,
    /// Its lane.
    pub lane: LanePath,
    /// The role's visit in that lane, from 1.
    pub visit: u64,
}

/// A limit that was changed after the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raised {
    /// The limit's name in the policy.
    pub key: String,
    /// The old value as JSON; `None` means no limit.
    pub old: Option<String>,
    /// The new value as JSON.
    pub new: String,
    /// When it was changed, in Unix milliseconds.
    pub at_ms: u64,
}

/// The state of an open lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRow {
    /// Its last step; `None` before its first.
    pub frontier: Option<Digest>,
    /// Its part of the fold, as the thread module writes it: opaque here. Not hashed.
    pub fold: Vec<u8>,
    /// The number of the step that opened it.
    pub opened_by: u64,
    /// Its place among the lanes that this step opened, from 0.
    pub index: u64,
}

// The numbers stand for them in stored rows.
/// The status of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, FromRepr)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Status {
    /// Started and not ended. Whether a process drives it now is not stored.
    Running = 1,
    /// It waits for a person.
    Waiting = 2,
    /// It stopped on a fault or a limit and can be resumed.
    Stopped = 3,
    /// It reached `end`.
    Done = 4,
    /// It reached `fail`.
    Failed = 5,
    /// It was cancelled for good.
    Cancelled = 6,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Running, Self::Waiting, Self::Stopped, Self::Done, Self::Failed, Self::Cancelled];

    /// Whether nothing follows.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::steps::Trunk;
    use crate::store::{MemoryStore, StepStore as _};

    #[tokio::test]
    async fn rows_go_on_over_the_ends_of_pages() {
        let store = MemoryStore::new();
        let threads: Vec<ThreadId> = (0..2 * ROWS as u64).map(|number| ThreadId::from_parts(number, 0)).collect();
        for thread in &threads {
            let mut trunk = Trunk { thread: thread.clone(), head: None, seq: 0, version: 0 };
            store.commit(trunk.row_alone()).await.unwrap();
        }
        for from in [0, 1, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS] {
            let after = from.checked_sub(1).map(|before| threads[before].clone());
            let read: Result<Vec<_>, _> = rows_after(&store, after).map(|row| row.map(|(thread, _)| thread)).collect();
            assert_eq!(read.unwrap(), threads[from..]);
        }
    }
}
