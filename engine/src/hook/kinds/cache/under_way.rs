//! Calls that are being looked up and are not through yet. Two nodes before one role may share keys, and an inner one
//! would wait for the turn that an outer one has.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rondo_protocol::call::Site;

use super::Key;

/// The calls that are on their way, by where they are made and what they are looked up by.
#[derive(Debug, Default)]
pub struct CallsUnderWay {
    under_way: Mutex<BTreeSet<(Site, Key)>>,
}

/// A call that is on its way, until this is dropped.
#[derive(Debug)]
pub struct CallUnderWay<'a> {
    all: &'a CallsUnderWay,
    entry: (Site, Key),
}

impl CallsUnderWay {
    /// A call sets out; `None` = a node further out has looked the same key up for it.
    pub fn begin(&self, site: &Site, key: Key) -> Option<CallUnderWay<'_>> {
        let entry = (site.clone(), key);
        let is_first = self.under_way().insert(entry.clone());
        is_first.then_some(CallUnderWay { all: self, entry })
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeSet<(Site, Key)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        self.all.under_way().remove(&self.entry);
    }
}
