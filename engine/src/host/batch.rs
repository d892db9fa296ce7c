//! A batch: threads of one workflow on many inputs, stored before the first of them starts, so that it can continue
//! without its file.
//!
//! The id of each thread is stored with its input. A line whose thread is not in the store never began; one whose
//! thread has not ended continues; no line runs twice.

use rondo_protocol::canonical;
use rondo_protocol::id::{BatchId, ThreadId};
use rondo_protocol::workflow::{Policy, Workflow};
use rondo_protocol::{Value, diagnostic::Code};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::store::{Damage, Error, Read};

/// The version of the JSON of batches and their lines.
pub const VERSION: u32 = 1;

/// What all lines of a batch have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// The version of this form.
    pub version: u32,
    /// The checked workflow.
    pub workflow: Workflow,
    /// Its policy.
    pub policy: Policy,
    /// The workflow's file, as an absolute path.
    pub file: Option<String>,
    /// The script that answers in place of models, as an absolute path.
    pub script: Option<String>,
    /// The recording that answers in place of models, as an absolute path.
    pub recorded: Option<String>,
    /// The folder that tools work in, as an absolute path.
    pub workspace: Option<String>,
    /// The tags of its threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How many inputs it has, invalid ones included. Each has the number of its line in the file: the numbers rise, and
    /// have gaps where the file has empty lines, names of columns, or values of several lines.
    pub lines: u32,
    /// How the lines are run and shown.
    pub options: Options,
    /// Unix milliseconds.
    pub started_at_ms: u64,
}

/// How the lines of a batch are run and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// How many threads run at once.
    pub concurrency: u16,
    /// Whether results come as lines end, and not in the order of the inputs.
    pub is_unordered: bool,
    /// Whether the first line that does not end in `done` stops the others.
    pub fails_fast: bool,
}

impl Batch {
    /// The stored batch `id`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(store: &(impl Read + ?Sized), id: &BatchId) -> Result<Option<Self>, Failure> {
        let Some(bytes) = store.batch(id)? else { return Ok(None) };
        let batch: Self = decode(&bytes, &format!("batch {id}"))?;
        if batch.version > VERSION {
            let what =
                format!("batch {id} has version {}, and this rondo knows versions up to {VERSION}", batch.version);
            return Err(Failure::new(Code::StoreFormat, what));
        }
        Ok(Some(batch))
    }

    /// Its bytes in the store.
    ///
    /// # Errors
    /// [`Code::InternalFault`] if it has no JSON form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Failure> {
        encode(self)
    }

    /// What is wrong if so many of its lines are there.
    pub fn lacks(&self, id: &BatchId, lines: u32) -> Option<String> {
        (lines != self.lines).then(|| format!("batch {id} has {} lines, and {lines} are here", self.lines))
    }
}

/// One line of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// An input and its thread, which may not have begun.
    Valid {
        /// The thread.
        thread: ThreadId,
        /// The checked input.
        input: Value,
    },
    /// An input that the workflow does not take.
    Invalid {
        /// The code of the first fault.
        code: String,
        /// All faults, in words.
        message: String,
    },
}

impl Line {
    /// At most `limit` lines from number `from` on, in order.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn page(
        store: &(impl Read + ?Sized),
        id: &BatchId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<(u32, Self)>, Failure> {
        let stored = store.batch_lines(id, from, limit)?.into_iter();
        stored.map(|(line, bytes)| Ok((line, decode(&bytes, &format!("line {line} of batch {id}"))?))).collect()
    }

    /// Its bytes in the store.
    ///
    /// # Errors
    /// [`Code::InternalFault`] if it has no JSON form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Failure> {
        encode(self)
    }
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    canonical::to_bytes(value).map_err(|error| Failure::new(Code::InternalFault, error.to_string()))
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, Failure> {
    canonical::from_slice(bytes).map_err(|error| Error::from(Damage::new(format!("{what}: {error}"))).into())
}
