//! `rondo test --review`: shows each differing snapshot, old and new, and asks for a decision.
//!
//! Decisions are read as lines, so that a pipe can provide them; at the end of input the rest stays unchanged.

use std::io::{BufRead, stdin};

use rondo::author::scenario::{Report, ScenarioResult, SnapshotResult, SnapshotState, Suite, Verdict};
use rondo::tell::printable;
use similar::TextDiff;

use super::test::snapshots;
use super::{Failure, Output};

const MAX_LINES: usize = 60;

enum Word {
    Accept,
    Reject,
    Skip,
}

/// Asks about each differing snapshot of `runs`; accepted ones are passed in their report.
pub fn review<'r>(runs: impl Iterator<Item = (&'r Suite, &'r mut Report)>, output: &mut Output) -> Result<(), Failure> {
    let mut words = stdin().lock().lines().map_while(Result::ok);
    let mut counts = [0_usize; 3];
    for (suite, report) in runs {
        for tested in &mut report.scenarios {
            of_scenario(suite, &report.workflow, tested, &mut words, &mut counts, output)?;
        }
    }
    let [accepted, rejected, skipped] = counts;
    output.text(&format!("{accepted} accepted, {rejected} rejected, {skipped} skipped\n\n"))
}

fn of_scenario(
    suite: &Suite,
    workflow: &str,
    tested: &mut ScenarioResult,
    words: &mut impl Iterator<Item = String>,
    counts: &mut [usize; 3],
    output: &mut Output,
) -> Result<(), Failure> {
    let name = tested.name.clone();
    if !tested.failures.is_empty() {
        // Unmet expectations cannot be accepted; the report lists them.
        return output.text(&format!("\n{workflow} · {name}: not as expected, so nothing of it can be accepted\n"));
    }
    let is_other = |taken: &SnapshotResult| taken.state != SnapshotState::Same;
    for taken in tested.snapshots.iter_mut().filter(|taken| is_other(taken)) {
        output.text(&format!("\n{workflow} · {name} · {}\n", taken.file))?;
        if let Some(change) = tested.changes.iter().find(|change| change.snapshot == taken.name) {
            let part = change.part.as_ref().map(|part| format!(", by {}", part.path)).unwrap_or_default();
            output.text(&format!("{}: {}{part}\n", change.block, change.cause))?;
        }
        output.text(&difference(taken))?;
        let word = ask(words, output)?;
        let [accepted, rejected, skipped] = counts;
        *match word {
            Word::Accept => snapshots::take(suite, taken).map(|()| accepted),
            Word::Reject => snapshots::reject(suite, taken).map(|()| rejected),
            Word::Skip => snapshots::leave(suite, taken).map(|()| skipped),
        }? += 1;
    }
    let is_accepted = tested.snapshots.iter().all(|taken| taken.state == SnapshotState::Same);
    let is_mended = tested.faults.iter().all(|fault| snapshots::is_of_snapshot(fault.code));
    if is_accepted && is_mended && tested.verdict != Verdict::Passed {
        // The course is accepted together with the others, so it stays correct.
        snapshots::pass(suite, tested)?;
    }
    Ok(())
}

fn ask(words: &mut impl Iterator<Item = String>, output: &mut Output) -> Result<Word, Failure> {
    loop {
        output.text("a accept, r reject, s skip: ")?;
        let Some(word) = words.next() else { return output.text("\n").map(|()| Word::Skip) };
        match word.trim().to_lowercase().as_str() {
            "a" | "accept" => return Ok(Word::Accept),
            "r" | "reject" => return Ok(Word::Reject),
            "s" | "skip" => return Ok(Word::Skip),
            _ => {}
        }
    }
}

fn difference(taken: &SnapshotResult) -> String {
    let old = taken.accepted.as_deref().unwrap_or_default();
    let diff = TextDiff::from_lines(old, taken.text.as_str());
    let text = diff.unified_diff().context_radius(3).header("accepted", "now").to_string();
    let all = text.lines().count();
    let mut shown: Vec<String> = text.lines().take(MAX_LINES).map(|line| printable(line).into_owned()).collect();
    if all > MAX_LINES {
        shown.push(format!("... {} lines more", all - MAX_LINES));
    }
    shown.push(String::new());
    shown.join("\n")
}
