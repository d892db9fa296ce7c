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
    /// Its file as it is shown.
    pub file: String,
    /// The scenarios that were run, by name.
    pub scenarios: Vec<ScenarioResult>,
    /// Snapshots that nothing writes any more, by name. None are looked for when only some scenarios were run.
    pub stale: Vec<Stale>,
}

/// A snapshot that nothing writes any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The name of its file in the folder of snapshots.
    pub name: String,
    /// Its file as it is shown.
    pub file: String,
}

/// The result of one scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioResult {
    /// Its name.
    pub name: String,
    /// Its file as it is shown.
    pub file: String,
    /// How it went.
    pub verdict: Verdict,
    /// Faults of its files, in file order. With any, it was not run, or not compared completely.
    pub faults: Vec<Diagnostic>,
    /// The expectations that were not met.
    pub failures: Vec<Failure>,
    /// Notes for the reader.
    pub notices: Vec<String>,
    /// What differs from the accepted snapshots.
    pub changes: Vec<Change>,
    /// The snapshots as they are now.
    pub snapshots: Vec<SnapshotResult>,
    /// How long it took.
    pub duration: Duration,
}

/// How a scenario went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As expected, and as accepted.
    Passed,
    /// As expected, but snapshots are missing or another was accepted.
    Pending,
    /// Not as expected.
    Failed,
    /// Its files cannot be used.
    Invalid,
}

/// Something that is not as a scenario expects it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Where that is expected: the scenario's file.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in code points.
    pub column: u32,
    /// What was looked at, in a few words.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// What came instead.
    pub actual: String,
}

/// A snapshot as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotResult {
    /// The name of its file in the folder of snapshots.
    pub name: String,
    /// Its file as it is shown.
    pub file: String,
    /// What it says now.
    pub text: String,
    /// What was accepted, if anything was.
    pub accepted: Option<String>,
    /// How the two compare.
    pub state: SnapshotState,
}

/// How a snapshot compares with the accepted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotState {
    /// Nothing that is compared differs.
    Same,
    /// It says something else.
    Changed,
    /// None was accepted.
    Missing,
    /// The accepted one cannot be used.
    Unusable,
}

/// The first thing in which a snapshot differs from the accepted one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The snapshot, as it is called in [`SnapshotResult::name`].
    pub snapshot: String,
    /// Whose requests they are; `None` for the course of the run itself.
    pub role: Option<RoleName>,
    /// In which lane; `None` for the course.
    pub lane: Option<LanePath>,
    /// In which visit, from 1.
    pub visit: Option<u64>,
    /// In which request of the snapshot, from 1.
    pub request: Option<u64>,
    /// In which message of the request, from 1.
    pub message: Option<u64>,
    /// What holds it: `model`, `tools.read_file`, `response_format`, `system`, `message 3`, `parameters`, `requests`,
    /// or of the course `route`, `outcome`, `reason`, `result`, `said`.
    pub block: String,
    /// Why it differs.
    pub cause: Cause,
    /// What exactly, in a few words.
    pub detail: String,
    /// The part of the workflow or of the scenario that caused it; `None` where nothing of them explains it.
    pub part: Option<Part>,
    /// The accepted lines around the first difference, and those of now.
    pub lines: Lines,
    /// Bytes of the accepted requests behind their first differing byte: what a provider that had kept them would have
    /// to read anew.
    pub lost_bytes: u64,
    /// The same in tokens, estimated.
    pub lost_tokens: u64,
    /// Of the bytes of all its requests, the share that each has in common with the one before it: as accepted.
    pub share_before: f64,
    /// The same now.
    pub share_after: f64,
}

/// A few lines of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    /// As accepted.
    pub old: Vec<String>,
    /// As they are now.
    pub new: Vec<String>,
}

/// A part of the workflow or of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is called, such as `roles.writer.system` or `graph.editor.revise[0].prompt`.
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

    /// How many scenarios went that way.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.scenarios.iter().filter(|tested| tested.verdict == verdict).count()
    }
}
