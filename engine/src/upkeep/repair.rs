//! Repairs: a whole store beside a damaged one, made from what is left of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rondo_core::thread::{ImportedPast, Origin, Stop};
use rondo_protocol::call::FaultClass;
use rondo_protocol::canonical;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Digest;
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::{Policy, Workflow};
use rondo_store as store;
use rondo_store::check::{Examination, Progress};
use rondo_store::repair::{Loss, Opaque, Repaired, repair as repair_store};
use rondo_store::{Row, holder};

use super::fsck;
use super::new_folder::{NewFolder, require_store};
use crate::failure::Failure;
use crate::host::batch::Batch;

/// What was made of a damaged store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// What was found in the damaged store.
    pub before: Examination,
    pub kept: Repaired,
}

/// Where a repaired store is put if nothing else is said: beside the damaged one.
pub fn beside(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".repaired");
    folder.with_file_name(name)
}

/// Makes a whole store in the new folder `to` from what is left of the damaged one in `folder`, which is not changed.
/// `to` gets its name when the new store has been examined and is on the device. Everything that is not kept is passed
/// to `lost`. Returns `None`, and makes nothing, if there is no damage.
///
/// # Errors
/// [`Code::WriteFailed`] if `to` exists and is not an empty folder, or cannot be written; [`Code::StoreUnusable`] if
/// there is no store; [`Code::StoreBusy`] if a process holds it; [`Code::StoreDamaged`] if nothing can be read; any other
/// error of the store.
pub fn repair(
    folder: &Path,
    to: &Path,
    progress: &mut (dyn FnMut(Progress) + Send),
    lost: &mut dyn FnMut(Loss),
) -> Result<Option<Repair>, Failure> {
    require_store(folder)?;
    if let Some(pid) = holder(folder)? {
        return Err(store::Error::Busy { pid }.into());
    }
    // A third of the work is the examination, a third the copying, and a third the examination of the copy.
    let mut entries = 0;
    let before = fsck(folder, None, &mut |at| {
        entries = at.of;
        progress(Progress { of: at.of.saturating_mul(3), ..at });
    })?;
    if before.faults.is_empty() {
        return Ok(None);
    }
    let mut third = |number: u64, at: Progress| {
        let done = entries.saturating_mul(number).saturating_add(at.done);
        progress(Progress { done, of: entries.saturating_mul(3) });
    };
    let part = NewFolder::begin(folder, to)?;
    let opaque = Opaque { stopped: &stopped, rebuilt: &rebuilt, fits: &fits, batch_lines: &batch_lines };
    let kept = repair_store(folder, &part.path(), &opaque, &mut |at| third(1, at), lost)?;
    if let Some(fault) = fsck(&part.path(), None, &mut |at| third(2, at))?.faults.first() {
        return Err(Failure::internal(format!("what was kept is not whole, so nothing was written: {}", fault.what)));
    }
    part.finish()?;
    Ok(Some(Repair { before, kept }))
}

/// The origin of a thread that continues after step `last`, because the later ones are lost. Of one that cannot be read
/// it is not known whether its past was imported, so somebody has to agree to it.
fn stopped(thread: &ThreadId, row: &Row, last: u64) -> Result<Vec<u8>, store::Error> {
    let origin = Origin::from_bytes(&row.origin).unwrap_or_else(|_| unknown(thread, row.head));
    let message = format!("a repair of the store kept its steps up to {last} of {}", row.seq);
    stopped_by_repair(Origin { ending: None, forms: Vec::new(), ..origin }, message)
}

fn stopped_by_repair(origin: Origin, message: String) -> Result<Vec<u8>, store::Error> {
    let stop = Stop { code: Code::StoreDamaged.to_string(), class: FaultClass::Store, message, hint: None };
    let written = Origin { stop: Some(stop), ..origin }.to_bytes();
    written.map_err(|error| store::Error::Malformed { what: error.to_string() })
}

/// The origin of a thread whose row is lost: it can be resumed, and comes to its end without a call if it had ended.
/// Whether its past was imported is not known, so somebody has to agree to it.
fn rebuilt(thread: &ThreadId, workflow: &[u8], head: Option<Digest>) -> Result<Vec<u8>, store::Error> {
    let name = canonical::from_slice::<Workflow>(workflow).map_or_else(|_| String::new(), |workflow| workflow.name);
    let message = "a repair of the store made its row again from its steps".to_owned();
    let origin = Origin { name, ..unknown(thread, head) };
    stopped_by_repair(origin, message)
}

fn unknown(thread: &ThreadId, head: Option<Digest>) -> Origin {
    let imported = Some(ImportedPast { thread: thread.clone(), seq: 0, step: head });
    Origin { imported, started_at_ms: thread.unix_ms(), ..Origin::default() }
}

/// Whether a policy names the roles of a workflow.
fn fits(workflow: &[u8], policy: &[u8]) -> bool {
    let workflow = canonical::from_slice::<Workflow>(workflow).ok();
    let policy = canonical::from_slice::<Policy>(policy).ok();
    workflow.zip(policy).is_some_and(|(workflow, policy)| {
        let roles: BTreeSet<&str> = workflow.roles.iter().map(|(name, _)| name.as_str()).collect();
        roles == policy.roles.keys().map(String::as_str).collect()
    })
}

fn batch_lines(record: &[u8]) -> Option<u32> {
    canonical::from_slice::<Batch>(record).ok().map(|batch| batch.lines)
}
