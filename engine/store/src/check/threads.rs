//! The threads of a store: that each has all its steps in a whole chain, that what they name is there, and that the
//! index names every step and nothing else.

use rondo_protocol::id::ThreadId;

use super::super::codec::{self, CheckedEntry};
use super::super::error::Damage;
use super::super::keys::{self, Family};
use super::super::rocks::Remnants;
use super::super::tables::Tables as _;
use super::super::{Base, Error, LaneRow, Read as _, Row, StoredRecord, VisitKey, references};
use super::Sums;
use super::checkpoint::Checkpoints;
use super::entries::{self, Counted};
use super::faults::Faults;
use super::objects::Objects;

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) sums: Sums,
    /// Each fork with its base, oldest first.
    pub(super) forks: Vec<(ThreadId, Base)>,
}

/// Reads every row, and every step of its thread.
pub(super) fn check(
    store: &Counted<'_>,
    objects: &mut Objects,
    checkpoints: &mut Checkpoints<'_>,
    faults: &mut Faults,
) -> Result<Known, Error> {
    let sums = checkpoints.from.as_ref().map_or_else(Sums::default, |from| from.sums);
    let mut known = Known { sums: Sums { objects: objects.whole(), ..sums }, ..Known::default() };
    let begin = checkpoints.begin_of(Family::Threads).unwrap_or_default();
    entries::read_from(store, (Family::Threads, begin), faults, &mut |key, value, faults| {
        let Some(thread) = keys::thread_of_row(key) else {
            return check_entry(store, (Family::Threads, key, value), faults);
        };
        let row = codec::read_row(value)?;
        known.sums.threads += 1;
        known.sums.acknowledged = known.sums.acknowledged.saturating_add(row.seq.saturating_sub(row.shared()));
        known.forks.extend(row.base.clone().map(|base| (thread.clone(), base)));
        check_row(store, objects, (&thread, &row), faults)?;
        Steps { store, thread: &thread, row: &row, objects, sums: &mut known.sums }.check(faults)?;
        if checkpoints.is_due(faults) {
            checkpoints.save(Family::Threads, key, known.sums, store.read_so_far());
        }
        Ok(())
    })?;
    // Threads whose row has vanished.
    entries::threads_with_steps(store, faults, &mut |thread, faults| {
        if let Some(None) = faults.take(store.row(thread), &[thread])? {
            faults.add(no_row(thread), None);
        }
        Ok(())
    })?;
    Ok(known)
}

fn check_row(
    store: &Counted<'_>,
    objects: &mut Objects,
    (thread, row): (&ThreadId, &Row),
    faults: &mut Faults,
) -> Result<(), Error> {
    let wrong = |what: String, faults: &mut Faults| {
        let place = faults.add(Damage::new(what).of_thread(thread), None);
        faults.touch(place, thread, 0);
    };
    if let Some(base) = &row.base {
        let found = faults.take(store.row(&base.thread), &[thread, &base.thread])?;
        if found.is_some_and(|found| found.is_none_or(|found| found.seq < base.seq)) {
            let Base { thread: base, seq } = base;
            wrong(format!("step {seq} of thread {base}, where thread {thread} was forked, is missing"), faults);
        }
    }
    if let Some(parent) = &row.parent {
        let found = faults.take(store.row(&parent.thread), &[thread, &parent.thread])?;
        if found.is_some_and(|found| found.is_none()) {
            wrong(format!("thread {}, the parent of thread {thread}, is missing", parent.thread), faults);
        }
    }
    if let Some(head) = row.head {
        let found = faults.take(store.place(thread, head), &[thread])?;
        if found.is_some_and(|found| found.is_none()) {
            wrong(format!("step {head}, the head of thread {thread}, is missing"), faults);
        }
    }
    for object in references::of_row(row) {
        objects.check(store, object, (thread, 0), faults)?;
    }
    Ok(())
}

struct Steps<'a, 'c> {
    store: &'a Counted<'c>,
    thread: &'a ThreadId,
    row: &'a Row,
    objects: &'a mut Objects,
    sums: &'a mut Sums,
}

impl Steps<'_, '_> {
    /// Checks the steps that the thread does not share with its base. After a damaged one it continues with the next.
    fn check(mut self, faults: &mut Faults) -> Result<(), Error> {
        let (store, thread, last) = (self.store, self.thread, self.row.seq);
        let first = self.row.shared().saturating_add(1);
        let mut from = first;
        while from <= last {
            let (mut next, mut failed) = (from, None);
            let scanned = store.scan(thread, from..=last, &mut |stored, _| {
                next = stored.seq.saturating_add(1);
                failed = self.check_step(&stored, faults).err();
                failed.is_none()
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let Err(error) = scanned else { return Ok(()) };
            let Error::Damaged(damage) = error else { return Err(error) };
            let steps = [Family::Steps.name(), Family::Notes.name()];
            let at_step = damage.family.as_ref().is_some_and(|family| steps.contains(&&**family));
            let damaged = damage.key.as_deref().filter(|_| at_step).and_then(keys::seq).unwrap_or(next).max(next);
            let place = faults.add(*damage, Some(thread.clone()));
            faults.touch(place, thread, damaged);
            // A scan does not pass on the step before its range, which the first one follows.
            let behind = damaged.saturating_add(1);
            if behind <= last
                && let Some(Some((stored, _))) = faults.take(store.record_at(thread, behind), &[thread])?
            {
                self.check_step(&stored, faults)?;
            }
            from = behind.saturating_add(1);
        }
        if first > last {
            let mut beyond = None;
            let read = store.own_records(thread, first..=u64::MAX, &mut |stored| {
                beyond = Some(stored.seq);
                Ok(false)
            });
            faults.take(read, &[thread])?;
            if let Some(seq) = beyond {
                let what = format!("thread {thread} continues behind its last step {last}");
                let place = faults.add(Damage::new(what).of_thread(thread), None);
                faults.touch(place, thread, seq);
            }
        }
        Ok(())
    }

    /// Checks what a verified step names, and that the index names the step.
    fn check_step(&mut self, stored: &StoredRecord, faults: &mut Faults) -> Result<(), Error> {
        let at = (self.thread, stored.seq);
        self.sums.steps += 1;
        for object in references::of_record(&stored.record) {
            self.objects.check(self.store, object, at, faults)?;
        }
        let found_by = VisitKey::of(&stored.record, stored.visit);
        self.sums.visits += u64::from(found_by.is_some());
        check_index_of(self.store, self.thread, (stored, found_by.as_ref()), faults)
    }
}

/// Checks that the index names a step by its digest and by its role's visit.
fn check_index_of(
    store: &Counted<'_>,
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
pub(super) fn check_index(store: &Counted<'_>, known: &Known, faults: &mut Faults) -> Result<(), Error> {
    let mut entries = 0;
    entries::read(store, Family::Index, faults, &mut |key, value, faults| {
        entries += 1;
        check_entry(store, (Family::Index, key, value), faults)
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

/// Checks an entry that is neither a row, a step nor an object: its form, and that its thread has what it belongs to.
pub(super) fn check_entry(
    store: &Counted<'_>,
    (family, key, value): (Family, &[u8], &[u8]),
    faults: &mut Faults,
) -> Result<(), Error> {
    let entry = codec::check_entry(family, key, value)?;
    let Some(thread) = keys::thread_of(key) else { return Ok(()) };
    let Some(row) = faults.take(store.row(&thread), &[&thread])? else { return Ok(()) };
    let Some(row) = row else { return Err(no_row(&thread).into()) };
    let what = match entry {
        CheckedEntry::Step(seq) if !(row.shared() + 1..=row.seq).contains(&seq) => {
            format!("the {} of thread {thread} name step {seq}, which is not its own", family.name())
        }
        CheckedEntry::Opened(seq) | CheckedEntry::Lane(LaneRow { opened_by: seq, .. }) if seq > row.seq => {
            format!("an open lane of thread {thread} was opened by step {seq}, which is missing")
        }
        CheckedEntry::Lane(LaneRow { frontier: Some(frontier), .. }) if store.place(&thread, frontier)?.is_none() => {
            format!("step {frontier}, the last of an open lane of thread {thread}, is missing")
        }
        _ => return Ok(()),
    };
    Err(Damage::new(what).of_thread(&thread).into())
}

fn no_row(thread: &ThreadId) -> Damage {
    Damage::new(format!("the row of thread {thread} is missing")).of_thread(thread)
}

/// Compares the steps of all threads with the number that was ever acknowledged, which counts deleted threads too.
pub(super) fn check_sum(tables: &dyn Remnants, known: &Known, faults: &mut Faults) -> Result<(), Error> {
    let ledger = faults.take(tables.ledger(), &[])?;
    if let Some(ledger) = ledger.filter(|ledger| ledger.steps < known.sums.acknowledged) {
        let what =
            format!("the threads have {} steps, but only {} were ever written", known.sums.acknowledged, ledger.steps);
        faults.add(Damage::new(what), None);
    }
    Ok(())
}
