//! The conversations of a thread's roles, one per role and lane, extended visit by visit.
//!
//! A conversation that was dropped from memory is rebuilt with the same bytes: a role's own visits from its steps, and
//! the reports in between from their notes, or from the other roles' steps if a note lacks them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::conversation::{Builder, HistoryPolicy, Key, Past, Round, StepLocation};
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::{Conversation, FileRef};
use rondo_protocol::object::Transcript;
use rondo_protocol::workflow::History;

use super::steps::Steps;
use crate::conversation::rebuild;
use crate::store::Error;

/// How many visits are read at once: they are in memory together.
const READ_AHEAD: usize = 128;

/// The conversations of a thread's roles.
#[derive(Default)]
pub struct Conversations {
    kept: BTreeMap<Key, Builder>,
}

/// A visit to open.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// The lane.
    pub lane: &'a LanePath,
    /// The role.
    pub role: &'a RoleName,
    /// The prompt.
    pub prompt: &'a str,
    /// The files that go with it.
    pub files: &'a [FileRef],
    /// The steps that it follows.
    pub prev: &'a [Digest],
    /// The number of its step, or of a step after its predecessors.
    pub before: u64,
    /// For each part of the lane's path the step that opened its first round.
    pub first_opened_by: &'a [u64],
}

/// An opened visit.
pub struct Opened {
    /// The messages of its first request.
    pub conversation: Arc<Conversation>,
    /// The report in the prompt of the steps since its last visit; `None` if it is not needed again.
    pub context_report: Option<String>,
}

impl Conversations {
    /// Opens a role's next visit.
    pub fn open(
        &mut self,
        opening: &Opening<'_>,
        history_policy: &HistoryPolicy,
        steps: &Steps<'_>,
    ) -> Result<Opened, Error> {
        let key = Key::new(opening.role, opening.lane);
        let mut builder = match self.kept.remove(&key) {
            Some(builder) => builder,
            None => recollect(opening, history_policy, steps)?,
        };
        let context_report = builder.context_report(opening.prev, opening.before, steps)?;
        let conversation = Arc::new(builder.open(opening.prompt, &context_report, opening.files));
        let context_report = (history_policy.history != History::None).then_some(context_report);
        self.kept.insert(key, builder);
        Ok(Opened { conversation, context_report })
    }

    /// The request for a text in place of a role's visits up to `through`, and the bytes of what leaves; `None` if
    /// nothing does, or no visit of the role is open.
    pub fn leaving(&self, role: &RoleName, lane: &LanePath, through: u64) -> Option<(Conversation, usize)> {
        self.kept.get(&Key::new(role, lane))?.leaving(through)
    }

    /// Closes the last opened visit with its answer.
    pub fn close(&mut self, role: &RoleName, place: StepLocation, answer: &str, transcript: Option<&Transcript>) {
        if let Some(builder) = self.kept.get_mut(&Key::new(role, &place.round.lane)) {
            builder.close(place, answer, transcript);
        }
    }

    /// Drops a role's conversation after a visit without an answer.
    pub fn forget(&mut self, role: &RoleName, lane: &LanePath) {
        self.kept.remove(&Key::new(role, lane));
    }

    /// Drops every conversation of an ended lane and of the lanes within it.
    pub fn forget_lane(&mut self, lane: &LanePath) {
        let within = format!("{lane}/");
        self.kept.retain(|key, _| key.lane != *lane && !key.lane.as_str().starts_with(&within));
    }
}

fn recollect(opening: &Opening<'_>, history_policy: &HistoryPolicy, steps: &Steps<'_>) -> Result<Builder, Error> {
    let mut builder = Builder::new(history_policy.clone());
    // Its steps in the enclosing lanes from before this lane first opened, then those in this lane.
    let mut lanes: Vec<LanePath> = opening.lane.outward().collect();
    lanes.reverse();
    let through = opening.first_opened_by.iter().copied().chain([opening.before.saturating_sub(1)]);
    let mut first = None;
    for (lane, through) in lanes.iter().zip(through) {
        let own = steps.visits_of(lane, opening.role, through)?;
        first = first.or(own.first().map(|(_, seq)| *seq));
        if history_policy.history == History::None {
            if let Some((_, last)) = own.last() {
                builder.close(steps.step(*last)?.place, "", None);
            }
            continue;
        }
        builder.enter_lane();
        let (mut covered, compactions) = (0, steps.compactions_of(lane, opening.role, through)?);
        if let Some(((through_visit, seq), first)) = compactions.last().copied().zip(first) {
            let last = own.iter().find(|(visit, _)| *visit == through_visit).map_or(first, |(_, seq)| *seq);
            let (prompt, text) = (steps.stored(first)?.0.step.edge.prompt, steps.compaction(seq)?.text);
            let last = steps.step(last)?.place;
            builder = Builder::compacted(history_policy.clone(), (&prompt, &text), through_visit, last);
            covered = through_visit;
        }
        let own: Vec<u64> = own.into_iter().filter(|(visit, _)| *visit > covered).map(|(_, seq)| seq).collect();
        let read = own.chunks(READ_AHEAD).flat_map(|seqs| seqs.iter().copied().zip(steps.stored_all(seqs)));
        for (seq, stored) in read {
            let (stored, note) = stored?;
            let round = Round { lane: stored.step.lane.clone(), opened_by: note.opened_by };
            let step = stored.step;
            if let Some(policy) = steps.binding(step.start)?.history_policy(opening.role) {
                builder.set_policy(policy.clone());
            }
            let history = builder.history_policy().history;
            let context_report = match note.context_report {
                Some(context_report) => context_report,
                None => builder.context_report(&step.prev, seq, steps)?,
            };
            builder.open(&step.edge.prompt, &context_report, &step.edge.files);
            let transcript = step.transcript.filter(|_| history == History::Exact);
            let transcript: Option<Transcript> =
                transcript.map(|digest| rebuild::object(steps.store(), Kind::Transcript, digest)).transpose()?;
            builder.close(StepLocation { seq, round }, &step.answer, transcript.as_ref());
        }
    }
    builder.set_policy(history_policy.clone());
    Ok(builder)
}
