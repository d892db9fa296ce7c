//! A shelf: where a hook kind keeps entries, in memory in front of a key space that outlives the process.
//!
//! An entry is a value under a key of 32 bytes. A shelf holds its entries within ceilings, lets the least recently
//! used go first, ends them when their time is up, checks what it reads back, lets equal askers wait for the first
//! of them, and counts. Its laws:
//!
//! - It may lose anything at any time and never gives back anything wrong. What was edited, swapped, cut or left
//!   unfinished is a miss, told with words where it means damage.
//! - What it has forgotten stays forgotten while the process lives, whatever the backing does.
//! - An expiry is fixed when an entry is kept; being used never moves it.
//! - No operation waits for the backing longer than [`WAIT`], and none fails because of it.
//! - Everything is bounded: entries, bytes, bytes in memory, labels, keys in flight, writes that are still owed.
//! - Reads of entries never wait for writes of others, and no lock is held while waiting.
//!
//! One process writes; it holds one [`Shelf`] for a key space. Others may read it as a [`Catalogue`].
//!
//! This module knows nothing of calls, models, tools, threads or time: a caller says what time it is. Its futures need
//! a tokio runtime with timers.

mod catalogue;
mod entry;
mod figures;
mod flight;
mod order;
mod owed;
mod record;
#[expect(clippy::module_inception, reason = "the noun of the folder has its own file")]
mod shelf;
mod stock;
mod writing;

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::future::BoxFuture;

pub use catalogue::Catalogue;
pub use entry::{Card, Content, Found, Index, Kept, Key, Label, Listed, Lookup, Missing, Terms};
pub use figures::{Counts, Figure, Tally};
pub use flight::Guard;
pub use shelf::{Asked, Shelf};
pub use stock::Totals;

/// How long one operation waits for the backing, all its reads and writes together.
pub const WAIT: Duration = Duration::from_millis(250);

/// Keys and their values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A key space that outlives the process, and holds nothing but one shelf.
///
/// Reads are taken as quick; a shelf moves those that are not small to a blocking thread.
pub trait Backing: Send + Sync + 'static {
    /// The value under a key.
    ///
    /// # Errors
    /// In words, when it cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// Keys and values in the order of the keys' bytes, the first not below `from`, at most `limit`.
    ///
    /// # Errors
    /// In words, when they cannot be read.
    fn scan(&self, from: &[u8], limit: usize) -> Result<Pairs, String>;

    /// Keeps a value, or forgets it with `None`. Writes take effect in the order in which their futures were first
    /// polled; one whose future was dropped has happened, will happen in that order, or never will.
    ///
    /// # Durability
    /// None is needed.
    ///
    /// # Errors
    /// In words, when it cannot be written.
    fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), String>>;
}

/// The ceilings of a shelf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries; with 0 nothing is kept.
    pub entries: u64,
    /// Bytes in the backing: keys, cards and payloads. An entry that is larger alone is not kept.
    pub bytes: u64,
    /// Weight of the values that stay decoded in memory. A value beyond it is read from the backing each time.
    pub memory_bytes: u64,
}
