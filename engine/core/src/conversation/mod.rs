//! The conversations of a thread's roles, built from its steps: one builder for running, rebuilding and replaying.
//!
//! It follows each step's predecessors, so a conversation depends on the steps alone and never on the order in which
//! lanes ended.

mod bindings;
mod builder;
pub mod rebuild;
mod steps;

pub use bindings::{Binding, Bindings};
pub use builder::{Conversations, Opened, Opening};
pub use steps::Steps;
