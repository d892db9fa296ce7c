//! A declarative workflow engine for role-based LLM agents, as a library.
//!
//! A graph of roles, joined by edges that carry prompts, runs over a store of steps. What the command line can do with a
//! workflow or a thread, a program can: both are written on [`Rondo`]. `engine/docs/embedding.md` begins with a program of
//! its own and `engine/examples` holds more.
//!
//! ```
//! use rondo::{Rondo, What};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rondo::Error> {
//! let rondo = Rondo::builder().in_memory().offline().open().await?; // or `Rondo::open(".")`, as the command line does
//! let mut run = rondo.workflow("review-loop")?.input("topic", "tide pools").start().await?;
//! while let Some(event) = run.next().await {
//!     if let What::StepCommitted { role, status, .. } = &event.what {
//!         println!("{role}: {status}");
//!     }
//! }
//! println!("{}", run.end().await?.result()?["article"]);
//! # Ok(())
//! # }
//! ```
//!
//! Redaction, limits, prices, consent and the sandbox of tools are on; what loosens them is a method of [`Builder`] that
//! says so. An [`Error`] carries the code of its page (`rondo explain RN1010`). In signatures stand the types of tokio,
//! futures, serde, `serde_json` and, for the arguments of tools, schemars.

#![warn(missing_docs)]

#[cfg(feature = "restate")]
pub mod cluster;
#[doc(hidden)]
pub mod failure;
#[doc(hidden)]
pub mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod hook;
#[doc(hidden)]
pub mod host;
pub mod model;
#[doc(hidden)]
pub mod picture;
mod rondo;
#[doc(hidden)]
pub mod tell;
pub mod tool;
#[doc(hidden)]
pub mod upkeep;
#[doc(hidden)]
pub mod views;
#[cfg(feature = "restate")]
pub mod worker;

pub use failure::Failure as Error;
#[doc(hidden)]
pub use rondo::blocking;
#[doc(hidden)]
pub use rondo::run;
pub use rondo::{Answer, Builder, Diff, End, Finished, Fork, NewRun, Prefixes, Resume, Rondo, Run};
pub use rondo_core::conversation::rebuild::Request;
#[doc(hidden)]
pub use rondo_core::exit::Exit;
pub use rondo_core::grant::Approver;
pub use rondo_core::local::{Answerer, ForkPlan, Subscription};
pub use rondo_core::{Env, SystemEnv};
#[doc(hidden)]
pub use rondo_hooks::registry;
pub use rondo_protocol::diagnostic::{Code, Diagnostic};
pub use rondo_protocol::event::{Event, EventId, Outcome, What};
pub use rondo_protocol::hint;
pub use rondo_protocol::id::{LanePath, RoleName, Status, ThreadId};
pub use rondo_protocol::{Digest, Value};
pub use rondo_store::Status as ThreadStatus;
pub use schemars;
pub use views::diff::StepPair;
pub use views::form::FormView;
pub use views::lines::{RecordLine, StepLine, ThreadLine};
pub use views::usage::{By, Sums};
// What the command line and the server show of lower crates, through this one: no program outside needs it, and it
// changes without notice.
#[doc(hidden)]
pub use {
    rondo_agent_kit as agent_kit, rondo_author as author, rondo_core as core, rondo_protocol as protocol,
    rondo_settings as settings, rondo_store as store, rondo_workflows as workflows,
};

/// If this process was started as the launcher of a program: its exit code, once that has ended.
///
/// Tools, hooks and servers that are programs are started by a second copy of the program that embeds rondo, which
/// confines itself before it becomes what is to be started. It has to find this at the beginning of `main`, before a
/// thread is started or a file opened. Where it does not, programs are refused, and servers outlive a process that is
/// killed.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(exit) = rondo::launcher() {
///         return exit;
///     }
///     tokio::runtime::Runtime::new().map_or(ExitCode::FAILURE, |runtime| runtime.block_on(run()))
/// }
/// # async fn run() -> ExitCode { ExitCode::SUCCESS }
/// ```
pub fn launcher() -> Option<std::process::ExitCode> {
    host::launcher::entered()
}
