//! Stores whose writes are durable elsewhere: in a log, of which a store is a copy to read from.

use std::ops::Range;

use futures_util::future::BoxFuture;
use rondo_protocol::id::ThreadId;

use super::Error;

/// A log of the writes of threads, in the order of the calls.
pub trait WriteLog: Send + Sync {
    /// Whether it knows which tree a thread belongs to; otherwise the first write has to say what is above it.
    fn knows(&self, thread: &ThreadId) -> bool;

    /// Adds a write of a thread. When this is ready, the write is in the log and the store holds it; one that is not
    /// `urgent` may be ready at once, and goes with the next that is. `above` are the threads above one that it does not
    /// know, the nearest first.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if it is not known whether the write is in the log.
    ///
    /// # Cancel safety
    /// The write is added even if the future is never polled.
    fn append(
        &self,
        thread: &ThreadId,
        above: &[ThreadId],
        write: Vec<u8>,
        urgent: bool,
    ) -> BoxFuture<'static, Result<(), Error>>;
}

/// A store that is brought up to a log. A log holds the writes of a whole tree of threads, by the thread at its root. Its
/// entries are cut into pieces, which are numbered from 0.
pub trait Replica: Send + Sync {
    /// The number of pieces of a root's log that the store holds.
    ///
    /// # Errors
    /// Those of reading the store.
    fn position(&self, root: &ThreadId) -> Result<u64, Error>;

    /// Writes the entry whose pieces have these numbers. They begin at the store's position; of one that the store holds,
    /// nothing is written.
    ///
    /// # Errors
    /// [`Error::Version`] for a write of a newer version of rondo, [`Error::Damaged`] for what is no write or does not
    /// continue what the store holds.
    fn apply<'a>(
        &'a self,
        root: &'a ThreadId,
        pieces: Range<u64>,
        writes: Vec<Vec<u8>>,
    ) -> BoxFuture<'a, Result<(), Error>>;
}
