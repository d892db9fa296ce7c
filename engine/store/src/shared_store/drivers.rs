//! Which process drives which thread, as recorded by the process that holds the store. A client drives threads for as
//! long as its connection is open, so the threads of a killed process become free.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Serialize};

use crate::CancelOutcome;

/// A client process, while its connection is open. Numbers start at 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ClientId(pub(super) u64);

/// Asks a client to end a thread for good.
pub(super) type Cancel = Box<dyn Fn(&ThreadId) + Send + Sync>;

#[derive(Default)]
pub(super) struct Drivers {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    /// `None` means this process.
    of: BTreeMap<ThreadId, Option<ClientId>>,
    clients: BTreeMap<ClientId, Cancel>,
    next: u64,
    /// The next holder now records the drivers.
    is_closed: bool,
}

impl Drivers {
    /// Adds a client; `cancel` sends it requests.
    pub(super) fn join(&self, cancel: Cancel) -> ClientId {
        let mut state = self.state.lock();
        state.next += 1;
        let client = ClientId(state.next);
        state.clients.insert(client, cancel);
        client
    }

    /// Removes a client and all its threads.
    pub(super) fn remove(&self, client: ClientId) {
        let mut state = self.state.lock();
        state.clients.remove(&client);
        state.of.retain(|_, driver| *driver != Some(client));
        drop(state);
        self.left.notify_all();
    }

    /// Assigns a thread to a client, or to this process (`None`). Returns `false` if another process drives it, and
    /// `None` for an unknown client.
    pub(super) fn take(&self, thread: &ThreadId, driver: Option<ClientId>) -> Option<bool> {
        let mut state = self.state.lock();
        if driver.is_some_and(|client| !state.clients.contains_key(&client)) {
            return None;
        }
        Some(*state.of.entry(thread.clone()).or_insert(driver) == driver)
    }

    /// Ends every waiting [`cancel`](Self::cancel): its caller has to ask the next holder.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.left.notify_all();
    }

    pub(super) fn leave(&self, thread: &ThreadId, driver: Option<ClientId>) {
        let mut state = self.state.lock();
        if state.of.get(thread) == Some(&driver) {
            state.of.remove(thread);
            drop(state);
            self.left.notify_all();
        }
    }

    pub(super) fn all(&self) -> Vec<ThreadId> {
        self.state.lock().of.keys().cloned().collect()
    }

    /// Asks the driver of a thread to end it for good, and waits until it has left the thread. Calls `cancel_own` if
    /// the driver is this process. `None` if the next holder has to be asked.
    pub(super) fn cancel(
        &self,
        thread: &ThreadId,
        cancel_own: &dyn Fn(&ThreadId),
        wait: Duration,
    ) -> Option<CancelOutcome> {
        let mut state = self.state.lock();
        match state.of.get(thread).copied() {
            None => return Some(CancelOutcome::NotDriven),
            Some(None) => MutexGuard::unlocked(&mut state, || cancel_own(thread)),
            Some(Some(client)) => state.clients.get(&client).into_iter().for_each(|cancel| cancel(thread)),
        }
        let is_driven = |state: &mut State| state.of.contains_key(thread) && !state.is_closed;
        if self.left.wait_while_for(&mut state, is_driven, wait).timed_out() {
            return Some(CancelOutcome::Pending);
        }
        (!state.is_closed).then_some(CancelOutcome::Left)
    }
}
