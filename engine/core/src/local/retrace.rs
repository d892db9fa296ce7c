//! What the steps of a thread say by themselves: for a thread whose row and notes are a stranger's.

use rondo_protocol::digest::Kind;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::{Entry, Head, Note, Record, Transcript};

use super::Error;
use super::fork::{Past, unfit};
use crate::conversation::rebuild;
use crate::store::{Read, Row, StoredRecord};
use crate::thread::{Ending, PastStep};

/// Follows a thread from its first step, under the definitions that it names. For each of its own records, those behind
/// its base, `keep` is called with a note of what the steps prove; of the stored one only the times count, and none
/// after `now_ms`. Returns how the thread ended, if it has.
///
/// # Errors
/// If a step does not follow, or an object is missing or damaged; any error of `keep`.
pub fn retrace(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    now_ms: u64,
    keep: &mut dyn FnMut(u64, &Note) -> Result<(), Error>,
) -> Result<Option<Ending>, Error> {
    let past = Past::of(store, thread, row)?;
    let steps = past.steps()?;
    let (mut machine, mut ended_at_ms) = (past.follower()?, 0);
    let mut start = past.first;
    past.follow(row.seq, &mut |stored, step| {
        if stored.record.start() != start {
            return Err(unfit(stored.seq));
        }
        if let Record::Rebind(rebind) = &stored.record {
            start = rebind.to;
        }
        let mut note = plain_note(store, stored, &step.note, now_ms)?;
        ended_at_ms = note.ended_at_ms;
        let of = PastStep { note: note.clone(), ..step };
        if let Record::Step(step) = &stored.record {
            let reached = machine.follow(step, of, &steps).map_err(Error::Fault)?.ok_or_else(|| unfit(stored.seq))?;
            if reached.first_opened_by != reached.opened_by {
                note.first_opened_by = reached.first_opened_by;
            }
            note = Note { opened_by: reached.opened_by, after: reached.after, left_by: reached.left_by, ..note };
        } else {
            past.goes_on(&mut machine, stored, of, &steps)?;
            let lane = stored.record.lane().and_then(|lane| machine.lane(lane));
            note.opened_by = lane.map(|lane| lane.opened_by.clone()).unwrap_or_default();
        }
        if stored.seq > row.shared() {
            keep(stored.seq, &note)?;
        }
        Ok(())
    })?;
    if start != row.start {
        return Err(unfit(row.seq));
    }
    Ok(machine.ending().cloned().map(|ending| Ending { at_ms: ended_at_ms, ..ending }))
}

/// The note of a record without what only its stored one says: usage, costs, who answered, what hooks did.
fn plain_note(store: &dyn Read, stored: &StoredRecord, claimed: &Note, now_ms: u64) -> Result<Note, Error> {
    let ended_at_ms = claimed.ended_at_ms.min(now_ms);
    let mut note = Note { started_at_ms: claimed.started_at_ms.min(ended_at_ms), ended_at_ms, ..Note::default() };
    let transcript = match &stored.record {
        Record::Step(step) => step.transcript,
        Record::Compaction(compaction) => compaction.transcript,
        Record::Rebind(_) => None,
    };
    let Some(transcript) = transcript else { return Ok(note) };
    for entry in rebuild::object::<Transcript>(store, Kind::Transcript, transcript)?.entries {
        match entry {
            Entry::Model { head, .. } => {
                note.model_calls += 1;
                note.model = Some(rebuild::object::<Head>(store, Kind::Head, head)?.model);
            }
            Entry::Tool { .. } => note.tool_calls += 1,
            Entry::Repair { .. } => {}
        }
    }
    note.attempts = note.model_calls;
    Ok(note)
}
