//! The contract of every store.

pub(crate) mod contract;
