//! The writer's loop: assembles, checks and writes batches one after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use rondo_protocol::id::{LanePath, ThreadId};
use sha2::{Digest as _, Sha256};

use super::super::codec::{self, ImportMark, Ledger};
use super::super::collect::{CollectWrite, Collection};
use super::super::import::{self, ImportWrite};
use super::super::keys::{self, Family};

use super::super::tables::Change;
use super::super::write::{self, EncodedCommit, Write};
use super::super::{Error, JournalRecord};
use super::WriteTables;
use super::queue::{Acknowledge, Queue, Work};
use super::{Failure, Target};

/// How many threads are cached; the cache is cleared as a whole, between two batches.
const MAX_KNOWN: usize = 4096;
/// How many lanes of a thread are cached.
const MAX_KNOWN_LANES: usize = 16_384;

pub(super) struct WriterLoop<T> {
    target: Target<T>,
    failure: Failure,
    known: HashMap<ThreadId, Known>,
    /// Whether a thread has more lanes than are cached.
    is_crowded: bool,
    /// The import that is under way. An opening leaves none.
    importing: Option<ImportMark>,
    /// The collection of garbage that is under way. An opening leaves none.
    collecting: Option<Collection>,
    /// Which threads need a thread: read by the first deletion, so that the cost of others is what they delete. Threads
    /// that were deleted since may be among the values.
    dependents: Option<BTreeMap<ThreadId, Vec<ThreadId>>>,
}

/// Cached facts about a thread: as stored, or as changed by the current batch.
#[derive(Default)]
struct Known {
    /// Version and last step of its row.
    end: Option<(u64, u64)>,
    /// For each lane with a known journal the positions of all its records.
    journals: BTreeMap<LanePath, BTreeSet<u32>>,
}

/// The changes of one write, and those waiting for it.
struct Batch {
    changes: Vec<Change>,
    waiting: Vec<Acknowledge>,
    /// The ledger after this batch.
    ledger: Ledger,
    /// Whether it holds anything that must not be lost.
    counts: bool,
    sync: bool,
}

impl<T: WriteTables> WriterLoop<T> {
    pub(super) fn new(target: Target<T>, failure: Failure) -> Self {
        let known = HashMap::new();
        Self { target, failure, known, is_crowded: false, importing: None, collecting: None, dependents: None }
    }

    /// Writes one batch from the queue. Returns whether there was anything.
    pub(super) fn write_some(&mut self, queue: &Mutex<Queue>) -> bool {
        let works = queue.lock().unwrap_or_else(PoisonError::into_inner).take_batch();
        if works.is_empty() {
            return false;
        }
        let mut batch = Batch::after(self.target.ledger);
        for work in works {
            let is_alone = matches!(work.write, Write::Delete { .. } | Write::Import(_));
            if is_alone {
                // A batch of its own: a deletion and an import look into the tables.
                self.write(batch);
                batch = Batch::after(self.target.ledger);
            }
            self.take(&mut batch, work);
            if is_alone {
                self.write(batch);
                batch = Batch::after(self.target.ledger);
            }
        }
        self.write(batch);
        // Only now: what a batch has written must be known until it is stored.
        if self.known.len() > MAX_KNOWN || std::mem::take(&mut self.is_crowded) {
            self.known.clear();
        }
        true
    }

    /// Syncs everything to the device. A failure is not reported: what was acknowledged is safe, and the rest may be
    /// lost.
    pub(super) fn close(&mut self) {
        let target = &mut self.target;
        if self.failure.get().is_some() || !target.anchor.is_ours().unwrap_or(false) || target.tables.close().is_err() {
            return;
        }
        if let Ok(Some(manifest)) = target.tables.manifest() {
            let _ = target.anchor.set_manifest(manifest);
        }
        if target.anchor.write(target.ledger).is_ok() {
            let _ = target.anchor.sync();
        }
    }

    /// Adds a piece of work to the batch, or reports the reason against it to its caller.
    fn take(&mut self, batch: &mut Batch, work: Work) {
        let taken = match self.failure.get() {
            Some(error) => Err(error.clone()),
            None => match work.write {
                Write::Commit { commit, sync } => self.take_commit(batch, *commit, sync),
                Write::Records { thread, records, sync } => self.take_records(batch, &thread, records, sync),
                Write::Delete { threads, lines, sync } => self.take_deletion(batch, &threads).map(|()| {
                    batch.changes.extend(lines);
                    batch.sync |= sync;
                }),
                Write::Import(import) => self.take_import(batch, *import),
                Write::Collect(collect) => self.take_collect(batch, collect),
                Write::Changes { changes, sync } => {
                    self.add(batch, changes);
                    batch.sync |= sync;
                    Ok(())
                }
            },
        };
        match taken {
            Ok(()) => batch.waiting.push(work.done),
            // The caller may have stopped waiting.
            Err(error) => drop(work.done.send(Err(error))),
        }
    }

    fn take_commit(&mut self, batch: &mut Batch, commit: EncodedCommit, sync: bool) -> Result<(), Error> {
        let (version, seq) = self.end(&commit.header.thread)?;
        commit.header.check_follows(version, seq)?;
        if version == 0 && self.importing.as_ref().is_some_and(|mark| mark.threads.contains(&commit.header.thread)) {
            return Err(Error::Conflict { thread: commit.header.thread.clone() });
        }
        for needed in &commit.header.needs {
            if self.end(needed)?.0 == 0 {
                return Err(Error::Conflict { thread: needed.clone() });
            }
        }
        for lane in &commit.clear_journal {
            self.know_journal(&commit.header.thread, lane)?;
        }
        // Nothing fails from here on: the batch holds all of the commit or nothing.
        let known = self.known.entry(commit.header.thread.clone()).or_default();
        for lane in &commit.clear_journal {
            for position in known.journals.get_mut(lane).map(std::mem::take).unwrap_or_default() {
                let key = keys::record(&commit.header.thread, lane, position);
                batch.changes.push(Change { family: Family::Journal, key, value: None });
            }
        }
        for lane in &commit.closed {
            known.journals.remove(lane);
        }
        self.is_crowded |= known.journals.len() > MAX_KNOWN_LANES;
        known.end = Some((commit.header.version, commit.header.seq));
        self.depend(&commit.header.thread, &commit.header.needs);
        self.add(batch, commit.changes);
        batch.chain(&commit.link);
        batch.ledger.steps = batch.ledger.steps.saturating_add(u64::from(commit.header.step.is_some()));
        batch.sync |= sync;
        Ok(())
    }

    /// Adds changes that may hold objects.
    fn add(&mut self, batch: &mut Batch, changes: Vec<Change>) {
        self.collecting.take_if(|collection| !collection.remember(&changes));
        batch.changes.extend(changes);
    }

    fn take_collect(&mut self, batch: &mut Batch, collect: CollectWrite) -> Result<(), Error> {
        match collect {
            CollectWrite::Begin { .. } if self.importing.is_some() => return Err(Error::ImportUnderWay),
            CollectWrite::Begin { token } => self.collecting = Some(Collection::new(token)),
            CollectWrite::Sweep { token, objects } => {
                let collection = self.collecting.as_ref().filter(|collection| collection.is_of(token));
                batch.changes.extend(collection.ok_or(Error::CollectionEnded)?.sweep(objects));
            }
            CollectWrite::End { token } => drop(self.collecting.take_if(|collection| collection.is_of(token))),
        }
        Ok(())
    }

    fn take_records(
        &mut self,
        batch: &mut Batch,
        thread: &ThreadId,
        records: Vec<JournalRecord>,
        sync: bool,
    ) -> Result<(), Error> {
        for record in &records {
            self.know_journal(thread, &record.lane)?;
        }
        let known = self.known.entry(thread.clone()).or_default();
        for record in records {
            let change = write::record(thread, &record);
            batch.chain(&change.key);
            batch.changes.push(change);
            known.journals.entry(record.lane).or_default().insert(record.position);
        }
        batch.sync |= sync;
        Ok(())
    }

    fn take_deletion(&mut self, batch: &mut Batch, threads: &[(ThreadId, u64)]) -> Result<(), Error> {
        let deleted: BTreeSet<&ThreadId> = threads.iter().map(|(thread, _)| thread).collect();
        for (thread, version) in threads {
            if self.end(thread)?.0 != *version {
                return Err(Error::Conflict { thread: thread.clone() });
            }
        }
        self.refuse_needed(&deleted)?;
        let tables = &self.target.tables;
        let mut changes = Vec::new();
        for thread in &deleted {
            for (family, range) in keys::of(thread) {
                tables.range(family, range, &mut |key, value| {
                    write::delete(&mut changes, family, key, value)?;
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            changes.push(Change { family: Family::Threads, key: keys::row(thread), value: None });
        }
        // Nothing fails from here on.
        batch.changes.append(&mut changes);
        for (thread, version) in threads {
            self.known.remove(thread);
            if let Some(dependents) = &mut self.dependents {
                dependents.remove(thread);
            }
            batch.chain(&[&keys::row(thread)[..], &version.to_be_bytes()].concat());
        }
        Ok(())
    }

    /// Refuses to delete what a thread that stays needs.
    fn refuse_needed(&mut self, deleted: &BTreeSet<&ThreadId>) -> Result<(), Error> {
        let dependents = match self.dependents.take() {
            Some(dependents) => dependents,
            None => self.read_dependents()?,
        };
        for thread in deleted {
            for dependent in dependents.get(*thread).into_iter().flatten() {
                if !deleted.contains(dependent) && self.end(dependent)?.0 != 0 {
                    return Err(Error::Conflict { thread: (*thread).clone() });
                }
            }
        }
        self.dependents = Some(dependents);
        Ok(())
    }

    fn read_dependents(&self) -> Result<BTreeMap<ThreadId, Vec<ThreadId>>, Error> {
        let mut dependents: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
        self.target.tables.range(Family::Threads, keys::rows(None), &mut |key, value| {
            let row = codec::read_row(value).map_err(|error| error.at(Family::Threads, key, None))?;
            for needed in row.needs() {
                dependents.entry(needed.clone()).or_default().extend(keys::thread_of_row(key));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(dependents)
    }

    fn depend(&mut self, thread: &ThreadId, needs: &[ThreadId]) {
        let Some(dependents) = &mut self.dependents else { return };
        for needed in needs {
            dependents.entry(needed.clone()).or_default().push(thread.clone());
        }
    }

    fn take_import(&mut self, batch: &mut Batch, import: ImportWrite) -> Result<(), Error> {
        let is_of = |mark: &Option<ImportMark>, token| mark.as_ref().is_some_and(|mark| mark.token == token);
        let mark = |value| Change { family: Family::Meta, key: keys::IMPORT.to_vec(), value };
        match import {
            ImportWrite::Begin(new) => {
                for thread in &new.threads {
                    self.is_new(thread)?;
                }
                self.abandon()?;
                batch.changes.push(mark(Some(codec::write_import_mark(&new))));
                // On the device before anything that it stands for.
                batch.sync = true;
                self.importing = Some(new);
            }
            ImportWrite::Part { token, .. } | ImportWrite::Finish { token, .. } if !is_of(&self.importing, token) => {
                return Err(Error::ImportEnded);
            }
            ImportWrite::Part { changes, .. } => self.add(batch, changes),
            ImportWrite::Finish { threads, batches, sync, .. } => {
                let imported: BTreeSet<&ThreadId> = threads.iter().map(|imported| &imported.thread).collect();
                for thread in &threads {
                    self.is_new(&thread.thread)?;
                    for needed in thread.needs.iter().filter(|needed| !imported.contains(needed)) {
                        if self.end(needed)?.0 == 0 {
                            return Err(Error::Conflict { thread: needed.clone() });
                        }
                    }
                }
                for thread in threads {
                    self.depend(&thread.thread, &thread.needs);
                    batch.chain(&thread.link);
                    batch.ledger.steps = batch.ledger.steps.saturating_add(thread.steps);
                    batch.changes.push(thread.change());
                    let end = Some((thread.version, thread.seq));
                    self.known.insert(thread.thread, Known { end, ..Known::default() });
                }
                batch.changes.extend(batches);
                batch.changes.push(mark(None));
                batch.sync |= sync;
                self.importing = None;
            }
            ImportWrite::Abandon { token } if is_of(&self.importing, token) => self.abandon()?,
            ImportWrite::Abandon { .. } => {}
        }
        Ok(())
    }

    fn is_new(&mut self, thread: &ThreadId) -> Result<(), Error> {
        if self.end(thread)?.0 == 0 { Ok(()) } else { Err(Error::Conflict { thread: thread.clone() }) }
    }

    /// Removes what an import that has not ended wrote. After a failure the state of the store is unknown.
    fn abandon(&mut self) -> Result<(), Error> {
        let Some(mark) = self.importing.take() else { return Ok(()) };
        let abandoned = import::abandon(&*self.target.tables, &mark);
        if let Err(error @ Error::Poisoned { .. }) = &abandoned {
            let _ = self.failure.set(error.clone());
        }
        if abandoned.is_err() {
            self.importing = Some(mark);
        }
        abandoned
    }

    /// Version and last step of a thread's row; both 0 if there is none.
    fn end(&mut self, thread: &ThreadId) -> Result<(u64, u64), Error> {
        if let Some(end) = self.known.get(thread).and_then(|known| known.end) {
            return Ok(end);
        }
        let end = match self.target.tables.get(Family::Threads, &keys::row(thread))? {
            Some(value) => codec::read_row_end(&value)?,
            None => (0, 0),
        };
        self.known.entry(thread.clone()).or_default().end = Some(end);
        Ok(end)
    }

    /// Loads the records of a lane's journal. Each journal is read once.
    fn know_journal(&mut self, thread: &ThreadId, lane: &LanePath) -> Result<(), Error> {
        if self.known.get(thread).is_some_and(|known| known.journals.contains_key(lane)) {
            return Ok(());
        }
        let mut positions = BTreeSet::new();
        self.target.tables.range(Family::Journal, keys::records(thread, lane), &mut |key, _| {
            positions.extend(keys::position(key));
            Ok(ControlFlow::Continue(()))
        })?;
        self.known.entry(thread.clone()).or_default().journals.insert(lane.clone(), positions);
        Ok(())
    }

    fn write(&mut self, mut batch: Batch) {
        let sync = batch.sync;
        let outcome = if batch.changes.is_empty() { Ok(()) } else { self.write_batch(&mut batch, sync) };
        if let Err(error) = &outcome {
            // The first failure stays; there is no second, because nothing is written after it.
            let _ = self.failure.set(error.clone());
        }
        for done in batch.waiting {
            // The caller may have stopped waiting.
            let _ = done.send(outcome.clone());
        }
        if outcome.is_ok()
            && let Err(error) = self.target.anchor.sync_when_due()
        {
            let _ = self.failure.set(Error::Poisoned { what: error.to_string() });
        }
    }

    fn write_batch(&mut self, batch: &mut Batch, sync: bool) -> Result<(), Error> {
        let unknown = |error: &dyn std::fmt::Display| Error::Poisoned { what: error.to_string() };
        let target = &mut self.target;
        if !target.anchor.is_ours().map_err(|error| unknown(&error))? {
            return Err(target.displaced.clone());
        }
        if batch.counts {
            batch.ledger.batches = batch.ledger.batches.saturating_add(1);
            let value = Some(codec::write_ledger(&batch.ledger));
            batch.changes.push(Change { family: Family::Meta, key: keys::LEDGER.to_vec(), value });
        }
        target.tables.write(std::mem::take(&mut batch.changes), sync).map_err(|error| unknown(&error))?;
        target.ledger = batch.ledger;
        if let Some(manifest) = target.tables.manifest().map_err(|error| unknown(&error))? {
            target.anchor.set_manifest(manifest).map_err(|error| unknown(&error))?;
        }
        if sync {
            target.anchor.write(batch.ledger).map_err(|error| unknown(&error))?;
        }
        Ok(())
    }
}

impl Batch {
    /// An empty batch that follows `ledger`.
    fn after(ledger: Ledger) -> Self {
        Self { changes: Vec::new(), waiting: Vec::new(), ledger, counts: false, sync: false }
    }

    /// Adds what identifies a write to the ledger's chain.
    fn chain(&mut self, part: &[u8]) {
        let mut hasher = Sha256::new();
        hasher.update(self.ledger.chain);
        hasher.update(part);
        self.ledger.chain = hasher.finalize().into();
        self.counts = true;
    }
}
