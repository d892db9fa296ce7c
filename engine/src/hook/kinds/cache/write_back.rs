//! The write-back queue: for each key the last thing that is to stand in the table.
//!
//! Memory is changed first and the table after it. A write stays in the queue until the table has taken it, so the table
//! ends up as memory is, whatever was cancelled or failed, and until then an entry is read from here.

use std::sync::Arc;

use lru::LruCache;

use super::entry::{Key, Straight};
use super::figures::{Figure, Tally};
use super::record::Records;

/// The most bytes that wait, and the most writes; an entry for which there is no room is not kept.
const BYTES_MAX: u64 = 64 << 20;
const WRITES_MAX: usize = 1 << 16;
/// The most writes with removals. A removal beyond it is lost: only with a table that takes nothing are there as many, and
/// what it holds is then found again by the next process.
const ALL_MAX: usize = 1 << 20;

/// What is to stand under a key: an entry, or nothing.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) records: Option<Arc<Records>>,
    /// Where its failure is counted, once.
    tally: Option<Arc<Tally>>,
}

/// All writes that the table has not taken, by key; the oldest is the least recently "used", as none is looked up.
pub(super) struct WriteBack {
    writes: LruCache<Key, Write, Straight>,
    bytes: u64,
}

impl Default for WriteBack {
    fn default() -> Self {
        Self { writes: LruCache::unbounded_with_hasher(Straight::default()), bytes: 0 }
    }
}

impl WriteBack {
    /// An entry is to be written. Without room for it, an older one is to be removed. Says whether there was room.
    pub(super) fn write(&mut self, key: Key, records: Records, tally: &Arc<Tally>) -> bool {
        self.withdraw(&key);
        let bytes = self.bytes.saturating_add(records.bytes());
        let fits = bytes <= BYTES_MAX && self.writes.len() < WRITES_MAX;
        if fits {
            self.bytes = bytes;
            self.writes.put(key, Write { records: Some(Arc::new(records)), tally: Some(Arc::clone(tally)) });
        } else {
            self.remove(key, tally);
        }
        fits
    }

    /// Nothing is to stand under a key.
    pub(super) fn remove(&mut self, key: Key, tally: &Arc<Tally>) {
        self.withdraw(&key);
        if self.writes.len() < ALL_MAX {
            self.writes.put(key, Write { records: None, tally: Some(Arc::clone(tally)) });
        }
    }

    /// The oldest writes. They stay until they are settled.
    pub(super) fn oldest(&self, most: usize) -> Vec<(Key, Write)> {
        self.writes.iter().rev().take(most).map(|(key, write)| (*key, write.clone())).collect()
    }

    /// The table has taken a write, or has not. A later one for the same key still waits; of two removals either will do.
    pub(super) fn settle(&mut self, key: &Key, done: &Write, taken: bool) {
        let Some(write) = self.writes.peek_mut(key) else { return };
        let is_same = write.records.as_ref().map(Arc::as_ptr) == done.records.as_ref().map(Arc::as_ptr);
        match is_same {
            true if taken => self.withdraw(key),
            true => drop(write.tally.take().map(|tally| tally.count(Figure::FailedWrites, 1))),
            false => {}
        }
    }

    /// Whether anything waits for a key.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.writes.contains(key)
    }

    /// The records of an entry that waits.
    pub(super) fn waiting(&self, key: &Key) -> Option<Arc<Records>> {
        self.writes.peek(key)?.records.clone()
    }

    fn withdraw(&mut self, key: &Key) {
        let records = self.writes.pop(key).and_then(|write| write.records);
        self.bytes = self.bytes.saturating_sub(records.map_or(0, |records| records.bytes()));
    }
}
