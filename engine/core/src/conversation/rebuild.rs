//! Rebuilds every request of every transcript from the steps and the objects they name.
//!
//! Law `rebuild`: the digest of each rebuilt request equals the one in the transcript. This code uses only the store,
//! and nothing that a run kept in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::conversation::{self, Builder, Key, Rounds, StepLocation};
use rondo_agent_kit::model::ResponseFormat;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{self, Compaction, Entry, Head, LAYOUT, Note, Rebind, Record, Start, Transcript};
use rondo_protocol::workflow::{History, Policy, Workflow};
use rondo_protocol::{Digest, canonical};

use crate::conversation::Steps;
use crate::resolved_roles;
use crate::store::{self, Read, Row, StoredRecord, StoredStep};

/// One request, rebuilt. Its conversations share their beginnings with those of the other requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The record: a step, or a compaction, whose text was asked for.
    pub seq: u64,
    /// The visit; of a compaction, the last one that its text covers.
    pub visit: u64,
    /// The role that was asked.
    pub role: RoleName,
    /// The lane.
    pub lane: LanePath,
    /// Whether it asked for the text of a compaction.
    pub is_compaction: bool,
    /// The digest in the transcript.
    pub recorded: Digest,
    /// The digest of the rebuilt request.
    pub rebuilt: Digest,
    /// The digest of the request before a hook rewrote it, from the transcript.
    pub asked: Option<Digest>,
    /// The digest of the head.
    pub head_digest: Digest,
    /// The head.
    pub head: Arc<Head>,
    /// The messages built from the steps.
    pub plain: Conversation,
    /// How many of `plain` precede the visit.
    pub before: usize,
    /// The messages sent in place of `plain`, if a hook rewrote them.
    pub rewritten: Option<Conversation>,
    /// Any other defect.
    pub fault: Option<String>,
}

impl Request {
    /// The messages as sent.
    pub fn messages(&self) -> &Conversation {
        self.rewritten.as_ref().unwrap_or(&self.plain)
    }

    /// Whether the request sent follows from the steps.
    pub fn is_proven(&self) -> bool {
        self.rebuilt == self.recorded && self.fault.is_none()
    }
}

/// Why a thread cannot be rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The definition does not fit this version.
    #[error(transparent)]
    ResolvedRoles(#[from] resolved_roles::Error),
    /// The thread pins a layout that this version does not support.
    #[error(transparent)]
    Layout(#[from] conversation::UnknownLayout),
}

/// The start of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Beginning {
    /// The workflow.
    pub workflow: Workflow,
    /// The start object.
    pub start: Start,
}

/// Reads the object with a digest as a `T`.
///
/// # Errors
/// If it is missing, damaged or of another shape.
pub fn object<T: serde::de::DeserializeOwned>(store: &dyn Read, kind: Kind, digest: Digest) -> Result<T, store::Error> {
    let damaged = |what: String| store::Error::from(store::Damage::new(what).of_object(digest));
    let bytes = store
        .object(kind, digest)?
        .ok_or_else(|| damaged(format!("the {} object {digest} is missing", kind.name())))?;
    canonical::from_slice(&bytes)
        .map_err(|error| damaged(format!("the {} object {digest} cannot be read: {error}", kind.name())))
}

/// Reads the start of a thread.
pub fn beginning(store: &dyn Read, row: &Row) -> Result<Beginning, store::Error> {
    Ok(Beginning {
        workflow: object(store, Kind::Workflow, row.workflow)?,
        start: object(store, Kind::Start, row.start)?,
    })
}

/// The workflow of a start, which this version can lay out.
fn definition(store: &dyn Read, start: Digest) -> Result<Workflow, Error> {
    let Start { workflow, layout, .. } = object(store, Kind::Start, start)?;
    if layout != LAYOUT {
        return Err(conversation::UnknownLayout { found: layout }.into());
    }
    Ok(object(store, Kind::Workflow, workflow)?)
}

/// Reads a thread's policy.
pub fn policy(store: &dyn Read, row: &Row) -> Result<Policy, store::Error> {
    object(store, Kind::Policy, row.policy)
}

/// A visit of a model role, after its requests.
#[derive(Debug)]
pub struct RebuiltVisit<'a> {
    /// The step.
    pub stored: &'a StoredStep,
    /// Its note, which is not hashed.
    pub note: &'a Note,
    /// The message that opened it.
    pub opening: &'a Message,
    /// Its transcript.
    pub transcript: Option<&'a Transcript>,
}

/// What [`walk`] visits, in order.
#[derive(Debug)]
pub enum RebuildEvent<'a> {
    /// A request.
    Request(Box<Request>),
    /// The end of a visit.
    Visit(RebuiltVisit<'a>),
    /// A compaction, after its requests.
    Compaction(RebuiltCompaction<'a>),
}

/// A compaction: from here on, the conversation is that of another epoch.
#[derive(Debug)]
pub struct RebuiltCompaction<'a> {
    /// Its number.
    pub seq: u64,
    /// The record.
    pub compaction: &'a Compaction,
    /// Its note, which is not hashed.
    pub note: &'a Note,
    /// The bytes of the conversation before it and after it.
    pub bytes: (usize, usize),
}

/// Rebuilds every request of a thread in order and passes each to `each` until it returns `false`. `wanted` selects
/// the records: requests of the others are not built, only their place in the history.
///
/// # Errors
/// If a step or an object is missing or damaged.
pub fn requests(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    wanted: &dyn Fn(&StoredRecord) -> bool,
    each: &mut dyn FnMut(Request) -> bool,
) -> Result<(), Error> {
    walk(store, thread, row, wanted, &mut |met| match met {
        RebuildEvent::Request(request) => each(*request),
        RebuildEvent::Visit(_) | RebuildEvent::Compaction(_) => true,
    })
}

/// Like [`requests`], with the ends of visits and compactions.
pub fn walk(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    wanted: &dyn Fn(&StoredRecord) -> bool,
    each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
) -> Result<(), Error> {
    if row.seq == 0 {
        return Ok(());
    }
    let first = store.record_at(thread, 1)?.map_or(row.start, |(stored, _)| stored.record.start());
    let mut rebuilding = Rebuilding::new(store, thread, first)?;
    let mut fault = None;
    store.scan(thread, 1..=row.seq, &mut |stored, note| {
        let goes_on = rebuilding.record(stored, &note, wanted, each);
        goes_on.unwrap_or_else(|error| {
            fault = Some(error);
            false
        })
    })?;
    fault.map_or(Ok(()), Err)
}

/// A role's history policy, and the contents of its heads.
struct RoleHistory {
    /// The role that writes the text of a compaction.
    by: Option<RoleName>,
    history_policy: conversation::HistoryPolicy,
    script: resolved_roles::Script,
}

impl RoleHistory {
    /// What is wrong with a head that no hook rewrote.
    fn fault_of(&self, head: &Head) -> Option<String> {
        let (schema, given) = (self.script.response_format.as_deref(), head.response_format.as_deref());
        let is_given = head.system == self.script.system
            && ResponseFormat::ALL.iter().any(|format| format.in_head(schema) == given);
        (!is_given).then(|| "its head is not the one that the workflow gives this role".to_owned())
    }
}

#[derive(Clone)]
struct WalkState {
    builder: Builder,
    /// The prompt of the first visit.
    first_prompt: Option<String>,
}

struct Rebuilding<'a> {
    store: &'a dyn Read,
    steps: Steps<'a>,
    roles: BTreeMap<RoleName, Arc<RoleHistory>>,
    heads: BTreeMap<Digest, Arc<Head>>,
    walked: BTreeMap<Key, WalkState>,
    rounds: Rounds,
    /// Lanes with at least one step.
    lanes: BTreeSet<LanePath>,
}

impl<'a> Rebuilding<'a> {
    fn new(store: &'a dyn Read, thread: &ThreadId, start: Digest) -> Result<Self, Error> {
        let workflow = definition(store, start)?;
        Ok(Self {
            store,
            steps: Steps::new(store, thread.clone(), start, &workflow)?,
            roles: Self::roles(&workflow)?,
            heads: BTreeMap::new(),
            walked: BTreeMap::new(),
            rounds: Rounds::default(),
            lanes: BTreeSet::new(),
        })
    }

    fn roles(workflow: &Workflow) -> Result<BTreeMap<RoleName, Arc<RoleHistory>>, Error> {
        let contracts = resolved_roles::contracts(workflow)?;
        let roles = resolved_roles::model_roles(workflow).filter_map(|(name, _, model)| {
            let history = RoleHistory {
                by: model.compact.as_ref().map(|compact| compact.by.clone()),
                history_policy: resolved_roles::history_policy(model),
                script: resolved_roles::script(workflow, name, model, contracts.get(name)?),
            };
            Some((name.clone(), Arc::new(history)))
        });
        Ok(roles.collect())
    }

    /// Goes on with another definition.
    fn rebind(&mut self, rebind: &Rebind) -> Result<(), Error> {
        self.roles = Self::roles(&definition(self.store, rebind.to)?)?;
        for (key, walked) in &mut self.walked {
            if let Some(history) = self.roles.get(&key.role) {
                walked.builder.set_policy(history.history_policy.clone());
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        stored: StoredRecord,
        note: &Note,
        wanted: &dyn Fn(&StoredRecord) -> bool,
        each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
    ) -> Result<bool, Error> {
        let (lane, prev) = (stored.record.lane().cloned().unwrap_or_else(LanePath::trunk), stored.record.prev());
        let place = self.rounds.step(stored.seq, stored.digest, &lane, prev);
        self.enter(&place);
        self.steps.keep(&stored, note)?;
        let is_wanted = wanted(&stored);
        match &stored.record {
            Record::Compaction(compaction) => self.compaction(&stored, compaction, note, is_wanted, each),
            Record::Rebind(rebind) => self.rebind(rebind).map(|()| true),
            Record::Step(_) => match stored.into_step() {
                Some(step) => self.step(&step, note, place, is_wanted, each),
                None => Ok(true),
            },
        }
    }

    fn step(
        &mut self,
        stored: &StoredStep,
        note: &Note,
        place: StepLocation,
        wanted: bool,
        each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
    ) -> Result<bool, Error> {
        let step = &stored.step;
        let Some(history) = self.roles.get(&step.role).cloned() else { return Ok(true) };
        let key = Key::new(&step.role, &step.lane);
        let new = || WalkState { builder: Builder::new(history.history_policy.clone()), first_prompt: None };
        let mut walked = self.walked.remove(&key).unwrap_or_else(new);
        let summary = walked.builder.context_report(&step.prev, stored.seq, &self.steps)?;
        walked.first_prompt.get_or_insert_with(|| step.edge.prompt.clone());
        let before = walked.builder.len();
        let opened = walked.builder.open(&step.edge.prompt, &summary, &step.edge.files);
        let exact = history.history_policy.history == History::Exact;
        let transcript = step.transcript.filter(|_| wanted || exact);
        let transcript: Option<Transcript> =
            transcript.map(|digest| object(self.store, Kind::Transcript, digest)).transpose()?;
        let mut goes_on = true;
        if let Some(transcript) = transcript.as_ref().filter(|_| wanted) {
            let of = (stored.seq, stored.visit, &key);
            goes_on = self.transcript((of, false), transcript, (opened.clone(), before), &history, each)?;
        }
        if wanted
            && goes_on
            && let [opening] = opened.after(before).as_slice()
        {
            goes_on =
                each(RebuildEvent::Visit(RebuiltVisit { stored, note, opening, transcript: transcript.as_ref() }));
        }
        walked.builder.close(place, &step.answer, transcript.as_ref());
        self.walked.insert(key, walked);
        Ok(goes_on)
    }

    /// Opens an epoch, after the requests for its text.
    fn compaction(
        &mut self,
        stored: &StoredRecord,
        compaction: &Compaction,
        note: &Note,
        wanted: bool,
        each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
    ) -> Result<bool, Error> {
        let Compaction { role, lane, through_visit, text, transcript, .. } = compaction;
        let key = Key::new(role, lane);
        let unfit = || {
            let what = format!("the compaction {} does not fit its workflow", stored.digest);
            Error::Store(store::Damage::new(what).into())
        };
        let by = self.roles.get(role).and_then(|history| history.by.clone()).ok_or_else(unfit)?;
        let mut walked = self.walked.remove(&key).ok_or_else(unfit)?;
        let (asked, _) = walked.builder.leaving(*through_visit).ok_or_else(unfit)?;
        let mut goes_on = true;
        if let Some(digest) = transcript.filter(|_| wanted) {
            let transcript = object::<Transcript>(self.store, Kind::Transcript, digest)?;
            let history = self.roles.get(&by).cloned().ok_or_else(unfit)?;
            let of = (stored.seq, *through_visit, &Key::new(&by, lane));
            goes_on = self.transcript((of, true), &transcript, (asked, 0), &history, each)?;
        }
        let before = walked.builder.size_bytes();
        walked.builder.compact(walked.first_prompt.as_deref().unwrap_or_default(), text, *through_visit);
        let bytes = (before, walked.builder.size_bytes());
        self.walked.insert(key, walked);
        let met = RebuiltCompaction { seq: stored.seq, compaction, note, bytes };
        Ok(goes_on && (!wanted || each(RebuildEvent::Compaction(met))))
    }

    /// A lane that opens for the first time continues the conversations of the lane that opened it.
    fn enter(&mut self, place: &StepLocation) {
        let lane = &place.round.lane;
        let Some(parent) = lane.parent() else { return };
        self.steps.prove(place.seq, place.round.opened_by.clone());
        if self.lanes.insert(lane.clone()) {
            for role in self.roles.keys() {
                if let Some(walked) = self.walked.get(&Key::new(role, &parent)) {
                    let mut begun = walked.clone();
                    begun.builder.enter_lane();
                    self.walked.insert(Key::new(role, lane), begun);
                }
            }
        }
    }

    fn transcript(
        &mut self,
        ((seq, visit, key), is_compaction): ((u64, u64, &Key), bool),
        transcript: &Transcript,
        (mut said, before): (Conversation, usize),
        history: &RoleHistory,
        each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
    ) -> Result<bool, Error> {
        for entry in &transcript.entries {
            if let Entry::Model { asked, head, request, .. } = entry {
                let rewritten: Option<object::Request> =
                    asked.map(|_| object(self.store, Kind::Request, *request)).transpose()?;
                let (rebuilt, rewritten) = match rewritten {
                    Some(object::Request { head, messages }) => {
                        let messages: Conversation = messages.into_iter().collect();
                        (messages.request(head), Some(messages))
                    }
                    None => (said.request(*head), None),
                };
                let (head_digest, head) = (*head, self.head(*head)?);
                let request = Request {
                    seq,
                    visit,
                    role: key.role.clone(),
                    lane: key.lane.clone(),
                    is_compaction,
                    recorded: *request,
                    rebuilt,
                    asked: *asked,
                    head_digest,
                    fault: asked.is_none().then(|| history.fault_of(&head)).flatten(),
                    head,
                    plain: said.clone(),
                    before,
                    rewritten,
                };
                if !each(RebuildEvent::Request(Box::new(request))) {
                    return Ok(false);
                }
            }
            said.extend(conversation::spoken(entry));
        }
        Ok(true)
    }

    fn head(&mut self, digest: Digest) -> Result<Arc<Head>, Error> {
        if let Some(head) = self.heads.get(&digest) {
            return Ok(Arc::clone(head));
        }
        let head = Arc::new(object::<Head>(self.store, Kind::Head, digest)?);
        self.heads.insert(digest, Arc::clone(&head));
        Ok(head)
    }
}
