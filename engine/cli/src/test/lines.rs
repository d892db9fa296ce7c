//! The JSON lines of `rondo test`: one per scenario, then one per stale snapshot, then the totals.

use rondo::author::scenario::{Change, Report, ScenarioResult, SnapshotState, Stale, Verdict};
use rondo::protocol::diagnostic::{Code, Diagnostic};
use serde::Serialize;

use crate::{Failure, Output, json_line};

#[derive(Serialize)]
struct FaultLine {
    code: Code,
    file: String,
    line: u32,
    column: u32,
    message: String,
    expected: Option<String>,
    actual: Option<String>,
}

#[derive(Serialize)]
struct ChangeLine<'a> {
    #[serde(flatten)]
    change: &'a Change,
    part: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
}

pub fn write(reports: &[&Report], broken: usize, output: &mut Output) -> Result<(), Failure> {
    for report in reports {
        for tested in &report.scenarios {
            scenario(&report.workflow, tested, output)?;
        }
        for Stale { name, file } in &report.stale {
            output.line(&json_line!("stale", workflow: &report.workflow, snapshot: name, file))?;
        }
    }
    let count = |verdict| reports.iter().map(|report| report.count(verdict)).sum::<usize>();
    output.line(&json_line!(
        "summary",
        workflows: reports.len(),
        scenarios: reports.iter().map(|report| report.scenarios.len()).sum::<usize>(),
        passed: count(Verdict::Passed),
        failed: count(Verdict::Failed),
        pending: count(Verdict::Pending),
        invalid: count(Verdict::Invalid),
        stale: reports.iter().map(|report| report.stale.len()).sum::<usize>(),
        broken_workflows: broken,
    ))
}

fn scenario(workflow: &str, tested: &ScenarioResult, output: &mut Output) -> Result<(), Failure> {
    let of_files = tested.faults.iter().map(|fault| {
        let Diagnostic { code, file, line, column, message, .. } = fault.clone();
        FaultLine { code, file, line, column, message, expected: None, actual: None }
    });
    let of_run = tested.failures.iter().map(|failure| {
        let rondo::author::scenario::Failure { file, line, column, what, expected, actual } = failure.clone();
        let (expected, actual) = (Some(expected), Some(actual));
        FaultLine { code: Code::ExpectationFailed, file, line, column, message: what, expected, actual }
    });
    let missing = tested.snapshots.iter().filter(|taken| taken.state == SnapshotState::Missing);
    output.line(&json_line!(
        "scenario",
        workflow,
        scenario: &tested.name,
        file: &tested.file,
        outcome: tested.verdict,
        duration_ms: u64::try_from(tested.duration.as_millis()).unwrap_or(u64::MAX),
        faults: of_files.chain(of_run).collect::<Vec<_>>(),
        changes: tested.changes.iter().map(change).collect::<Vec<_>>(),
        missing: missing.map(|taken| taken.name.as_str()).collect::<Vec<_>>(),
        notices: &tested.notices,
    ))
}

fn change(change: &Change) -> ChangeLine<'_> {
    let part = change.part.as_ref();
    ChangeLine {
        change,
        part: part.map(|part| part.path.as_str()),
        file: part.map(|part| part.file.as_str()),
        line: part.map(|part| part.line),
        column: part.map(|part| part.column),
    }
}
