//! The interface of a database to the store: sorted tables. Reading, verifying and committing need no more than this,
//! and are tested with tables that fail.
//!
//! [`Read`] is implemented here once, with all its checks, for everything that has tables.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range, RangeInclusive};

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;
use serde::{Deserialize, Serialize};

use super::chain::{missing, verified, verified_object};
use super::codec::{self, StepValue};
use super::error::Damage;
use super::keys::{self, Family};
use super::{Entries, Error, JournalRecord, LaneRow, Read, Row, StepBytes, StoredRecord, VisitIndex};

/// What a visitor of entries returns: continue or stop.
pub type Visited = Result<ControlFlow<()>, Error>;

/// Sorted tables of keys and values, one for each family.
pub trait Tables: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the table cannot be read.
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Passes every entry within `keys` to `visit`, in order, until it stops.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the table cannot be read to the end, and any error of `visit`.
    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error>;
}

/// One entry of a table that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The family.
    pub family: Family,
    /// The key.
    pub key: Vec<u8>,
    /// The new value, or `None` to delete.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// Bytes of key and value.
    pub fn size_bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// How many notes a scan reads ahead.
const NOTES_AHEAD: usize = 256;

/// The error for a key that has the wrong shape for its kind.
fn strange(family: Family, key: &[u8], what: &str) -> Error {
    Damage::new(format!("the key of a {what} cannot be read")).at(family, key).into()
}

/// The value of a key, decoded by `read`.
fn value<T: Tables + ?Sized, V>(
    tables: &T,
    (family, key): (Family, &[u8]),
    thread: Option<&ThreadId>,
    read: impl FnOnce(&[u8]) -> Result<V, Error>,
) -> Result<Option<V>, Error> {
    let value = tables.get(family, key)?.map(|value| read(&value)).transpose();
    value.map_err(|error| error.at(family, key, thread))
}

/// At most `limit` entries within `keys`, decoded by `read`.
fn page<T: Tables + ?Sized, V>(
    tables: &T,
    (family, keys): (Family, Range<Vec<u8>>),
    limit: usize,
    thread: Option<&ThreadId>,
    mut read: impl FnMut(&[u8], &[u8]) -> Result<V, Error>,
) -> Result<Vec<V>, Error> {
    let mut page = Vec::new();
    if limit == 0 {
        return Ok(page);
    }
    tables.range(family, keys, &mut |key, value| {
        page.push(read(key, value).map_err(|error| error.at(family, key, thread))?);
        Ok(if page.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(page)
}

/// The threads and numbers of the steps with a digest, of those whose places are within `keys`.
fn places<T: Tables + ?Sized>(tables: &T, digest: Digest, keys: Range<Vec<u8>>) -> Result<Vec<(ThreadId, u64)>, Error> {
    let candidates = page(tables, (Family::Index, keys), usize::MAX, None, |key, _| {
        keys::placed(key).ok_or_else(|| strange(Family::Index, key, "place"))
    })?;
    let mut places = Vec::new();
    for (thread, seq) in candidates {
        let step = tables.get(Family::Steps, &keys::step(&thread, seq))?;
        let step = step.ok_or_else(|| missing(&thread, seq, Family::Steps))?;
        // Keys hold the beginning of a digest.
        if codec::read_step(&step)?.digest == digest {
            places.push((thread, seq));
        }
    }
    Ok(places)
}

/// The notes of a thread, read ahead in batches, so that a scan needs no lookup for each.
struct NoteReader<'a, T: ?Sized> {
    tables: &'a T,
    thread: &'a ThreadId,
    ahead: VecDeque<(u64, Note)>,
    ended: bool,
}

impl<T: Tables + ?Sized> NoteReader<'_, T> {
    /// The note of step `seq`; calls must be in order.
    fn of(&mut self, seq: u64) -> Result<Note, Error> {
        loop {
            match self.ahead.front() {
                Some((number, _)) if *number < seq => {
                    self.ahead.pop_front();
                }
                Some((number, _)) if *number == seq => {
                    return Ok(self.ahead.pop_front().map(|(_, note)| note).unwrap_or_default());
                }
                None if !self.ended => self.read_ahead(seq)?,
                _ => return Err(missing(self.thread, seq, Family::Notes)),
            }
        }
    }

    fn read_ahead(&mut self, from: u64) -> Result<(), Error> {
        let notes = (Family::Notes, keys::notes(self.thread, from));
        let notes = page(self.tables, notes, NOTES_AHEAD, Some(self.thread), |key, value| {
            let seq = keys::seq(key).ok_or_else(|| strange(Family::Notes, key, "note"))?;
            Ok((seq, codec::read_note(value)?))
        })?;
        self.ended = notes.len() < NOTES_AHEAD;
        self.ahead = notes.into();
        Ok(())
    }
}

impl<T: Tables> Read for T {
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error> {
        value(self, (Family::Threads, &keys::row(thread)), Some(thread), codec::read_row)
    }

    fn rows(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, Error> {
        page(self, (Family::Threads, keys::rows(after)), limit, None, |key, value| {
            let thread = keys::thread_of_row(key).ok_or_else(|| strange(Family::Threads, key, "row"))?;
            let row = codec::read_row(value).map_err(|error| error.at(Family::Threads, key, Some(&thread)))?;
            Ok((thread, row))
        })
    }

    fn lanes(
        &self,
        thread: &ThreadId,
        after: Option<&LanePath>,
        limit: usize,
    ) -> Result<Vec<(LanePath, LaneRow)>, Error> {
        page(self, (Family::Threads, keys::lanes(thread, after)), limit, Some(thread), |key, value| {
            let lane = keys::lane_of_row(key).ok_or_else(|| strange(Family::Threads, key, "row of a lane"))?;
            Ok((lane, codec::read_lane(value)?))
        })
    }

    fn list(&self, thread: &ThreadId, opened_by: u64) -> Result<Option<Vec<u8>>, Error> {
        value(self, (Family::Threads, &keys::list(thread, opened_by)), Some(thread), |value| {
            codec::read_bytes(value, codec::LIST).map(<[u8]>::to_vec)
        })
    }

    fn lists(&self, thread: &ThreadId) -> Result<Vec<u64>, Error> {
        page(self, (Family::Threads, keys::lists(thread)), usize::MAX, Some(thread), |key, _| {
            keys::seq(key).ok_or_else(|| strange(Family::Threads, key, "list"))
        })
    }

    fn own_records(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StepBytes<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let from = *seqs.start();
        let mut notes = NoteReader { tables: self, thread, ahead: VecDeque::new(), ended: false };
        self.range(Family::Steps, keys::steps(thread, from), &mut |key, value| {
            let seq = keys::seq(key).ok_or_else(|| strange(Family::Steps, key, "step"))?;
            if !seqs.contains(&seq) {
                return Ok(ControlFlow::Break(()));
            }
            let located = |error: Error| error.at(Family::Steps, key, Some(thread));
            let StepValue { digest, visit: number, bytes } = codec::read_step(value).map_err(located)?;
            let note = notes.of(seq)?;
            let goes_on = visit(StepBytes { seq, digest, visit: number, bytes, note })?;
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })
    }

    fn own_record(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredRecord, Note)>, Error> {
        let key = keys::step(thread, seq);
        let Some(value) = self.get(Family::Steps, &key)? else { return Ok(None) };
        let located = |error: Error| error.at(Family::Steps, &key, Some(thread));
        let StepValue { digest, visit, bytes } = codec::read_step(&value).map_err(located)?;
        let record = verified(thread, seq, digest, bytes).map_err(located)?;
        let note = self::value(self, (Family::Notes, &keys::note(thread, seq)), Some(thread), codec::read_note)?;
        let note = note.ok_or_else(|| missing(thread, seq, Family::Notes))?;
        Ok(Some((StoredRecord { seq, digest, visit, record }, note)))
    }

    fn own_visits(
        &self,
        thread: &ThreadId,
        index: VisitIndex,
        of: (&LanePath, &RoleName),
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        if visits.is_empty() {
            return Ok(Vec::new());
        }
        let range = (Family::Index, keys::visits(thread, index, of, &visits));
        page(self, range, usize::MAX, Some(thread), |key, value| {
            let visit = keys::seq(key).ok_or_else(|| strange(Family::Index, key, "visit"))?;
            Ok((visit, codec::read_seq(value)?))
        })
    }

    fn own_place(&self, thread: &ThreadId, digest: Digest) -> Result<Option<u64>, Error> {
        Ok(places(self, digest, keys::places_in(digest, thread))?.last().map(|(_, seq)| *seq))
    }

    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error> {
        places(self, digest, keys::places(digest))
    }

    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        let key = keys::object(digest);
        let Some(mut value) = self.get(Family::Objects, &key)? else { return Ok(None) };
        let located = |error: Error| error.at(Family::Objects, &key, None);
        let (stored, bytes) = codec::read_object(&value).map_err(located)?;
        verified_object(kind, digest, stored, bytes).map_err(located)?;
        let header = value.len() - bytes.len();
        value.drain(..header);
        Ok(Some(value))
    }

    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error> {
        page(self, (Family::Journal, keys::records(thread, lane)), usize::MAX, Some(thread), |key, value| {
            let position = keys::position(key).ok_or_else(|| strange(Family::Journal, key, "record"))?;
            let bytes = codec::read_bytes(value, codec::RECORD)?.to_vec();
            Ok(JournalRecord { lane: lane.clone(), position, bytes })
        })
    }

    fn journaled_lanes(&self, thread: &ThreadId) -> Result<Vec<LanePath>, Error> {
        let mut lanes = page(self, (Family::Journal, keys::records_of(thread)), usize::MAX, Some(thread), |key, _| {
            keys::lane_of_record(key).ok_or_else(|| strange(Family::Journal, key, "record"))
        })?;
        lanes.dedup();
        Ok(lanes)
    }

    fn batch(&self, batch: &BatchId) -> Result<Option<Vec<u8>>, Error> {
        value(self, (Family::Threads, &keys::batch(batch)), None, |value| {
            codec::read_bytes(value, codec::BATCH).map(<[u8]>::to_vec)
        })
    }

    fn batches(&self, after: Option<&BatchId>, limit: usize) -> Result<Vec<BatchId>, Error> {
        page(self, (Family::Threads, keys::batches(after)), limit, None, |key, _| {
            keys::batch_of(key).ok_or_else(|| strange(Family::Threads, key, "batch"))
        })
    }

    fn batch_lines(&self, batch: &BatchId, from: u32, limit: usize) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        page(self, (Family::Threads, keys::batch_lines(batch, from)), limit, None, |key, value| {
            let line = keys::position(key).ok_or_else(|| strange(Family::Threads, key, "line of a batch"))?;
            Ok((line, codec::read_bytes(value, codec::BATCH_LINE)?.to_vec()))
        })
    }

    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(key) = keys::hook(space, key) else { return Ok(None) };
        value(self, (Family::Hooks, &key), None, |value| codec::read_bytes(value, codec::HOOK).map(<[u8]>::to_vec))
    }

    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error> {
        let Some(range) = keys::hooks(space, from) else { return Ok(Vec::new()) };
        page(self, (Family::Hooks, range), limit, None, |key, value| {
            let own = keys::hook_key(space, key).unwrap_or_default();
            Ok((own.to_vec(), codec::read_bytes(value, codec::HOOK)?.to_vec()))
        })
    }
}
