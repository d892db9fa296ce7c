//! The local driver: one for each thread that runs, and the worker that carries out one visit of a model's or a tool's
//! role.
//!
//! The machine of `thread` decides, the driver carries out, the worker performs one visit, the store keeps. Law `durable_first`: no acknowledgement,
//! non-provisional event or further call that depends on a step precedes its sync. Law `one_effect`: what reached the
//! journal is never asked again.
//!
//! This module knows nothing of terminals, files or what a hook does.

mod event_loop;
mod journal;
mod noted;
mod past;
mod retry;
mod sink;
mod tool_role;
mod tools;
mod worker;

pub use event_loop::{Ended, Parts, Run, cancelled_ending};
pub use past::{StoredPast, left};
pub use retry::{Deadline, Waiting, Waits};
pub use sink::{Listener, Position, Sink, WARNING};
