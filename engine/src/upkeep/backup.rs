//! Backups: copies of a store that are proven whole before they get their name.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rondo_protocol::diagnostic::Code;

use super::fsck;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::store::check::{Examination, Progress};
use crate::store::folder::{self, FolderState};
use crate::store::{self, Damage, RocksReader, backup, holder, is_unwritten};

/// How often a copy is made anew if a writer replaced files while they were read.
const ATTEMPTS: u32 = 3;

/// Copies the store in `folder`, also while a process writes it, to the new folder `to`, and examines the copy. Returns
/// what was found in it, which is without faults. `to` gets its name when the copy is whole and on the device.
///
/// # Errors
/// [`Code::WriteFailed`] if `to` exists and is not an empty folder, or cannot be written; [`Code::StoreUnusable`] if
/// there is no store or nothing in it; [`Code::StoreDamaged`]; any other error of the store.
pub fn backup(folder: &Path, to: &Path, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Examination, Failure> {
    if folder::look(folder)? == FolderState::Nothing || is_unwritten(folder)? {
        let message = format!("there is no store in {}", folder.display());
        return Err(Failure::new(Code::StoreUnusable, message).with_hint("--store DIR names another"));
    }
    let failed = |error: std::io::Error| Failure::new(Code::WriteFailed, format!("{}: {error}", to.display()));
    check_target(folder, to)?;
    let beside = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = tempfile::Builder::new().prefix(".rondo-backup-").tempdir_in(beside).map_err(failed)?;
    let mut attempts = 1..=ATTEMPTS;
    let examination = loop {
        let copy = part.path().join("store");
        let copied = whole_copy(folder, &copy, progress);
        attempts.next();
        match copied {
            // A reader beside a writer does not see tables that the writer replaced meanwhile.
            Err(Failure::Fault(fault))
                if fault.exit == Exit::Damaged && !attempts.is_empty() && holder(folder)?.is_some() =>
            {
                fs::remove_dir_all(&copy).map_err(failed)?;
            }
            copied => break copied?,
        }
    };
    fs::rename(part.path().join("store"), to).and_then(|()| fs::File::open(beside)?.sync_all()).map_err(failed)?;
    Ok(examination)
}

/// Refuses a target that exists, or that would lie in the store.
fn check_target(folder: &Path, to: &Path) -> Result<(), Failure> {
    let refused = |why: &str| {
        let message = format!("{} {why}; nothing was written", to.display());
        Err(Failure::new(Code::WriteFailed, message).with_exit(Exit::Invalid).with_hint("name a folder that is new"))
    };
    let parent = to.parent().and_then(|parent| parent.canonicalize().ok());
    if parent.zip(folder.canonicalize().ok()).is_some_and(|(parent, folder)| parent.starts_with(folder)) {
        return refused("lies in the store itself");
    }
    match fs::read_dir(to).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => refused("is not empty"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) => refused("is no folder"),
    }
}

/// A copy in which an examination finds no fault.
fn whole_copy(folder: &Path, copy: &Path, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Examination, Failure> {
    let (reader, _) = RocksReader::open(folder)?;
    let mut copied = Progress { done: 0, of: 0 };
    // Half of the work is copying, half is the examination.
    backup::copy(folder, &reader, copy, &mut |at| {
        copied = at;
        progress(Progress { of: at.of.saturating_mul(2), ..at });
    })?;
    drop(reader);
    let of = copied.of;
    let examination = fsck(copy, &mut |at| progress(Progress { done: of + at.done, of: of + at.of }))?;
    match examination.faults.first() {
        None => Ok(examination),
        Some(fault) => {
            let what = format!("the store has faults, so there is no backup of it: {}", fault.what);
            let failure = Failure::from(store::Error::from(Damage { code: fault.code, ..Damage::new(what) }));
            Err(failure.with_hint("`rondo fsck` names them all"))
        }
    }
}
