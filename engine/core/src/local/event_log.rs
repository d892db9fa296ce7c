//! The durable events of a thread, computed from its row, its steps and their notes.

use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::event::{CommittedSite, Durability, Event, EventId, Visit, What};
use rondo_protocol::id::{Status, ThreadId};
use rondo_protocol::object::{Note, Record};

use super::Position;
use super::hub::size_bytes;
use super::past::origin;
use crate::store::{Error, Read, Row, StoredRecord};
use crate::thread::{Ending, Origin};

/// How many steps are read at a time.
const PAGE_STEPS: u64 = 64;

/// A page ends early once the texts of its events come to so many bytes.
const PAGE_BYTES: usize = 4 << 20;

/// A part of a thread's durable events.
#[derive(Debug, Default)]
pub struct Page {
    /// The events, in order.
    pub events: Vec<Event>,
    /// Whether these are the last ones so far.
    pub is_last: bool,
}

/// The durable events of `thread` after `after`, from at most [`PAGE_STEPS`] steps and with about [`PAGE_BYTES`] of text.
/// `None` if there is no such thread.
pub fn after(
    store: &dyn Read,
    durability: Durability,
    thread: &ThreadId,
    after: EventId,
) -> Result<Option<Page>, Error> {
    let Some((row, origin)) = read(store, thread)? else { return Ok(None) };
    let (mut events, mut page_bytes) = (Vec::new(), 0_usize);
    let mut tell = |(id, at_ms, what): (EventId, u64, What)| {
        if id > after {
            page_bytes = page_bytes.saturating_add(size_bytes(&what));
            events.push(event(durability, thread, &row, (id, at_ms, what)));
        }
        page_bytes >= PAGE_BYTES
    };
    if after.seq == 0 {
        for (id, what) in of_beginning(thread, &row, &origin) {
            tell((id, origin.started_at_ms, what));
        }
    }
    let first = after.seq.max(1);
    let mut last = row.seq.min(first.saturating_add(PAGE_STEPS - 1));
    store.scan(thread, first..=last, &mut |stored, note| {
        let mut is_full = false;
        for (id, what) in of_record(thread, &stored, &note) {
            is_full = tell((id, note.ended_at_ms, what));
        }
        if is_full {
            last = stored.seq;
        }
        !is_full
    })?;
    let is_last = last == row.seq;
    if is_last {
        of_end(store, thread, &row, origin)?.map(tell);
    }
    Ok(Some(Page { events, is_last }))
}

/// The last event of a thread that has ended; `None` of any other.
pub fn finished(store: &dyn Read, durability: Durability, thread: &ThreadId) -> Result<Option<Event>, Error> {
    let Some((row, origin)) = read(store, thread)? else { return Ok(None) };
    Ok(of_end(store, thread, &row, origin)?.map(|end| event(durability, thread, &row, end)))
}

fn event(durability: Durability, thread: &ThreadId, row: &Row, (id, at_ms, what): (EventId, u64, What)) -> Event {
    let parent = row.parent.as_ref().map(|parent| parent.thread.clone());
    Event { id: Some(id), thread: thread.clone(), parent, durability, at_ms, what }
}

/// The last durable event of `thread`; `None` if there is no such thread.
pub fn end(store: &dyn Read, thread: &ThreadId) -> Result<Option<EventId>, Error> {
    let Some((row, origin)) = read(store, thread)? else { return Ok(None) };
    let id = position(store, &row, thread, &origin)?.id;
    Ok(Some(if origin.ending.is_some() { id.next() } else { id }))
}

/// The position after everything that follows from a thread's last step, except its end.
pub fn position(store: &dyn Read, row: &Row, thread: &ThreadId, origin: &Origin) -> Result<Position, Error> {
    Ok(match store.record_at(thread, row.seq)? {
        Some((stored, note)) => {
            Position { id: EventId { seq: stored.seq, k: told(&note.after) }, at_ms: note.ended_at_ms }
        }
        None => Position { id: EventId { seq: 0, k: told(&origin.after) }, at_ms: origin.started_at_ms },
    })
}

fn told<T>(after: &[T]) -> u32 {
    u32::try_from(after.len()).unwrap_or(u32::MAX).saturating_add(1)
}

fn read(store: &dyn Read, thread: &ThreadId) -> Result<Option<(Row, Origin)>, Error> {
    let Some(mut row) = store.row(thread)? else { return Ok(None) };
    // It may hold a large result, and is read only here.
    let origin = origin(thread, &row)?;
    row.origin.clear();
    Ok(Some((row, origin)))
}

fn of_end(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    mut origin: Origin,
) -> Result<Option<(EventId, u64, What)>, Error> {
    let Some(Ending { outcome, reason, result, at_ms }) = origin.ending.take() else { return Ok(None) };
    let (status, result) = (status_of(store, thread, row.head)?, Arc::unwrap_or_clone(result));
    let what = What::ThreadFinished { outcome, head: row.head, status, reason, result };
    Ok(Some((position(store, row, thread, &origin)?.id.next(), at_ms, what)))
}

/// The status of the step that is a thread's head, or that the rebinds and compactions which are follow.
fn status_of(store: &dyn Read, thread: &ThreadId, mut head: Option<Digest>) -> Result<Option<Status>, Error> {
    while let Some(digest) = head {
        let seq = store.place(thread, digest)?;
        let found = seq.map_or(Ok(None), |seq| store.record_at(thread, seq))?;
        match found.map(|(stored, _)| stored.record) {
            Some(Record::Step(step)) => return Ok(Some(step.status)),
            Some(other) => head = other.prev().first().copied(),
            None => break,
        }
    }
    Ok(None)
}

fn numbered(seq: u64, all: impl Iterator<Item = What>) -> Vec<(EventId, What)> {
    (1_u32..).zip(all).map(|(k, what)| (EventId { seq, k }, what)).collect()
}

/// The events before a thread's first step.
fn of_beginning(thread: &ThreadId, row: &Row, origin: &Origin) -> Vec<(EventId, What)> {
    let started = What::ThreadStarted { workflow: row.workflow, start: row.start };
    let visit = Visit::beginning();
    let after = origin.after.iter().cloned().map(|followed| What::followed(thread, &visit, None, followed));
    numbered(0, std::iter::once(started).chain(after))
}

fn of_record(thread: &ThreadId, stored: &StoredRecord, note: &Note) -> Vec<(EventId, What)> {
    let (site, visit, status) = match &stored.record {
        Record::Step(step) => {
            let visit = Visit { role: step.role.clone(), visit: stored.visit, lane: step.lane.clone() };
            (visit.clone().into(), Some(visit), Some(step.status.clone()))
        }
        Record::Compaction(compaction) => {
            let (role, lane) = (Some(compaction.role.clone()), Some(compaction.lane.clone()));
            (CommittedSite { role, visit: None, lane }, None, None)
        }
        Record::Rebind(_) => (CommittedSite { role: None, visit: None, lane: None }, None, None),
    };
    let of_record = (stored.seq, stored.digest, stored.record.prev().to_vec());
    let committed = What::committed(site, of_record, status.clone());
    let after = note.after.iter().cloned();
    let after = after.filter_map(|followed| Some(What::followed(thread, visit.as_ref()?, status.as_ref(), followed)));
    numbered(stored.seq, std::iter::once(committed).chain(after))
}
