//! Walls: what tools reach the world through.
//!
//! Each wall is given what the operator grants and lets nothing else through: [`files`] beneath a folder, [`process`]
//! around a program, [`http`] to named hosts. A wall has one way in, so that a tool cannot go round it; what it turns
//! away is a typed error. `tests/escapes` tries each from within, with the wall and without.
//!
//! This module knows nothing of models, roles or who asked.

pub(crate) mod environment;
pub mod files;
pub mod http;
pub(crate) mod private;
pub mod process;
