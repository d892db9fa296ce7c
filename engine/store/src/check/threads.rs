//! The threads of a store: that each has all its steps in a whole chain, and that what they name is there.

use rondo_protocol::id::ThreadId;

use super::super::error::Damage;
use super::super::keys::{self, Family};
use super::super::rocks::Remnants;
use super::super::{Base, Error, LaneRow, Read as _, Row, StoredRecord, VisitKey, codec, references};
use super::Sums;
use super::checkpoint::Checkpoints;
use super::entries::{self, Counted};
use super::faults::Faults;
use super::index;
use super::objects::Objects;

/// What is known of all threads.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) sums: Sums,
    /// Each fork with its base, oldest first.
    pub(super) forks: Vec<(ThreadId, Base)>,
}

/// Reads every row, and every step of its thread.
pub(super) fn check<T: Remnants>(
    store: &Counted<'_, T>,
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
    check_steps_have_rows(store, faults)?;
    Ok(known)
}

fn check_row<T: Remnants>(
    store: &Counted<'_, T>,
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

/// The steps of one thread.
struct Steps<'a, 'c, T> {
    store: &'a Counted<'c, T>,
    thread: &'a ThreadId,
    row: &'a Row,
    objects: &'a mut Objects,
    sums: &'a mut Sums,
}

impl<T: Remnants> Steps<'_, '_, T> {
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
        index::check_step(self.store, self.thread, (stored, found_by.as_ref()), faults)
    }
}

/// Checks an entry that is neither a row, a step nor an object: its form, and that its thread has what it belongs to.
///
/// # Errors
/// [`Error::Damaged`], or any other.
pub(super) fn check_entry<T: Remnants>(
    store: &Counted<'_, T>,
    (family, key, value): (Family, &[u8], &[u8]),
    faults: &mut Faults,
) -> Result<(), Error> {
    let entry = codec::check_entry(family, key, value)?;
    let Some(thread) = keys::thread_of(key) else { return Ok(()) };
    let Some(row) = faults.take(store.row(&thread), &[&thread])? else { return Ok(()) };
    let Some(row) = row else { return Err(no_row(&thread).into()) };
    let wrong = |what: String| Err(Damage::new(what).of_thread(&thread).into());
    match entry {
        codec::CheckedEntry::Step(seq) if !(row.shared() + 1..=row.seq).contains(&seq) => {
            wrong(format!("the {} of thread {thread} name step {seq}, which is not its own", family.name()))
        }
        codec::CheckedEntry::Opened(seq) if seq > row.seq => {
            wrong(format!("an open lane of thread {thread} was opened by step {seq}, which is missing"))
        }
        codec::CheckedEntry::Lane(LaneRow { frontier, opened_by, .. }) => {
            if opened_by > row.seq {
                return wrong(format!(
                    "an open lane of thread {thread} was opened by step {opened_by}, which is missing"
                ));
            }
            match frontier {
                Some(frontier) if store.place(&thread, frontier)?.is_none() => {
                    wrong(format!("step {frontier}, the last of an open lane of thread {thread}, is missing"))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn no_row(thread: &ThreadId) -> Damage {
    Damage::new(format!("the row of thread {thread} is missing")).of_thread(thread)
}

/// Looks for threads whose row has vanished.
fn check_steps_have_rows<T: Remnants>(store: &Counted<'_, T>, faults: &mut Faults) -> Result<(), Error> {
    entries::threads_with_steps(store, faults, &mut |thread, faults| {
        if let Some(None) = faults.take(store.row(thread), &[thread])? {
            faults.add(no_row(thread), None);
        }
        Ok(())
    })
}

/// Compares the steps of all threads with the number that was ever acknowledged, which counts deleted threads too.
pub(super) fn check_sum<T: Remnants>(store: &Counted<'_, T>, known: &Known, faults: &mut Faults) -> Result<(), Error> {
    let ledger = faults.take(store.ledger(), &[])?;
    if let Some(ledger) = ledger.filter(|ledger| ledger.steps < known.sums.acknowledged) {
        let what =
            format!("the threads have {} steps, but only {} were ever written", known.sums.acknowledged, ledger.steps);
        faults.add(Damage::new(what), None);
    }
    Ok(())
}
