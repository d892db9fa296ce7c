//! The contract of every store, for the one in memory.

pub(crate) mod contract;
pub(crate) mod steps;

use std::sync::Arc;

use contract::{Opened, suite};

use super::MemoryStore;

fn memory() -> Opened {
    (Arc::new(MemoryStore::new()), None)
}

suite!(in_memory, super::memory);
