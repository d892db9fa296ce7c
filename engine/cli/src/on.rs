//! `--on URL`: threads of a Restate cluster. What reads them reads a copy of theirs, which is brought up to the cluster;
//! what begins, continues or ends them asks a worker to, and shows the copy as it grows.

#[cfg(feature = "restate")]
mod cluster;

#[cfg(feature = "restate")]
pub use cluster::{OnArgs, Remote, answer, begin, cancel, fork, found, resume};

/// A build without clusters has no such options.
#[cfg(not(feature = "restate"))]
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnArgs {}

#[cfg(not(feature = "restate"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as where there are clusters")]
impl OnArgs {
    pub(super) fn flags(&self, flags: rondo::settings::Flags) -> Result<rondo::settings::Flags, super::Failure> {
        Ok(flags)
    }

    pub(super) fn copied(&self, flags: rondo::settings::Flags) -> Result<rondo::settings::Flags, super::Failure> {
        Ok(flags)
    }
}
