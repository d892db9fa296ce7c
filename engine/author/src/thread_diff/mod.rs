//! Two threads side by side: where they part ([`parting`]), their steps after that in pairs ([`pairs`]), and the
//! difference of two texts in words ([`words`]).
//!
//! Laws. A step's digest covers all steps before it, so a common step means a common beginning: where two threads part
//! is found by a binary search, and no common step of the trunk is read but those that the search meets. Lanes that
//! were open when the threads parted are read whole, because their order says nothing.
//!
//! This module never changes a store and knows nothing of how a difference is shown.

mod pairs;
mod parting;
pub mod words;

pub use pairs::{NotedStep, Pair, pairs};
pub use parting::{Parting, parting};

use rondo_protocol::id::ThreadId;

/// One of two threads that are compared, up to a step.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    pub thread: &'a ThreadId,
    /// The number of its last step; 0 if it has none.
    pub seq: u64,
}

#[cfg(test)]
mod tests;
