//! Scenarios: a workflow run offline on a known input with known answers, and what must come of it.
//!
//! A [`Suite`] is what stands beside a workflow file: scenarios in `tests/`, accepted snapshots in `tests/snapshots/`. A
//! [`Definition`] is the workflow itself, read from wherever its text is. [`Suite::run`] plays every scenario on the
//! definition, rebuilds every request from what the run committed, compares them with the snapshots, and says for each
//! difference what caused it and what of a kept prefix it costs.
//!
//! Laws:
//! - hermetic: no program, server, address, environment variable or setting of an operator is reached. Files are reached
//!   in a copy of the scenario's workspace that ends with the run.
//! - the same: equal files give equal reports, whatever the time, the machine and the number of workers, but for how
//!   long each scenario took.
//! - nothing is written here: a report holds what would be written, and whoever asked for it decides.
//!
//! This module never knows terminals, and never what a hook does: it only leaves out the kinds that would reach outside
//! or wait.

mod cause;
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

pub use cause::Cause;
pub use definition::Definition;
pub use report::{Change, Failure, Lines, Part, Report, Stale, Taken, TakenState, Tested, Verdict};
pub use suite::{Options, Suite, Unreadable};
