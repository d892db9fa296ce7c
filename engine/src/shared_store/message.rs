//! Requests to the process that holds a store, and its responses.

use std::ops::Range;

use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Serialize};

use super::drivers::ClientId;
use crate::store::{Entries, Error, Family, Write};

/// Which version speaks: both sides must be of the same.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A request. The first two variants stay as they are in every version: they tell versions apart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Request {
    /// Whether the holder is there.
    Hello { version: String },
    /// A process that drives threads joins, for as long as this connection is open. It hears on it which threads are to
    /// be cancelled.
    Join { version: String },
    /// Which threads are driven.
    Driven,
    /// The sender drives a thread from now on.
    Drive(ThreadId),
    /// The sender drives it no longer.
    Leave(ThreadId),
    /// The driver of a thread is to end it for good; answered when it has left the thread.
    Cancel(ThreadId),
    /// The value of a key.
    Get { family: Family, key: Vec<u8> },
    /// A page of the entries within `keys`.
    Range { family: Family, keys: Range<Vec<u8>> },
    /// A write, as safe as the sender asks when it is answered.
    Write(Write),
}

/// A response.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Response {
    /// To `Join` and `Hello`, from a holder of another version. Stays the first variant.
    OtherVersion,
    /// It was done.
    Done,
    /// To `Join`: the name of the sender from now on.
    Joined(ClientId),
    /// On the connection of `Join`: a thread is to be ended for good.
    Cancel(ThreadId),
    /// The threads that are driven.
    Driven(Vec<ThreadId>),
    /// Another process drives the thread.
    Taken,
    /// To `Cancel`.
    Cancelled(CancelOutcome),
    /// To `Get`.
    Value(Option<Vec<u8>>),
    /// To `Range`, in order.
    Page { entries: Entries, is_last: bool },
    /// The store's error.
    Failed(Error),
}

/// What came of a request to end a thread for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CancelOutcome {
    /// No process drove it.
    NotDriven,
    /// Its driver has left it.
    Left,
    /// Its driver has not left it yet.
    Pending,
}
