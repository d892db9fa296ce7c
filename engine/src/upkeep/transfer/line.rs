//! The lines of an export.

use data_encoding::BASE64;
use rondo_protocol::Digest;
use rondo_protocol::id::{BatchId, LanePath, ThreadId};
use rondo_store::{Base, Parent, Raised, Status};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

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
        fold: ThreadState,
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
    pub(super) checkpoint: Option<ThreadState>,
    #[serde(borrow)]
    pub(super) origin: Option<&'a RawValue>,
}

/// A checkpoint, or a lane's part of it: base64, or JSON where an earlier version wrote that.
#[derive(Debug)]
pub(super) struct ThreadState(pub(super) Vec<u8>);

impl Serialize for ThreadState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.starts_with(b"{") {
            serde_json::from_slice::<&RawValue>(&self.0).map_err(ser::Error::custom)?.serialize(serializer)
        } else {
            serializer.serialize_str(&BASE64.encode(&self.0))
        }
    }
}

impl<'de> Deserialize<'de> for ThreadState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => BASE64.decode(text.as_bytes()).map(Self).map_err(de::Error::custom),
            None => Ok(Self(json.as_bytes().to_vec())),
        }
    }
}
