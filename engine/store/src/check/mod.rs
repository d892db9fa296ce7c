//! Examines a store: reads everything in it and names what is damaged, the threads that this touches, and what is
//! proven whole.
//!
//! Laws. Nothing is changed and no lock is taken. Damage never ends an examination; only a store that cannot be read at
//! all, or one of another version, does. The rules themselves are those of every reader: an opening
//! (`rocks/opening.rs`), the chain of a thread (`chain.rs`), digests and value forms. Here is what no single reader can
//! see: that every value has its thread, every reference its target, and every index entry its step.
//!
//! Memory grows with the objects (a digest each) and the damage, not with threads or steps.

mod checkpoint;
pub(super) mod entries;
pub(super) mod faults;
mod objects;
mod threads;

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::checkpoint::{Checkpoint, Checkpoints};
use self::entries::Counted;
pub use self::faults::Fault;
use self::faults::Faults;
use self::objects::Objects;
use super::keys::Family;
use super::rocks::{Examined, Remnants, examine};
use super::{Error, Read as _, import};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examination {
    /// Every fault, in the order found.
    pub faults: Vec<Fault>,
    /// What could not be checked and what an opening would repair, one sentence each.
    pub notices: Vec<String>,
    /// Those without a readable row included.
    pub threads: u64,
    /// The number of threads that no fault is known to touch.
    pub whole_threads: u64,
    /// The number of steps, rebinds and compactions whose digest and place in the chain are right.
    pub steps: u64,
    pub objects: u64,
    /// How many bytes of keys and values were read, before compression.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sums {
    /// Objects whose digest is right.
    objects: u64,
    /// Threads with a readable row.
    threads: u64,
    /// Steps, rebinds and compactions that were verified.
    steps: u64,
    /// Those of them that are found by a role's visit.
    visits: u64,
    /// The last sequence of each thread less that of its base, summed up.
    acknowledged: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    /// The estimated number of all entries.
    pub of: u64,
}

const REPORT_EVERY: u64 = 4096;

impl Progress {
    /// Counts an entry, and reports every few thousand.
    pub(super) fn count(&mut self, report: &mut (impl FnMut(Self) + ?Sized)) {
        self.done += 1;
        if self.done.is_multiple_of(REPORT_EVERY) {
            report(*self);
        }
    }
}

/// Examines the store in `folder`, next to its writer or alone. `progress` is called every few thousand entries.
///
/// # Errors
/// [`Error::Io`] if there is no store or its files cannot be read; [`Error::Unsafe`]; [`Error::Format`] and
/// [`Error::Version`] if another version wrote it; [`Error::Busy`] if writers keep replacing its files.
pub fn check(folder: &Path, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Examination, Error> {
    check_on(folder, &mut Checkpoints::new(None, Duration::MAX, &mut |_| {}), progress)
}

/// The same with checkpoints.
pub fn check_on(
    folder: &Path,
    checkpoints: &mut Checkpoints<'_>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Examination, Error> {
    let examination = examined(folder, checkpoints, progress)?;
    if checkpoints.from.take().is_some() && !examination.faults.is_empty() {
        return examined(folder, checkpoints, progress);
    }
    Ok(examination)
}

fn examined(
    folder: &Path,
    checkpoints: &mut Checkpoints<'_>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Examination, Error> {
    let Examined { reader, notices, damage, .. } = examine(folder)?;
    let mut faults = Faults::default();
    for (damage, touched) in damage {
        faults.add(damage, touched);
    }
    let mut examination = Examination { notices, ..Examination::default() };
    if let Some(reader) = reader {
        run(&reader.tables, &mut faults, &mut examination, (checkpoints, progress))?;
    }
    examination.faults = faults.into_list();
    Ok(examination)
}

fn run(
    tables: &dyn Remnants,
    faults: &mut Faults,
    examination: &mut Examination,
    (checkpoints, progress): (&mut Checkpoints<'_>, &mut (dyn FnMut(Progress) + Send)),
) -> Result<(), Error> {
    checkpoints.begin(tables.ledger().unwrap_or_default());
    let mut store = Counted::new(tables, progress)?;
    store.go_on(checkpoints.from.as_ref().map_or((0, 0), |from| (from.done, from.bytes)));
    if let Some(mark) = faults.take(import::mark(&store), &[])?.flatten() {
        store.pass_over(mark.threads);
        let notice = "an import has not ended; what it has written is not visible, and was not examined";
        examination.notices.push(notice.to_owned());
    }
    let mut objects = Objects::read(&store, checkpoints, faults)?;
    let known = threads::check(&store, &mut objects, checkpoints, faults)?;
    threads::check_index(&store, &known, faults)?;
    for family in [Family::Journal, Family::Notes, Family::Hooks, Family::Meta] {
        entries::read(&store, family, faults, &mut |key, value, faults| {
            threads::check_entry(&store, (family, key, value), faults)
        })?;
    }
    threads::check_sum(tables, &known, faults)?;
    faults.pass_on_to(&known.forks);
    let touched = faults.touched();
    let with_row = touched.iter().filter(|thread| matches!(store.row(thread), Ok(Some(_)))).count();
    let count = |threads: usize| u64::try_from(threads).unwrap_or(u64::MAX);
    examination.threads = known.sums.threads + count(touched.len() - with_row);
    examination.whole_threads = known.sums.threads.saturating_sub(count(with_row));
    examination.steps = known.sums.steps;
    examination.objects = objects.whole();
    (_, examination.bytes) = store.read_so_far();
    Ok(())
}
