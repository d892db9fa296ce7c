//! The builder: a conversation for each role and lane, extended visit by visit.
//!
//! Whatever is forgotten here is recollected with the same bytes: a role's own visits from its steps, and what it was
//! told in between from their notes, or from the other roles' steps where a note has it not or is not to be trusted.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::history::{self, Telling};
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Conversation;
use rondo_protocol::object::Transcript;
use rondo_protocol::workflow::History;

use super::steps::Steps;
use super::walk::{Walk, around};
use crate::rebuild;
use crate::store::Error;

/// The conversations of a thread's roles, by lane and role.
#[derive(Default)]
pub struct Conversations {
    open: BTreeMap<(LanePath, RoleName), Open>,
}

struct Open {
    conversation: Arc<Conversation>,
    /// The last visit of the role's own history, 0 before its first.
    last_seq: u64,
}

/// A visit to be opened.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// In which lane.
    pub lane: &'a LanePath,
    /// Whose.
    pub role: &'a RoleName,
    /// What it is given.
    pub prompt: &'a str,
    /// The steps that it follows.
    pub prev: &'a [Digest],
    /// The number of its step, or of one after those that it follows.
    pub before: u64,
    /// For each part of the lane's path the step that opened its first round.
    pub first_opened_by: &'a [u64],
    /// Whether what earlier visits were told may be taken from their notes.
    pub trusts_notes: bool,
}

/// A visit that has been opened.
pub struct Opened {
    /// The messages of its first request.
    pub conversation: Arc<Conversation>,
    /// What the role was told of the steps since its last visit.
    pub told: String,
}

impl Conversations {
    /// Opens a role's next visit.
    ///
    /// # Errors
    /// When a step that it needs is missing or damaged.
    pub fn open(&mut self, opening: &Opening<'_>, telling: &Telling, steps: &Steps<'_>) -> Result<Opened, Error> {
        let key = (opening.lane.clone(), opening.role.clone());
        let mut open = match self.open.remove(&key) {
            Some(open) => open,
            None => recollect(opening, telling, steps)?,
        };
        let told = told(telling, opening.role, open.last_seq, (opening.prev, opening.before), steps)?;
        Arc::make_mut(&mut open.conversation).push(history::opening(opening.prompt, &told));
        let conversation = Arc::clone(&open.conversation);
        self.open.insert(key, open);
        Ok(Opened { conversation, told })
    }

    /// Closes the visit with its answer, which became step `seq`.
    pub fn close(
        &mut self,
        lane: &LanePath,
        role: &RoleName,
        telling: &Telling,
        answer: &str,
        transcript: Option<&Transcript>,
        seq: u64,
    ) {
        let Some(open) = self.open.get_mut(&(lane.clone(), role.clone())) else { return };
        open.last_seq = seq;
        if telling.history == History::None {
            open.conversation = Arc::default();
        } else {
            Arc::make_mut(&mut open.conversation).extend(history::closing(telling.history, answer, transcript));
        }
    }

    /// Forgets a role's conversation, because its visit did not come to an answer.
    pub fn forget(&mut self, lane: &LanePath, role: &RoleName) {
        self.open.remove(&(lane.clone(), role.clone()));
    }

    /// Forgets every conversation of a lane and of those within it: it has ended.
    pub fn forget_lane(&mut self, lane: &LanePath) {
        let within = format!("{lane}/");
        self.open.retain(|(of, _), _| of != lane && !of.as_str().starts_with(&within));
    }
}

/// The steps of a role's own history: those of the lanes around from before this lane was first opened, then its own.
fn own_history(opening: &Opening<'_>, steps: &Steps<'_>) -> Result<Vec<u64>, Error> {
    let mut own = Vec::new();
    let through = opening.first_opened_by.iter().copied().chain([opening.before.saturating_sub(1)]);
    for (lane, through) in around(opening.lane).iter().zip(through) {
        own.extend(steps.visits_of(lane, opening.role, through)?);
    }
    Ok(own)
}

fn recollect(opening: &Opening<'_>, telling: &Telling, steps: &Steps<'_>) -> Result<Open, Error> {
    let mut open = Open { conversation: Arc::default(), last_seq: 0 };
    let own = own_history(opening, steps)?;
    if telling.history == History::None {
        open.last_seq = own.last().copied().unwrap_or(0);
        return Ok(open);
    }
    let conversation = Arc::make_mut(&mut open.conversation);
    for seq in own {
        let (stored, note) = steps.stored(seq)?;
        let step = stored.step;
        let told = match note.told.filter(|_| opening.trusts_notes) {
            Some(told) => told,
            None => told(telling, opening.role, open.last_seq, (&step.prev, seq), steps)?,
        };
        conversation.push(history::opening(&step.edge.prompt, &told));
        let transcript = match step.transcript.filter(|_| telling.history == History::Exact) {
            Some(digest) => Some(rebuild::object::<Transcript>(steps.store(), Kind::Transcript, digest)?),
            None => None,
        };
        conversation.extend(history::closing(telling.history, &step.answer, transcript.as_ref()));
        open.last_seq = seq;
    }
    Ok(open)
}

/// What happened since step `last` of the role's own history, for a visit that follows `prev`.
fn told(
    telling: &Telling,
    role: &RoleName,
    last: u64,
    (prev, before): (&[Digest], u64),
    steps: &Steps<'_>,
) -> Result<String, Error> {
    let mut walk = Walk::new(steps, prev, before, last)?;
    let text = history::summary(telling, role, last == 0, &mut walk);
    walk.fault.map_or(Ok(text), Err)
}
