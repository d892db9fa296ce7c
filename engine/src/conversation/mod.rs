//! The conversations of a thread's roles, from its steps: one builder for whoever runs a thread, rebuilds it or sends its
//! calls again.
//!
//! It names steps by their place in the thread and follows what each names as its predecessors, so that what a role is
//! told depends on the steps alone and never on the order in which lanes ended.

mod builder;
pub mod rebuild;
mod steps;

pub use builder::{Conversations, Opened, Opening};
pub use steps::Steps;
