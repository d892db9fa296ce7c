//! Which process drives which thread, where several processes write one store.

use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Serialize};

use super::Error;

/// Tells the processes of a store who drives a thread. Each method may wait for another process.
pub trait ThreadDrivers: Send + Sync {
    /// Makes this process the driver of a thread. Returns `false` if another process drives it.
    ///
    /// # Errors
    /// If who drives it cannot be known.
    fn drive(&self, thread: &ThreadId) -> Result<bool, Error>;

    /// Stops driving a thread.
    fn release(&self, thread: &ThreadId);

    /// Asks the driver of a thread to end it for good, and waits until it has. Blocks.
    ///
    /// # Errors
    /// If its driver cannot be asked.
    fn cancel(&self, thread: &ThreadId) -> Result<CancelOutcome, Error>;
}

/// The result of a request to end a thread for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelOutcome {
    /// No process drove it.
    NotDriven,
    /// Its driver has left it.
    Left,
    /// Its driver has not left it yet.
    Pending,
}
