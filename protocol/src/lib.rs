//! Data and pure functions of rondo.
//!
//! This crate defines what all other crates share: the checked workflow, steps and the other hashed objects, messages,
//! calls, events, canonical bytes, digests and diagnostics.
//!
//! It knows nothing of time, files, networks, threads of execution, stores or model providers. A function that needs a
//! file takes its text.
//!
//! An item has a comment where its name, its type and its module leave a question; `engine/docs` explains the formats.

#[macro_use]
mod json_text;

pub mod call;
mod call_kind;
pub mod canonical;
pub mod diagnostic;
pub mod digest;
pub mod event;
pub mod file;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod hint;
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
