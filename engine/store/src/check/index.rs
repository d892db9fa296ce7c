//! The index of a store: that it names every step, and nothing else.

use rondo_protocol::id::ThreadId;

use super::super::error::Damage;
use super::super::keys::{self, Family};
use super::super::rocks::Remnants;
use super::super::tables::Tables as _;
use super::super::{Error, Read as _, StoredRecord, VisitKey, codec};
use super::entries::{self, Counted};
use super::faults::Faults;
use super::threads::Known;

/// Checks that the index names a step by its digest and by its role's visit.
pub(super) fn check_step<T: Remnants>(
    store: &Counted<'_, T>,
    thread: &ThreadId,
    (stored, found_by): (&StoredRecord, Option<&VisitKey>),
    faults: &mut Faults,
) -> Result<(), Error> {
    let (seq, digest) = (stored.seq, stored.digest);
    let place = keys::place(digest, thread, seq);
    let visit = found_by.map(|found_by| keys::visit(thread, found_by));
    for key in [Some(place), visit].into_iter().flatten() {
        let Some(value) = faults.take(store.get(Family::Index, &key), &[thread])? else { continue };
        let named = match value {
            Some(value) if value.is_empty() => Some(seq),
            Some(value) => faults.take(codec::read_seq(&value), &[thread])?,
            None => None,
        };
        if named != Some(seq) {
            let what = format!("the index does not name step {seq} of thread {thread}");
            let place = faults.add(Damage::new(what).of_thread(thread).of_object(digest), None);
            faults.touch(place, thread, seq);
        }
    }
    Ok(())
}

/// Reads the whole index. Every step was looked up in it, so that it can only hold too much.
pub(super) fn check<T: Remnants>(store: &Counted<'_, T>, known: &Known, faults: &mut Faults) -> Result<(), Error> {
    let mut entries = 0;
    entries::read(store, Family::Index, faults, &mut |key, value, faults| {
        entries += 1;
        super::threads::check_entry(store, (Family::Index, key, value), faults)
    })?;
    if entries <= known.sums.steps + known.sums.visits {
        return Ok(());
    }
    entries::read(store, Family::Index, faults, &mut |key, value, faults| {
        let Some(thread) = keys::thread_of(key) else { return Ok(()) };
        let seq = if value.is_empty() { keys::seq(key) } else { Some(codec::read_seq(value)?) };
        let Some(seq) = seq else { return Ok(()) };
        let Some(stored) = faults.take(store.own_record(&thread, seq), &[&thread])? else { return Ok(()) };
        let is_right = stored.is_some_and(|(stored, _)| {
            let found_by = VisitKey::of(&stored.record, stored.visit).map(|found_by| keys::visit(&thread, &found_by));
            *key == *keys::place(stored.digest, &thread, seq) || found_by.is_some_and(|found_by| *key == *found_by)
        });
        if is_right {
            return Ok(());
        }
        let what = format!("the index names step {seq} of thread {thread} by what it is not");
        Err(Damage::new(what).of_thread(&thread).into())
    })
}
