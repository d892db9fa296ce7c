//! Single flight: of those that ask for a missing entry at once, one goes to make it and the others wait for it.
//!
//! A key in flight is a semaphore of one permit. The holder makes the entry; releasing it without a result wakes
//! exactly one waiter, and a result closes it, which wakes all. Both hold however a future is dropped, because those who
//! hold or wait for the permit are all that keeps the semaphore.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::entry::{Key, KeyHasher};

/// The most keys in flight; beyond them each caller makes its own call.
const KEYS_MAX: usize = 1024;

/// The turn of one asker. Dropping it passes the turn on.
pub type Guard = OwnedSemaphorePermit;

/// Whose turn it is.
#[derive(Debug)]
pub(super) enum Turn {
    /// The caller's: it makes the call, and the others wait until it keeps an entry or drops the guard.
    Leader(Guard),
    /// Another one has kept an entry: look again.
    Completed,
    /// No turn: the wait timed out, or too many keys are in flight. The caller makes its own call.
    Alone,
}

#[derive(Debug, Default)]
pub(super) struct Flights {
    pub(super) keys: Mutex<HashMap<Key, Weak<Semaphore>, KeyHasher>>,
}

impl Flights {
    /// Waits for the turn of `key`, at most for `wait`.
    pub(super) async fn turn(&self, key: Key, wait: Duration) -> Turn {
        let Some(turns) = self.join(key) else { return Turn::Alone };
        match tokio::time::timeout(wait, turns.acquire_owned()).await {
            Ok(Ok(permit)) => Turn::Leader(permit),
            Ok(Err(_closed)) => Turn::Completed,
            Err(_elapsed) => Turn::Alone,
        }
    }

    /// Wakes all waiters of `key`: an entry was kept.
    pub(super) fn complete(&self, key: &Key) {
        if let Some(turns) = self.keys.lock().remove(key).and_then(|turns| turns.upgrade()) {
            turns.close();
        }
    }

    fn join(&self, key: Key) -> Option<Arc<Semaphore>> {
        let mut keys = self.keys.lock();
        if let Some(turns) = keys.get(&key).and_then(Weak::upgrade) {
            return Some(turns);
        }
        if keys.len() >= KEYS_MAX {
            keys.retain(|_, turns| turns.strong_count() > 0);
        }
        (keys.len() < KEYS_MAX).then(|| {
            let turns = Arc::new(Semaphore::new(1));
            keys.insert(key, Arc::downgrade(&turns));
            turns
        })
    }
}
