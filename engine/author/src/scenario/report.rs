//! The results of a suite.

use std::time::Duration;

use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::id::{LanePath, RoleName};
use serde::Serialize;

/// The results of the scenarios of one workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub workflow: String,
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
    pub file: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScenarioResult {
    pub name: String,
    pub file: String,
    pub verdict: Verdict,
    /// Faults of its files, in file order. If there are any, it was not run, or not compared completely.
    pub faults: Vec<Diagnostic>,
    pub failures: Vec<Failure>,
    pub notices: Vec<String>,
    /// Differences from the accepted snapshots.
    pub changes: Vec<Change>,
    pub snapshots: Vec<SnapshotResult>,
    pub duration: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It met its expectations and matches the accepted snapshots.
    Passed,
    /// It met its expectations, but a snapshot is missing or differs from the accepted one.
    Pending,
    /// It did not meet its expectations.
    Failed,
    #[default]
    Invalid,
}

/// An unmet expectation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in code points.
    pub column: u32,
    pub what: String,
    pub expected: String,
    pub actual: String,
}

/// A new snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotResult {
    /// The name of its file in the folder of snapshots.
    pub name: String,
    pub file: String,
    pub text: String,
    pub accepted: Option<String>,
    pub state: SnapshotState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotState {
    /// They are equal in everything that is compared.
    Same,
    Changed,
    Missing,
    Unusable,
}

/// The first difference between a snapshot and the accepted one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// The name of the snapshot, as in [`SnapshotResult::name`].
    pub snapshot: String,
    /// The role of the requests; `None` for the course of the run.
    pub role: Option<RoleName>,
    pub lane: Option<LanePath>,
    pub visit: Option<u64>,
    /// The request in the snapshot, from 1.
    pub request: Option<u64>,
    /// The message in the request, from 1.
    pub message: Option<u64>,
    /// The block that differs: `model`, `tools.read_file`, `response_format`, `system`, `message 3`, `parameters`,
    /// `requests`, or of the course `route`, `outcome`, `reason`, `result`, `said`.
    pub block: String,
    /// A phrase; `explain.rs` has them all.
    pub cause: &'static str,
    /// The exact difference, in a few words.
    pub detail: String,
    /// The part of the workflow or of the scenario that caused it; `None` if neither explains it.
    #[serde(skip)]
    pub part: Option<DefinitionPart>,
    /// The accepted lines around the first difference, and the new ones.
    #[serde(skip)]
    pub lines: Lines,
    /// Bytes of the accepted requests after their first differing byte: what a provider with a cache of them would
    /// have to read again.
    pub lost_bytes: u64,
    pub lost_tokens: u64,
    /// The share of the bytes of all its requests that each has in common with the one before it, as accepted.
    pub share_before: f64,
    pub share_after: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    pub old: Vec<String>,
    pub new: Vec<String>,
}

/// A part of the workflow or of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefinitionPart {
    /// Its path, such as `roles.writer.system` or `graph.editor.revise[0].prompt`.
    pub path: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl Report {
    /// Whether every scenario passed and nothing is stale.
    pub fn is_passed(&self) -> bool {
        self.stale.is_empty() && self.scenarios.iter().all(|tested| tested.verdict == Verdict::Passed)
    }

    pub fn count(&self, verdict: Verdict) -> usize {
        self.scenarios.iter().filter(|tested| tested.verdict == verdict).count()
    }
}
