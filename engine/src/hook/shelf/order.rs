//! The order in which entries were used.

use std::collections::{BTreeSet, HashMap};

use super::entry::{Key, Straight};

/// Keys by the tick of their last use, as far as it was noticed.
///
/// A use only raises a tick that stands elsewhere; the order catches up when it is asked for the least. As it never
/// stands above the true tick of a key, the first key for which both agree was used least recently.
#[derive(Debug, Default)]
pub(super) struct Order {
    by_tick: BTreeSet<(u64, Key)>,
    ticks: HashMap<Key, u64, Straight>,
}

impl Order {
    /// Sets the tick of a key.
    pub(super) fn set(&mut self, key: Key, tick: u64) {
        if let Some(old) = self.ticks.insert(key, tick) {
            self.by_tick.remove(&(old, key));
        }
        self.by_tick.insert((tick, key));
    }

    /// Takes a key out.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(tick) = self.ticks.remove(key) {
            self.by_tick.remove(&(tick, *key));
        }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> u64 {
        self.by_tick.len() as u64
    }

    /// Takes out the key that was used least recently; `used` gives the true tick of a key.
    pub(super) fn pop_least(&mut self, used: impl Fn(&Key) -> u64) -> Option<Key> {
        loop {
            let (tick, key) = self.by_tick.pop_first()?;
            let now = used(&key);
            if now <= tick {
                self.ticks.remove(&key);
                return Some(key);
            }
            self.ticks.insert(key, now);
            self.by_tick.insert((now, key));
        }
    }
}
