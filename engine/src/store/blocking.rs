//! Work that may wait for a device, and the runtime that must not wait with it.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Whether this thread belongs to a runtime that can go on elsewhere while it waits.
pub(super) fn is_on_worker() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Does work that may wait for a device. The other tasks of this worker go on on another thread meanwhile; on a runtime
/// that has only one thread, and outside of any, there is nowhere to go.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    if is_on_worker() { tokio::task::block_in_place(work) } else { work() }
}
