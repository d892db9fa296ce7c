//! The results of a suite.

use std::time::Duration;

use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::id::{LanePath, RoleName};
use serde::Serialize;

use super::cause::Cause;

/// The results of the scenarios of one workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The workflow's name.
    pub workflow: String,
    /// Its displayed file name.
    pub file: String,
    /// The scenarios that were run, by name.
    pub scenarios: Vec<ScenarioResult>,
    /// Accepted snapshots that are no longer written, by name. Those of no scenario are only searched for when all were
    /// run.
    pub stale: Vec<Stale>,
    /// The same of snapshots that were never looked at: their names without the suffix.
    pub left_over: Vec<String>,
}

/// A snapshot that is no longer written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The name of its file in the folder of snapshots.
    pub name: String,
    /// Its displayed file name.
    pub file: String,
}

/// The result of one scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioResult {
    /// Its name.
    pub name: String,
    /// Its displayed file name.
    pub file: String,
    /// How it went.
    pub verdict: Verdict,
    /// Faults of its files, in file order. If there are any, it was not run, or not compared completely.
    pub faults: Vec<Diagnostic>,
    /// The expectations that were not met.
    pub failures: Vec<Failure>,
    /// Notes for the reader.
    pub notices: Vec<String>,
    /// Differences from the accepted snapshots.
    pub changes: Vec<Change>,
    /// The new snapshots.
    pub snapshots: Vec<SnapshotResult>,
    /// How long it took.
    pub duration: Duration,
}

/// The verdict on a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It met its expectations and matches the accepted snapshots.
    Passed,
    /// It met its expectations, but a snapshot is missing or differs from the accepted one.
    Pending,
    /// It did not meet its expectations.
    Failed,
    /// Its files cannot be used.
    Invalid,
}

/// An unmet expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The scenario's file.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in code points.
    pub column: u32,
    /// What was checked, in a few words.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// The actual value.
    pub actual: String,
}

/// A new snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotResult {
    /// The name of its file in the folder of snapshots.
    pub name: String,
    /// Its displayed file name.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The accepted text, if any.
    pub accepted: Option<String>,
    /// How the two compare.
    pub state: SnapshotState,
}

/// How a new snapshot compares with the accepted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotState {
    /// They are equal in everything that is compared.
    Same,
    /// They differ.
    Changed,
    /// No snapshot was accepted.
    Missing,
    /// The accepted one is unusable.
    Unusable,
}

/// The first difference between a snapshot and the accepted one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// The name of the snapshot, as in [`SnapshotResult::name`].
    pub snapshot: String,
    /// The role of the requests; `None` for the course of the run.
    pub role: Option<RoleName>,
    /// The lane; `None` for the course.
    pub lane: Option<LanePath>,
    /// The visit, from 1.
    pub visit: Option<u64>,
    /// The request in the snapshot, from 1.
    pub request: Option<u64>,
    /// The message in the request, from 1.
    pub message: Option<u64>,
    /// The block that differs: `model`, `tools.read_file`, `response_format`, `system`, `message 3`, `parameters`,
    /// `requests`, or of the course `route`, `outcome`, `reason`, `result`, `said`.
    pub block: String,
    /// The cause.
    pub cause: Cause,
    /// The exact difference, in a few words.
    pub detail: String,
    /// The part of the workflow or of the scenario that caused it; `None` if neither explains it.
    #[serde(skip)]
    pub part: Option<Part>,
    /// The accepted lines around the first difference, and the new ones.
    #[serde(skip)]
    pub lines: Lines,
    /// Bytes of the accepted requests after their first differing byte: what a provider with a cache of them would
    /// have to read again.
    pub lost_bytes: u64,
    /// The estimated tokens of `lost_bytes`.
    pub lost_tokens: u64,
    /// The share of the bytes of all its requests that each has in common with the one before it, as accepted.
    pub share_before: f64,
    /// The new share.
    pub share_after: f64,
}

/// A few lines of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// The accepted lines.
    pub old: Vec<String>,
    /// The new lines.
    pub new: Vec<String>,
}

/// A part of the workflow or of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its path, such as `roles.writer.system` or `graph.editor.revise[0].prompt`.
    pub path: String,
    /// Its file.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in code points.
    pub column: u32,
}

impl Report {
    /// Whether every scenario passed and nothing is stale.
    pub fn is_passed(&self) -> bool {
        self.stale.is_empty() && self.scenarios.iter().all(|tested| tested.verdict == Verdict::Passed)
    }

    /// The number of scenarios with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.scenarios.iter().filter(|tested| tested.verdict == verdict).count()
    }
}
