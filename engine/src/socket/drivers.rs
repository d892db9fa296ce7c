//! Who drives which thread. Known by the process that holds the store: its own threads, and those of each guest for as
//! long as the guest's connection stands. So a thread whose process was killed is driven by nobody.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Serialize};

use super::wire::Freed;

/// A process that is served, for as long as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GuestId(pub u64);

/// Tells whoever drives a thread to end it for good.
pub type Cancel = Box<dyn Fn(&ThreadId) + Send + Sync>;

/// Who drives which thread.
#[derive(Default)]
pub struct Drivers {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    /// `None` = this process.
    of: BTreeMap<ThreadId, Option<GuestId>>,
    guests: BTreeMap<GuestId, Cancel>,
    next: u64,
    /// Nobody is served any more: others know better who drives what.
    is_closed: bool,
}

impl fmt::Debug for Drivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.state().of).finish()
    }
}

impl Drivers {
    /// A guest comes; `cancel` reaches it.
    pub fn join(&self, cancel: Cancel) -> GuestId {
        let mut state = self.state();
        state.next += 1;
        let guest = GuestId(state.next);
        state.guests.insert(guest, cancel);
        guest
    }

    /// A guest is gone, and drives nothing any more.
    pub fn part(&self, guest: GuestId) {
        let mut state = self.state();
        state.guests.remove(&guest);
        state.of.retain(|_, driver| *driver != Some(guest));
        drop(state);
        self.left.notify_all();
    }

    /// A thread is driven by a guest, or by this process, from now on. Gives whether nobody else does; `None` for a guest
    /// that is not known.
    pub fn take(&self, thread: &ThreadId, driver: Option<GuestId>) -> Option<bool> {
        let mut state = self.state();
        if driver.is_some_and(|guest| !state.guests.contains_key(&guest)) {
            return None;
        }
        Some(*state.of.entry(thread.clone()).or_insert(driver) == driver)
    }

    /// Guests are served no longer.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.left.notify_all();
    }

    /// It no longer is.
    pub fn leave(&self, thread: &ThreadId, driver: Option<GuestId>) {
        let mut state = self.state();
        if state.of.get(thread) == Some(&driver) {
            state.of.remove(thread);
            drop(state);
            self.left.notify_all();
        }
    }

    /// The threads that are driven.
    pub fn all(&self) -> Vec<ThreadId> {
        self.state().of.keys().cloned().collect()
    }

    /// Tells whoever drives a thread to end it for good, and waits until it has left the thread. A thread of this
    /// process is told by `here`. `None` when guests are served no longer.
    pub fn free(&self, thread: &ThreadId, here: &dyn Fn(&ThreadId), wait: Duration) -> Option<Freed> {
        let state = self.state();
        match state.of.get(thread).copied() {
            None => return Some(Freed::Nobody),
            Some(None) => {
                drop(state);
                here(thread);
            }
            Some(Some(guest)) => {
                if let Some(cancel) = state.guests.get(&guest) {
                    cancel(thread);
                }
                drop(state);
            }
        }
        let is_driven = |state: &mut State| state.of.contains_key(thread) && !state.is_closed;
        let waited = self.left.wait_timeout_while(self.state(), wait, is_driven);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() { Some(Freed::Leaving) } else { (!state.is_closed).then_some(Freed::Left) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
