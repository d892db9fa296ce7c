//! The state of a cache: its entries and the decoded values, both in LRU order, and the write-back queue. It knows neither clock
//! nor table; the cache holds it behind one lock.

use std::sync::Arc;

use lru::LruCache;

use super::Limits;
use super::entry::{CacheValue, Entry, Hit, InsertOutcome, Key, KeyHasher, ListedEntry, Miss, SecondaryIndex as _};
use super::metrics::{LabelMetrics, Metric, Metrics};
use super::record::Records;
use super::write_back::WriteBack;

/// What the index knows of a key.
pub(super) enum IndexLookup<T> {
    /// A value in memory that may be served.
    InMemory(Hit<T>),
    /// An entry that may be served, whose value has to be read: from the queue, or else from the table.
    InTable(Arc<Entry>, Option<Arc<Records>>),
    /// Nothing to serve.
    Miss(Miss),
}

/// All entries.
pub(super) struct Index<T: CacheValue> {
    pub(super) limits: Limits,
    // Ceilings that hold at any time for entries and for bytes, and strict LRU over a restart, are what `lru` lets its
    // caller decide; quick_cache and moka decide themselves, later, and by one weight.
    entries: LruCache<Key, Slot, KeyHasher>,
    bytes: u64,
    values: LruCache<Key, Value<T>, KeyHasher>,
    value_bytes: u64,
    secondary: T::Secondary,
    pub(super) queue: WriteBack,
    sequence: u64,
    /// Entries were removed by a filter before the table had been read: all that it holds is removed with them.
    is_cleared: bool,
}

struct Slot {
    entry: Arc<Entry>,
    label_metrics: Arc<LabelMetrics>,
}

struct Value<T> {
    value: Arc<T>,
    weight: u64,
}

/// What a cache holds, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Entries.
    pub entries: u64,
    /// What they take of the table.
    pub bytes: u64,
    /// What the values in memory weigh.
    pub memory_bytes: u64,
}

impl<T: CacheValue> Index<T> {
    /// An empty one.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: LruCache::unbounded_with_hasher(KeyHasher::default()),
            bytes: 0,
            values: LruCache::unbounded_with_hasher(KeyHasher::default()),
            value_bytes: 0,
            secondary: T::Secondary::default(),
            queue: WriteBack::default(),
            sequence: 0,
            is_cleared: false,
        }
    }

    /// The place of the next entry in the order of keeping.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence
    }

    /// Looks a key up. What may be served counts as used; what is expired is dropped.
    pub(super) fn look(&mut self, key: &Key, now_ms: u64) -> IndexLookup<T> {
        let Some(slot) = self.entries.peek(key) else { return IndexLookup::Miss(Miss::Absent) };
        if let Some(miss) = slot.entry.miss(now_ms) {
            if miss == Miss::Expired {
                self.drop_entry(key, Metric::Expired);
            }
            return IndexLookup::Miss(miss);
        }
        let Some(Slot { entry, .. }) = self.entries.get(key) else { return IndexLookup::Miss(Miss::Absent) };
        match self.values.get(key) {
            Some(Value { value, .. }) => IndexLookup::InMemory(entry.found(Arc::clone(value))),
            None => IndexLookup::InTable(Arc::clone(entry), self.queue.waiting(key)),
        }
    }

    /// Places an entry in the place of any other under its key, to be written back, if there is room for it.
    pub(super) fn place(
        &mut self,
        key: Key,
        entry: Arc<Entry>,
        records: Records,
        label_metrics: &Arc<LabelMetrics>,
        value: Arc<T>,
    ) -> InsertOutcome {
        if self.limits.entries == 0 || entry.size_bytes > self.limits.bytes {
            return InsertOutcome::TooLarge;
        }
        if !self.queue.write(key, records, label_metrics) {
            return InsertOutcome::Failed;
        }
        self.take(&key);
        self.put(key, Slot { entry, label_metrics: Arc::clone(label_metrics) });
        self.hold(key, value);
        self.make_room();
        InsertOutcome::Inserted
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

    /// Forgets what is under a key. `unseen` says that the table may hold what the index does not know of.
    pub(super) fn remove(&mut self, key: &Key, unseen: bool, metrics: &Metrics) -> bool {
        let there = self.drop_entry(key, Metric::Removed);
        if !there && unseen {
            self.queue.remove(*key, &metrics.other());
        }
        there
    }

    /// Forgets all entries that `which` names; their number. With `unseen`, also all that the table holds and the index
    /// does not know of yet.
    pub(super) fn remove_where(&mut self, mut which: impl FnMut(&Key, &Entry) -> bool, unseen: bool) -> u64 {
        let chosen = self.entries.iter().filter(|(key, slot)| which(key, &slot.entry)).map(|(key, _)| *key).collect();
        self.forget_all(chosen, unseen)
    }

    /// The same of the entries that `find` finds in the secondary index.
    pub(super) fn remove_found(&mut self, find: impl FnOnce(&T::Secondary) -> Vec<Key>, unseen: bool) -> u64 {
        let chosen = find(&self.secondary);
        self.forget_all(chosen, unseen)
    }

    fn forget_all(&mut self, chosen: Vec<Key>, unseen: bool) -> u64 {
        self.is_cleared |= unseen;
        chosen.into_iter().filter(|key| self.drop_entry(key, Metric::Removed)).count() as u64
    }

    /// Takes in what the table holds, oldest first, behind all that was inserted meanwhile. Nothing has been written back
    /// before, so the queue knows of all that was inserted and dropped.
    pub(super) fn load(&mut self, stored: Vec<(Key, Entry)>, unreadable: Vec<Key>, metrics: &Metrics) {
        for (key, entry) in stored.into_iter().rev() {
            self.sequence = self.sequence.max(entry.sequence);
            if self.queue.contains(&key) {
                continue;
            }
            let label_metrics = metrics.label_metrics(&entry.label);
            if self.is_cleared {
                self.queue.remove(key, &label_metrics);
                continue;
            }
            self.put(key, Slot { entry: Arc::new(entry), label_metrics });
            self.entries.demote(&key);
        }
        self.make_room();
        for key in unreadable {
            if !self.queue.contains(&key) {
                self.queue.remove(key, &metrics.other());
            }
        }
    }

    /// What there is, in numbers.
    pub(super) fn totals(&self) -> Totals {
        Totals { entries: self.entries.len() as u64, bytes: self.bytes, memory_bytes: self.value_bytes }
    }

    /// All entries.
    pub(super) fn listed(&self) -> Vec<ListedEntry> {
        self.entries.iter().map(|(key, slot)| ListedEntry { key: *key, entry: Arc::clone(&slot.entry) }).collect()
    }

    fn is_same(&self, key: &Key, entry: &Arc<Entry>) -> bool {
        self.entries.peek(key).is_some_and(|slot| Arc::ptr_eq(&slot.entry, entry))
    }

    /// Lets the least recently used go until all ceilings hold.
    fn make_room(&mut self) {
        while self.entries.len() as u64 > self.limits.entries || self.bytes > self.limits.bytes {
            let Some(key) = self.entries.peek_lru().map(|(key, _)| *key) else { break };
            self.drop_entry(&key, Metric::Evicted);
        }
        while self.value_bytes > self.limits.memory_bytes {
            let Some((_, least)) = self.values.pop_lru() else { break };
            self.value_bytes = self.value_bytes.saturating_sub(least.weight);
        }
    }

    fn put(&mut self, key: Key, slot: Slot) {
        self.bytes = self.bytes.saturating_add(slot.entry.size_bytes);
        slot.label_metrics.inserted(slot.entry.size_bytes);
        self.secondary.inserted(&key, &slot.entry.about);
        self.entries.put(key, slot);
    }

    /// Holds a value in memory, unless it is too heavy for it alone.
    fn hold(&mut self, key: Key, value: Arc<T>) {
        self.let_value_go(&key);
        let weight = value.weight();
        if weight <= self.limits.memory_bytes {
            self.value_bytes = self.value_bytes.saturating_add(weight);
            self.values.put(key, Value { value, weight });
        }
    }

    fn let_value_go(&mut self, key: &Key) {
        let weight = self.values.pop(key).map_or(0, |value| value.weight);
        self.value_bytes = self.value_bytes.saturating_sub(weight);
    }

    /// Takes an entry out. Nothing is written for it.
    fn take(&mut self, key: &Key) -> Option<Slot> {
        let slot = self.entries.pop(key)?;
        self.let_value_go(key);
        self.bytes = self.bytes.saturating_sub(slot.entry.size_bytes);
        slot.label_metrics.removed(slot.entry.size_bytes);
        self.secondary.removed(key);
        Some(slot)
    }

    /// Takes an entry out, to be removed from the table.
    fn drop_entry(&mut self, key: &Key, why: Metric) -> bool {
        let Some(slot) = self.take(key) else { return false };
        slot.label_metrics.count(why, 1);
        self.queue.remove(*key, &slot.label_metrics);
        true
    }
}
