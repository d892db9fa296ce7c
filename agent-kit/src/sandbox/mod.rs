//! Sandboxes: what tools reach the world through.
//!
//! Each sandbox is given what the operator grants and lets nothing else through: [`files`] beneath a folder, [`process`]
//! around a program, [`http`] to named hosts. A sandbox has one way in, so that a tool cannot go round it; what it turns
//! away is a typed error. `tests/escapes` tries each from within, with the sandbox and without. What is out of reach by its
//! name is in two tables, [`PROTECTED`] and [`CREDENTIALS`].
//!
//! This module knows nothing of tools, models, roles or who asked.

mod credentials;
pub(crate) mod environment;
pub mod files;
pub mod http;
mod names;
mod objects;
pub(crate) mod private;
pub mod process;
mod protected;
mod repository;

pub use credentials::CREDENTIALS;
pub use objects::reached;
pub use protected::{Kept, PROTECTED, Protected, Protection, protected};
