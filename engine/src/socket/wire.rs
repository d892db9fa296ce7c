//! What is asked of the process that holds a store, and what it answers.

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;
use serde::{Deserialize, Serialize};

use super::drivers::GuestId;
use crate::store::text::{self, Bytes};
use crate::store::{Commit, Error, JournalRecord, LaneRow, Row, StoredStep};

/// Which version speaks: both sides must be of the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A question.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Whether somebody is there.
    Hello {
        /// Who asks.
        version: String,
    },
    /// A process that drives threads is there for as long as this connection stands; it is told on it which threads are
    /// to be cancelled.
    Join {
        /// Who asks.
        version: String,
    },
    /// Which threads are driven.
    Driven,
    /// A thread is driven by this guest from now on.
    Drive {
        /// By whom.
        guest: GuestId,
        /// Which.
        thread: ThreadId,
    },
    /// It no longer is.
    Leave {
        /// By whom.
        guest: GuestId,
        /// Which.
        thread: ThreadId,
    },
    /// Whoever drives a thread is to end it for good; answered when it has left the thread.
    Cancel {
        /// Which.
        thread: ThreadId,
    },
    /// [`Read::row`](crate::store::Read::row).
    Row {
        /// Which thread.
        thread: ThreadId,
    },
    /// A page of [`Read::rows`](crate::store::Read::rows).
    Rows {
        /// The last one that is known already.
        after: Option<ThreadId>,
        /// At most so many.
        limit: usize,
    },
    /// [`Read::lane`](crate::store::Read::lane).
    Lane {
        /// Which thread.
        thread: ThreadId,
        /// Which lane.
        lane: LanePath,
    },
    /// A page of [`Read::lanes`](crate::store::Read::lanes).
    Lanes {
        /// Which thread.
        thread: ThreadId,
        /// The last one that is known already.
        after: Option<LanePath>,
        /// At most so many.
        limit: usize,
    },
    /// [`Read::list`](crate::store::Read::list).
    List {
        /// Which thread.
        thread: ThreadId,
        /// The step that opened it.
        opened_by: u64,
    },
    /// A page of [`Read::scan`](crate::store::Read::scan).
    Scan {
        /// Which thread.
        thread: ThreadId,
        /// From here on.
        first: u64,
        /// Up to here.
        last: u64,
    },
    /// [`Read::step`](crate::store::Read::step).
    Step {
        /// Which thread.
        thread: ThreadId,
        /// Which step.
        seq: u64,
    },
    /// [`Read::visits`](crate::store::Read::visits).
    Visits {
        /// Which thread.
        thread: ThreadId,
        /// Which lane.
        lane: LanePath,
        /// Whose.
        role: RoleName,
        /// From here on.
        first: u64,
        /// Up to here.
        last: u64,
    },
    /// [`Read::locate`](crate::store::Read::locate).
    Locate {
        /// Of which step.
        digest: Digest,
    },
    /// [`Read::object`](crate::store::Read::object).
    Object {
        /// Of which kind.
        #[serde(with = "text::kind")]
        kind: Kind,
        /// Which.
        digest: Digest,
    },
    /// [`Read::journal`](crate::store::Read::journal).
    Journal {
        /// Which thread.
        thread: ThreadId,
        /// Which lane.
        lane: LanePath,
    },
    /// [`Read::hook_value`](crate::store::Read::hook_value).
    HookValue {
        /// Whose.
        space: String,
        /// Its key.
        key: Bytes,
    },
    /// A page of [`Read::hook_values`](crate::store::Read::hook_values).
    HookValues {
        /// Whose.
        space: String,
        /// From this key on.
        from: Bytes,
        /// At most so many.
        limit: usize,
    },
    /// [`StepStore::commit`](crate::store::StepStore::commit).
    Commit {
        /// What.
        commit: Box<Commit>,
        /// How far it is safe when it is answered.
        durability: Durable,
    },
    /// [`StepStore::record`](crate::store::StepStore::record).
    Record {
        /// Which thread.
        thread: ThreadId,
        /// What.
        records: Vec<JournalRecord>,
        /// How far they are safe when they are answered; `None` = they ride with what comes next.
        durability: Option<Durable>,
    },
    /// [`StepStore::put_hook_value`](crate::store::StepStore::put_hook_value).
    PutHookValue {
        /// Whose.
        space: String,
        /// Its key.
        key: Bytes,
        /// What; `None` deletes it.
        value: Option<Bytes>,
    },
}

/// How far what a guest writes is safe, which is the guest's word and not the holder's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durable(pub Durability);

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done.
    Done,
    /// The holder is there.
    Hello,
    /// A guest is known from now on.
    Joined {
        /// As this one.
        guest: GuestId,
    },
    /// On the connection of a guest: a thread is to be ended for good.
    Cancel {
        /// Which.
        thread: ThreadId,
    },
    /// The other side is of another version.
    OtherVersion,
    /// Threads that are driven.
    Driven(Vec<ThreadId>),
    /// A thread is driven by another process already.
    Taken,
    /// Whoever drove a thread.
    Freed(Freed),
    /// A row.
    Row(Option<Box<Row>>),
    /// Rows.
    Rows(Vec<(ThreadId, Row)>),
    /// Steps, in order.
    Steps(Vec<Scanned>),
    /// Visits and their steps.
    Visits(Vec<(u64, u64)>),
    /// Where a step stands.
    Places(Vec<(ThreadId, u64)>),
    /// A value.
    Value(Option<Bytes>),
    /// A journal.
    Journal(Vec<JournalRecord>),
    /// Keys and values, and whether they were cut at the size of a page.
    Entries(Vec<(Bytes, Bytes)>, bool),
    /// A row of a lane.
    Lane(Option<Box<LaneRow>>),
    /// Rows of lanes.
    Lanes(Vec<(LanePath, LaneRow)>),
    /// The store says no.
    Failed(#[serde(with = "text::fault")] Error),
}

/// A step with its note.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scanned {
    /// The step.
    pub stored: StoredStep,
    /// Its note.
    #[serde(with = "text::json")]
    pub note: Note,
}

/// What came of a wish to end a thread for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Freed {
    /// Nobody drove it.
    Nobody,
    /// Its driver has left it.
    Left,
    /// Its driver takes its time.
    Leaving,
}
