//! Threads from elsewhere, put together and verified: those of an import before anything of them enters a store, and
//! what a repair keeps.
//!
//! Laws. They lie in a database of their own. Each part is checked when it is added: digests and canonical form of
//! objects and steps, the chain of each thread, and that everything named was added before. What is not hashed (rows,
//! notes, journals) is checked for its form. A thread is complete when [`Staging::end_thread`] returns `Ok`.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use rondo_core::temporary_folder::temporary_folder;
use rondo_protocol::canonical;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{BatchId, LanePath, ThreadId};
use rondo_protocol::object::{Head, Note, Record, Request, Start, Transcript};
use rondo_protocol::workflow::{Policy, Workflow};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::chain::{self, Last};
use super::codec::{self, Ledger};
use super::keys::{self, Family};
use super::rocks::NewStore;
use super::tables::{Change, Tables};
use super::{
    Error, JournalRecord, LaneRow, MAX_NAME_BYTES, NewStep, Read as _, Row, VisitIndex, VisitKey, references, write,
};

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It breaks a rule; a lowercase sentence without a stop.
    #[error("{what}")]
    Unfit { what: String },
    #[error(transparent)]
    Store(#[from] Error),
}

pub fn unfit<T>(what: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Unfit { what: what.into() })
}

/// Threads and batches that are being put together.
pub struct Staging {
    store: NewStore,
    current: Option<Current>,
    // Dropped last, when the database is closed.
    _temporary: Option<TempDir>,
}

/// The thread that parts are added to.
struct Current {
    thread: ThreadId,
    row: Row,
    /// The number of its last step so far.
    seq: u64,
    last: Option<Last>,
    /// The last step of its trunk so far.
    head: Option<Digest>,
}

impl Staging {
    /// Nothing yet, in a temporary folder.
    pub fn new() -> Result<Self, Error> {
        let folder = temporary_folder("import").map_err(|error| Error::io(&std::env::temp_dir(), &error))?;
        let store = NewStore::begin(&folder.path().join("store"))?;
        Ok(Self { store, current: None, _temporary: Some(folder) })
    }

    /// Nothing yet, in `folder`, which is empty or does not exist and becomes a store of its own.
    pub(super) fn of_new_store(folder: &Path) -> Result<Self, Error> {
        Ok(Self { store: NewStore::begin(folder)?, current: None, _temporary: None })
    }

    /// Completes a store of its own.
    ///
    /// # Durability
    /// As [`NewStore::finish`].
    pub(super) fn finish(mut self, ledger: Ledger) -> Result<(), Error> {
        self.store.put(Family::Meta, keys::FORMAT, &codec::write_format())?;
        self.store.put(Family::Meta, keys::LEDGER, &codec::write_ledger(&ledger))?;
        self.store.finish()
    }

    /// What has been kept so far.
    pub fn store(&self) -> &impl Tables {
        &self.store
    }

    fn put(&self, change: Change) -> Result<(), Error> {
        // At once, because the next part may name it.
        self.store.change(vec![change])
    }

    /// Replaces the row of a thread that is complete.
    pub fn replace_row(&self, thread: &ThreadId, row: &Row) -> Result<(), Error> {
        let value = Some(codec::write_row(row));
        self.put(Change { family: Family::Threads, key: keys::row(thread), value })
    }

    /// Replaces the note of a step.
    pub fn replace_note(&self, thread: &ThreadId, seq: u64, note: &Note) -> Result<(), Error> {
        let value = Some(codec::write_note(note)?);
        self.put(Change { family: Family::Notes, key: keys::note(thread, seq), value })
    }

    /// Removes what no step proves: the open lanes, lists and journals of a thread.
    pub fn remove_state(&self, thread: &ThreadId) -> Result<(), Error> {
        let lanes = (Family::Threads, keys::lanes(thread, None));
        let lists = (Family::Threads, keys::lists(thread));
        [lanes, lists, (Family::Journal, keys::records_of(thread))].into_iter().try_for_each(|range| self.remove(range))
    }

    pub fn remove_batches(&self) -> Result<(), Error> {
        for batch in self.store.batches(None, usize::MAX)? {
            self.remove((Family::Threads, keys::batch_lines(&batch, 0)))?;
        }
        self.remove((Family::Threads, keys::batches(None)))
    }

    fn remove(&self, (family, keys): (Family, Range<Vec<u8>>)) -> Result<(), Error> {
        let mut changes = Vec::new();
        self.store.range(family, keys, &mut |key, _| {
            changes.push(Change { family, key: key.to_vec(), value: None });
            Ok(ControlFlow::Continue(()))
        })?;
        self.store.change(changes)
    }

    pub fn object(&mut self, kind: Kind, digest: Digest, bytes: &[u8]) -> Result<(), Refused> {
        if chain::verified_object(kind, digest, kind, bytes).is_err() {
            return unfit(format!("the object is not the {} that its digest {digest} says", kind.name()));
        }
        check_shape(kind, bytes)?;
        self.are_there(references::of_object(kind, bytes).or_else(|error| unfit(error.to_string()))?)?;
        let (key, value) = (keys::object(digest), Some(codec::write_object(kind, bytes)));
        self.once(Change { family: Family::Objects, key, value }, &format!("the object {digest}"))
    }

    fn are_there(&self, objects: impl IntoIterator<Item = (Kind, Digest)>) -> Result<(), Refused> {
        for (kind, digest) in objects {
            let value = self.store.get(Family::Objects, &keys::object(digest))?;
            let found = value.as_deref().map(codec::read_object).transpose()?.map(|(found, _)| found);
            if found != Some(kind) {
                return unfit(format!("it names the {} {digest}, which was not given before", kind.name()));
            }
        }
        Ok(())
    }

    /// Begins a thread. The threads that it needs were added before.
    pub fn thread(&mut self, thread: ThreadId, row: Row) -> Result<(), Refused> {
        if self.store.row(&thread)?.is_some() {
            return unfit(format!("thread {thread} was given already"));
        }
        if row.version == 0 {
            return unfit("the version of a row is at least 1");
        }
        for needed in row.needs() {
            if self.store.row(needed)?.is_none() {
                return unfit(format!("it needs thread {needed}, which was not given before"));
            }
        }
        let mut seq = 0;
        if let Some(base) = &row.base {
            seq = base.seq;
            let reached = self.store.row(&base.thread)?.map_or(0, |row| row.seq);
            if reached < seq || row.seq < seq {
                return unfit(format!("it was forked at step {seq}, which is behind an end"));
            }
        }
        self.are_there(references::of_row(&row))?;
        self.replace_row(&thread, &row)?;
        let last = self.store.record_at(&thread, seq)?.map(|(stored, _)| Last::of(&stored.record, stored.digest));
        let head = self.store.trunk_head(&thread, seq)?;
        self.current = Some(Current { thread, row, seq, last, head });
        Ok(())
    }

    /// The number of the last step of the current thread so far, and the last step of its trunk.
    pub(super) fn so_far(&self) -> Option<(u64, Option<Digest>)> {
        self.current.as_ref().map(|current| (current.seq, current.head))
    }

    pub(super) fn set_row(&mut self, row: Row) -> Result<(), Refused> {
        self.replace_row(&self.current()?.thread, &row)?;
        if let Some(current) = &mut self.current {
            current.row = row;
        }
        Ok(())
    }

    pub(super) fn hook_value(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.store.put(Family::Hooks, key, value)
    }

    fn current(&self) -> Result<&Current, Refused> {
        self.current.as_ref().map_or_else(|| unfit("it belongs to a thread, and no thread was given before"), Ok)
    }

    /// Adds the row of an open lane to the current thread.
    pub fn lane(&mut self, lane: &LanePath, row: &LaneRow) -> Result<(), Refused> {
        let Current { thread, row: of_thread, .. } = self.current()?;
        if lane.is_trunk() || lane.as_str().len() > MAX_NAME_BYTES || row.opened_by > of_thread.seq {
            return unfit(format!("the lane {lane} cannot be one of the thread's"));
        }
        let (key, value) = (keys::lane(thread, lane), Some(codec::write_lane(row)));
        self.once(Change { family: Family::Threads, key, value }, &format!("the lane {lane}"))
    }

    /// Adds the evaluated list that the step `opened_by` opened to the current thread.
    pub fn list(&mut self, opened_by: u64, list: &[u8]) -> Result<(), Refused> {
        let Current { thread, row, .. } = self.current()?;
        if opened_by > row.seq || self.store.list(thread, opened_by)?.is_some() {
            return unfit(format!("the thread has no place for a list of step {opened_by}"));
        }
        let (key, value) = (keys::list(thread, opened_by), Some(codec::write_bytes(codec::LIST, list)));
        Ok(self.put(Change { family: Family::Threads, key, value })?)
    }

    pub fn record(&mut self, record: &JournalRecord) -> Result<(), Refused> {
        let Current { thread, .. } = self.current()?;
        let change = write::record(thread, record);
        if record.lane.as_str().len() > MAX_NAME_BYTES || self.store.get(Family::Journal, &change.key)?.is_some() {
            return unfit(format!("the journal has no place for record {}", record.position));
        }
        Ok(self.put(change)?)
    }

    /// Adds the next step, rebind or compaction to the current thread.
    pub fn step(&mut self, seq: u64, digest: Digest, visit: u64, bytes: &[u8], note: Note) -> Result<(), Refused> {
        let Current { thread, row, seq: before, last, .. } = self.current()?;
        let (next, thread, last) = (before.saturating_add(1), thread.clone(), *last);
        if seq != next || seq > row.seq {
            return unfit(format!("step {seq} is not the next one: the thread has {} and {next} follows", row.seq));
        }
        if Digest::of_bytes(Kind::Step, bytes) != digest {
            return unfit(format!("the step is not what its digest {digest} says"));
        }
        let record = Record::from_slice(bytes).or_else(|error| unfit(error.to_string()))?;
        // A digest of other bytes that mean the same is not the digest of this step.
        if record.digest().ok().is_none_or(|(canonical, _)| canonical != digest) {
            return unfit("the step is not in canonical form");
        }
        if !chain::follows(&record, seq, last.as_ref(), &|digest| self.store.place(&thread, digest))? {
            return unfit("the step does not follow its predecessor");
        }
        self.are_there(references::of_record(&record))?;
        let found_by = VisitKey::of(&record, visit);
        self.check_visit(&thread, &record, visit, found_by.as_ref())?;
        let step = NewStep { seq, digest, bytes: bytes.to_vec(), found_by, note };
        for change in write::step(&thread, &step)? {
            self.put(change)?;
        }
        if let Some(current) = &mut self.current {
            (current.seq, current.last) = (seq, Some(Last::of(&record, digest)));
            if chain::is_of_trunk(&record) {
                current.head = Some(digest);
            }
        }
        Ok(())
    }

    /// Checks that visits are numbered without a gap, and compactions by the visit that they name.
    fn check_visit(
        &self,
        thread: &ThreadId,
        record: &Record,
        visit: u64,
        found_by: Option<&VisitKey>,
    ) -> Result<(), Refused> {
        let is_fit = match (record, found_by) {
            (Record::Compaction(compaction), _) => compaction.through_visit == visit,
            (Record::Rebind(_), _) => visit == 0,
            (Record::Step(_), Some(VisitKey { index: VisitIndex::Steps, lane, role, .. })) => {
                if lane.as_str().len() > MAX_NAME_BYTES || role.as_str().len() > MAX_NAME_BYTES {
                    return unfit("the name of a lane or role is too long");
                }
                let before = visit.saturating_sub(1);
                let around = self.store.visits(thread, lane, role, before..=visit)?;
                visit > 0 && around.iter().all(|(known, _)| *known == before) && (around.len() == 1) == (before > 0)
            }
            (Record::Step(_), _) => false,
        };
        if is_fit { Ok(()) } else { unfit(format!("the step cannot be visit {visit} of its role")) }
    }

    /// Ends the current thread, if there is one, and checks it as a whole.
    pub fn end_thread(&mut self) -> Result<(), Refused> {
        let Some(Current { thread, row, seq, head, .. }) = self.current.take() else { return Ok(()) };
        if seq != row.seq {
            return unfit(format!("thread {thread} ends at step {seq}, and its row says {}", row.seq));
        }
        if head != row.head {
            return unfit(format!("the row of thread {thread} does not end at its last step"));
        }
        let lanes = self.store.lanes(&thread, None, usize::MAX)?;
        for (lane, LaneRow { frontier, .. }) in lanes {
            if frontier.is_some_and(|frontier| !matches!(self.store.place(&thread, frontier), Ok(Some(_)))) {
                return unfit(format!("the last step of lane {lane} of thread {thread} is none of its steps"));
            }
        }
        Ok(())
    }

    pub fn batch(&mut self, batch: &BatchId, record: &[u8]) -> Result<(), Refused> {
        self.once(write::batch(batch, record), "the batch")
    }

    pub fn batch_line(&mut self, batch: &BatchId, line: u32, bytes: &[u8]) -> Result<(), Refused> {
        self.once(write::batch_line(batch, line, bytes), "the line of the batch")
    }

    fn once(&self, change: Change, what: &str) -> Result<(), Refused> {
        if self.store.get(change.family, &change.key)?.is_some() {
            return unfit(format!("{what} was given already"));
        }
        Ok(self.put(change)?)
    }
}

/// Checks that the bytes of an object are canonical and have the fields of its kind.
fn check_shape(kind: Kind, bytes: &[u8]) -> Result<(), Refused> {
    fn is<T: DeserializeOwned>(bytes: &[u8]) -> Result<(), canonical::Error> {
        canonical::from_slice::<T>(bytes).map(drop)
    }
    if kind == Kind::File {
        return Ok(());
    }
    let value = canonical::parse_canonical(bytes).or_else(|error| unfit(error.to_string()))?;
    if canonical::to_bytes(&value).is_ok_and(|canonical| canonical != bytes) {
        return unfit("the object is not in canonical form");
    }
    let shape = match kind {
        Kind::Workflow => is::<Workflow>(bytes),
        Kind::Policy => is::<Policy>(bytes),
        Kind::Start => is::<Start>(bytes),
        Kind::Head => is::<Head>(bytes),
        Kind::Request => is::<Request>(bytes),
        Kind::Transcript => is::<Transcript>(bytes),
        Kind::Message | Kind::Messages | Kind::Step | Kind::File => {
            return unfit(format!("a {} is no object of its own", kind.name()));
        }
    };
    shape.or_else(|error| unfit(format!("the object is no {}: {error}", kind.name())))
}
