//! The stored past of a thread, before this run.

use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Entry, Note, Transcript, Usage};

use super::journal::{Journal, JournalPart, ModelRecord};
use super::tool_calls::in_doubt;
use crate::conversation::rebuild;
use crate::hook::{Past, Requests};
use crate::store::{Damage, Error, Read, Row, StepStore};
use crate::thread::{Checkpoint, Clock, InFlight, Origin, Spent};

/// The steps and the journal of a thread.
pub struct StoredPast {
    /// The store.
    pub store: Arc<dyn StepStore>,
    /// The thread.
    pub thread: ThreadId,
}

impl Past for StoredPast {
    fn requests(&self, lane: &LanePath, in_flight: &RoleName) -> Result<Requests, Error> {
        let mut answered = Requests::new();
        let mut count = |role: &RoleName, request: Digest| {
            *answered.entry(role.clone()).or_default().entry(request).or_default() += 1;
        };
        let seq = self.store.row(&self.thread)?.map_or(0, |row| row.seq);
        let mut transcripts = Vec::new();
        self.store.steps(&self.thread, 1..=seq, &mut |stored, _| {
            let step = stored.step;
            transcripts.extend(step.transcript.filter(|_| step.lane == *lane).map(|digest| (step.role, digest)));
            true
        })?;
        for (role, digest) in transcripts {
            let transcript: Transcript = rebuild::object(&*self.store, Kind::Transcript, digest)?;
            for entry in transcript.entries {
                if let Entry::Model { asked, request, .. } = entry {
                    count(&role, request);
                    if let Some(asked) = asked {
                        count(&role, asked);
                    }
                }
            }
        }
        let journal = Journal::read(&*self.store, &self.thread, lane, JournalPart::Visit)?;
        for record in journal.models.values() {
            count(in_flight, record.request);
            if record.rewritten {
                count(in_flight, record.asked);
            }
        }
        Ok(answered)
    }
}

/// What is known of a thread and not hashed, from its row.
pub fn origin(thread: &ThreadId, row: &Row) -> Result<Origin, Error> {
    let damaged = |error| Damage::new(format!("the row of thread {thread}: {error}")).of_thread(thread);
    Ok(Origin::from_bytes(&row.origin).map_err(damaged)?)
}

/// What a thread has spent: by its checkpoint, or if there is none that this version can read, by its steps.
pub fn spent(store: &dyn Read, thread: &ThreadId, row: &Row) -> Result<Spent, Error> {
    if let Some(checkpoint) = Checkpoint::from_bytes(&row.checkpoint) {
        return Ok(checkpoint.spent());
    }
    let (mut spent, mut clock) = (Spent::default(), Clock::default());
    store.scan(thread, 1..=row.seq, &mut |_, note| {
        spent.add(&note);
        clock.follow(&note);
        true
    })?;
    Ok(Spent { active_ms: clock.active_ms, ..spent })
}

/// The state that an earlier process left of the visit in flight in a lane. `asks` says whether calls in doubt need a
/// decision.
pub fn recovered(store: &dyn Read, thread: &ThreadId, lane: &LanePath, asks: bool) -> Result<Option<InFlight>, Error> {
    let journal = Journal::read(store, thread, lane, JournalPart::Visit)?;
    let mut compaction = Journal::default();
    if journal.has_refused {
        compaction = Journal::read(store, thread, lane, JournalPart::Compaction)?;
    }
    if !journal.has_begun() && !compaction.has_begun() {
        return Ok(None);
    }
    let mut used = Note::default();
    for part in [&compaction, &journal] {
        for ModelRecord { answer, .. } in part.models.values().chain(&part.given_up) {
            used.model_calls += 1;
            count(&mut used, answer.usage, answer.cost_usd);
        }
        part.billed.iter().for_each(|billed| count(&mut used, Some(billed.usage), billed.cost_usd));
    }
    let in_doubt = journal.open.values().next().filter(|_| asks).map(|tool| in_doubt(tool, thread));
    Ok(Some(InFlight { used: counted(used), in_doubt }))
}

/// Counts what a request has used.
pub(super) fn count(used: &mut Note, usage: Option<Usage>, cost_usd: Option<f64>) {
    if let Some(usage) = usage {
        *used.usage.get_or_insert_default() += usage;
    }
    match cost_usd {
        Some(cost) => *used.cost_usd.get_or_insert_default() += cost,
        None => used.unpriced_calls += 1,
    }
}

/// A note of what was counted: replies without a known price are told only where others have one.
pub(super) fn counted(used: Note) -> Note {
    Note { unpriced_calls: used.cost_usd.map_or(0, |_| used.unpriced_calls), ..used }
}
