//! The scheduler: one event loop for each thread, and the worker that carries out one visit of a
//! model's or a tool's role.
//!
//! The loop asks the moderator, the worker performs, the store keeps. Law `durable_first`: no acknowledgement,
//! non-provisional event or further call that depends on a step precedes its sync. Law `one_effect`: what reached the
//! journal is never asked again.
//!
//! This module knows nothing of terminals, files or what a hook does.

mod event_loop;
mod journal;
mod memory;
mod noted;
mod past;
mod retry;
mod sink;
mod tool_role;
mod tools;
mod worker;

pub use event_loop::{Ended, Run, cancelled_ending};
pub use past::StoredPast;
pub use retry::Deadline;
pub use sink::{Sink, WARNING};
