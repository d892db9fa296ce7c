//! Backups: copies of a store that are proven whole before they get their name.

use std::path::Path;

use rondo_core::exit::Exit;
#[cfg(doc)]
use rondo_protocol::diagnostic::Code;
use rondo_store as store;
use rondo_store::check::{Examination, Progress};
use rondo_store::{Damage, RocksReader, backup, holder};

use super::fsck;
use super::new_folder::{NewFolder, require_store};
use crate::failure::Failure;

/// How often a copy is made anew if a writer replaced files while they were read.
const ATTEMPTS: u32 = 3;

/// Copies the store in `folder`, also while a process writes it, to the new folder `to`, and examines the copy. Returns
/// what was found in it, which is without faults. `to` gets its name when the copy is whole and on the device.
///
/// # Errors
/// [`Code::WriteFailed`] if `to` exists and is not an empty folder, or cannot be written; [`Code::StoreUnusable`] if
/// there is no store or nothing in it; [`Code::StoreDamaged`]; any other error of the store.
pub fn backup(folder: &Path, to: &Path, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Examination, Failure> {
    require_store(folder)?;
    let part = NewFolder::begin(folder, to)?;
    let copy = part.path();
    let mut attempts = 1..=ATTEMPTS;
    let examination = loop {
        let copied = whole_copy(folder, &copy, progress);
        attempts.next();
        match copied {
            // A reader beside a writer does not see tables that the writer replaced meanwhile.
            Err(Failure::Fault(fault))
                if fault.exit == Exit::Damaged && !attempts.is_empty() && holder(folder)?.is_some() =>
            {
                part.clear()?;
            }
            copied => break copied?,
        }
    };
    part.finish()?;
    Ok(examination)
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
    let examination = fsck(copy, None, &mut |at| progress(Progress { done: of + at.done, of: of + at.of }))?;
    let Some(fault) = examination.faults.first() else { return Ok(examination) };
    let what = format!("the store has faults, so there is no backup of it: {}", fault.what);
    Err(store::Error::from(Damage { code: fault.code, ..Damage::new(what) }).into())
}
