//! The workflows that ship with rondo, as texts: the engine takes them into the binary. The tests of this package hold
//! them: they read without a warning, their scripts answer for them, and their inputs are the documents that stand beside
//! them.

pub mod shipped;

/// Every file of every workflow, by its path: `review-loop/workflow.yaml`. Its scenarios, their snapshots and
/// the fixture that they work on are among them.
pub const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));
