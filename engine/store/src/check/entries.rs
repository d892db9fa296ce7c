//! Reads whole families, past damaged blocks, and counts what is read.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rondo_protocol::id::ThreadId;

use super::super::Error;
use super::super::error::Damage;
use super::super::keys::{self, Family};
use super::super::rocks::Remnants;
use super::super::tables::{Tables, Visited};
use super::faults::Faults;
use super::{Progress, REPORT_EVERY};

/// Tables that count what is read from them.
pub(in super::super) struct Counted<'a> {
    tables: &'a dyn Remnants,
    progress: Mutex<&'a mut (dyn FnMut(Progress) + Send)>,
    of: u64,
    done: AtomicU64,
    bytes: AtomicU64,
    /// Threads of an import that has not ended: without their rows they are not there.
    unfinished: BTreeSet<ThreadId>,
}

impl<'a> Counted<'a> {
    pub(in super::super) fn new(
        tables: &'a dyn Remnants,
        progress: &'a mut (dyn FnMut(Progress) + Send),
    ) -> Result<Self, Error> {
        let (of, progress) = (tables.entries()?, Mutex::new(progress));
        let (done, bytes, unfinished) = (AtomicU64::new(0), AtomicU64::new(0), BTreeSet::new());
        Ok(Self { tables, progress, of, done, bytes, unfinished })
    }

    /// Passes over the entries of these threads from now on.
    pub(in super::super) fn pass_over(&mut self, unfinished: impl IntoIterator<Item = ThreadId>) {
        self.unfinished.extend(unfinished);
    }

    /// How many entries were read, and how many bytes.
    pub(super) fn read_so_far(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Counts on from what an earlier examination read.
    pub(super) fn go_on(&self, (done, bytes): (u64, u64)) {
        self.done.store(done, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    fn count(&self, key: &[u8], value: &[u8]) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = u64::try_from(key.len() + value.len()).unwrap_or_default();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if done.is_multiple_of(REPORT_EVERY) {
            (self.progress.lock())(Progress { done, of: self.of });
        }
    }
}

impl Tables for Counted<'_> {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.tables.get(family, key)
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        self.tables.range(family, keys, &mut |key, value| {
            self.count(key, value);
            let is_unfinished = !self.unfinished.is_empty()
                && keys::thread_of(key).is_some_and(|thread| self.unfinished.contains(&thread));
            if is_unfinished { Ok(ControlFlow::Continue(())) } else { visit(key, value) }
        })
    }
}

/// What takes the key and the value of an entry, and adds the faults that it finds.
pub(in super::super) type Visit<'a> = dyn FnMut(&[u8], &[u8], &mut Faults) -> Result<(), Error> + 'a;

/// Passes every readable entry of a family to `visit`. Damage that the tables or `visit` find is added to `faults`.
/// After a damaged block reading continues where the next table of the family begins.
pub(in super::super) fn read(
    store: &Counted<'_>,
    family: Family,
    faults: &mut Faults,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    read_from(store, (family, Vec::new()), faults, visit)
}

/// The same from a key on.
pub(super) fn read_from(
    store: &Counted<'_>,
    (family, begin): (Family, Vec<u8>),
    faults: &mut Faults,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    // No key begins with the byte 0xff: its first byte is that of a kind.
    let mut from = Some(begin);
    while let Some(begin) = from {
        let last = Cell::new(begin.clone());
        let read = store.range(family, begin..vec![u8::MAX], &mut |key, value| {
            last.set(key.to_vec());
            if keys::family_of(key) != Some(family) {
                let what = format!("the family {} holds a key of an unknown kind", family.name());
                faults.add(Damage::new(what).at(family, key), keys::thread_of(key));
                return Ok(ControlFlow::Continue(()));
            }
            let visited =
                visit(key, value, faults).map_err(|error| error.at(family, key, keys::thread_of(key).as_ref()));
            faults.take(visited, &[])?;
            Ok(ControlFlow::Continue(()))
        });
        from = match faults.take(read, &[])? {
            Some(()) => None,
            None => store.tables.behind_damage(family, &last.take())?,
        };
    }
    Ok(())
}

/// Passes every thread that has a readable step to `visit`. Damage is added to `faults`.
pub(in super::super) fn threads_with_steps(
    store: &Counted<'_>,
    faults: &mut Faults,
    visit: &mut dyn FnMut(&ThreadId, &mut Faults) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut from = Some(Vec::new());
    while let Some(begin) = from {
        let mut found = None;
        let read = store.range(Family::Steps, begin.clone()..vec![u8::MAX], &mut |key, _| {
            found = Some(key.to_vec());
            Ok(ControlFlow::Break(()))
        });
        if faults.take(read, &[])?.is_none() {
            from = store.tables.behind_damage(Family::Steps, &begin)?;
            continue;
        }
        let Some(key) = found else { return Ok(()) };
        let Some(thread) = keys::thread_of(&key) else {
            let what = "the key of a step cannot be read".to_owned();
            faults.add(Damage::new(what).at(Family::Steps, &key), None);
            return Ok(());
        };
        visit(&thread, faults)?;
        from = Some(keys::steps(&thread, 0).end);
    }
    Ok(())
}
