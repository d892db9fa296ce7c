//! The lookups under way. Two nodes before one role may share keys, and the inner one would wait for the outer one.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rondo_protocol::call::Site;

use super::Key;

/// The lookups under way, by call and key.
#[derive(Debug, Default)]
pub struct ActiveLookups {
    under_way: Mutex<BTreeSet<(Site, Key)>>,
}

/// A lookup under way, until this is dropped.
#[derive(Debug)]
pub struct ActiveLookup<'a> {
    all: &'a ActiveLookups,
    entry: (Site, Key),
}

impl ActiveLookups {
    /// Begins a lookup; `None` when a node in front of this one looks the same key up for the call.
    pub fn begin(&self, site: &Site, key: Key) -> Option<ActiveLookup<'_>> {
        let entry = (site.clone(), key);
        let is_first = self.under_way().insert(entry.clone());
        is_first.then_some(ActiveLookup { all: self, entry })
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeSet<(Site, Key)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveLookup<'_> {
    fn drop(&mut self) {
        self.all.under_way().remove(&self.entry);
    }
}
