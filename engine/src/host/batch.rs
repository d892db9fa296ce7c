//! A batch: threads of one workflow on many inputs, stored before the first of them starts, so that it can continue
//! without its file.
//!
//! The id of each thread is stored with its input. A line whose thread is not in the store never began; one whose
//! thread has not ended continues; no line runs twice.

use std::collections::BTreeSet;
use std::ops::Deref;

use rondo_protocol::canonical;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::{BatchId, ThreadId};
use rondo_protocol::workflow::{Policy, Workflow};
use rondo_protocol::{Value, diagnostic::Code};
use rondo_store::{Damage, Error, Read, pages_from};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The version of the JSON of batches and their lines.
pub const VERSION: u32 = 1;

/// How many lacking lines are named.
const MAX_NAMED: usize = 10;

/// What all lines of a batch have in common. Its files and folders are absolute paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    pub version: u32,
    pub workflow: Workflow,
    pub policy: Policy,
    pub file: Option<String>,
    pub script: Option<String>,
    pub recorded: Option<String>,
    pub workspace: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How many inputs it has, invalid ones included. Each has the number of its line in the file: the numbers rise, and
    /// have gaps where the file has empty lines, names of columns, or values of several lines.
    pub lines: u32,
    pub options: Options,
    /// Unix milliseconds.
    pub started_at_ms: u64,
}

/// How the lines of a batch are run and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    pub concurrency: u16,
    /// Whether results come as lines end, and not in the order of the inputs.
    pub is_unordered: bool,
    /// Whether the first line that does not end in `done` stops the others.
    pub fails_fast: bool,
}

impl Batch {
    /// The stored batch `id`.
    pub fn read(store: &(impl Read + ?Sized), id: &BatchId) -> Result<Option<Self>, Failure> {
        let Some(bytes) = store.batch(id)? else { return Ok(None) };
        let batch: Self = decode(&bytes, &format!("batch {id}"))?;
        if batch.version > VERSION {
            let (version, known) = (batch.version, VERSION);
            let what = format!("batch {id} has version {version}, and this rondo knows versions up to {known}");
            return Err(Failure::new(Code::StoreFormat, what));
        }
        Ok(Some(batch))
    }

    /// What is wrong if its lines with these numbers are there.
    pub fn lacks(&self, id: &BatchId, numbers: &BTreeSet<u32>) -> Option<String> {
        let found = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let lacking = match self.lines.checked_sub(found) {
            Some(0) => return None,
            None => return Some(format!("batch {id} has {} lines, and {found} are here", self.lines)),
            Some(lacking) => lacking,
        };
        // Where the numbers have gaps, those that are lacking are not known.
        let has_gaps = numbers.last().is_some_and(|last| *last > self.lines);
        let unseen = (1..=self.lines).filter(|number| !has_gaps && !numbers.contains(number));
        let unseen: Vec<String> = unseen.take(MAX_NAMED).map(|number| number.to_string()).collect();
        Some(match (unseen.as_slice(), lacking) {
            ([], _) => format!("batch {id} lacks {lacking} of its {} lines", self.lines),
            ([line], 1) => format!("batch {id} lacks line {line} of {}", self.lines),
            (lines, _) => {
                let more = if lacking as usize > lines.len() { ", …" } else { "" };
                format!("batch {id} lacks lines {}{more} of {}", lines.join(", "), self.lines)
            }
        })
    }
}

/// One line of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// An input and its thread, which may not have begun.
    Valid { thread: ThreadId, input: Value },
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
    pub fn page(
        store: &(impl Read + ?Sized),
        id: &BatchId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<(u32, Self)>, Failure> {
        let stored = store.batch_lines(id, from, limit)?.into_iter();
        stored.map(|(line, bytes)| Ok((line, decode(&bytes, &format!("line {line} of batch {id}"))?))).collect()
    }

    /// All lines from number `from` on, in order, of which a page of `limit` is in memory at a time.
    pub fn all(
        store: impl Deref<Target: Read>,
        id: BatchId,
        from: u32,
        limit: usize,
    ) -> impl Iterator<Item = Result<(u32, Self), Failure>> {
        pages_from(limit, from, move |from, limit| Self::page(&*store, &id, from, limit))
    }
}

/// Finds a batch by its id, by a prefix of its id, or by the word `last`.
pub fn find_batch(store: &dyn Read, word: &str) -> Result<(BatchId, Batch), Failure> {
    let unknown = || {
        let shown: String = word.chars().take(40).collect();
        Failure::new(Code::BatchUnknown, format!("the store has no batch {shown:?}"))
            .with_hint(Hint::from(Operation::new(Verb::Batches)).words(" lists them; `last` is the youngest"))
    };
    let start = word.to_lowercase();
    let mut all = store.batches(None, usize::MAX)?;
    let found = if word == "last" {
        all.pop().ok_or_else(unknown)?
    } else {
        all.retain(|id| !start.is_empty() && id.as_str().starts_with(&start));
        match all.as_slice() {
            [] => return Err(unknown()),
            [id] => id.clone(),
            several => {
                let listed: Vec<&str> = several.iter().rev().take(10).map(BatchId::as_str).collect();
                let message = format!("{} batches begin with {start:?}", several.len());
                return Err(Failure::new(Code::BatchUnknown, message).with_hint(listed.join("\n")));
            }
        }
    };
    let batch = Batch::read(store, &found)?.ok_or_else(unknown)?;
    Ok((found, batch))
}

/// The bytes of a batch or of a line in the store.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    Ok(canonical::to_bytes(value)?)
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, Failure> {
    canonical::from_slice(bytes).map_err(|error| Error::from(Damage::new(format!("{what}: {error}"))).into())
}
