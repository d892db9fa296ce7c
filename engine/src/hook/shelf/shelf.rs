//! The shelf itself: opening, lookups, keeping and forgetting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::catalogue::Catalogue;
use super::entry::{Card, Content, Found, Kept, Key, Label, Listed, Lookup, Missing, Terms};
use super::figures::{Counts, Figure, Figures, Tally};
use super::flight::{Flights, Guard, Turn};
use super::record::{ABOUT_MAX_BYTES, Records, Unusable, payload_key, read_payload, seal};
use super::stock::{Fresh, Sight, Stock, Totals};
use super::writing::Pen;
use super::{Backing, Limits, WAIT};

/// Up to this size a payload is read, written and decoded where it is asked for; a larger one on a blocking thread.
const SMALL_BYTES: u64 = 64 << 10;
/// How much work is done on blocking threads at once.
const APART_MAX: usize = 8;
/// How often a lookup starts again because its entry changed under it.
const LOOKS_MAX: usize = 4;

/// A shelf of values of one type. Clones are the same shelf.
pub struct Shelf<T: Content> {
    inner: Arc<Inner<T>>,
}

impl<T: Content> Clone for Shelf<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<T: Content> {
    backing: Arc<dyn Backing>,
    stock: Stock<T>,
    figures: Figures,
    flights: Flights,
    opening: Opening,
    pen: Pen,
    /// Limits the work on blocking threads: with a backing that hangs, no more than this many hang with it.
    benches: Arc<Semaphore>,
    warnings: Mutex<Vec<String>>,
}

/// How far opening has come.
struct Opening {
    began: OnceLock<Instant>,
    open: watch::Sender<bool>,
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

impl<T: Content> Shelf<T> {
    /// A shelf in front of a backing, of which it is the only writer. It is opened when it is first used.
    pub fn new(backing: Arc<dyn Backing>, limits: Limits) -> Self {
        Self {
            inner: Arc::new(Inner {
                backing,
                stock: Stock::new(limits),
                figures: Figures::default(),
                flights: Flights::default(),
                opening: Opening { began: OnceLock::new(), open: watch::Sender::new(false) },
                pen: Pen::new(),
                benches: Arc::new(Semaphore::new(APART_MAX)),
                warnings: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Other ceilings, which hold from the next entry on.
    pub fn limit(&self, limits: Limits) {
        self.inner.stock.limit(limits);
    }

    /// Opens the shelf if it is not, and waits for it until [`WAIT`] after opening began. Says whether it is open.
    pub async fn ready(&self) -> bool {
        if self.inner.is_open() {
            return true;
        }
        let began = self.begin();
        let mut open = self.inner.opening.open.subscribe();
        matches!(timeout_at(began + WAIT, open.wait_for(|open| *open)).await, Ok(Ok(_)))
    }

    /// The value under a key, if it is in memory and may be served. Waits for nothing.
    pub fn at_hand(&self, key: &Key, now_ms: u64) -> Option<Found<T>> {
        match self.inner.stock.sight(key, now_ms) {
            Sight::Held(found) => Some(found),
            Sight::Shelved(_) | Sight::Expired(_) | Sight::Unknown | Sight::Absent => None,
        }
    }

    /// The entry under a key. What is damaged or expired is forgotten and counted under its label.
    pub async fn get(&self, key: &Key, now_ms: u64) -> Lookup<T> {
        match self.at_hand(key, now_ms) {
            Some(found) => Lookup::Found(found),
            // In a box, so that the future of a lookup that finds stays small.
            None => Box::pin(self.seek(key, now_ms)).await,
        }
    }

    /// The entry under a key that is not at hand.
    async fn seek(&self, key: &Key, now_ms: u64) -> Lookup<T> {
        let deadline = Instant::now() + WAIT;
        if !self.ready().await {
            return Lookup::Missing(Missing::NotReady);
        }
        for _ in 0..LOOKS_MAX {
            if let Some(lookup) = self.look(key, now_ms, deadline).await {
                return lookup;
            }
        }
        Lookup::Missing(Missing::Absent)
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
            Turn::First(guard) => Some(guard),
            Turn::Kept => None,
            Turn::Alone => return Asked::Missing(missing, None),
        };
        // Another one may have kept an entry after the first look, with or without having been waited for.
        match self.get(key, now_ms()).await {
            Lookup::Found(found) => Asked::Found(found),
            Lookup::Missing(_) => Asked::Missing(missing, guard),
        }
    }

    /// Keeps a value in the place of any other under its key, and wakes those who wait for it. It is in memory before
    /// the backing is told.
    ///
    /// # Cancel safety
    /// A value that was placed stays; what the backing was not told it is told by a later operation.
    pub async fn keep(&self, key: Key, value: Arc<T>, terms: Terms) -> Kept {
        let deadline = Instant::now() + WAIT;
        let tally = self.tally(&terms.label);
        let about_bytes = terms.about.len();
        let sealing = {
            let (inner, value) = (Arc::clone(&self.inner), Arc::clone(&value));
            move || inner.seal(&key, &*value, terms)
        };
        let weight = value.weight();
        let Some(Ok((card, records))) = self.apart(weight > SMALL_BYTES, deadline, sealing).await else {
            tally.count(Figure::FailedWrites, 1);
            return self.turn_away(&key, Kept::Late);
        };
        if about_bytes > ABOUT_MAX_BYTES || !self.inner.stock.has_room_for(&card) {
            tally.count(Figure::TooLarge, 1);
            return self.turn_away(&key, Kept::TooLarge);
        }
        let card = Arc::new(card);
        tally.count(Figure::Recorded, 1);
        self.inner.stock.place(key, Fresh { card: Arc::clone(&card), tally, value, weight, records });
        self.inner.flights.land(&key);
        self.write_out(deadline, false).await;
        if self.inner.stock.is_stored(&key, &card) { Kept::Written } else { Kept::Held }
    }

    /// Tells those who wait for a key that nothing will be kept under it: each goes on by itself.
    pub fn give_up(&self, key: &Key) {
        self.inner.flights.land(key);
    }

    /// Forgets the entry under a key. Says whether there was one.
    pub async fn forget(&self, key: &Key) -> bool {
        let deadline = Instant::now() + WAIT;
        let there = self.inner.stock.forget(key, !self.inner.is_open(), &self.inner.figures);
        self.write_out(deadline, false).await;
        there
    }

    /// Forgets all entries of which `which` says so; their number. If the shelf does not open in time, all that
    /// the backing holds is forgotten with them, uncounted.
    pub async fn forget_where(&self, which: impl FnMut(&Key, &Card) -> bool + Send) -> u64 {
        let deadline = Instant::now() + WAIT;
        let unseen = !self.ready().await;
        let forgotten = self.inner.stock.forget_where(which, unseen);
        self.write_out(deadline, false).await;
        forgotten
    }

    /// Forgets the entries that `find` finds in the index, without going through the others; their number. If the shelf
    /// does not open in time, all that the backing holds is forgotten with them, uncounted.
    pub async fn forget_found(&self, find: impl FnOnce(&T::Index) -> Vec<Key> + Send) -> u64 {
        let deadline = Instant::now() + WAIT;
        let unseen = !self.ready().await;
        let forgotten = self.inner.stock.forget_found(find, unseen);
        self.write_out(deadline, false).await;
        forgotten
    }

    /// Forgets all entries, those that a newer version wrote as well; their number. Figures stay.
    pub async fn clear(&self) -> u64 {
        let deadline = Instant::now() + WAIT;
        let unseen = !self.ready().await;
        let stock = &self.inner.stock;
        let forgotten = stock.forget_where(|_, _| true, unseen).saturating_add(stock.forget_newer(&self.inner.figures));
        self.write_out(deadline, false).await;
        forgotten
    }

    /// Writes what the backing was not told yet, and the figures that changed. When nothing changed nothing is written.
    pub async fn flush(&self) {
        self.write_out(Instant::now() + WAIT, true).await;
    }

    /// The figures of a label, to count on.
    pub fn tally(&self, label: &Label) -> Arc<Tally> {
        self.inner.figures.tally(label)
    }

    /// The figures of every label. Those of earlier processes are among them once the shelf is open.
    pub fn figures(&self) -> BTreeMap<Label, Counts> {
        self.inner.figures.all()
    }

    /// All entries, in the order of keeping. Those of earlier processes are among them once the shelf is open.
    pub fn entries(&self) -> Vec<Listed> {
        let mut entries = self.inner.stock.listed();
        entries.sort_by_key(|entry| entry.card.sequence);
        entries
    }

    /// The card of an entry. It does not count as used.
    pub fn card(&self, key: &Key) -> Option<Arc<Card>> {
        self.inner.stock.card(key)
    }

    /// What there is, in numbers.
    pub fn totals(&self) -> Totals {
        self.inner.stock.totals()
    }

    /// What was wrong when the shelf was opened, in words. Each is given once.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(test)]
    pub(super) fn keys_in_flight(&self) -> usize {
        self.inner.flights.len()
    }

    /// Waits until the shelf is open, for as long as it takes.
    #[cfg(test)]
    pub(super) async fn opened(&self) {
        self.begin();
        let mut open = self.inner.opening.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }

    /// Does not keep a value: an older one under its key has no more claim to stay.
    fn turn_away(&self, key: &Key, why: Kept) -> Kept {
        self.inner.stock.forget(key, !self.inner.is_open(), &self.inner.figures);
        why
    }

    /// Begins to open the shelf, unless somebody did. Says when.
    fn begin(&self) -> Instant {
        let mut first = false;
        let began = *self.inner.opening.began.get_or_init(|| {
            first = true;
            Instant::now()
        });
        if first {
            let underway = Underway(Arc::clone(&self.inner));
            // It goes on when nobody waits for it any more, and ends with the scan.
            drop(tokio::task::spawn_blocking(move || underway.0.open()));
        }
        began
    }

    /// Looks once. `None` when the entry changed meanwhile.
    async fn look(&self, key: &Key, now_ms: u64, deadline: Instant) -> Option<Lookup<T>> {
        let stock = &self.inner.stock;
        let missing = match stock.sight(key, now_ms) {
            Sight::Held(found) => return Some(Lookup::Found(found)),
            Sight::Shelved(card) => return self.fetch(key, card, deadline).await,
            Sight::Expired(card) if stock.forget_same(key, &card, Figure::Expired) => Missing::Expired,
            Sight::Expired(_) => return None,
            Sight::Unknown => Missing::ClockBack,
            Sight::Absent if stock.is_newer(key) => newer(key),
            Sight::Absent => Missing::Absent,
        };
        Some(Lookup::Missing(missing))
    }

    /// Fetches the value of an entry that is not in memory. `None` when the entry changed meanwhile.
    async fn fetch(&self, key: &Key, card: Arc<Card>, deadline: Instant) -> Option<Lookup<T>> {
        let large = card.payload_bytes > SMALL_BYTES;
        let reading = {
            let (inner, key, card) = (Arc::clone(&self.inner), *key, Arc::clone(&card));
            move || inner.read(&key, &card)
        };
        let stock = &self.inner.stock;
        let missing = match self.apart(large, deadline, reading).await {
            None => Missing::NotReady,
            Some(Ok(value)) => {
                let weight = value.weight();
                let found =
                    Found { value: Arc::clone(&value), kept_at_ms: card.kept_at_ms, expires_at_ms: card.expires_at_ms };
                return stock.hold_read(key, &card, value, weight).then_some(Lookup::Found(found));
            }
            Some(Err(Unread::Damaged(words))) => {
                if !stock.forget_same(key, &card, Figure::Damaged) {
                    return None;
                }
                Missing::Damaged(format!("entry {key}: {words}"))
            }
            Some(Err(Unread::Newer)) => {
                stock.leave(key, &card);
                newer(key)
            }
            Some(Err(Unread::Fault(words))) => Missing::Unread(format!("entry {key}: {words}")),
        };
        Some(Lookup::Missing(missing))
    }

    /// Does work here, or on a blocking thread if there is much of it. `None` when it is not done in time; it then
    /// ends by itself.
    async fn apart<R: Send + 'static>(
        &self,
        much: bool,
        deadline: Instant,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        if !much {
            return Some(work());
        }
        let bench = timeout_at(deadline, Arc::clone(&self.inner.benches).acquire_owned()).await.ok()?.ok()?;
        let working = tokio::task::spawn_blocking(move || {
            let _bench = bench;
            work()
        });
        timeout_at(deadline, working).await.ok()?.ok()
    }

    /// Tells the backing what it is owed.
    async fn write_out(&self, deadline: Instant, figures: bool) {
        if self.ready().await {
            let Inner { pen, backing, stock, .. } = &*self.inner;
            pen.write(&**backing, stock, figures.then_some(&self.inner.figures), deadline).await;
        }
    }
}

/// Why a payload gave no value.
enum Unread {
    Damaged(String),
    Newer,
    Fault(String),
}

fn newer(key: &Key) -> Missing {
    Missing::Newer(format!("entry {key} was written by a newer version and is left alone"))
}

impl<T: Content> Inner<T> {
    fn is_open(&self) -> bool {
        *self.opening.open.borrow()
    }

    /// Takes in what the backing holds.
    fn open(&self) {
        let catalogue = Catalogue::read(&*self.backing);
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(catalogue.warnings());
        if catalogue.figures_whole {
            self.figures.take_in(catalogue.figures, catalogue.newer_figures);
        }
        self.stock.take_in(catalogue.cards, catalogue.newer_cards, catalogue.unreadable, &self.figures);
    }

    fn seal(&self, key: &Key, value: &T, terms: Terms) -> Result<(Card, Records), String> {
        let payload = value.encode()?;
        let Terms { label, about, ttl_ms, now_ms } = terms;
        let card = Card {
            label,
            kept_at_ms: now_ms,
            expires_at_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
            payload_bytes: payload.len() as u64,
            about,
            size_bytes: 0,
            sequence: self.stock.next_tick(),
            sum: [0; 32],
        };
        Ok(seal(key, card, &payload))
    }

    fn read(&self, key: &Key, card: &Arc<Card>) -> Result<Arc<T>, Unread> {
        // What is still to be written is not in the backing; once it is not any more, it is.
        let waiting = self.stock.waiting(key, card);
        let stored = match &waiting {
            Some(_) => None,
            None => self.backing.get(&payload_key(key)).map_err(Unread::Fault)?,
        };
        let record = match (&waiting, &stored) {
            (Some(records), _) => records.payload.as_slice(),
            (None, Some(record)) => record.as_slice(),
            (None, None) => return Err(Unread::Damaged("its payload is missing".into())),
        };
        match read_payload(key, card, record) {
            Ok(payload) => T::decode(payload).map(Arc::new).map_err(Unread::Damaged),
            Err(Unusable::Newer) => Err(Unread::Newer),
            Err(Unusable::Damaged) => Err(Unread::Damaged("its payload is not the one that was kept".into())),
        }
    }
}

/// An opening under way. Whatever becomes of it, the shelf is open when it is dropped: with what was taken in.
struct Underway<T: Content>(Arc<Inner<T>>);

impl<T: Content> Drop for Underway<T> {
    fn drop(&mut self) {
        self.0.opening.open.send_replace(true);
    }
}
