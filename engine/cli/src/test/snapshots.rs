//! Writes snapshots: atomically, and only what the mode allows.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rondo::protocol::diagnostic::Code;

use rondo::author::scenario::{Report, ScenarioResult, SnapshotResult, SnapshotState, Suite, Verdict};
use rondo::settings::folder_of;

use crate::{Failure, output_file};

/// A marker near the beginning of every `JUnit` report.
const REPORT_MARK: &[u8] = b"<testsuite";
/// How many bytes of a file are searched for it.
const REPORT_HEAD_BYTES: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pend,
    Accept,
    Check,
}

/// Writes what `mode` allows of a suite's results; with `Mode::Accept` the accepted ones are passed in `report`.
pub fn write(suite: &Suite, report: &mut Report, mode: Mode) -> Result<(), Failure> {
    match mode {
        Mode::Check => return Ok(()),
        Mode::Pend => report.scenarios.iter().try_for_each(|tested| pend(suite, tested))?,
        Mode::Accept => {
            report.scenarios.iter_mut().try_for_each(|tested| accept(suite, tested))?;
            report.stale.drain(..).try_for_each(|stale| remove(&accepted_file(suite, &stale.name)))?;
        }
    }
    remove_left_over(suite, report)
}

/// Removes the snapshots that were never looked at and that nothing writes any more.
pub fn remove_left_over(suite: &Suite, report: &mut Report) -> Result<(), Failure> {
    report.left_over.drain(..).try_for_each(|name| remove(&pending_file(suite, &name)))
}

fn pend(suite: &Suite, tested: &ScenarioResult) -> Result<(), Failure> {
    let differs = tested.snapshots.iter().any(|taken| taken.state != SnapshotState::Same);
    for (at, taken) in tested.snapshots.iter().enumerate() {
        // The course is written with the others, so that accepting all of them keeps it correct.
        let goes_along = at == 0 && differs && taken.accepted.as_deref() != Some(taken.text.as_str());
        if taken.state != SnapshotState::Same || goes_along {
            replace(&pending_file(suite, &taken.name), &taken.text)?;
        } else if suite.pending.contains(&taken.name) {
            remove(&pending_file(suite, &taken.name))?;
        }
    }
    Ok(())
}

fn accept(suite: &Suite, tested: &mut ScenarioResult) -> Result<(), Failure> {
    let is_only_of_snapshots = tested.faults.iter().all(|fault| is_of_snapshot(fault.code));
    if !tested.failures.is_empty() || tested.snapshots.is_empty() || !is_only_of_snapshots {
        return Ok(());
    }
    pass(suite, tested)
}

/// Accepts all snapshots of a scenario, which has passed then.
pub fn pass(suite: &Suite, tested: &mut ScenarioResult) -> Result<(), Failure> {
    tested.snapshots.iter_mut().try_for_each(|taken| take(suite, taken))?;
    tested.faults.clear();
    tested.changes.clear();
    tested.verdict = Verdict::Passed;
    Ok(())
}

/// Whether a fault is in an accepted snapshot, so that accepting a new one repairs it.
pub fn is_of_snapshot(code: Code) -> bool {
    matches!(code, Code::SnapshotSyntax | Code::SnapshotEdited | Code::SnapshotFormat)
}

pub fn take(suite: &Suite, taken: &mut SnapshotResult) -> Result<(), Failure> {
    if taken.accepted.as_deref() != Some(taken.text.as_str()) {
        replace(&accepted_file(suite, &taken.name), &taken.text)?;
        taken.accepted = Some(taken.text.clone());
    }
    taken.state = SnapshotState::Same;
    remove(&pending_file(suite, &taken.name))
}

pub fn leave(suite: &Suite, taken: &SnapshotResult) -> Result<(), Failure> {
    replace(&pending_file(suite, &taken.name), &taken.text)
}

pub fn reject(suite: &Suite, taken: &SnapshotResult) -> Result<(), Failure> {
    remove(&pending_file(suite, &taken.name))
}

fn accepted_file(suite: &Suite, name: &str) -> std::path::PathBuf {
    suite.snapshots_folder().join(name)
}

fn pending_file(suite: &Suite, name: &str) -> std::path::PathBuf {
    suite.snapshots_folder().join(format!("{name}.new"))
}

pub fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = output_file::failed(file);
    let folder = folder_of(file);
    fs::create_dir_all(folder).map_err(failed)?;
    // The new file has a name that nobody else has: no link leads elsewhere, and it is removed if it stays partial.
    let readable = fs::Permissions::from_mode(0o666);
    let mut new = tempfile::Builder::new().permissions(readable).tempfile_in(folder).map_err(failed)?;
    new.write_all(text.as_bytes()).map_err(failed)?;
    new.persist(file).map(drop).map_err(|error| failed(error.error))
}

/// Writes a report: directly to a pipe or a device, atomically to a file. An existing file that is not such a report
/// is not replaced, because a typing error could name a workflow.
pub fn report(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = output_file::failed(file);
    match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return replace(file, text),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.is_file() => {}
        // `/dev/stdout` is a link, and may be one to a file.
        Ok(_) if file.is_symlink() && !file.starts_with("/dev") => {
            let message = format!("{} is a link; nothing was written", file.display());
            return Err(output_file::refused(message).with_hint("name the file itself"));
        }
        Ok(_) => {
            let mut begin = Vec::new();
            let read = fs::File::open(file).and_then(|file| file.take(REPORT_HEAD_BYTES).read_to_end(&mut begin));
            read.map_err(failed)?;
            let is_report = begin.is_empty() || begin.windows(REPORT_MARK.len()).any(|part| part == REPORT_MARK);
            if !is_report {
                let message = format!("{} is there and is no JUnit report; nothing was written", file.display());
                return Err(output_file::refused(message).with_hint("name another file"));
            }
        }
    }
    let opened = fs::OpenOptions::new().write(true).truncate(true).open(file);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)
}

fn remove(file: &Path) -> Result<(), Failure> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(output_file::failed(file)(error)),
        _ => Ok(()),
    }
}
