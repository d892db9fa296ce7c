//! The upkeep of stores: what examines, mends and moves them. Each of these reads a store as any reader does, and
//! changes none in place.
//!
//! This module knows nothing of terminals.

mod backup;
mod fsck;
mod transfer;

pub use backup::backup;
pub use fsck::fsck;
pub use transfer::{Chosen, Exported, Staged, export, import, stage};
