//! The report of a test run for people.

use std::fmt::Write as _;
use std::time::Duration;

use rondo::author::scenario::{Change, Failure, Report, ScenarioResult, SnapshotState, Verdict};
use rondo::protocol::diagnostic::Code;
use rondo::tell::{printable, word};

use super::snapshots::Mode;

use crate::Style;

pub const END_OF_PROGRESS: &str = "\r\u{1b}[2K";

/// A line with the scenario that has just ended, replacing the previous one.
pub fn progress(name: &str, style: Style) -> String {
    let name: String = printable(name).chars().take(style.width.saturating_sub(1)).collect();
    format!("{END_OF_PROGRESS}{name}")
}

pub fn text(reports: &[&Report], broken: usize, mode: Mode, took: Duration, style: Style) -> String {
    let mut out = String::new();
    for report in reports {
        let _ = writeln!(out, "{}", printable(&report.workflow));
        for tested in &report.scenarios {
            let mark = mark(tested.verdict, style);
            let _ = writeln!(out, "  {mark}  {}{}", printable(&tested.name), aside(tested));
            for notice in &tested.notices {
                let _ = writeln!(out, "           note: {}", printable(notice));
            }
        }
        for stale in &report.stale {
            let _ = writeln!(out, "  {}  {}", in_column("stale", RED, style), printable(&stale.name));
        }
    }
    for report in reports {
        for tested in report.scenarios.iter().filter(|tested| tested.verdict != Verdict::Passed) {
            let heading = format!("{} · {}", report.workflow, tested.name);
            let _ = write!(out, "\n{}\n{}", printable(&heading), printable(&faults(tested)));
        }
        for stale in &report.stale {
            let code = Code::SnapshotStale;
            let _ = write!(out, "\n{}: {code}: {}\n", printable(&stale.file), code.title());
        }
    }
    out.push('\n');
    out.push_str(&sum(reports, broken, mode, took));
    out
}

fn aside(tested: &ScenarioResult) -> String {
    let count = |state| tested.snapshots.iter().filter(|taken| taken.state == state).count();
    let counted = [(count(SnapshotState::Missing), "new"), (count(SnapshotState::Changed), "changed")];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = counted.map(|(count, word)| format!("{count} {word}")).collect();
    if tested.verdict == Verdict::Invalid || words.is_empty() {
        return String::new();
    }
    format!("  ({})", words.join(", "))
}

fn sum(reports: &[&Report], broken: usize, mode: Mode, took: Duration) -> String {
    let count = |verdict| reports.iter().map(|report| report.count(verdict)).sum::<usize>();
    let stale: usize = reports.iter().map(|report| report.stale.len()).sum();
    let words = [
        (count(Verdict::Passed), "passed"),
        (count(Verdict::Failed), "failed"),
        (count(Verdict::Pending), "pending"),
        (count(Verdict::Invalid), "invalid"),
        (stale, "stale"),
        (broken, "unreadable"),
    ];
    let told = words.iter().enumerate().filter(|(at, (count, _))| *at == 0 || *count > 0);
    let told: Vec<String> = told.map(|(_, (count, word))| format!("{count} {word}")).collect();
    let mut taken = reports.iter().flat_map(|report| &report.scenarios).flat_map(|tested| &tested.snapshots);
    let hint = match mode {
        Mode::Accept if taken.any(|taken| taken.state != SnapshotState::Same) => {
            "nothing is accepted of a scenario that is not as expected or has a fault: mend it first\n"
        }
        Mode::Pend | Mode::Check if count(Verdict::Pending) > 0 || stale > 0 => {
            "look at what is pending with `rondo test --review`, or take it over with `rondo test --accept`\n"
        }
        _ => "",
    };
    format!("{} in {:.2} s\n{hint}", told.join(", "), took.as_secs_f64())
}

pub fn faults(tested: &ScenarioResult) -> String {
    let mut out = String::new();
    for fault in &tested.faults {
        let _ = writeln!(out, "  {fault}");
    }
    for Failure { file, line, column, what, expected, actual } in &tested.failures {
        let code = Code::ExpectationFailed;
        let _ = writeln!(out, "  {file}:{line}:{column}: {code}: {what}");
        let _ = writeln!(out, "    expected  {}", inner(expected));
        let _ = writeln!(out, "    actual    {}", inner(actual));
    }
    tested.changes.iter().for_each(|changed| change(&mut out, changed));
    for taken in tested.snapshots.iter().filter(|taken| taken.state == SnapshotState::Missing) {
        let _ = writeln!(out, "  {}: {}: {}", taken.file, Code::SnapshotMissing, Code::SnapshotMissing.title());
    }
    out
}

/// Indents the later lines of a text under its first.
fn inner(text: &str) -> String {
    text.replace('\n', "\n              ")
}

fn change(out: &mut String, changed: &Change) {
    let Change { snapshot, request, lane, visit, block, cause, detail, part, lines, .. } = changed;
    let place = match (request, visit) {
        (Some(request), Some(visit)) => {
            let lane = lane.as_ref().filter(|lane| !lane.is_trunk());
            let lane = lane.map_or_else(String::new, |lane| format!("lane {lane}, "));
            format!("request {request}, {lane}visit {visit}, {block}")
        }
        _ => block.clone(),
    };
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    let _ = writeln!(out, "  {snapshot}: {}: {place}: {cause}{detail}", Code::SnapshotChanged);
    let by = part.as_ref().map(|of| format!("{} ({}:{}:{})", of.path, of.file, of.line, of.column));
    let _ = writeln!(out, "    by {}", by.as_deref().unwrap_or("nothing in the workflow or the scenario"));
    let old = lines.old.iter().map(|line| ('-', line));
    for (mark, line) in old.chain(lines.new.iter().map(|line| ('+', line))) {
        let _ = writeln!(out, "    {mark} {line}");
    }
    if changed.role.is_some() {
        let Change { lost_bytes, lost_tokens, share_before, share_after, .. } = changed;
        let _ = writeln!(
            out,
            "    prefix lost: {lost_bytes} bytes, about {lost_tokens} tokens; shared within the run: {:.1} % before, {:.1} % now",
            share_before * 100.0,
            share_after * 100.0,
        );
    }
}

const RED: &str = "31";

fn mark(verdict: Verdict, style: Style) -> String {
    let colour = match verdict {
        Verdict::Passed => "32",
        Verdict::Pending => "33",
        Verdict::Failed | Verdict::Invalid => RED,
    };
    in_column(&word(&verdict), colour, style)
}

fn in_column(word: &str, colour: &str, style: Style) -> String {
    style.paint(colour, &format!("{word:<7}")).into_owned()
}
