//! Single flight: of those that ask for a missing entry at once, one goes to make it and the others wait for it.
//!
//! A key in flight is a semaphore of one permit. The holder makes the entry; releasing it without a result wakes
//! exactly one waiter, and a result closes it, which wakes all. Both hold however a future is dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::entry::{Key, KeyHasher};

/// The most keys in flight; beyond them each caller makes its own call.
const KEYS_MAX: usize = 1024;

/// Whose turn it is.
#[derive(Debug)]
pub(super) enum Turn {
    /// The caller's: it makes the call, and the others wait until it keeps an entry or drops the guard.
    Leader(Guard),
    /// Another one has kept an entry: look again.
    InsertOutcome,
    /// No turn: the wait timed out, or too many keys are in flight. The caller makes its own call.
    Alone,
}

/// The turn of one asker. Dropping it passes the turn on.
#[derive(Debug)]
#[must_use = "dropping the guard passes the turn on"]
pub struct Guard {
    // Fields are dropped in this order: the permit first, so that one who waits takes over the same flight.
    _permit: OwnedSemaphorePermit,
    _waiter: Waiter,
}

/// The keys in flight.
#[derive(Debug, Default)]
pub(super) struct Flights {
    keys: Arc<Mutex<Keys>>,
}

type Keys = HashMap<Key, Flight, KeyHasher>;

#[derive(Debug)]
struct Flight {
    turns: Arc<Semaphore>,
    /// How many hold or wait for the turn.
    waiters: usize,
}

impl Flights {
    /// Waits for the turn of `key`, at most for `wait`.
    pub(super) async fn turn(&self, key: Key, wait: Duration) -> Turn {
        let Some(waiter) = self.join(key) else { return Turn::Alone };
        match tokio::time::timeout(wait, Arc::clone(&waiter.turns).acquire_owned()).await {
            Ok(Ok(permit)) => Turn::Leader(Guard { _permit: permit, _waiter: waiter }),
            Ok(Err(_closed)) => Turn::InsertOutcome,
            Err(_elapsed) => Turn::Alone,
        }
    }

    /// Wakes all waiters of `key`: an entry was kept.
    pub(super) fn complete(&self, key: &Key) {
        if let Some(flight) = self.keys.lock().remove(key) {
            flight.turns.close();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.lock().len()
    }

    fn join(&self, key: Key) -> Option<Waiter> {
        let mut keys = self.keys.lock();
        if keys.len() >= KEYS_MAX && !keys.contains_key(&key) {
            return None;
        }
        let flight = keys.entry(key).or_insert_with(|| Flight { turns: Arc::new(Semaphore::new(1)), waiters: 0 });
        flight.waiters = flight.waiters.saturating_add(1);
        Some(Waiter { keys: Arc::clone(&self.keys), key, turns: Arc::clone(&flight.turns) })
    }
}

/// A place among those who hold or wait for a turn; the last one to leave ends the flight.
#[derive(Debug)]
struct Waiter {
    keys: Arc<Mutex<Keys>>,
    key: Key,
    turns: Arc<Semaphore>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut keys = self.keys.lock();
        let Some(flight) = keys.get_mut(&self.key) else { return };
        // After a completion another flight may have started under the same key.
        if Arc::ptr_eq(&flight.turns, &self.turns) {
            flight.waiters = flight.waiters.saturating_sub(1);
            if flight.waiters == 0 {
                keys.remove(&self.key);
            }
        }
    }
}
