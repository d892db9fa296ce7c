//! The cache itself: opening, lookups, keeping and forgetting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _, Shared, join, join_all};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::{Instant, timeout, timeout_at};

use super::catalog::Catalog;
use super::entry::{Content, Entry, Found, Kept, Key, Label, Listed, Lookup, Missing, Terms};
use super::figures::{Counts, Figure, Figures, Tally};
use super::flight::{self, Flights, Guard};
use super::index::{Index, Looked, Totals};
use super::record::{ABOUT_MAX_BYTES, Records, entry_key, payload_key, read_payload, seal};
use super::write_back::Write;
use super::{Limits, Table, WAIT};

/// Up to this size a payload is hashed and decoded where it is asked for; a larger one on a blocking thread.
const SMALL_BYTES: u64 = 64 << 10;
/// How many writes are on their way at once.
const AT_ONCE: usize = 32;

/// A cache of values of one type. Clones are the same cache.
pub struct Cache<T: Content> {
    inner: Arc<Inner<T>>,
}

impl<T: Content> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<T: Content> {
    table: Arc<dyn Table>,
    index: Mutex<Index<T>>,
    figures: Figures,
    flights: Flights,
    /// When opening began, and its end.
    opening: OnceLock<(Instant, Shared<BoxFuture<'static, ()>>)>,
    /// What the flusher holds: one writes at a time, in the order of the queue.
    flusher: Arc<Turn<()>>,
    warnings: Mutex<Vec<String>>,
}

/// What becomes of a lookup in turn.
pub enum Asked<T> {
    /// An entry that may be served.
    Found(Found<T>),
    /// None; the asker makes one. With a turn, others wait until it has kept one or has dropped the guard.
    Missing(Missing, Option<Guard>),
}

/// An asker that waits for nobody has no turn either.
impl<T> From<Lookup<T>> for Asked<T> {
    fn from(lookup: Lookup<T>) -> Self {
        match lookup {
            Lookup::Found(found) => Self::Found(found),
            Lookup::Missing(missing) => Self::Missing(missing, None),
        }
    }
}

impl<T: Content> Cache<T> {
    /// A cache in front of a table, of which it is the only writer. It is opened when it is first used.
    pub fn new(table: Arc<dyn Table>, limits: Limits) -> Self {
        Self {
            inner: Arc::new(Inner {
                table,
                index: Mutex::new(Index::new(limits)),
                figures: Figures::default(),
                flights: Flights::default(),
                opening: OnceLock::new(),
                flusher: Arc::default(),
                warnings: Mutex::default(),
            }),
        }
    }

    /// Other ceilings, which hold from the next entry on.
    pub fn limit(&self, limits: Limits) {
        self.inner.index().limits = limits;
    }

    /// Opens the cache if it is not, and waits for it until [`WAIT`] after opening began. Says whether it is open.
    pub async fn ready(&self) -> bool {
        let (began, opened) = self.opening();
        opened.peek().is_some() || timeout_at(*began + WAIT, opened.clone()).await.is_ok()
    }

    /// The value under a key, if it is in memory and may be served. Waits for nothing.
    pub fn at_hand(&self, key: &Key, now_ms: u64) -> Option<Found<T>> {
        match self.inner.index().look(key, now_ms) {
            Looked::Held(found) => Some(found),
            Looked::Stored(..) | Looked::Missing(_) => None,
        }
    }

    /// The entry under a key. What is damaged or expired is forgotten and counted under its label.
    pub async fn get(&self, key: &Key, now_ms: u64) -> Lookup<T> {
        let mut looked = self.inner.index().look(key, now_ms);
        if matches!(looked, Looked::Missing(Missing::Absent)) && !self.is_open() {
            if !self.ready().await {
                return Lookup::Missing(Missing::NotReady);
            }
            looked = self.inner.index().look(key, now_ms);
        }
        match looked {
            Looked::Held(found) => Lookup::Found(found),
            // In a box, so that the future of a lookup that finds stays small.
            Looked::Stored(entry, waiting) => Box::pin(self.fetch(key, entry, waiting)).await,
            Looked::Missing(missing) => Lookup::Missing(missing),
        }
    }

    /// The entry under a key, or the turn to make it: equal askers wait at most for `wait` until the first of them
    /// has kept an entry. `now_ms` is asked each time it is looked.
    ///
    /// # Cancel safety
    /// Whoever is dropped, one of those who wait goes on.
    pub async fn get_in_turn(&self, key: &Key, now_ms: impl Fn() -> u64 + Send, wait: Duration) -> Asked<T> {
        let missing = match self.get(key, now_ms()).await {
            Lookup::Found(found) => return Asked::Found(found),
            Lookup::Missing(missing) => missing,
        };
        let guard = match self.inner.flights.turn(*key, wait).await {
            flight::Turn::First(guard) => Some(guard),
            flight::Turn::Kept => None,
            flight::Turn::Alone => return Asked::Missing(missing, None),
        };
        // Another one may have kept an entry after the first look, with or without having been waited for.
        match self.get(key, now_ms()).await {
            Lookup::Found(found) => Asked::Found(found),
            Lookup::Missing(_) => Asked::Missing(missing, guard),
        }
    }

    /// Keeps a value in the place of any other under its key, and wakes those who wait for it. It waits for no write. An
    /// older value has no claim to stay where the new one is not kept.
    pub async fn keep(&self, key: Key, value: Arc<T>, terms: Terms) -> Kept {
        let inner = &self.inner;
        let tally = self.tally(&terms.label);
        let is_fit = terms.about.len() <= ABOUT_MAX_BYTES;
        let is_large = value.weight() > SMALL_BYTES;
        let sealing = {
            let (inner, value) = (Arc::clone(inner), Arc::clone(&value));
            move || inner.seal(&key, &*value, terms)
        };
        let kept = match apart(is_large, sealing).await {
            Some(Ok((entry, records))) if is_fit => inner.index().place(key, Arc::new(entry), records, &tally, value),
            Some(Ok(_)) => Kept::TooLarge,
            Some(Err(_)) | None => Kept::Failed,
        };
        match kept {
            Kept::Held => inner.flights.land(&key),
            Kept::TooLarge | Kept::Failed => {
                inner.index().forget(&key, !self.is_open(), &inner.figures);
            }
        }
        let figure = match kept {
            Kept::Held => Figure::Recorded,
            Kept::TooLarge => Figure::TooLarge,
            Kept::Failed => Figure::FailedWrites,
        };
        tally.count(figure, 1);
        self.write_behind();
        kept
    }

    /// Tells those who wait for a key that nothing will be kept under it: each goes on by itself.
    pub fn give_up(&self, key: &Key) {
        self.inner.flights.land(key);
    }

    /// Forgets the entry under a key. Says whether there was one.
    pub fn forget(&self, key: &Key) -> bool {
        let there = self.inner.index().forget(key, !self.is_open(), &self.inner.figures);
        self.write_behind();
        there
    }

    /// Forgets all entries of which `which` says so; their number. If the cache does not open in time, all that
    /// the table holds is forgotten with them, uncounted.
    pub async fn forget_where(&self, which: impl FnMut(&Key, &Entry) -> bool + Send) -> u64 {
        let unseen = !self.ready().await;
        let forgotten = self.inner.index().forget_where(which, unseen);
        self.write_behind();
        forgotten
    }

    /// The same of the entries that `find` finds in the secondary index, without going through the others.
    pub async fn forget_found(&self, find: impl FnOnce(&T::Secondary) -> Vec<Key> + Send) -> u64 {
        let unseen = !self.ready().await;
        let forgotten = self.inner.index().forget_found(find, unseen);
        self.write_behind();
        forgotten
    }

    /// Writes what waits to be written, and the figures that changed, for [`WAIT`] at most; says whether it took no longer.
    /// When nothing changed nothing is written.
    ///
    /// # Cancel safety
    /// What was not written still waits.
    pub async fn flush(&self) -> bool {
        let flushing = timeout(WAIT, async {
            let turn = Arc::clone(&self.inner.flusher).lock_owned().await;
            self.write(&turn).await;
            let changed = self.inner.figures.changed();
            join_all(changed.iter().map(|changed| async {
                if self
                    .inner
                    .table
                    .put(changed.record_key(), Some(changed.record(self.inner.table.secret())))
                    .await
                    .is_ok()
                {
                    changed.written();
                }
            }))
            .await;
        });
        flushing.await.is_ok()
    }

    /// The figures of a label, to count on.
    pub fn tally(&self, label: &Label) -> Arc<Tally> {
        self.inner.figures.tally(label)
    }

    /// The figures of every label. Those of earlier processes are among them once the cache is open.
    pub fn figures(&self) -> BTreeMap<Label, Counts> {
        self.inner.figures.all()
    }

    /// All entries, in the order of keeping. Those of earlier processes are among them once the cache is open.
    pub fn entries(&self) -> Vec<Listed> {
        let mut entries = self.inner.index().listed();
        entries.sort_by_key(|listed| listed.entry.sequence);
        entries
    }

    /// What there is, in numbers.
    pub fn totals(&self) -> Totals {
        self.inner.index().totals()
    }

    /// What was wrong when the cache was opened, in words. Each is given once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.warnings())
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
            // It goes on when nobody waits for it any more. However it ends, the cache is open with what was taken in.
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
        Lookup::Missing(match apart(entry.payload_bytes > SMALL_BYTES, reading).await {
            None => Missing::NotReady,
            Some(Ok(value)) if self.inner.index().hold_read(key, &entry, Arc::clone(&value)) => {
                return Lookup::Found(entry.found(value));
            }
            Some(Err(Unread::Damaged(words))) if self.inner.index().drop_damaged(key, &entry) => {
                self.write_behind();
                Missing::Damaged(format!("entry {key}: {words}"))
            }
            Some(Ok(_) | Err(Unread::Damaged(_))) => Missing::Absent,
            Some(Err(Unread::Fault(words))) => Missing::Unread(format!("entry {key}: {words}")),
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
            let writes = self.inner.index().queue.oldest(AT_ONCE);
            let taken = join_all(writes.iter().map(|(key, write)| self.put(key, write))).await;
            let mut index = self.inner.index();
            for ((key, write), taken) in writes.iter().zip(&taken) {
                index.queue.settle(key, write, *taken);
            }
            if writes.is_empty() || taken.contains(&false) {
                return;
            }
        }
    }

    /// Has the table take one write. An entry is written before its payload and removed after it: whatever is cut off in
    /// between, no payload stands without its entry, and an entry without its payload is found out when it is used.
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
enum Unread {
    Damaged(String),
    Fault(String),
}

impl<T: Content> Inner<T> {
    fn index(&self) -> MutexGuard<'_, Index<T>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warnings(&self) -> MutexGuard<'_, Vec<String>> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the table holds.
    fn open(&self) {
        let catalog = Catalog::read(&*self.table);
        self.warnings().extend(catalog.warnings());
        if catalog.figures_whole {
            self.figures.take_in(catalog.figures);
        }
        self.index().take_in(catalog.entries, catalog.unreadable, &self.figures);
    }

    fn seal(&self, key: &Key, value: &T, terms: Terms) -> Result<(Entry, Records), String> {
        let payload = value.encode()?;
        let sequence = self.index().next_sequence();
        Ok(seal(self.table.secret(), key, Entry::new(terms, payload.len() as u64, sequence), &payload))
    }

    /// Reads a value from what waits to be written, or else from the table.
    fn read(&self, key: &Key, entry: &Entry, waiting: Option<&Records>) -> Result<Arc<T>, Unread> {
        let stored = match waiting {
            Some(records) => Some(records.payload.clone()),
            None => self.table.get(&payload_key(key)).map_err(Unread::Fault)?,
        };
        let record = stored.ok_or_else(|| Unread::Damaged("its payload is missing".into()))?;
        let payload = read_payload(self.table.secret(), key, entry, &record);
        let payload = payload.ok_or_else(|| Unread::Damaged("its payload is not the one that was kept".into()))?;
        T::decode(payload).map(Arc::new).map_err(Unread::Damaged)
    }
}
