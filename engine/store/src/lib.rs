//! The step store on disk, in RocksDB.
//!
//! What is acknowledged has been synced. The traits, the rows and what a commit holds are those of
//! [`rondo_core::store`], whose contract every store keeps. Only `rocks.rs` and the files below it name RocksDB.

mod anchor;
pub mod backup;
mod blocking;
pub mod check;
pub mod collect;
pub mod folder;
mod frames;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod import;
mod lock;
mod manifest;
mod recovery;
pub mod repair;
pub mod replicated;
mod reserve;
mod rocks;
pub mod shared_store;
pub mod staging;
pub(crate) mod write;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub use lock::{ThreadLocks, holder};
pub(crate) use reserve::has_room_beside;
pub use rocks::{Options, RocksReader, RocksStore, is_unwritten};
pub(crate) use rondo_core::store::keys::Family;
pub(crate) use rondo_core::store::tables::{Tables, Visited};
pub use rondo_core::store::*;
pub(crate) use write::{Write, WriteStore, step_store};
#[cfg(test)]
pub(crate) use writer::tests::simulated;
