//! Threads on a Restate cluster.
//!
//! Restate keeps the log of what threads write, and decides which worker drives which thread; the local driver of a
//! worker drives it. A write is durable when Restate has journaled it, as the result of a run, and a worker that takes a
//! thread over brings its store up to the log before it goes on. What Restate calls a virtual object is one tree of
//! threads, by the id of the thread at its root.
//!
//! This crate knows nothing of workflows, models or terminals, and no store but by its traits.
//!
//! Restate: <https://docs.restate.dev>; its services in Rust: <https://docs.rs/restate-sdk>.

mod client;
mod entry;
mod objects;
mod session;

pub use client::{Client, Error};
pub use entry::{Continued, Leaving, Wake, to_pieces};
pub use objects::{Driver, Worker};
pub use session::Sessions;
