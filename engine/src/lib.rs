//! The rondo engine: a graph of roles, run over a step store.
//!
//! [`Engine`] starts, resumes and cancels threads; everything else here is what it is made of. Data flows one way:
//! a checked workflow becomes a [`graph`], the machine of a [`thread`] decides, the [`scheduler`] visits roles through
//! their [`hook`]s, and the [`store`] keeps the steps.
//!
//! The library knows nothing of terminals: the command line is in `cli`, which uses only what is public here.

pub mod cast;
pub mod cli;
pub mod config;
pub mod conversation;
mod engine;
pub mod env;
mod exit;
pub mod files;
pub mod grant;
pub mod graph;
pub mod hook;
pub mod host;
pub mod lint;
pub mod models;
pub mod prefix;
mod program;
pub mod rebuild;
mod rehearse;
pub mod scenario;
pub mod scheduler;
mod scratch;
mod shipped;
pub mod simulate;
pub mod socket;
pub mod store;
pub mod thread;
pub mod trust;

pub use engine::{Cancelled, Engine, Error, NewThread, Operating, Resumed, Stopper, ThreadHandle};
pub use env::{Env, SystemEnv};
pub use hook::kinds::registry;
pub use scheduler::Ended;
