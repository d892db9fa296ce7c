//! The memory for model replies, which all threads of a process share.
//!
//! Each reply has a limit, but their sum has none, and an answer is in memory several times over until its step is
//! committed. So a reply reserves memory before it is read further, and the reservation lasts until the commit, or, if
//! that ends the thread, until its result is taken. The first [`FREE_BYTES`] of a reply are free, so that ordinary
//! replies never wait. Behind them, replies share [`SHARED_BYTES`]; when these are used up, one reply at a time may grow
//! beyond them. It can always end, so those that wait do not wait for each other.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What every reply may take without asking: more than most models can say.
const FREE_BYTES: usize = 128 << 10;

/// What replies take at once of the shared memory.
const STEP_BYTES: usize = 64 << 10;

/// The memory that replies share beyond what is free.
const SHARED_BYTES: usize = 2 << 20;

/// How long the result of a thread that has ended may wait for who started it. Nobody has to take it, so it must not
/// hold up others for longer.
const RESULT_WAITS: Duration = Duration::from_secs(1);

/// The memory for replies.
#[derive(Debug, Clone)]
pub(super) struct ReplyMemory {
    /// Steps of the shared memory that are not taken.
    steps: Arc<Semaphore>,
    /// The turn of the one reply that may grow beyond the shared memory.
    turn: Arc<Semaphore>,
}

impl Default for ReplyMemory {
    fn default() -> Self {
        let steps = Arc::new(Semaphore::new(SHARED_BYTES / STEP_BYTES));
        Self { steps, turn: Arc::new(Semaphore::new(1)) }
    }
}

impl ReplyMemory {
    /// A reservation of what is free.
    pub(super) fn reservation(&self) -> Reservation {
        Reservation { memory: self.clone(), steps: None, turn: None }
    }
}

/// What one visit has reserved. Dropping it gives the memory back.
#[derive(Debug)]
pub(super) struct Reservation {
    memory: ReplyMemory,
    steps: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Reservation {
    /// Waits until the reply may be so long.
    ///
    /// # Cancel safety
    /// Dropping the future keeps what was reserved.
    pub(super) async fn grow_to(&mut self, bytes: usize) {
        while self.turn.is_none() && bytes > self.reserved_bytes() {
            // Neither is ever closed.
            tokio::select! {
                biased;
                Ok(step) = Arc::clone(&self.memory.steps).acquire_owned() => match &mut self.steps {
                    Some(steps) => steps.merge(step),
                    none => *none = Some(step),
                },
                Ok(turn) = Arc::clone(&self.memory.turn).acquire_owned() => self.turn = Some(turn),
                else => return,
            }
        }
    }

    /// Gives everything back.
    pub(super) fn release(&mut self) {
        *self = self.memory.reservation();
    }

    fn reserved_bytes(&self) -> usize {
        FREE_BYTES + STEP_BYTES * self.steps.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn is_empty(&self) -> bool {
        self.steps.is_none() && self.turn.is_none()
    }
}

/// What the result of a thread has reserved: until it is dropped, and at most for [`RESULT_WAITS`].
#[derive(Debug)]
pub(super) struct ResultMemory {
    _kept: Arc<Mutex<Vec<Reservation>>>,
}

impl ResultMemory {
    /// Keeps reservations, within a runtime.
    pub(super) fn new(mut reservations: Vec<Reservation>) -> Self {
        reservations.retain(|reservation| !reservation.is_empty());
        let is_empty = reservations.is_empty();
        let kept = Arc::new(Mutex::new(reservations));
        if !is_empty {
            let waiting = Arc::downgrade(&kept);
            tokio::spawn(async move {
                tokio::time::sleep(RESULT_WAITS).await;
                if let Some(kept) = waiting.upgrade() {
                    kept.lock().clear();
                }
            });
        }
        Self { _kept: kept }
    }
}

#[cfg(test)]
mod tests;
