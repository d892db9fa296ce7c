//! A store that processes share: the process that holds it serves it to the others over a socket in its folder.
//!
//! Each process drives its own threads. The socket carries reads and writes of tables, and which process drives which
//! thread, so that a thread can be cancelled from anywhere; it carries no settings and no keys. Only processes of the
//! same user and version are served.

mod client;
mod drivers;
mod frame;
mod message;
mod server;
mod socket;
mod store;

pub use client::driven;
pub use store::{Opening, OwnThreads, SharedStore};

use std::time::Duration;

/// How long the process that holds the store may take to respond.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a driver may take to end a thread for good: the longest that draining takes.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
