//! The write-back queue: for each key the write that the table has not taken yet.
//!
//! Memory is changed first and the table after it. A write stays in the queue until the table has taken it, so the table
//! ends up as memory is, whatever was cancelled or failed, and until then an entry is read from here.

use std::sync::Arc;

use lru::LruCache;

use super::entry::{Key, KeyHasher};
use super::metrics::{LabelMetrics, Metric};
use super::record::Records;

/// The most bytes that wait, and the most writes; an entry for which there is no room is not kept.
const BYTES_MAX: u64 = 64 << 20;
const WRITES_MAX: usize = 1 << 16;
/// The most writes with removals. A removal beyond it is lost: only with a table that takes nothing are there as many, and
/// what it holds is then found again by the next process.
const ALL_MAX: usize = 1 << 20;

/// A write: the records of an entry, or a removal.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) records: Option<Arc<Records>>,
    /// Where its failure is counted, once.
    label_metrics: Option<Arc<LabelMetrics>>,
}

/// All writes that the table has not taken, by key; the oldest is the least recently "used", as none is looked up.
pub(super) struct WriteBack {
    writes: LruCache<Key, Write, KeyHasher>,
    bytes: u64,
}

impl Default for WriteBack {
    fn default() -> Self {
        Self { writes: LruCache::unbounded_with_hasher(KeyHasher::default()), bytes: 0 }
    }
}

impl WriteBack {
    /// Queues the records of an entry; without room for them, the removal of an older entry. Returns whether there was room.
    pub(super) fn write(&mut self, key: Key, records: Records, label_metrics: &Arc<LabelMetrics>) -> bool {
        self.withdraw(&key);
        let bytes = self.bytes.saturating_add(records.bytes());
        let fits = bytes <= BYTES_MAX && self.writes.len() < WRITES_MAX;
        if fits {
            self.bytes = bytes;
            self.writes
                .put(key, Write { records: Some(Arc::new(records)), label_metrics: Some(Arc::clone(label_metrics)) });
        } else {
            self.remove(key, label_metrics);
        }
        fits
    }

    /// Queues the removal of an entry.
    pub(super) fn remove(&mut self, key: Key, label_metrics: &Arc<LabelMetrics>) {
        self.withdraw(&key);
        if self.writes.len() < ALL_MAX {
            self.writes.put(key, Write { records: None, label_metrics: Some(Arc::clone(label_metrics)) });
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
            true => drop(write.label_metrics.take().map(|label_metrics| label_metrics.count(Metric::FailedWrites, 1))),
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
