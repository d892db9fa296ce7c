//! The durable events of a thread, computed from its row, its steps and their notes.

use std::sync::Arc;

use rondo_protocol::event::{CommittedSite, Durability, Event, EventId, Visit, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::{Note, Record};

use super::Position;
use super::past::origin;
use crate::store::{Error, Read, Row, StoredRecord};
use crate::thread::Origin;

/// How many steps are read at a time.
const PAGE_STEPS: u64 = 64;

/// A part of a thread's durable events.
#[derive(Debug, Default)]
pub struct Page {
    /// The events, in order.
    pub events: Vec<Event>,
    /// Whether these are the last ones so far.
    pub is_last: bool,
}

/// The durable events of `thread` after `after`, from at most [`PAGE_STEPS`] steps. `None` if there is no such thread.
pub fn after(
    store: &dyn Read,
    durability: Durability,
    thread: &ThreadId,
    after: EventId,
) -> Result<Option<Page>, Error> {
    let Some((row, origin)) = read(store, thread)? else { return Ok(None) };
    let parent = row.parent.as_ref().map(|parent| &parent.thread);
    let event = |id, at_ms, what| Event {
        id: Some(id),
        thread: thread.clone(),
        parent: parent.cloned(),
        durability,
        at_ms,
        what,
    };
    let mut events = Vec::new();
    let tell = |events: &mut Vec<Event>, id: EventId, at_ms, what| {
        if id > after {
            events.push(event(id, at_ms, what));
        }
    };
    if after.seq == 0 {
        for (id, what) in of_beginning(thread, &row, &origin) {
            tell(&mut events, id, origin.started_at_ms, what);
        }
    }
    let first = after.seq.max(1);
    let last = row.seq.min(first.saturating_add(PAGE_STEPS - 1));
    store.scan(thread, first..=last, &mut |stored, note| {
        for (id, what) in of_record(thread, &stored, &note) {
            tell(&mut events, id, note.ended_at_ms, what);
        }
        true
    })?;
    let is_last = last == row.seq;
    if let Some(ending) = origin.ending.filter(|_| is_last) {
        let last_step = store.record_at(thread, row.seq)?;
        let status = last_step.as_ref().and_then(|(stored, _)| match &stored.record {
            Record::Step(step) => Some(step.status.clone()),
            Record::Rebind(_) | Record::Compaction(_) => None,
        });
        let what = What::ThreadFinished {
            outcome: ending.outcome,
            head: row.head,
            status,
            reason: ending.reason,
            result: Arc::unwrap_or_clone(ending.result),
        };
        let id = match last_step {
            Some((_, note)) => EventId { seq: row.seq, k: told(&note.after) },
            None => EventId { seq: 0, k: told(&origin.after) },
        };
        tell(&mut events, id.next(), ending.at_ms, what);
    }
    Ok(Some(Page { events, is_last }))
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
