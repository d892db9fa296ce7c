//! The state of a cache: its entries and the decoded values, both in LRU order, what is counted, and what the table still has
//! to forget. It knows neither clock nor table; the cache holds it behind one lock.

use std::collections::HashSet;
use std::sync::Arc;

use lru::LruCache;
use serde::Serialize;

use super::Limits;
use super::entry::{CacheValue, Entry, Key, KeyHasher, Miss, SecondaryIndex as _};
use super::metrics::{Metric, Metrics};

/// The most keys that wait to be removed from the table. One beyond them is found again by the next process.
const DROPPED_MAX: usize = 1 << 16;

pub(super) struct Index<T: CacheValue> {
    pub(super) limits: Limits,
    pub(super) metrics: Metrics,
    // Ceilings that hold at any time for entries and for bytes, and strict LRU over a restart, are what `lru` lets its
    // caller decide; quick_cache and moka decide themselves, later, and by one weight.
    pub(super) entries: LruCache<Key, Arc<Entry>, KeyHasher>,
    bytes: u64,
    values: LruCache<Key, (Arc<T>, u64), KeyHasher>,
    pub(super) value_bytes: u64,
    secondary: T::Secondary,
    sequence: u64,
    /// The keys whose records the table has to remove, unless there is an entry again.
    dropped: Vec<Key>,
    /// What the table holds has been taken in.
    is_loaded: bool,
    /// Entries were removed by a filter before the table had been read: all that it holds is removed with them.
    is_cleared: bool,
}

/// What a cache holds and has evicted, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Entries that a ceiling has displaced.
    pub evicted: u64,
    pub entries: u64,
    /// What they take of the table.
    pub bytes: u64,
}

impl<T: CacheValue> Index<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            metrics: Metrics::default(),
            entries: LruCache::unbounded_with_hasher(KeyHasher::default()),
            bytes: 0,
            values: LruCache::unbounded_with_hasher(KeyHasher::default()),
            value_bytes: 0,
            secondary: T::Secondary::default(),
            sequence: 0,
            dropped: Vec::new(),
            is_loaded: false,
            is_cleared: false,
        }
    }

    /// The place of the next entry in the order of keeping.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence
    }

    /// Looks a key up: an entry that may be served, with its value if that is in memory. What may be served counts as used;
    /// what is expired is dropped.
    pub(super) fn look(&mut self, key: &Key, now_ms: u64) -> Result<(Arc<Entry>, Option<Arc<T>>), Miss> {
        let absent = if self.is_loaded { Miss::Absent } else { Miss::NotReady };
        let entry = self.entries.get(key).ok_or(absent)?;
        if let Some(miss) = entry.miss(now_ms) {
            if miss == Miss::Expired {
                self.drop_entry(key, Metric::Expired);
            }
            return Err(miss);
        }
        Ok((Arc::clone(entry), self.values.get(key).map(|(value, _)| Arc::clone(value))))
    }

    /// Whether an entry is within the ceilings alone.
    pub(super) fn has_room_for(&self, entry: &Entry) -> bool {
        self.limits.entries > 0 && entry.size_bytes <= self.limits.bytes
    }

    /// Places an entry that the table holds.
    pub(super) fn place(&mut self, key: Key, entry: Arc<Entry>, value: Arc<T>) {
        self.put(key, entry);
        self.hold(key, value);
        self.make_room();
    }

    /// Holds the value of an entry that was read, if the entry is still there. Says whether it is.
    pub(super) fn hold_read(&mut self, key: &Key, entry: &Arc<Entry>, value: Arc<T>) -> bool {
        let there = self.is_same(key, entry);
        if there {
            self.hold(*key, value);
            self.make_room();
        }
        there
    }

    /// Drops an entry that turned out to be damaged, if it is still this one. Says whether it was.
    pub(super) fn drop_damaged(&mut self, key: &Key, entry: &Arc<Entry>) -> bool {
        self.is_same(key, entry) && self.drop_entry(key, Metric::Damaged)
    }

    /// Forgets what is under a key, also what the table may hold that the index does not know of yet.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        let there = self.drop_entry(key, Metric::Removed);
        if !there && !self.is_loaded {
            self.drop_record(*key);
        }
        there
    }

    /// Forgets all entries that `which` names; their number.
    pub(super) fn remove_where(&mut self, mut which: impl FnMut(&Key, &Entry) -> bool) -> u64 {
        let chosen = self.entries.iter().filter(|(key, entry)| which(key, entry)).map(|(key, _)| *key).collect();
        self.drop_all(chosen)
    }

    /// The same of the entries that `find` finds in the secondary index, and of all that the table holds and the index
    /// does not know of yet.
    pub(super) fn remove_found(&mut self, find: impl FnOnce(&T::Secondary) -> Vec<Key>) -> u64 {
        self.is_cleared |= !self.is_loaded;
        self.drop_all(find(&self.secondary))
    }

    fn drop_all(&mut self, chosen: Vec<Key>) -> u64 {
        chosen.into_iter().filter(|key| self.drop_entry(key, Metric::Removed)).count() as u64
    }

    /// Takes in what the table holds, oldest first. Nothing was placed before.
    pub(super) fn load(&mut self, stored: Vec<(Key, Entry)>, unreadable: Vec<Key>) {
        let dropped: HashSet<Key, KeyHasher> = self.dropped.iter().copied().collect();
        for (key, entry) in stored {
            self.sequence = self.sequence.max(entry.sequence);
            // The record of one that was dropped goes already.
            if dropped.contains(&key) {
                continue;
            }
            if self.is_cleared {
                self.drop_record(key);
            } else {
                self.put(key, Arc::new(entry));
            }
        }
        self.make_room();
        for key in unreadable {
            self.drop_record(key);
        }
        self.is_loaded = true;
    }

    /// The keys whose records the table has to remove, and how many to [settle](Self::removed) then.
    pub(super) fn removals(&self) -> (Vec<Key>, usize) {
        (self.dropped.iter().filter(|key| !self.entries.contains(key)).copied().collect(), self.dropped.len())
    }

    /// The table has removed the first of them.
    pub(super) fn removed(&mut self, count: usize) {
        self.dropped.drain(..count.min(self.dropped.len()));
    }

    pub(super) fn totals(&self) -> Totals {
        let (entries, evicted) = (self.entries.len() as u64, self.metrics.sum(Metric::Evicted));
        Totals { evicted, entries, bytes: self.bytes }
    }

    fn is_same(&self, key: &Key, entry: &Arc<Entry>) -> bool {
        self.entries.peek(key).is_some_and(|there| Arc::ptr_eq(there, entry))
    }

    /// Lets the least recently used go until all ceilings hold.
    fn make_room(&mut self) {
        while self.entries.len() as u64 > self.limits.entries || self.bytes > self.limits.bytes {
            let Some(key) = self.entries.peek_lru().map(|(key, _)| *key) else { break };
            self.drop_entry(&key, Metric::Evicted);
        }
        while self.value_bytes > self.limits.memory_bytes {
            let Some((_, (_, weight))) = self.values.pop_lru() else { break };
            self.value_bytes = self.value_bytes.saturating_sub(weight);
        }
    }

    fn put(&mut self, key: Key, entry: Arc<Entry>) {
        self.take(&key);
        self.bytes = self.bytes.saturating_add(entry.size_bytes);
        self.secondary.inserted(&key, &entry.about);
        self.entries.put(key, entry);
    }

    /// Holds a value in memory, unless it is too heavy for it alone.
    fn hold(&mut self, key: Key, value: Arc<T>) {
        self.drop_value(&key);
        let weight = value.weight();
        if weight <= self.limits.memory_bytes {
            self.value_bytes = self.value_bytes.saturating_add(weight);
            self.values.put(key, (value, weight));
        }
    }

    fn drop_value(&mut self, key: &Key) {
        let weight = self.values.pop(key).map_or(0, |(_, weight)| weight);
        self.value_bytes = self.value_bytes.saturating_sub(weight);
    }

    /// Takes an entry out. Its records stay in the table.
    pub(super) fn take(&mut self, key: &Key) -> Option<Arc<Entry>> {
        let entry = self.entries.pop(key)?;
        self.drop_value(key);
        self.bytes = self.bytes.saturating_sub(entry.size_bytes);
        self.secondary.removed(key);
        Some(entry)
    }

    /// Takes an entry out, to be removed from the table.
    fn drop_entry(&mut self, key: &Key, why: Metric) -> bool {
        let Some(entry) = self.take(key) else { return false };
        self.metrics.count(&entry.label, why, 1);
        self.drop_record(*key);
        true
    }

    /// Has the records of a key removed from the table.
    pub(super) fn drop_record(&mut self, key: Key) {
        if self.dropped.len() < DROPPED_MAX {
            self.dropped.push(key);
        }
    }
}
