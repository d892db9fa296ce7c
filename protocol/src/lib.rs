//! Data and pure functions of rondo.
//!
//! What stands here is what every other crate agrees on: the workflow as it is checked, steps and the other
//! hashed objects, messages, calls, events, canonical bytes, digests and diagnostics.
//!
//! This crate knows nothing of time, files, networks, threads of execution, stores or model providers. A
//! function that needs a file is given its text.

pub mod call;
mod call_kind;
pub mod canonical;
pub mod diagnostic;
pub mod digest;
pub mod event;
pub mod id;
pub mod message;
pub mod object;
pub mod read_set;
mod scan;
pub mod source;
pub mod text;
pub mod workflow;

pub use canonical::Value;
pub use digest::Digest;
