//! `--on URL`: threads of a Restate cluster. What reads them reads a copy of theirs, which is brought up to the cluster;
//! what begins, continues or ends them asks a worker to, and shows the copy as it grows.

#[cfg(feature = "restate")]
mod cluster;
#[cfg(not(feature = "restate"))]
mod without;

#[cfg(feature = "restate")]
pub use cluster::{OnArgs, answer, begin, cancel, fork, found, resume};
#[cfg(not(feature = "restate"))]
pub use without::{OnArgs, answer, begin, cancel, fork, found, resume};
