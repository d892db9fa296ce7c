//! Work that may wait for a device, without blocking the runtime.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Whether this thread belongs to a runtime that can continue on other threads while it waits.
pub(super) fn is_on_worker() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Does work that may wait for a device. The worker's other tasks continue on another thread meanwhile, except on a
/// single-threaded runtime or outside any.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    if is_on_worker() { tokio::task::block_in_place(work) } else { work() }
}
