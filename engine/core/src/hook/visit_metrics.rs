//! The metrics of a hook, counted for each visit and taken when it ends. The number of visits is bounded; one beyond it is not
//! counted.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rondo_protocol::call::Site;
use rondo_protocol::id::{LanePath, RoleName};

/// How many visits may be under way at once and be counted.
const MAX_VISITS: usize = 4096;

/// A visit of a run: whose, in which lane, which one.
type Key = (RoleName, LanePath, u64);

/// Metrics of type `T` by visit.
#[derive(Debug, Default)]
pub struct VisitMetrics<T> {
    under_way: Mutex<BTreeMap<Key, T>>,
}

impl<T: Default> VisitMetrics<T> {
    /// Counts something in the visit of a call.
    pub fn count(&self, site: &Site, count: impl FnOnce(&mut T)) {
        let mut under_way = self.under_way.lock();
        let (key, is_full) = (key(site), under_way.len() >= MAX_VISITS);
        if !is_full || under_way.contains_key(&key) {
            count(under_way.entry(key).or_default());
        }
    }

    /// Takes the metrics of a visit that has ended; `None` when nothing was counted in it.
    pub fn ended(&self, site: &Site) -> Option<T> {
        self.under_way.lock().remove(&key(site))
    }
}

fn key(site: &Site) -> Key {
    (site.role.clone(), site.lane.clone(), site.visit)
}
