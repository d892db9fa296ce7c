//! Sandboxes: the only access of tools to the outside.
//!
//! Each sandbox allows what the operator grants and nothing else: [`files`] beneath a folder, [`process`] for programs,
//! [`http`] to named hosts. A sandbox has one entry point, so that a tool cannot bypass it; what it refuses is a typed
//! error. `tests/escapes` attacks each from within, with and without the sandbox. The names that are always
//! inaccessible are in two tables, [`PROTECTED`] and [`CREDENTIALS`].
//!
//! This module knows nothing of tools, models, roles or callers.

mod credentials;
pub(crate) mod environment;
pub mod files;
pub mod http;
mod names;
mod objects;
pub(crate) mod private;
pub mod process;
mod protected;

pub use credentials::{CREDENTIALS, key_files};
pub use objects::reached;
pub use protected::{Kept, PROTECTED, Protected, Protection, protected};
