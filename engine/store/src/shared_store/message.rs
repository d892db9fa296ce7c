//! Requests to the process that holds a store, and its responses.

use std::ops::Range;

use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Serialize};

use super::drivers::ClientId;
use crate::{CancelOutcome, Entries, Error, Family, Write};

/// The version of the protocol: both sides must have the same.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A request. The first two variants are the same in every version, because they detect other versions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Request {
    /// Checks that the holder responds.
    Hello { version: String },
    /// Joins as a process that drives threads, for as long as this connection is open. The connection also carries
    /// requests to cancel its threads.
    Join { version: String },
    /// Lists the driven threads.
    Driven,
    /// The sender starts to drive a thread.
    Drive(ThreadId),
    /// The sender stops driving a thread.
    Leave(ThreadId),
    /// Asks the driver of a thread to end it for good; the response follows when the driver has left the thread.
    Cancel(ThreadId),
    /// The value of a key.
    Get { family: Family, key: Vec<u8> },
    /// A page of the entries within `keys`.
    Range { family: Family, keys: Range<Vec<u8>> },
    /// A write, durable as requested before the response.
    Write(Write),
    /// Compacts a piece of the tables of a family, from a key on.
    Compact { family: Family, from: Vec<u8> },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Response {
    /// To `Join` and `Hello`, from a holder of another version. Must stay the first variant.
    OtherVersion,
    Done,
    /// To `Join`: the sender's id from now on.
    Joined(ClientId),
    /// On the connection of `Join`: a thread has to end for good.
    Cancel(ThreadId),
    Driven(Vec<ThreadId>),
    /// Another process drives the thread.
    Taken,
    Cancelled(CancelOutcome),
    Value(Option<Vec<u8>>),
    /// To `Range`, in order.
    Page {
        entries: Entries,
        is_last: bool,
    },
    /// To `Compact`: the key from which to go on.
    Compacted {
        next: Option<Vec<u8>>,
    },
    Failed(Error),
}
