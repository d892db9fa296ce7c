//! The upkeep of stores: what examines, copies, repairs and moves them. Each of these reads a store as any reader does,
//! and changes none in place, but for imports and the collection of garbage, which go through the store's writer.

mod backup;
mod fsck;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gc;
mod new_folder;
mod repair;
mod transfer;
mod trusted_store;

pub use backup::backup;
pub use fsck::{SavedExamination, fsck};
pub use gc::{Collected, garbage, gc};
pub use repair::{Repair, beside, repair};
pub use transfer::{Chosen, Exported, Staged, export, import, stage};
