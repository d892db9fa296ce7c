//! What is taken of a file that one's own rondo did not write. Objects, steps and their order are proven by digests. Rows,
//! notes, journals, open lanes, lists and batches are claims: they are computed from the steps, or left out.

use rondo_core::conversation::rebuild::{self, Beginning};
use rondo_core::local::{Error, retrace};
use rondo_core::thread::{ImportedPast, Origin};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Outcome;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::Note;
use rondo_protocol::workflow::read::is_workflow_name;
use rondo_store::staging::Staging;
use rondo_store::{Read as _, Row, Status};

use crate::failure::Failure;

/// How far the clocks of two machines may differ: an id says when its thread began.
const CLOCKS_DIFFER_MS: u64 = 5 * 60 * 1000;

/// Reduces every thread of a file to what its steps prove, and removes all batches.
pub(super) fn claim(staging: &Staging, threads: &[ThreadId], now_ms: u64) -> Result<(), Failure> {
    for thread in threads {
        let row = claimed(staging, thread, now_ms)?;
        staging.remove_state(thread)?;
        staging.replace_row(thread, &row)?;
    }
    Ok(staging.remove_batches()?)
}

/// The failure of a file that claims something.
pub(super) fn refused(what: &str) -> Failure {
    let failure = Failure::new(Code::ImportUnreadable, format!("{what}; nothing was imported"));
    failure.with_hint("no store of yours wrote this export, so that only what its steps prove is believed")
}

/// The row of a thread as its steps prove it. Replaces its notes.
fn claimed(staging: &Staging, thread: &ThreadId, now_ms: u64) -> Result<Row, Failure> {
    let store = staging.store();
    let claim = |what: &str| refused(&format!("thread {thread}: {what}"));
    if thread.unix_ms() > now_ms.saturating_add(CLOCKS_DIFFER_MS) {
        return Err(claim("by its id it begins in the future"));
    }
    let row = store.row(thread)?.ok_or_else(|| claim("it has no row"))?;
    let Beginning { workflow, start } = rebuild::beginning(store, &row)?;
    if !is_workflow_name(&workflow.name) {
        return Err(claim("no file gives a workflow such a name"));
    }
    if start.workflow != row.workflow {
        return Err(claim("it did not start with the workflow that its row names"));
    }
    let mut keep = |seq: u64, note: &Note| staging.replace_note(thread, seq, note).map_err(Error::Store);
    let ending = retrace(store, thread, &row, now_ms, &mut keep).map_err(|error| match error {
        Error::Fault(fault) => claim(&fault.message),
        error => error.into(),
    })?;
    let status = match ending.as_ref().map(|ending| ending.outcome) {
        None => Status::Stopped,
        Some(Outcome::Done) => Status::Done,
        Some(Outcome::Failed) => Status::Failed,
        Some(Outcome::Cancelled) => Status::Cancelled,
    };
    let step = store.record_at(thread, row.seq)?.map(|(stored, _)| stored.digest);
    let imported = Some(ImportedPast { thread: thread.clone(), seq: row.seq, step });
    let started_at_ms = thread.unix_ms();
    let origin = Origin { name: workflow.name, started_at_ms, ending, imported, ..Origin::default() };
    Ok(Row {
        version: row.seq.saturating_add(1),
        status,
        label: None,
        tags: Vec::new(),
        raised: Vec::new(),
        checkpoint: Vec::new(),
        origin: origin.to_bytes().map_err(|error| claim(&error.to_string()))?,
        ..row
    })
}
