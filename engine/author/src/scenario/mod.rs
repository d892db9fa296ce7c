//! Scenarios: offline runs of a workflow on a known input with known answers, and their expected results.
//!
//! A [`Suite`] holds the scenarios in `tests/` beside a workflow file and the accepted snapshots in `tests/snapshots/`. A
//! [`Definition`] is the workflow itself. [`Suite::run`] runs every scenario, rebuilds every request from what the run
//! committed, compares the requests with the snapshots, and names for each difference its cause and the bytes of cached
//! prefix that it costs.
//!
//! Laws:
//! - hermetic: no program, server, address, environment variable or operator's setting is used. File tools work on a copy
//!   of the scenario's workspace, which is removed with the run.
//! - deterministic: equal files give equal reports, apart from durations.
//! - read-only: a report holds the new snapshots; the caller writes them.
//!
//! It must never know terminals, nor what a hook does: it only leaves out the kinds that reach outside or wait.

mod compare;
mod definition;
mod expect;
mod explain;
mod parts;
mod path;
mod play;
mod read;
mod report;
mod run;
#[expect(clippy::module_inception, reason = "one scenario among what makes up scenarios")]
mod scenario;
mod snapshot;
mod suite;
mod tools;
mod workspace;

pub use definition::Definition;
pub use report::{
    Change, DefinitionPart, Failure, Lines, Report, ScenarioResult, SnapshotResult, SnapshotState, Stale, Verdict,
};
pub use suite::{FOLDER, Options, Suite, Unreadable};
