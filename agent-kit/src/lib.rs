//! The parts of one agent: its history, a model provider, answers that keep a contract, and the loop between them.
//!
//! The loop acts only through [`effects::Effects`], which the engine implements.
//!
//! An item has a comment where its name, its type and its module leave a question.

pub mod answer;
pub mod bound;
pub mod conversation;
mod cut;
pub mod effects;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod mcp;
pub mod model;
pub mod pinned;
pub mod prefix;
pub mod react;
pub mod redact;
pub mod sandbox;
pub mod tool;
mod web;
