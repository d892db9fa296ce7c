//! What the row of a thread says.

use rondo_core::thread::Origin;
use rondo_protocol::id::ThreadId;
use rondo_store::{Row, Status};

use super::store_access::DrivenThreads;

/// The name of its workflow.
pub fn name(row: &Row) -> String {
    origin(row).map_or_else(String::new, |origin| origin.name)
}

pub fn origin(row: &Row) -> Option<Origin> {
    Origin::from_bytes(&row.origin).ok()
}

/// The status of a thread. A row says `running` until its run has ended; a thread whose process was killed has
/// stopped.
pub fn status(thread: &ThreadId, row: &Row, driven: &DrivenThreads) -> Status {
    match row.status {
        Status::Running if !driven.may_hold(thread) => Status::Stopped,
        status => status,
    }
}
