//! What a shelf holds at this moment: cards, decoded values, their order of use, and what the backing is still owed.
//!
//! Synchronous, and without clock or backing. Lookups lock one of several parts, for reading, and count their use in a
//! tick beside the entry; whatever changes the stock locks the books first and then one part at a time. So a lookup
//! waits only for a change of its own part, and changes happen one after another.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Limits;
use super::entry::{Age, Card, Content, Found, Index, Key, Label, Listed, Span, Straight};
use super::figures::{Figure, Figures, Tally};
use super::order::Order;
use super::owed::{Errand, Owed, Wish};
use super::record::Records;

/// Parts that lookups lock: more than there are likely to be lookups at one time.
const PARTS: usize = 32;
/// How many removals may be owed beside one for every entry.
const OWED_BESIDE_ENTRIES: u64 = 1024;
/// The most wishes that are owed at once, whatever the ceilings.
const OWED_MAX: u64 = 1_000_000;

/// What a stock knows of a key.
pub(super) enum Sight<T> {
    /// A value in memory that may be served.
    Held(Found<T>),
    /// An entry that may be served; its payload waits to be written, or is in the backing.
    Shelved(Arc<Card>),
    /// An entry whose time is up.
    Expired(Arc<Card>),
    /// An entry of unknown age.
    Unknown,
    /// No entry.
    Absent,
}

/// All entries.
pub(super) struct Stock<T: Content> {
    parts: [Part<T>; PARTS],
    books: Mutex<Books>,
    /// Knows exactly the entries of the books, and is locked behind them.
    index: Mutex<T::Index>,
    /// Counts uses and entries kept; both orders are made of it.
    tick: AtomicU64,
    limits: RwLock<Limits>,
}

/// One part of the entries, apart in memory from the others so that locking it disturbs none.
#[repr(align(128))]
struct Part<T>(RwLock<HashMap<Key, Slot<T>, Straight>>);

impl<T> Part<T> {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<Key, Slot<T>, Straight>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Key, Slot<T>, Straight>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One entry.
struct Slot<T> {
    card: Arc<Card>,
    tally: Arc<Tally>,
    /// Of the card, and here so that a lookup touches no more memory than it must.
    span: Span,
    /// The tick of its last use.
    used: AtomicU64,
    value: Option<Arc<T>>,
    weight: u64,
    /// The backing has it.
    stored: bool,
}

/// What changes of the stock agree on.
struct Books {
    entries: Order,
    values: Order,
    bytes: u64,
    value_bytes: u64,
    owed: Owed,
    /// Keys whose records a newer version wrote. Nothing is written or removed under them.
    newer: HashSet<Key, Straight>,
    /// Everything was to be forgotten before what the backing holds was known.
    renounced: bool,
}

/// An entry that is to be placed.
pub(super) struct Fresh<T> {
    pub(super) card: Arc<Card>,
    pub(super) tally: Arc<Tally>,
    pub(super) value: Arc<T>,
    pub(super) weight: u64,
    pub(super) records: Records,
}

/// What a stock holds, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Entries.
    pub entries: u64,
    /// What they take of the backing.
    pub bytes: u64,
    /// What the values in memory weigh.
    pub memory_bytes: u64,
}

impl<T: Content> Stock<T> {
    /// Other ceilings, which hold from the next change on.
    pub(super) fn limit(&self, limits: Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty stock.
    pub(super) fn new(limits: Limits) -> Self {
        let most = limits.entries.saturating_mul(2).saturating_add(OWED_BESIDE_ENTRIES).min(OWED_MAX);
        let books = Books {
            entries: Order::default(),
            values: Order::default(),
            bytes: 0,
            value_bytes: 0,
            owed: Owed::new(usize::try_from(most).unwrap_or(usize::MAX)),
            newer: HashSet::default(),
            renounced: false,
        };
        Self {
            parts: std::array::from_fn(|_| Part(RwLock::new(HashMap::default()))),
            books: Mutex::new(books),
            index: Mutex::default(),
            tick: AtomicU64::new(1),
            limits: RwLock::new(limits),
        }
    }

    /// The next tick.
    pub(super) fn next_tick(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::Relaxed)
    }

    /// Looks a key up; what may be served counts as used.
    pub(super) fn sight(&self, key: &Key, now_ms: u64) -> Sight<T> {
        let part = self.part(key).read();
        let Some(slot) = part.get(key) else { return Sight::Absent };
        match slot.span.age(now_ms) {
            Age::Expired => return Sight::Expired(Arc::clone(&slot.card)),
            Age::Unknown => return Sight::Unknown,
            Age::Fresh => slot.used.store(self.next_tick(), Ordering::Relaxed),
        }
        match &slot.value {
            Some(value) => Sight::Held(Found {
                value: Arc::clone(value),
                kept_at_ms: slot.span.kept_at_ms,
                expires_at_ms: slot.span.expires_at_ms,
            }),
            None => Sight::Shelved(Arc::clone(&slot.card)),
        }
    }

    /// Whether an entry can be held at all.
    pub(super) fn has_room_for(&self, card: &Card) -> bool {
        self.limits().entries > 0 && card.size_bytes <= self.limits().bytes
    }

    /// Places an entry, in the place of any other under its key, and wishes it written.
    pub(super) fn place(&self, key: Key, fresh: Fresh<T>) {
        let Fresh { card, tally, value, weight, records } = fresh;
        let mut books = self.books();
        self.take(&mut books, &key);
        if books.newer.contains(&key) || !books.owed.write(key, Arc::clone(&card), records, Arc::clone(&tally)) {
            tally.count(Figure::FailedWrites, 1);
        }
        self.put(&mut books, key, Slot::new(card, tally));
        self.hold(&mut books, &key, value, weight);
        self.make_room(&mut books);
        self.drop_unreachable(&mut books, &key);
    }

    /// Holds the value of an entry in memory, if the entry is still there. Says whether it is.
    pub(super) fn hold_read(&self, key: &Key, card: &Arc<Card>, value: Arc<T>, weight: u64) -> bool {
        let mut books = self.books();
        let there = self.is_same(key, card);
        if there {
            self.hold(&mut books, key, value, weight);
            self.make_room(&mut books);
        }
        there
    }

    /// Forgets an entry under `key` if it is this one, counting why.
    pub(super) fn forget_same(&self, key: &Key, card: &Arc<Card>, why: Figure) -> bool {
        let mut books = self.books();
        let there = self.is_same(key, card);
        if there {
            self.drop_entry(&mut books, key, why);
        }
        there
    }

    /// Forgets what is under a key. `unseen` says that the backing may hold what the stock does not know of.
    pub(super) fn forget(&self, key: &Key, unseen: bool, figures: &Figures) -> bool {
        let mut books = self.books();
        let there = self.drop_entry(&mut books, key, Figure::Forgotten);
        if !there && unseen {
            books.owed.remove(*key, figures.tally(&Label::other()));
        }
        there
    }

    /// Forgets all entries of which `which` says so; their number. With `unseen`, also all that the backing holds
    /// and the stock does not know of yet.
    pub(super) fn forget_where(&self, mut which: impl FnMut(&Key, &Card) -> bool, unseen: bool) -> u64 {
        let listed = {
            let mut books = self.books();
            books.renounced |= unseen;
            self.listed_of(&books)
        };
        let chosen: Vec<&Listed> = listed.iter().filter(|entry| which(&entry.key, &entry.card)).collect();
        let mut books = self.books();
        let mut forgotten = 0;
        for entry in chosen {
            if self.is_same(&entry.key, &entry.card) && self.drop_entry(&mut books, &entry.key, Figure::Forgotten) {
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Forgets the entries that `find` finds in the index; their number. With `unseen`, also all that the backing holds
    /// and the stock does not know of yet.
    pub(super) fn forget_found(&self, find: impl FnOnce(&T::Index) -> Vec<Key>, unseen: bool) -> u64 {
        let mut books = self.books();
        books.renounced |= unseen;
        let found = find(&self.index());
        let forgotten = found.iter().filter(|key| self.drop_entry(&mut books, key, Figure::Forgotten));
        forgotten.count() as u64
    }

    /// Forgets what a newer version wrote; how many entries.
    pub(super) fn forget_newer(&self, figures: &Figures) -> u64 {
        let mut books = self.books();
        let newer = std::mem::take(&mut books.newer);
        for key in &newer {
            books.owed.remove(*key, figures.tally(&Label::other()));
        }
        newer.len() as u64
    }

    /// Takes in what the backing holds, oldest first, behind all that was placed meanwhile.
    pub(super) fn take_in(&self, cards: Vec<(Key, Card)>, newer: Vec<Key>, unreadable: Vec<Key>, figures: &Figures) {
        let mut books = self.books();
        let last = cards.iter().map(|(_, card)| card.sequence).max().unwrap_or(0);
        self.tick.fetch_max(last.saturating_add(1), Ordering::Relaxed);
        for entry in self.listed_of(&books) {
            self.part(&entry.key).read().get(&entry.key).inspect(|slot| {
                slot.used.store(self.next_tick(), Ordering::Relaxed);
            });
        }
        for key in newer {
            // What was placed meanwhile stays in memory; what was wished for this key is not to happen.
            books.owed.withdraw(&key);
            books.newer.insert(key);
        }
        let renounced = books.renounced;
        for (key, card) in cards {
            let known = books.owed.contains(&key) || self.part(&key).read().contains_key(&key);
            if known {
                continue;
            }
            let tally = figures.tally(&card.label);
            if renounced {
                books.owed.remove(key, tally);
                continue;
            }
            let mut slot = Slot::new(Arc::new(card), tally);
            slot.stored = true;
            self.put(&mut books, key, slot);
            self.make_room(&mut books);
        }
        for key in unreadable {
            if !books.owed.contains(&key) {
                books.owed.remove(key, figures.tally(&Label::other()));
            }
        }
    }

    /// Whether a newer version wrote what is under a key.
    pub(super) fn is_newer(&self, key: &Key) -> bool {
        self.books().newer.contains(key)
    }

    /// Leaves an entry to the newer version that wrote its payload.
    pub(super) fn leave(&self, key: &Key, card: &Arc<Card>) {
        let mut books = self.books();
        if self.is_same(key, card) {
            self.take(&mut books, key);
            books.newer.insert(*key);
        }
    }

    /// Whether an entry is there and the backing has it.
    pub(super) fn is_stored(&self, key: &Key, card: &Arc<Card>) -> bool {
        self.part(key).read().get(key).is_some_and(|slot| Arc::ptr_eq(&slot.card, card) && slot.stored)
    }

    /// The records of an entry that wait to be written.
    pub(super) fn waiting(&self, key: &Key, card: &Arc<Card>) -> Option<Arc<Records>> {
        self.books().owed.waiting(key, card)
    }

    /// The oldest of what is owed to the backing.
    pub(super) fn oldest_owed(&self, most: usize) -> Vec<Errand> {
        self.books().owed.oldest(most)
    }

    /// Notes that the backing has done what was owed.
    pub(super) fn done(&self, errand: &Errand) {
        let mut books = self.books();
        if !books.owed.settle(errand) {
            return;
        }
        if let Wish::Write { card, .. } = &errand.wish
            && let Some(slot) = self.part(&errand.key).write().get_mut(&errand.key)
            && Arc::ptr_eq(&slot.card, card)
        {
            slot.stored = true;
        }
    }

    /// Notes that the backing has not done what was owed. An entry stays in memory for as long as it is held there, and
    /// what may stand in its place is to be removed; a removal is still owed.
    pub(super) fn failed(&self, errand: &Errand) {
        let mut books = self.books();
        if !books.owed.settle(errand) {
            return;
        }
        errand.tally.count(Figure::FailedWrites, 1);
        books.owed.remove(errand.key, Arc::clone(&errand.tally));
        if matches!(errand.wish, Wish::Write { .. }) {
            self.drop_unreachable(&mut books, &errand.key);
        }
    }

    /// What there is, in numbers.
    pub(super) fn totals(&self) -> Totals {
        let books = self.books();
        Totals { entries: books.entries.len(), bytes: books.bytes, memory_bytes: books.value_bytes }
    }

    /// All entries, by key.
    pub(super) fn listed(&self) -> Vec<Listed> {
        self.listed_of(&self.books())
    }

    /// The card of an entry.
    pub(super) fn card(&self, key: &Key) -> Option<Arc<Card>> {
        self.part(key).read().get(key).map(|slot| Arc::clone(&slot.card))
    }

    /// The books are a witness that no entry comes or goes meanwhile.
    fn listed_of(&self, _books: &Books) -> Vec<Listed> {
        let mut listed = Vec::new();
        for part in &self.parts {
            listed.extend(part.read().iter().map(|(key, slot)| Listed { key: *key, card: Arc::clone(&slot.card) }));
        }
        listed.sort_unstable_by_key(|entry| entry.key);
        listed
    }

    fn part(&self, key: &Key) -> &Part<T> {
        // The first bytes of a key are its hash within a part, so its last one chooses the part.
        let [first, ..] = &self.parts;
        let [.., last] = key.0;
        self.parts.get(usize::from(last) % PARTS).unwrap_or(first)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self) -> MutexGuard<'_, T::Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_same(&self, key: &Key, card: &Arc<Card>) -> bool {
        self.part(key).read().get(key).is_some_and(|slot| Arc::ptr_eq(&slot.card, card))
    }

    /// Lets the least recently used go until all ceilings hold.
    fn make_room(&self, books: &mut Books) {
        while books.entries.len() > self.limits().entries || books.bytes > self.limits().bytes {
            let Some(key) = books.entries.pop_least(|key| self.used(key)) else { break };
            self.drop_entry(books, &key, Figure::Evicted);
        }
        while books.value_bytes > self.limits().memory_bytes {
            let Some(key) = books.values.pop_least(|key| self.used(key)) else { break };
            self.let_value_go(books, &key);
            self.drop_unreachable(books, &key);
        }
    }

    fn used(&self, key: &Key) -> u64 {
        self.part(key).read().get(key).map_or(0, |slot| slot.used.load(Ordering::Relaxed))
    }

    fn put(&self, books: &mut Books, key: Key, slot: Slot<T>) {
        books.entries.set(key, slot.used.load(Ordering::Relaxed));
        books.bytes = books.bytes.saturating_add(slot.card.size_bytes);
        slot.tally.came(slot.card.size_bytes);
        self.index().came(&key, &slot.card.about);
        self.part(&key).write().insert(key, slot);
    }

    /// Holds the value of an entry in memory, unless it is too heavy for it alone.
    fn hold(&self, books: &mut Books, key: &Key, value: Arc<T>, weight: u64) {
        self.let_value_go(books, key);
        if weight > self.limits().memory_bytes {
            return;
        }
        let mut part = self.part(key).write();
        let Some(slot) = part.get_mut(key) else { return };
        slot.value = Some(value);
        slot.weight = weight;
        books.value_bytes = books.value_bytes.saturating_add(weight);
        books.values.set(*key, slot.used.load(Ordering::Relaxed));
    }

    fn let_value_go(&self, books: &mut Books, key: &Key) {
        let mut part = self.part(key).write();
        let Some(slot) = part.get_mut(key) else { return };
        if slot.value.take().is_some() {
            books.value_bytes = books.value_bytes.saturating_sub(slot.weight);
            books.values.remove(key);
        }
    }

    /// Takes an entry out of the stock. Nothing is wished of the backing.
    fn take(&self, books: &mut Books, key: &Key) -> Option<Slot<T>> {
        let slot = self.part(key).write().remove(key)?;
        books.entries.remove(key);
        books.values.remove(key);
        books.bytes = books.bytes.saturating_sub(slot.card.size_bytes);
        if slot.value.is_some() {
            books.value_bytes = books.value_bytes.saturating_sub(slot.weight);
        }
        slot.tally.went(slot.card.size_bytes);
        self.index().went(key);
        Some(slot)
    }

    /// Takes an entry out of the stock and wishes it removed from the backing.
    fn drop_entry(&self, books: &mut Books, key: &Key, why: Figure) -> bool {
        let Some(slot) = self.take(books, key) else { return false };
        slot.tally.count(why, 1);
        if !books.newer.contains(key) {
            books.owed.remove(*key, slot.tally);
        }
        true
    }

    /// Lets an entry go that is neither in memory nor in the backing, nor on the way there.
    fn drop_unreachable(&self, books: &mut Books, key: &Key) {
        let lost =
            self.part(key).read().get(key).is_some_and(|slot| {
                slot.value.is_none() && !slot.stored && books.owed.waiting(key, &slot.card).is_none()
            });
        if lost {
            self.drop_entry(books, key, Figure::Evicted);
        }
    }
}

impl<T> Slot<T> {
    /// An entry last used when it was kept, held nowhere yet.
    fn new(card: Arc<Card>, tally: Arc<Tally>) -> Self {
        let used = AtomicU64::new(card.sequence);
        let span = Span { kept_at_ms: card.kept_at_ms, expires_at_ms: card.expires_at_ms };
        Self { card, tally, span, used, value: None, weight: 0, stored: false }
    }
}
