//! The lookups under way. Two nodes before one role may share keys, and the inner one would wait for the outer one.

use std::collections::BTreeSet;

use parking_lot::Mutex;
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
        let is_first = self.under_way.lock().insert(entry.clone());
        is_first.then_some(ActiveLookup { all: self, entry })
    }
}

impl Drop for ActiveLookup<'_> {
    fn drop(&mut self) {
        self.all.under_way.lock().remove(&self.entry);
    }
}
