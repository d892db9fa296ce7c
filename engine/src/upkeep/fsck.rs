//! The examination of a store with the parts that only the host can read.

use std::collections::BTreeSet;
use std::path::Path;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::BatchId;

use crate::failure::Failure;
use crate::host::batch::{Batch, Line};
use crate::host::store_access::view_store_again;
use crate::store::check::{Examination, Fault, Progress, check};
use crate::store::folder::{self, FolderState};
use crate::store::{self, Damage, Read, is_unwritten};

/// How many lines of a batch are read at a time.
const LINES: usize = 1000;

/// Examines the store in `folder`, without a lock and without changing anything. A store to which nothing has been
/// written is whole.
///
/// # Errors
/// [`Code::StoreUnusable`] if there is no store, and any error of the store but damage.
pub fn fsck(folder: &Path, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Examination, Failure> {
    if folder::look(folder)? == FolderState::Nothing {
        let message = format!("there is no store in {}", folder.display());
        return Err(Failure::new(Code::StoreUnusable, message).with_hint("--store DIR examines another"));
    }
    if is_unwritten(folder)? {
        return Ok(Examination::default());
    }
    let mut examination = check(folder, progress)?;
    // Without a readable store the reason is among the faults already.
    if let Ok(Some(view)) = view_store_again(folder) {
        for batch in view.store.batches(None, usize::MAX).unwrap_or_default() {
            if let Err(failure) = check_batch(view.store.as_ref(), &batch) {
                let fault = fault(&failure);
                if examination.faults.iter().all(|known| known.what != fault.what) {
                    examination.faults.push(fault);
                }
            }
        }
    }
    Ok(examination)
}

/// Reads a batch and each of its lines.
fn check_batch(store: &dyn Read, id: &BatchId) -> Result<(), Failure> {
    let Some(batch) = Batch::read(store, id)? else { return Ok(()) };
    let mut next = 1;
    while next <= batch.lines {
        let page = Line::page(store, id, next, LINES)?;
        for number in page.iter().map(|(number, _)| *number) {
            if number != next {
                break;
            }
            next += 1;
        }
        if page.is_empty() || page.last().is_none_or(|(number, _)| number.saturating_add(1) != next) {
            let what = format!("line {next} of batch {id}, which has {}, is missing", batch.lines);
            return Err(store::Error::from(Damage::new(what)).into());
        }
    }
    Ok(())
}

fn fault(failure: &Failure) -> Fault {
    Fault { code: Code::StoreDamaged, file: None, object: None, threads: BTreeSet::new(), what: failure.to_string() }
}
