//! What a database offers to the store: sorted tables. Reading, verifying and committing stand on this and not on
//! RocksDB, which makes them testable with tables that fail.
//!
//! Whatever has tables can be read: [`Read`] is implemented here once, with all its checks.

use std::cell::Cell;
use std::ops::{ControlFlow, Range, RangeInclusive};

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;

use super::codec::{self, StepValue};
use super::keys::{self, Family};
use super::trail::{Trail, verified, verified_object};
use super::{Entries, Error, JournalRecord, Read, Row, StoredStep};

/// What a visitor of entries says: go on, or stop.
pub(super) type Visited = Result<ControlFlow<()>, Error>;

/// Sorted tables of keys and values, one for each family.
pub(super) trait Tables: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the table cannot be read.
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Hands every entry within `keys` to `visit`, in order, until it says stop.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the table cannot be read to the end, and whatever `visit` says.
    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error>;
}

/// One change of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// Which table.
    pub(super) family: Family,
    /// Which key.
    pub(super) key: Vec<u8>,
    /// The new value, or `None` to delete.
    pub(super) value: Option<Vec<u8>>,
}

/// Tables that can be changed.
pub(super) trait WriteTables: Tables {
    /// Makes all changes or none. With `sync` they are on the device when this returns.
    ///
    /// # Errors
    /// What the database says. Whether the changes were made is then unknown.
    fn write(&self, changes: &[Change], sync: bool) -> Result<(), String>;

    /// Puts every earlier write on the device, the last thing that is done.
    ///
    /// # Errors
    /// What the database says.
    fn close(&self) -> Result<(), String>;
}

/// How many notes a scan reads ahead.
const NOTES_AHEAD: usize = 256;

fn damaged(what: String) -> Error {
    Error::Damaged { what }
}

/// Where in `thread` the step of `digest` stands.
fn place_in<T: Tables + ?Sized>(tables: &T, digest: Digest, thread: &ThreadId) -> Result<Option<u64>, Error> {
    let mut found = None;
    let mut candidates = Vec::new();
    tables.range(Family::Index, keys::places_in(digest, thread), &mut |key, _| {
        candidates.extend(keys::seq(key));
        Ok(ControlFlow::Continue(()))
    })?;
    for seq in candidates {
        if holds(tables, digest, thread, seq)? {
            found = Some(seq);
        }
    }
    Ok(found)
}

/// Whether the step at that place has that digest. A place key names only the beginning of a digest.
fn holds<T: Tables + ?Sized>(tables: &T, digest: Digest, thread: &ThreadId, seq: u64) -> Result<bool, Error> {
    match tables.get(Family::Steps, &keys::step(thread, seq))? {
        Some(value) => Ok(codec::read_step(&value)?.digest == digest),
        None => Err(damaged(format!("step {seq} of thread {thread} is missing"))),
    }
}

/// The notes of a thread, read ahead in pieces, so that a scan needs no lookup for each.
struct Notes<'a, T: ?Sized> {
    tables: &'a T,
    thread: &'a ThreadId,
    ahead: std::collections::VecDeque<(u64, Note)>,
    next: u64,
    ended: bool,
}

impl<T: Tables + ?Sized> Notes<'_, T> {
    /// The note of step `seq`; asked for in order.
    fn of(&mut self, seq: u64) -> Result<Note, Error> {
        loop {
            match self.ahead.front() {
                Some((number, _)) if *number < seq => {
                    self.ahead.pop_front();
                }
                Some((number, _)) if *number == seq => {
                    return Ok(self.ahead.pop_front().map(|(_, note)| note).unwrap_or_default());
                }
                None if !self.ended => self.read_ahead(seq.max(self.next))?,
                _ => return Err(damaged(format!("the note of step {seq} of thread {} is missing", self.thread))),
            }
        }
    }

    fn read_ahead(&mut self, from: u64) -> Result<(), Error> {
        let (ahead, next) = (&mut self.ahead, &mut self.next);
        self.ended = true;
        let ended = &mut self.ended;
        self.tables.range(Family::Notes, keys::notes(self.thread, from), &mut |key, value| {
            let seq = keys::seq(key).ok_or_else(|| damaged("the key of a note cannot be read".to_owned()))?;
            ahead.push_back((seq, codec::read_note(value)?));
            *next = seq.saturating_add(1);
            *ended = ahead.len() < NOTES_AHEAD;
            Ok(if *ended { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })
    }
}

impl<T: Tables> Read for T {
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error> {
        self.get(Family::Threads, &keys::row(thread))?.map(|value| codec::read_row(&value)).transpose()
    }

    fn rows(&self) -> Result<Vec<(ThreadId, Row)>, Error> {
        let mut rows = Vec::new();
        self.range(Family::Threads, keys::rows(), &mut |key, value| {
            let thread =
                keys::thread_of_row(key).ok_or_else(|| damaged("the key of a row cannot be read".to_owned()))?;
            rows.push((thread, codec::read_row(value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    fn scan(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StoredStep, Note) -> bool,
    ) -> Result<(), Error> {
        let Some(row) = Read::row(self, thread)? else { return Ok(()) };
        let (from, to) = (*seqs.start().max(&1), *seqs.end().min(&row.seq));
        if from > to {
            return Ok(());
        }
        // The step before the range is read as well: the first step of the range must follow it.
        let first = from.saturating_sub(1).max(1);
        let place = |digest| place_in(self, digest, thread);
        let mut trail = Trail::new(thread, first, &place);
        let mut notes =
            Notes { tables: self, thread, ahead: std::collections::VecDeque::new(), next: from, ended: false };
        let (stopped, beyond) = (Cell::new(false), Cell::new(false));
        self.range(Family::Steps, keys::steps(thread, first), &mut |key, value| {
            let seq = keys::seq(key).ok_or_else(|| damaged("the key of a step cannot be read".to_owned()))?;
            if seq > to {
                beyond.set(to == row.seq);
                return Ok(ControlFlow::Break(()));
            }
            let StepValue { digest, visit: number, bytes } = codec::read_step(value)?;
            let stored = trail.step(seq, digest, number, bytes)?;
            if seq == row.seq {
                trail.end(&row, &stored.step.lane)?;
            }
            if seq >= from {
                let note = notes.of(seq)?;
                stopped.set(!visit(stored, note));
            }
            Ok(if stopped.get() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !stopped.get() && trail.next() <= to {
            return Err(trail.missing());
        }
        // A step behind the row's last is damage, unless it was committed while this scan ran.
        if beyond.get() && Read::row(self, thread)?.is_none_or(|newer| newer.seq <= row.seq) {
            return Err(damaged(format!("thread {thread} goes on behind its last step {}", row.seq)));
        }
        Ok(())
    }

    fn step(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredStep, Note)>, Error> {
        let Some(value) = self.get(Family::Steps, &keys::step(thread, seq))? else {
            return match Read::row(self, thread)? {
                Some(row) if (1..=row.seq).contains(&seq) => {
                    Err(damaged(format!("step {seq} of thread {thread} is missing")))
                }
                _ => Ok(None),
            };
        };
        let StepValue { digest, visit, bytes } = codec::read_step(&value)?;
        let step = verified(thread, seq, digest, bytes)?;
        let note = self
            .get(Family::Notes, &keys::note(thread, seq))?
            .ok_or_else(|| damaged(format!("the note of step {seq} of thread {thread} is missing")))?;
        Ok(Some((StoredStep { seq, digest, visit, step }, codec::read_note(&note)?)))
    }

    fn visits(
        &self,
        thread: &ThreadId,
        lane: &LanePath,
        role: &RoleName,
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let mut places = Vec::new();
        self.range(Family::Index, keys::visits(thread, lane, role, *visits.start()), &mut |key, value| {
            let visit = keys::seq(key).ok_or_else(|| damaged("the key of a visit cannot be read".to_owned()))?;
            if !visits.contains(&visit) {
                return Ok(ControlFlow::Break(()));
            }
            places.push((visit, codec::read_seq(value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(places)
    }

    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error> {
        let mut candidates = Vec::new();
        self.range(Family::Index, keys::places(digest), &mut |key, _| {
            candidates.push(keys::placed(key).ok_or_else(|| damaged("the key of a place cannot be read".to_owned()))?);
            Ok(ControlFlow::Continue(()))
        })?;
        let mut places = Vec::new();
        for (thread, seq) in candidates {
            if holds(self, digest, &thread, seq)? {
                places.push((thread, seq));
            }
        }
        Ok(places)
    }

    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        let Some(mut value) = self.get(Family::Objects, &keys::object(digest))? else { return Ok(None) };
        let (stored, bytes) = codec::read_object(&value)?;
        verified_object(kind, digest, stored, bytes)?;
        let header = value.len() - bytes.len();
        value.drain(..header);
        Ok(Some(value))
    }

    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error> {
        let mut records = Vec::new();
        self.range(Family::Journal, keys::records(thread, lane), &mut |key, value| {
            let position =
                keys::position(key).ok_or_else(|| damaged("the key of a record cannot be read".to_owned()))?;
            let bytes = codec::read_opaque(value)?.to_vec();
            records.push(JournalRecord { lane: lane.clone(), position, bytes });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(records)
    }

    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(key) = keys::hook(space, key) else { return Ok(None) };
        let value = self.get(Family::Hooks, &key)?;
        value.map(|value| codec::read_opaque(&value).map(<[u8]>::to_vec)).transpose()
    }

    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error> {
        let mut values = Vec::new();
        let Some(range) = keys::hooks(space, from) else { return Ok(values) };
        if limit == 0 {
            return Ok(values);
        }
        self.range(Family::Hooks, range, &mut |key, value| {
            let own = keys::hook_key(space, key).unwrap_or_default();
            values.push((own.to_vec(), codec::read_opaque(value)?.to_vec()));
            Ok(if values.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(values)
    }
}
