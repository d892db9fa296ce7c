//! What the backing has still to be told: for each key the last thing that is to stand there.
//!
//! Memory is changed first and the backing after it, by whoever comes to it. As only the last wish for a key is kept,
//! and set while the books of the stock are locked, the backing ends up as memory is, whatever was cancelled, failed or
//! came in between.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::entry::{Card, Key, Straight};
use super::figures::Tally;
use super::record::Records;

/// The most bytes that wait to be written; what does not fit stays in memory only.
const BYTES_MAX: u64 = 64 << 20;

/// What is to stand under a key.
#[derive(Clone)]
pub(super) enum Wish {
    /// An entry.
    Write { card: Arc<Card>, records: Arc<Records> },
    /// Nothing.
    Remove,
}

/// One wish, to be carried out.
#[derive(Clone)]
pub(super) struct Errand {
    pub(super) key: Key,
    /// Names this wish among all for this key.
    pub(super) number: u64,
    pub(super) wish: Wish,
    /// Where its failure is counted.
    pub(super) tally: Arc<Tally>,
}

/// All wishes that were not carried out, oldest first.
pub(super) struct Owed {
    errands: BTreeMap<u64, Errand>,
    numbers: HashMap<Key, u64, Straight>,
    bytes: u64,
    next: u64,
    most: usize,
}

impl Owed {
    /// Nothing owed; at most `most` wishes at once.
    pub(super) fn new(most: usize) -> Self {
        Self { errands: BTreeMap::new(), numbers: HashMap::default(), bytes: 0, next: 0, most }
    }

    /// Wishes that an entry be written, unless too much waits already: then that nothing be there, since an older entry
    /// may be. Says which.
    pub(super) fn write(&mut self, key: Key, card: Arc<Card>, records: Records, tally: Arc<Tally>) -> bool {
        self.withdraw(&key);
        let fits = self.bytes.saturating_add(records_bytes(&records)) <= BYTES_MAX;
        let wish = if fits { Wish::Write { card, records: Arc::new(records) } } else { Wish::Remove };
        self.push(key, wish, tally);
        fits
    }

    /// Wishes that nothing be there.
    pub(super) fn remove(&mut self, key: Key, tally: Arc<Tally>) {
        self.withdraw(&key);
        self.push(key, Wish::Remove, tally);
    }

    /// The oldest wishes, at most `most`. They stay owed until they are settled.
    pub(super) fn oldest(&self, most: usize) -> Vec<Errand> {
        self.errands.values().take(most).cloned().collect()
    }

    /// Whether this very wish is still owed; if so it is no more.
    pub(super) fn settle(&mut self, errand: &Errand) -> bool {
        let same = self.numbers.get(&errand.key) == Some(&errand.number);
        if same {
            self.withdraw(&errand.key);
        }
        same
    }

    /// Whether anything is owed for a key.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.numbers.contains_key(key)
    }

    /// The payload record of an entry that waits to be written.
    pub(super) fn waiting(&self, key: &Key, wanted: &Arc<Card>) -> Option<Arc<Records>> {
        match &self.errands.get(self.numbers.get(key)?)?.wish {
            Wish::Write { card, records } if Arc::ptr_eq(card, wanted) => Some(Arc::clone(records)),
            Wish::Write { .. } | Wish::Remove => None,
        }
    }

    fn push(&mut self, key: Key, wish: Wish, tally: Arc<Tally>) {
        // With a backing that takes nothing, the oldest wish is the one that has been in vain for longest.
        while self.errands.len() >= self.most {
            let Some(oldest) = self.errands.values().next().map(|errand| errand.key) else { break };
            self.withdraw(&oldest);
        }
        let number = self.next;
        self.next += 1;
        self.bytes = self.bytes.saturating_add(wish_bytes(&wish));
        self.numbers.insert(key, number);
        self.errands.insert(number, Errand { key, number, wish, tally });
    }

    /// Wishes nothing for a key.
    pub(super) fn withdraw(&mut self, key: &Key) {
        if let Some(errand) = self.numbers.remove(key).and_then(|number| self.errands.remove(&number)) {
            self.bytes = self.bytes.saturating_sub(wish_bytes(&errand.wish));
        }
    }
}

fn wish_bytes(wish: &Wish) -> u64 {
    match wish {
        Wish::Write { records, .. } => records_bytes(records),
        Wish::Remove => 0,
    }
}

fn records_bytes(records: &Records) -> u64 {
    (records.card.len() as u64).saturating_add(records.payload.len() as u64)
}
