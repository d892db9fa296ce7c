//! What the roles of a running thread remember: their conversations, extended visit by visit.
//!
//! It is `history` kept warm. Whatever is forgotten here is recollected, with the same bytes: a role's own visits from
//! its steps, and what it was told in between from their notes, or from the other roles' steps where a note has it not.
//! `rebuild` trusts no note.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rondo_agent_kit::history::{self, Episode, Telling};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::Conversation;
use rondo_protocol::object::Transcript;
use rondo_protocol::workflow::{ContextWhat, History};

use crate::cast::Reading;
use crate::rebuild;
use crate::store::{Error, Read, StoredStep};
use crate::thread::{self, State};

/// How many steps are read at once when older ones are needed.
const CHUNK: u64 = 64;

/// The conversations of a thread's roles in the trunk.
#[derive(Default)]
pub(super) struct Memories {
    roles: BTreeMap<RoleName, Memory>,
}

struct Memory {
    conversation: Arc<Conversation>,
    /// The number of the role's last step, 0 before its first.
    last_seq: u64,
}

/// A visit that has been opened.
pub(super) struct Opened {
    /// The messages of its first request.
    pub(super) conversation: Arc<Conversation>,
    /// What the role was told of the steps since its last visit; `None` where nobody will ask for it again.
    pub(super) told: Option<String>,
}

/// Where older steps are read from.
pub(super) struct Steps<'a> {
    pub(super) store: &'a dyn Read,
    pub(super) thread: &'a ThreadId,
    pub(super) readings: &'a BTreeMap<RoleName, Reading>,
}

impl Memories {
    /// Opens a role's next visit.
    pub(super) fn open(
        &mut self,
        role: &RoleName,
        telling: &Telling,
        prompt: &str,
        state: &State,
        steps: &Steps<'_>,
    ) -> Result<Opened, Error> {
        let mut memory = match self.roles.remove(role) {
            Some(memory) => memory,
            None => recollect(role, telling, state, steps)?,
        };
        let since = memory.last_seq + 1..=state.seq;
        let told = told(role, telling, memory.last_seq == 0, since, &state.recent, steps)?;
        Arc::make_mut(&mut memory.conversation).push(history::opening(prompt, &told));
        let conversation = Arc::clone(&memory.conversation);
        self.roles.insert(role.clone(), memory);
        Ok(Opened { conversation, told: (telling.history != History::None).then_some(told) })
    }

    /// Closes the visit with its answer, which became step `seq`.
    pub(super) fn close(
        &mut self,
        role: &RoleName,
        telling: &Telling,
        answer: &str,
        transcript: Option<&Transcript>,
        seq: u64,
    ) {
        if let Some(memory) = self.roles.get_mut(role) {
            memory.last_seq = seq;
            if telling.history == History::None {
                memory.conversation = Arc::default();
            } else {
                Arc::make_mut(&mut memory.conversation).extend(history::closing(telling.history, answer, transcript));
            }
        }
    }

    /// Forgets a role's conversation, because its visit did not come to an answer.
    pub(super) fn forget(&mut self, role: &RoleName) {
        self.roles.remove(role);
    }
}

fn recollect(role: &RoleName, telling: &Telling, state: &State, steps: &Steps<'_>) -> Result<Memory, Error> {
    let visits = state.visits(role);
    let mut memory = Memory { conversation: Arc::default(), last_seq: 0 };
    if visits == 0 {
        return Ok(memory);
    }
    if telling.history == History::None {
        memory.last_seq = state.roles.get(role).map_or(0, |visited| visited.latest.seq);
        return Ok(memory);
    }
    let conversation = Arc::make_mut(&mut memory.conversation);
    for (_, seq) in steps.store.visits(steps.thread, &LanePath::trunk(), role, 1..=visits)? {
        let what = || format!("step {seq} of thread {} is missing", steps.thread);
        let (own, note) = steps.store.step(steps.thread, seq)?.ok_or_else(|| Error::Damaged { what: what() })?;
        let told = if let Some(told) = note.told {
            told
        } else {
            let since = memory.last_seq + 1..=seq.saturating_sub(1);
            told(role, telling, memory.last_seq == 0, since, &VecDeque::new(), steps)?
        };
        conversation.push(history::opening(&own.step.edge.prompt, &told));
        let transcript = match own.step.transcript.filter(|_| telling.history == History::Exact) {
            Some(digest) => Some(rebuild::object::<Transcript>(steps.store, Kind::Transcript, digest)?),
            None => None,
        };
        conversation.extend(history::closing(telling.history, &own.step.answer, transcript.as_ref()));
        memory.last_seq = seq;
    }
    Ok(memory)
}

/// What happened in the steps of `range`, newest first from `recent` and then from the store, no more of them than
/// the summary asks for.
fn told(
    role: &RoleName,
    telling: &Telling,
    before_first: bool,
    range: RangeInclusive<u64>,
    recent: &VecDeque<Arc<Episode>>,
    steps: &Steps<'_>,
) -> Result<String, Error> {
    let mut backward = Backward {
        steps,
        recent,
        with_bodies: telling.context.what == ContextWhat::Bodies,
        first: *range.start(),
        next: *range.end(),
        chunk: Vec::new(),
        fault: None,
    };
    let text = history::summary(telling, role, before_first, &mut backward);
    backward.fault.map_or(Ok(text), Err)
}

/// Episodes from `next` down to `first`.
struct Backward<'a, 's> {
    steps: &'a Steps<'s>,
    recent: &'a VecDeque<Arc<Episode>>,
    with_bodies: bool,
    first: u64,
    next: u64,
    /// Read and not given yet, oldest first.
    chunk: Vec<Arc<Episode>>,
    fault: Option<Error>,
}

impl Iterator for Backward<'_, '_> {
    type Item = Arc<Episode>;

    fn next(&mut self) -> Option<Arc<Episode>> {
        if self.next < self.first || self.fault.is_some() {
            return None;
        }
        if self.chunk.is_empty() {
            if let Some(episode) = self.at_hand() {
                self.next -= 1;
                return Some(episode);
            }
            self.read();
        }
        let episode = self.chunk.pop()?;
        self.next -= 1;
        Some(episode)
    }
}

impl Backward<'_, '_> {
    fn at_hand(&self) -> Option<Arc<Episode>> {
        let oldest = self.recent.front()?.seq;
        let index = usize::try_from(self.next.checked_sub(oldest)?).ok()?;
        self.recent.get(index).cloned()
    }

    fn read(&mut self) {
        let from = self.next.saturating_sub(CHUNK - 1).max(self.first);
        let (chunk, with_bodies, steps) = (&mut self.chunk, self.with_bodies, self.steps);
        let scanned = steps.store.scan(steps.thread, from..=self.next, &mut |stored: StoredStep, _| {
            let role = &stored.step.role;
            let body =
                if with_bodies { rebuild::body(steps.readings, role, &stored.step.answer) } else { String::new() };
            chunk.push(Arc::new(thread::episode(stored.seq, &stored.step, body)));
            true
        });
        self.fault = scanned.err();
    }
}
