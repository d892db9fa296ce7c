//! The lines of an export.

use rondo_protocol::Digest;
use rondo_protocol::id::{BatchId, LanePath, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use rondo_store::{Base, Parent, Raised, Status};

/// One line: an object with one member, whose name says what the line holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line<'a> {
    Export {
        format: u32,
    },
    /// An object, before the first line that names it.
    Object {
        kind: &'a str,
        digest: Digest,
        /// Its canonical bytes; of a file its contents as base64.
        #[serde(borrow)]
        value: &'a RawValue,
    },
    /// The row of a thread. What follows belongs to it, up to the next thread: its open lanes, lists and journals, and
    /// its steps in order.
    #[serde(borrow)]
    Thread(Box<ThreadLine<'a>>),
    Lane {
        lane: LanePath,
        frontier: Option<Digest>,
        opened_by: u64,
        index: u64,
        #[serde(borrow)]
        fold: &'a RawValue,
    },
    /// The evaluated list of the `each` that a step opened.
    List {
        opened_by: u64,
        #[serde(borrow)]
        value: &'a RawValue,
    },
    Journal {
        lane: LanePath,
        position: u32,
        #[serde(borrow)]
        value: &'a RawValue,
    },
    /// A step, a rebind or a compaction.
    Step {
        seq: u64,
        digest: Digest,
        visit: u64,
        /// Its canonical bytes.
        #[serde(borrow)]
        value: &'a RawValue,
        #[serde(borrow)]
        note: &'a RawValue,
    },
    /// A batch; its lines follow.
    Batch {
        batch: BatchId,
        #[serde(borrow)]
        value: &'a RawValue,
    },
    /// A line of the batch above.
    #[serde(rename = "batch_line")]
    BatchInput {
        line: u32,
        #[serde(borrow)]
        value: &'a RawValue,
    },
    End {
        threads: u64,
        steps: u64,
        objects: u64,
        batches: u64,
        /// SHA-256 of all bytes before this line.
        sha256: Digest,
        /// Its tag by the secret of the user whose store it is: see [`seal_message`].
        #[serde(default)]
        seal: Option<Digest>,
    },
}

/// What the seal of an export is a tag of.
pub(super) fn seal_message(sha256: Digest) -> Vec<u8> {
    [b"rondo/export/v2\n", sha256.as_bytes().as_slice()].concat()
}

/// The row of a thread.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadLine<'a> {
    pub(super) thread: ThreadId,
    pub(super) version: u64,
    pub(super) status: Status,
    pub(super) seq: u64,
    pub(super) head: Option<Digest>,
    pub(super) workflow: Digest,
    pub(super) policy: Digest,
    pub(super) start: Digest,
    pub(super) base: Option<Base>,
    pub(super) parent: Option<Parent>,
    pub(super) label: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) raised: Vec<Raised>,
    #[serde(borrow)]
    pub(super) checkpoint: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) origin: Option<&'a RawValue>,
}
