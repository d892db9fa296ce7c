//! The cache itself: opening, lookups, keeping and forgetting.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, Shared, join, join_all};
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::{Instant, timeout, timeout_at};

use super::catalog::Catalog;
use super::entry::{CacheValue, Entry, Hit, InsertOptions, InsertOutcome, Key, Label, ListedEntry, Lookup, Miss};
use super::flight::{self, Flights, Guard};
use super::index::{Index, IndexLookup, Totals};
use super::metrics::{Counts, LabelMetrics, Metric, Metrics};
use super::record::{ABOUT_MAX_BYTES, Records, entry_key, metrics_key, payload_key, read_payload, seal, write_metrics};
use super::write_back::Write;
use super::{Limits, Table, WAIT};

/// Up to this size a payload is hashed and decoded where it is asked for; a larger one on a blocking thread.
const SMALL_BYTES: u64 = 64 << 10;
/// How many writes are on their way at once.
const AT_ONCE: usize = 32;

/// A cache of values of one type. Clones are the same cache.
pub struct Cache<T: CacheValue> {
    inner: Arc<Inner<T>>,
}

impl<T: CacheValue> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<T: CacheValue> {
    table: Arc<dyn Table>,
    index: Mutex<Index<T>>,
    metrics: Metrics,
    flights: Flights,
    /// When opening began, and its end.
    opening: OnceLock<(Instant, Shared<BoxFuture<'static, ()>>)>,
    /// What the flusher holds: one writes at a time, in the order of the queue.
    flusher: Arc<Turn<()>>,
    warnings: Mutex<Vec<String>>,
}

/// An entry that may be served, or why there is none. With a guard the asker goes first: others wait until it has inserted
/// an entry or has dropped the guard.
pub type SharedLookup<T> = Result<Hit<T>, (Miss, Option<Guard>)>;

impl<T: CacheValue> Cache<T> {
    /// A cache in front of a table, of which it is the only writer. It is opened when it is first used.
    pub fn new(table: Arc<dyn Table>, limits: Limits) -> Self {
        Self {
            inner: Arc::new(Inner {
                table,
                index: Mutex::new(Index::new(limits)),
                metrics: Metrics::default(),
                flights: Flights::default(),
                opening: OnceLock::new(),
                flusher: Arc::default(),
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
        opened.peek().is_some() || timeout_at(*began + WAIT, opened.clone()).await.is_ok()
    }

    /// The value under a key, if it is in memory and may be served. Waits for nothing.
    pub fn get_in_memory(&self, key: &Key, now_ms: u64) -> Option<Hit<T>> {
        match self.inner.index.lock().look(key, now_ms) {
            IndexLookup::InMemory(found) => Some(found),
            IndexLookup::InTable(..) | IndexLookup::Miss(_) => None,
        }
    }

    /// The entry under a key. What is damaged or expired is forgotten and counted under its label.
    pub async fn get(&self, key: &Key, now_ms: u64) -> Lookup<T> {
        let mut looked = self.inner.index.lock().look(key, now_ms);
        if matches!(looked, IndexLookup::Miss(Miss::Absent)) && !self.is_open() {
            if !self.ready().await {
                return Err(Miss::NotReady);
            }
            looked = self.inner.index.lock().look(key, now_ms);
        }
        match looked {
            IndexLookup::InMemory(found) => Ok(found),
            // In a box, so that the future of a lookup that finds stays small.
            IndexLookup::InTable(entry, waiting) => Box::pin(self.fetch(key, entry, waiting)).await,
            IndexLookup::Miss(missing) => Err(missing),
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
            flight::Turn::InsertOutcome => None,
            flight::Turn::Alone => return Err((missing, None)),
        };
        // Another one may have kept an entry after the first look, with or without having been waited for.
        match self.get(key, now_ms()).await {
            Ok(found) => Ok(found),
            Err(_) => Err((missing, guard)),
        }
    }

    /// Keeps a value in the place of any other under its key, and wakes those who wait for it. It waits for no write. An
    /// older value has no claim to stay where the new one is not kept.
    pub async fn insert(&self, key: Key, value: Arc<T>, terms: InsertOptions) -> InsertOutcome {
        let inner = &self.inner;
        let label_metrics = self.label_metrics(&terms.label);
        let is_fit = terms.about.len() <= ABOUT_MAX_BYTES;
        let is_large = value.weight() > SMALL_BYTES;
        let sealing = {
            let (inner, value) = (Arc::clone(inner), Arc::clone(&value));
            move || inner.seal(&key, &*value, terms)
        };
        let kept = match apart(is_large, sealing).await {
            Some(Ok((entry, records))) if is_fit => {
                inner.index.lock().place(key, Arc::new(entry), records, &label_metrics, value)
            }
            Some(Ok(_)) => InsertOutcome::TooLarge,
            Some(Err(_)) | None => InsertOutcome::Failed,
        };
        match kept {
            InsertOutcome::Inserted => inner.flights.complete(&key),
            InsertOutcome::TooLarge | InsertOutcome::Failed => {
                inner.index.lock().remove(&key, !self.is_open(), &inner.metrics);
            }
        }
        let metric = match kept {
            InsertOutcome::Inserted => Metric::Recorded,
            InsertOutcome::TooLarge => Metric::TooLarge,
            InsertOutcome::Failed => Metric::FailedWrites,
        };
        label_metrics.count(metric, 1);
        self.write_behind();
        kept
    }

    /// Wakes those who wait for a key that nothing will be kept under: each makes its own call.
    pub fn abandon(&self, key: &Key) {
        self.inner.flights.complete(key);
    }

    /// Forgets the entry under a key. Says whether there was one.
    pub fn remove(&self, key: &Key) -> bool {
        let there = self.inner.index.lock().remove(key, !self.is_open(), &self.inner.metrics);
        self.write_behind();
        there
    }

    /// Forgets all entries of which `which` says so; their number. If the cache does not open in time, all that
    /// the table holds is forgotten with them, uncounted.
    pub async fn remove_where(&self, which: impl FnMut(&Key, &Entry) -> bool + Send) -> u64 {
        let unseen = !self.ready().await;
        let forgotten = self.inner.index.lock().remove_where(which, unseen);
        self.write_behind();
        forgotten
    }

    /// The same of the entries that `find` finds in the secondary index, without going through the others.
    pub async fn remove_found(&self, find: impl FnOnce(&T::Secondary) -> Vec<Key> + Send) -> u64 {
        let unseen = !self.ready().await;
        let forgotten = self.inner.index.lock().remove_found(find, unseen);
        self.write_behind();
        forgotten
    }

    /// Writes what waits to be written, and the metrics that changed, for [`WAIT`] at most; says whether it took no longer.
    /// When nothing changed nothing is written.
    ///
    /// # Cancel safety
    /// What was not written still waits.
    pub async fn flush(&self) -> bool {
        let flushing = timeout(WAIT, async {
            let turn = Arc::clone(&self.inner.flusher).lock_owned().await;
            self.write(&turn).await;
            let changed = self.inner.metrics.changed();
            join_all(changed.iter().map(|(metrics, numbers)| async {
                let table = &self.inner.table;
                let record = write_metrics(table.secret(), &metrics.label, numbers);
                if table.put(metrics_key(&metrics.label), Some(record)).await.is_ok() {
                    *metrics.written.lock() = *numbers;
                }
            }))
            .await;
        });
        flushing.await.is_ok()
    }

    /// The metrics of a label, to count on.
    pub fn label_metrics(&self, label: &Label) -> Arc<LabelMetrics> {
        self.inner.metrics.label_metrics(label)
    }

    /// The metrics of every label. Those of earlier processes are among them once the cache is open.
    pub fn metrics(&self) -> BTreeMap<Label, Counts> {
        self.inner.metrics.all()
    }

    /// All entries, in the order of keeping. Those of earlier processes are among them once the cache is open.
    pub fn entries(&self) -> Vec<ListedEntry> {
        let mut entries = self.inner.index.lock().listed();
        entries.sort_by_key(|listed| listed.entry.sequence);
        entries
    }

    /// What there is, in numbers.
    pub fn totals(&self) -> Totals {
        self.inner.index.lock().totals()
    }

    /// What was wrong when the cache was opened, in words. Each is given once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.warnings.lock())
    }

    #[cfg(test)]
    pub(super) fn keys_in_flight(&self) -> usize {
        self.inner.flights.len()
    }

    /// Waits until the cache is open, for as long as it takes.
    #[cfg(test)]
    pub(super) async fn opened(&self) {
        self.opening().1.clone().await;
    }

    fn opening(&self) -> &(Instant, Shared<BoxFuture<'static, ()>>) {
        self.inner.opening.get_or_init(|| {
            let inner = Arc::clone(&self.inner);
            // It continues without waiters. However it ends, the cache is open with what was loaded.
            (Instant::now(), tokio::task::spawn_blocking(move || inner.open()).map(drop).boxed().shared())
        })
    }

    /// Whether the cache is known to be open.
    fn is_open(&self) -> bool {
        self.inner.opening.get().is_some_and(|(_, opened)| opened.peek().is_some())
    }

    /// Fetches the value of an entry that is not in memory. One that changed meanwhile is missing.
    async fn fetch(&self, key: &Key, entry: Arc<Entry>, waiting: Option<Arc<Records>>) -> Lookup<T> {
        let reading = {
            let (inner, key, entry) = (Arc::clone(&self.inner), *key, Arc::clone(&entry));
            move || inner.read(&key, &entry, waiting.as_deref())
        };
        Err(match apart(entry.payload_bytes > SMALL_BYTES, reading).await {
            None => Miss::NotReady,
            Some(Ok(value)) if self.inner.index.lock().hold_read(key, &entry, Arc::clone(&value)) => {
                return Ok(entry.found(value));
            }
            Some(Err(Unreadable::Damaged(words))) if self.inner.index.lock().drop_damaged(key, &entry) => {
                self.write_behind();
                Miss::Damaged(format!("entry {key}: {words}"))
            }
            Some(Ok(_) | Err(Unreadable::Damaged(_))) => Miss::Absent,
            Some(Err(Unreadable::Fault(words))) => Miss::Unreadable(format!("entry {key}: {words}")),
        })
    }

    /// Has what waits written back by a task of its own, unless one is at it.
    fn write_behind(&self) {
        if let Ok(turn) = Arc::clone(&self.inner.flusher).try_lock_owned() {
            let cache = self.clone();
            tokio::spawn(async move { cache.write(&turn).await });
        }
    }

    /// Writes what waits, oldest first. What fails is tried again by a later operation.
    async fn write(&self, _turn: &OwnedMutexGuard<()>) {
        // What the table holds has to be known before any of it is replaced.
        self.opening().1.clone().await;
        loop {
            let writes = self.inner.index.lock().queue.oldest(AT_ONCE);
            let taken = join_all(writes.iter().map(|(key, write)| self.put(key, write))).await;
            let mut index = self.inner.index.lock();
            for ((key, write), taken) in writes.iter().zip(&taken) {
                index.queue.settle(key, write, *taken);
            }
            if writes.is_empty() || taken.contains(&false) {
                return;
            }
        }
    }

    /// Has the table take one write. An entry is written before its payload and removed after it: after an
    /// interruption no payload lacks its entry, and an entry without its payload is detected when it is used.
    async fn put(&self, key: &Key, write: &Write) -> bool {
        let table = &self.inner.table;
        let (entry, payload) = (entry_key(key), payload_key(key));
        let (first, second) = match &write.records {
            Some(records) => {
                let first = table.put(entry, Some(records.entry.clone()));
                join(first, table.put(payload, Some(records.payload.clone()))).await
            }
            None => join(table.put(payload, None), table.put(entry, None)).await,
        };
        first.is_ok() && second.is_ok()
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

/// Why a payload gave no value.
enum Unreadable {
    Damaged(String),
    Fault(String),
}

impl<T: CacheValue> Inner<T> {
    /// Takes in what the table holds.
    fn open(&self) {
        let catalog = Catalog::read(&*self.table);
        self.warnings.lock().extend(catalog.warnings());
        if catalog.metrics_complete {
            self.metrics.load(catalog.metrics);
        }
        self.index.lock().load(catalog.entries, catalog.unreadable, &self.metrics);
    }

    fn seal(&self, key: &Key, value: &T, terms: InsertOptions) -> Result<(Entry, Records), String> {
        let payload = value.encode()?;
        let sequence = self.index.lock().next_sequence();
        Ok(seal(self.table.secret(), key, Entry::new(terms, payload.len() as u64, sequence), &payload))
    }

    /// Reads a value from what waits to be written, or else from the table.
    fn read(&self, key: &Key, entry: &Entry, waiting: Option<&Records>) -> Result<Arc<T>, Unreadable> {
        let stored = match waiting {
            Some(records) => Some(records.payload.clone()),
            None => self.table.get(&payload_key(key)).map_err(Unreadable::Fault)?,
        };
        let record = stored.ok_or_else(|| Unreadable::Damaged("its payload is missing".into()))?;
        let payload = read_payload(self.table.secret(), key, entry, &record);
        let payload = payload.ok_or_else(|| Unreadable::Damaged("its payload is not the one that was kept".into()))?;
        T::decode(payload).map(Arc::new).map_err(Unreadable::Damaged)
    }
}
