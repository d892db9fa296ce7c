//! Caches of earlier answers, and the two hook kinds that keep them: [`response_cache`] and [`tool_cache`].
//!
//! A [`Cache`] holds values under keys of 32 bytes, in memory in front of a [`Table`] that outlives the process. Each kind has
//! a [`CacheSet`] with one cache for each workflow. Laws of a cache:
//!
//! - It may lose anything at any time and never gives back anything wrong. What was edited, swapped, cut, left unfinished
//!   or written with another secret is a miss, with a warning where it means damage.
//! - What it has removed stays removed while the process lives, whatever the table does.
//! - An expiry is fixed when an entry is kept; being used never moves it.
//! - Inserting writes through to the table, without a sync; what was removed leaves it with the next write. No call waits for
//!   the table longer than [`WAIT`], and none fails because of it: what the table does not take in time is not kept.
//! - Everything is bounded: entries, bytes, bytes in memory, labels, keys in flight, removals that wait.
//! - No lock is held while waiting, but the turn to write.
//!
//! One process writes; it holds one [`Cache`] for a table. Others may read it as a [`Catalog`].
//!
//! The cache knows nothing of calls, models, tools, threads or time: a caller says what time it is. Its futures need a
//! tokio runtime with timers.

#[expect(clippy::module_inception, reason = "the noun of the folder has its own file")]
mod cache;
mod catalog;
mod entry;
pub mod explain;
mod flight;
mod index;
mod metrics;
mod record;
pub mod response_cache;
pub mod set;
pub mod settings;
mod subcommands;
pub mod tool_cache;

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::future::BoxFuture;

pub use cache::{Cache, SharedLookup};
pub use catalog::Catalog;
pub use entry::{CacheValue, Entry, InsertOptions, InsertOutcome, Key, Label, Lookup, Miss, SecondaryIndex};
pub use flight::Guard;
pub use index::Totals;
pub use metrics::{Counts, Metric};
pub(crate) use record::ABOUT_MAX_BYTES;
use rondo_core::secret::Secret;
pub use set::{CacheSet, groups, table};
pub use settings::{Scope, Settings};
pub use subcommands::subcommand;

/// How long one operation waits for the table.
pub const WAIT: Duration = Duration::from_millis(250);

/// Keys and their values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Keys and values that outlive the process, of one cache alone.
///
/// Reads are taken as quick; a cache moves those that are not small to a blocking thread.
pub trait Table: Send + Sync + 'static {
    /// The value under a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// Keys and values in the order of the keys' bytes, the first not below `from`, at most `limit`.
    fn scan(&self, from: &[u8], limit: usize) -> Result<Pairs, String>;

    /// Keeps a value, or forgets it with `None`. Writes take effect in the order in which their futures were first
    /// polled; one whose future was dropped has happened, will happen in that order, or never will.
    ///
    /// # Durability
    /// None is needed.
    fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), String>>;

    /// What records are authenticated with.
    fn secret(&self) -> &Secret;
}

/// The ceilings of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Entries; with 0 nothing is kept.
    pub entries: u64,
    /// Bytes in the table: keys, entries and payloads. An entry that is larger alone is not kept.
    pub bytes: u64,
    /// Weight of the values that stay decoded in memory. A value beyond it is read from the table each time.
    pub memory_bytes: u64,
}
