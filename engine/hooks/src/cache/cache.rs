//! The cache itself: opening, lookups, keeping and forgetting.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, Shared, join, join_all};
use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout, timeout_at};

use super::catalog::Catalog;
use super::entry::{CacheValue, Entry, InsertOptions, InsertOutcome, Key, Label, Lookup, Miss};
use super::flight::{self, Flights, Guard};
use super::index::{Index, Totals};
use super::metrics::Metric;
use super::record::{Records, entry_key, metrics_key, payload_key, read_payload, seal, write_metrics};
use super::{ABOUT_MAX_BYTES, Limits, Table, WAIT};

/// Up to this size a payload is hashed and decoded where it is asked for; a larger one on a blocking thread.
const SMALL_BYTES: u64 = 64 << 10;

/// A cache of values of one type. Clones are the same cache.
pub struct Cache<T: CacheValue> {
    pub(super) inner: Arc<Inner<T>>,
}

impl<T: CacheValue> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

pub(super) struct Inner<T: CacheValue> {
    table: Arc<dyn Table>,
    pub(super) index: Mutex<Index<T>>,
    pub(super) flights: Flights,
    /// When opening began, and its end.
    opening: OnceLock<(Instant, Shared<BoxFuture<'static, ()>>)>,
    /// One writes at a time, so that the table holds what the index does.
    writing: Turn<()>,
    warnings: Mutex<Vec<String>>,
}

/// A value that may be served, or why there is none. With a guard the asker goes first: others wait until it has inserted
/// an entry or has dropped the guard.
pub type SharedLookup<T> = Result<Arc<T>, (Miss, Option<Guard>)>;

impl<T: CacheValue> Cache<T> {
    /// A cache in front of a table, of which it is the only writer. It is opened when it is first used.
    pub fn new(table: Arc<dyn Table>, limits: Limits) -> Self {
        Self {
            inner: Arc::new(Inner {
                table,
                index: Mutex::new(Index::new(limits)),
                flights: Flights::default(),
                opening: OnceLock::new(),
                writing: Turn::default(),
                warnings: Mutex::default(),
            }),
        }
    }

    /// Other ceilings, which hold from the next entry on.
    pub fn limit(&self, limits: Limits) {
        self.inner.index.lock().limits = limits;
    }

    /// Opens the cache if it is not, and waits for it until [`WAIT`] after opening began. Says whether it is open.
    pub async fn ready(&self) -> bool {
        let (began, opened) = self.opening();
        timeout_at(*began + WAIT, opened.clone()).await.is_ok()
    }

    /// The value under a key, if it is in memory and may be served. Waits for nothing.
    pub fn get_in_memory(&self, key: &Key, now_ms: u64) -> Option<Arc<T>> {
        self.inner.index.lock().look(key, now_ms).ok()?.1
    }

    /// The entry under a key. What is damaged or expired is forgotten and counted under its label.
    pub async fn get(&self, key: &Key, now_ms: u64) -> Lookup<T> {
        let mut looked = self.inner.index.lock().look(key, now_ms);
        if matches!(looked, Err(Miss::NotReady)) && self.ready().await {
            looked = self.inner.index.lock().look(key, now_ms);
        }
        match looked? {
            (_, Some(found)) => Ok(found),
            // In a box, so that the future of a lookup that finds stays small.
            (entry, None) => Box::pin(self.fetch(key, entry)).await,
        }
    }

    /// The entry under a key, or the right to make it (single flight): further callers wait up to `wait` until the first has
    /// inserted an entry. `now_ms` is called at each lookup.
    ///
    /// # Cancel safety
    /// When the first caller's future is dropped, one of those that wait takes its place.
    pub async fn get_shared(&self, key: &Key, now_ms: impl Fn() -> u64 + Send, wait: Duration) -> SharedLookup<T> {
        let missing = match self.get(key, now_ms()).await {
            Ok(found) => return Ok(found),
            Err(missing) => missing,
        };
        let guard = match self.inner.flights.turn(*key, wait).await {
            flight::Turn::Leader(guard) => Some(guard),
            flight::Turn::Completed => None,
            flight::Turn::Alone => return Err((missing, None)),
        };
        // Another one may have kept an entry after the first look, with or without having been waited for.
        match self.get(key, now_ms()).await {
            Ok(found) => Ok(found),
            Err(_) => Err((missing, guard)),
        }
    }

    /// Keeps a value in the place of any other under its key, and wakes those who wait for it. An older value has no claim
    /// to stay where the new one is not kept.
    ///
    /// # Cancel safety
    /// When the future is dropped, the value is kept or not, and an older one may be gone.
    pub async fn insert(&self, key: Key, value: Arc<T>, terms: InsertOptions) -> InsertOutcome {
        let inner = &self.inner;
        let label = terms.label.clone();
        let outcome = timeout(WAIT, self.write_through(key, value, terms)).await.unwrap_or(InsertOutcome::Failed);
        let metric = match outcome {
            InsertOutcome::Inserted => Metric::Recorded,
            InsertOutcome::TooLarge => Metric::TooLarge,
            InsertOutcome::Failed => Metric::FailedWrites,
        };
        let mut index = inner.index.lock();
        index.metrics.count(&label, metric, 1);
        if outcome == InsertOutcome::Inserted {
            inner.flights.complete(&key);
        } else if !index.remove(&key) && outcome == InsertOutcome::Failed {
            // The table may hold some of it.
            index.drop_record(key);
        }
        outcome
    }

    /// Writes an entry to the table, without a sync, and places it in memory.
    async fn write_through(&self, key: Key, value: Arc<T>, terms: InsertOptions) -> InsertOutcome {
        let inner = &self.inner;
        if terms.about.len() > ABOUT_MAX_BYTES {
            return InsertOutcome::TooLarge;
        }
        if !self.ready().await {
            return InsertOutcome::Failed;
        }
        let is_large = value.weight() > SMALL_BYTES;
        let sealing = {
            let (inner, value) = (Arc::clone(inner), Arc::clone(&value));
            move || inner.seal(&key, &*value, terms)
        };
        let Some(Ok((entry, records))) = apart(is_large, sealing).await else { return InsertOutcome::Failed };
        if !inner.index.lock().has_room_for(&entry) {
            return InsertOutcome::TooLarge;
        }
        let _turn = inner.writing.lock().await;
        inner.write_removals().await;
        // Nothing is served of an older entry while its records change.
        inner.index.lock().take(&key);
        let Records { entry: record, payload } = records;
        // After an interruption no payload lacks its entry, and an entry without its payload is detected when it is used.
        let first = inner.table.put(entry_key(&key), Some(record));
        let written = join(first, inner.table.put(payload_key(&key), Some(payload))).await;
        if let (Ok(()), Ok(())) = written {
            inner.index.lock().place(key, Arc::new(entry), value);
            InsertOutcome::Inserted
        } else {
            InsertOutcome::Failed
        }
    }

    /// Wakes those who wait for a key that nothing will be kept under: each makes its own call.
    pub fn abandon(&self, key: &Key) {
        self.inner.flights.complete(key);
    }

    /// Forgets the entry under a key. Says whether there was one. The table follows with the next write.
    pub fn remove(&self, key: &Key) -> bool {
        self.inner.index.lock().remove(key)
    }

    /// Forgets all entries of which `which` says so, once the cache is open; their number.
    pub async fn remove_where(&self, which: impl FnMut(&Key, &Entry) -> bool + Send) -> u64 {
        self.opening().1.clone().await;
        self.inner.index.lock().remove_where(which)
    }

    /// The same of the entries that `find` finds in the secondary index, without going through the others. If the cache
    /// does not open in time, all that the table holds is forgotten with them, uncounted.
    pub async fn remove_found(&self, find: impl FnOnce(&T::Secondary) -> Vec<Key> + Send) -> u64 {
        self.ready().await;
        self.inner.index.lock().remove_found(find)
    }

    /// [Writes](Self::write) for [`WAIT`] at most.
    pub async fn flush(&self) {
        let _ = timeout(WAIT, self.write()).await;
    }

    /// Has the table forget what was removed, and writes the metrics that changed. When nothing changed nothing is written.
    ///
    /// # Cancel safety
    /// What was not written still waits.
    pub async fn write(&self) {
        let inner = &self.inner;
        self.opening().1.clone().await;
        let _turn = inner.writing.lock().await;
        inner.write_removals().await;
        let changed = inner.index.lock().metrics.changed();
        join_all(changed.iter().map(|(label, numbers)| async {
            let record = write_metrics(inner.table.secret(), label, numbers);
            if inner.table.put(metrics_key(label), Some(record)).await.is_ok() {
                inner.index.lock().metrics.written(label, numbers);
            }
        }))
        .await;
    }

    pub fn count(&self, label: &Label, metric: Metric, more: u64) {
        self.inner.index.lock().metrics.count(label, metric, more);
    }

    pub fn totals(&self) -> Totals {
        self.inner.index.lock().totals()
    }

    /// What was wrong when the cache was opened, in words. Each is given once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.warnings.lock())
    }

    pub(super) fn opening(&self) -> &(Instant, Shared<BoxFuture<'static, ()>>) {
        self.inner.opening.get_or_init(|| {
            let inner = Arc::clone(&self.inner);
            // It continues without waiters. However it ends, the cache is open with what was loaded.
            (Instant::now(), tokio::task::spawn_blocking(move || inner.open()).map(drop).boxed().shared())
        })
    }

    /// Fetches the value of an entry that is not in memory. One that changed meanwhile is missing.
    async fn fetch(&self, key: &Key, entry: Arc<Entry>) -> Lookup<T> {
        let reading = {
            let (inner, key, entry) = (Arc::clone(&self.inner), *key, Arc::clone(&entry));
            move || inner.read(&key, &entry)
        };
        let read = apart(entry.payload_bytes > SMALL_BYTES, reading).await;
        let mut index = self.inner.index.lock();
        Err(match read {
            None => Miss::NotReady,
            Some(Ok(value)) if index.hold_read(key, &entry, Arc::clone(&value)) => return Ok(value),
            Some(Err(miss @ Miss::Damaged(_))) if index.drop_damaged(key, &entry) => miss,
            Some(Ok(_) | Err(Miss::Damaged(_))) => Miss::Absent,
            Some(Err(miss)) => miss,
        })
    }
}

/// Does work here, or on a blocking thread if there is much of it. `None` when it is not done in time; it then ends by
/// itself.
async fn apart<R: Send + 'static>(much: bool, work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    if !much {
        return Some(work());
    }
    timeout(WAIT, tokio::task::spawn_blocking(work)).await.ok()?.ok()
}

impl<T: CacheValue> Inner<T> {
    fn open(&self) {
        let catalog = Catalog::read(&*self.table);
        self.warnings.lock().extend(catalog.warnings());
        let mut index = self.index.lock();
        if catalog.metrics_complete {
            index.metrics.load(catalog.metrics);
        }
        index.load(catalog.entries, catalog.unreadable);
    }

    fn seal(&self, key: &Key, value: &T, terms: InsertOptions) -> Result<(Entry, Records), String> {
        let payload = value.encode()?;
        let sequence = self.index.lock().next_sequence();
        Ok(seal(self.table.secret(), key, Entry::new(terms, payload.len() as u64, sequence), &payload))
    }

    /// Has the table forget what was removed, payloads first. What fails is tried again by the next write.
    async fn write_removals(&self) {
        let (keys, count) = self.index.lock().removals();
        let written = join_all(
            keys.iter().map(|key| join(self.table.put(payload_key(key), None), self.table.put(entry_key(key), None))),
        );
        if written.await.iter().all(|(payload, entry)| payload.is_ok() && entry.is_ok()) {
            self.index.lock().removed(count);
        }
    }

    fn read(&self, key: &Key, entry: &Entry) -> Lookup<T> {
        let damaged = |words: &str| Miss::Damaged(format!("entry {key}: {words}"));
        let stored = self.table.get(&payload_key(key));
        let stored = stored.map_err(|words| Miss::Unreadable(format!("entry {key}: {words}")))?;
        let record = stored.ok_or_else(|| damaged("its payload is missing"))?;
        let payload = read_payload(self.table.secret(), key, entry, &record);
        let payload = payload.ok_or_else(|| damaged("its payload is not the one that was kept"))?;
        T::decode(payload).map(Arc::new).map_err(|words| damaged(&words))
    }
}
