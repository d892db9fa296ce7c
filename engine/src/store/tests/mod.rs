//! What every store promises.

pub(crate) mod contract;
