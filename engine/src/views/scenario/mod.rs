//! A stored thread as a scenario: its answers become a script, not a recording, which still answers after a prompt is
//! edited.

mod told;
mod yaml;

use rondo_core::thread::Origin;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;
use rondo_store::Row;

use crate::failure::Failure;

pub use told::Told;
pub use yaml::yaml;

/// The metadata of a thread's row.
pub fn origin(thread: &ThreadId, row: &Row) -> Result<Origin, Failure> {
    Origin::from_bytes(&row.origin)
        .map_err(|error| Failure::new(Code::StoreDamaged, format!("the row of thread {thread}: {error}")))
}
