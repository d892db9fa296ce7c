//! The lines of a thread's records.

use std::ops::RangeInclusive;

use rondo_core::conversation::Bindings;
use rondo_core::conversation::rebuild;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::Step;
use rondo_store::{Read, Row, StoredRecord};

use super::lines::{RecordLine, record_line};
use crate::failure::Failure;
use crate::host::find_thread::child_threads;

/// Passes the wanted steps of a thread within `seqs` to `each` in order until it returns `false`.
pub fn records(
    store: &dyn Read,
    (thread, row): (&ThreadId, &Row),
    seqs: RangeInclusive<u64>,
    wants: &dyn Fn(&StoredRecord) -> bool,
    each: &mut dyn FnMut(RecordLine) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    if seqs.is_empty() {
        return Ok(());
    }
    let beginning = rebuild::beginning(store, row)?;
    // A definition of another version may have no body readers here; its steps can still be shown.
    let bindings = Bindings::new(row.start, &beginning.workflow).ok();
    let body = |step: &Step| {
        let binding = bindings.as_ref().and_then(|bindings| bindings.of(step.start, store).ok());
        binding.map(|binding| binding.body(&step.role, &step.answer)).unwrap_or_default()
    };
    let children = child_threads(store, thread, row, &beginning.workflow)?;
    let mut outcome = Ok(true);
    store.scan(thread, seqs, &mut |stored, note| {
        if !wants(&stored) {
            return true;
        }
        let told = record_line(store, stored, note, &body).map(|mut told| {
            if let RecordLine::Step(step) = &mut told {
                step.child = children.get(&(step.role.clone(), step.lane.clone(), step.visit)).cloned();
            }
            told
        });
        outcome = told.and_then(&mut *each);
        matches!(outcome, Ok(true))
    })?;
    outcome.map(|_| ())
}
