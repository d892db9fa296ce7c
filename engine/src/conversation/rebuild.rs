//! Rebuilds what was sent: every request of every transcript from the steps and the objects they name.
//!
//! Law `rebuild`: the digest of each rebuilt request is the one that the transcript names. Nothing here trusts what a
//! run kept in memory; it starts from the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::conversation::{self, Builder, Key, Rounds, StepLocation};
use rondo_agent_kit::model::openai::ResponseFormat;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{self, Entry, Head, LAYOUT, Note, Start, Transcript};
use rondo_protocol::workflow::{History, Policy, RoleKind, Workflow};
use rondo_protocol::{Digest, canonical};

use crate::conversation::Steps;
use crate::resolved_roles::{self, BodyReader};
use crate::store::{self, Read, Row, StoredStep};

/// One request, rebuilt.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The step.
    pub seq: u64,
    /// The role's visit.
    pub visit: u64,
    /// Who asked.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// The digest that the transcript names.
    pub recorded: Digest,
    /// The digest of the rebuilt request.
    pub rebuilt: Digest,
    /// The request before a hook rewrote it, as the transcript names it.
    pub asked: Option<Digest>,
    /// The digest of the head.
    pub head_digest: Digest,
    /// The head.
    pub head: Head,
    /// The messages as they were sent.
    pub messages: Vec<Message>,
    /// The messages before a hook rewrote them.
    pub asked_messages: Option<Vec<Message>>,
    /// What else is wrong with it.
    pub fault: Option<String>,
}

impl Request {
    /// Whether what was sent is what the steps say.
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
    /// The thread pins a layout that this version cannot write.
    #[error(transparent)]
    Layout(#[from] conversation::UnknownLayout),
}

/// What a thread was begun with.
#[derive(Debug, Clone, PartialEq)]
pub struct Beginning {
    /// The workflow.
    pub workflow: Workflow,
    /// The beginning.
    pub start: Start,
}

/// The object of that digest, read as a `T`.
///
/// # Errors
/// When it is missing, damaged or of another shape.
pub fn object<T: serde::de::DeserializeOwned>(store: &dyn Read, kind: Kind, digest: Digest) -> Result<T, store::Error> {
    let damaged = |what: String| store::Error::from(store::Damage::new(what).of_object(digest));
    let bytes = store
        .object(kind, digest)?
        .ok_or_else(|| damaged(format!("the {} object {digest} is missing", kind.name())))?;
    canonical::from_slice(&bytes)
        .map_err(|error| damaged(format!("the {} object {digest} cannot be read: {error}", kind.name())))
}

/// What a thread was begun with.
///
/// # Errors
/// When an object is missing or damaged.
pub fn beginning(store: &dyn Read, row: &Row) -> Result<Beginning, store::Error> {
    Ok(Beginning {
        workflow: object(store, Kind::Workflow, row.workflow)?,
        start: object(store, Kind::Start, row.start)?,
    })
}

/// A thread's policy.
///
/// # Errors
/// When the object is missing or damaged.
pub fn policy(store: &dyn Read, row: &Row) -> Result<Policy, store::Error> {
    object(store, Kind::Policy, row.policy)
}

/// One request as it is rebuilt: borrowed, so that one of a long conversation costs no more than one of a short one.
#[derive(Debug)]
pub struct Sent<'a> {
    /// The step.
    pub stored: &'a StoredStep,
    /// The digest that the transcript names.
    pub recorded: Digest,
    /// The digest of the rebuilt request.
    pub rebuilt: Digest,
    /// The request before a hook rewrote it, as the transcript names it.
    pub asked: Option<Digest>,
    /// The digest of the head.
    pub head_digest: Digest,
    /// The head.
    pub head: &'a Arc<Head>,
    /// The messages as the steps make them.
    pub plain: &'a [Message],
    /// How many of `plain` stand in front of the visit.
    pub before: usize,
    /// How many messages `plain` shares with that of the request of this role that was handed out before it.
    pub kept: usize,
    /// The messages that were sent in place of `plain`, where a hook rewrote them.
    pub rewritten: Option<Vec<Message>>,
    /// What else is wrong with it.
    pub fault: Option<String>,
}

impl Sent<'_> {
    /// The messages as they were sent.
    pub fn messages(&self) -> &[Message] {
        self.rewritten.as_deref().unwrap_or(self.plain)
    }

    fn into_request(self) -> Request {
        let plain = self.plain.to_vec();
        let (messages, asked_messages) = match self.rewritten {
            Some(rewritten) => (rewritten, Some(plain)),
            None => (plain, None),
        };
        Request {
            seq: self.stored.seq,
            visit: self.stored.visit,
            role: self.stored.step.role.clone(),
            lane: self.stored.step.lane.clone(),
            recorded: self.recorded,
            rebuilt: self.rebuilt,
            asked: self.asked,
            head_digest: self.head_digest,
            head: Head::clone(self.head),
            messages,
            asked_messages,
            fault: self.fault,
        }
    }
}

/// A visit of a role that a model plays, after its requests.
#[derive(Debug)]
pub struct RebuiltVisit<'a> {
    /// The step.
    pub stored: &'a StoredStep,
    /// What is known of it and not hashed.
    pub note: &'a Note,
    /// The message that opened it.
    pub opening: &'a Message,
    /// What was said in it.
    pub transcript: Option<&'a Transcript>,
}

/// What a walk through a thread meets, in order.
#[derive(Debug)]
pub enum RebuildEvent<'a> {
    /// A request.
    Request(Sent<'a>),
    /// The end of a visit.
    Visit(RebuiltVisit<'a>),
}

/// Rebuilds every request of a thread in order and hands each to `each` until it says stop (`false`). `wanted` says
/// of which steps: the requests of the others are not made, only their place in the history.
///
/// # Errors
/// When a step or an object is missing or damaged.
pub fn requests(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    wanted: &dyn Fn(&StoredStep) -> bool,
    each: &mut dyn FnMut(Request) -> bool,
) -> Result<(), Error> {
    walk(store, thread, row, wanted, &mut |met| match met {
        RebuildEvent::Request(sent) => each(sent.into_request()),
        RebuildEvent::Visit(_) => true,
    })
}

/// As [`requests`], without a copy of their messages, and with the ends of visits.
///
/// # Errors
/// As [`requests`].
pub fn walk(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    wanted: &dyn Fn(&StoredStep) -> bool,
    each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
) -> Result<(), Error> {
    let Beginning { workflow, start } = beginning(store, row)?;
    if start.layout != LAYOUT {
        return Err(conversation::UnknownLayout { found: start.layout }.into());
    }
    if row.seq == 0 {
        return Ok(());
    }
    let mut rebuilding = Rebuilding::new(store, thread, &workflow)?;
    let mut fault = None;
    store.scan(
        thread,
        1..=row.seq,
        &mut |stored, note| match rebuilding.step(&stored, &note, wanted(&stored), each) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                fault = Some(error);
                false
            }
        },
    )?;
    fault.map_or(Ok(()), Err)
}

/// What a role's answer says beside its fields; empty where there is no answer or it cannot be read.
pub fn body(body_readers: &BTreeMap<RoleName, BodyReader>, role: &RoleName, answer: &str) -> String {
    body_readers.get(role).map(|reading| reading.body(answer)).unwrap_or_default()
}

/// A role's history policy, and what its heads hold.
struct RoleHistory {
    history_policy: conversation::HistoryPolicy,
    script: resolved_roles::Script,
}

impl RoleHistory {
    /// The request with what is wrong with it: a head that no hook rewrote is the one that the workflow gives.
    fn checked<'a>(&self, sent: Sent<'a>) -> Sent<'a> {
        let schema = self.script.response_format.as_deref();
        let held = sent.head.response_format.as_deref();
        let is_given = sent.head.system == self.script.system
            && ResponseFormat::ALL.iter().any(|format| format.in_head(schema) == held);
        let fault = (sent.asked.is_none() && !is_given)
            .then(|| "its head is not the one that the workflow gives this role".to_owned());
        Sent { fault, ..sent }
    }
}

/// A role's conversation in one lane.
struct WalkState {
    builder: Builder,
    /// The messages up to what was handed out last, side by side.
    plain: Vec<Message>,
    /// How many of them have stood since a request was last handed out.
    kept: usize,
}

impl WalkState {
    fn new(builder: Builder) -> Self {
        Self { builder, plain: Vec::new(), kept: 0 }
    }

    fn truncate(&mut self, length: usize) {
        self.plain.truncate(length);
        self.kept = self.kept.min(length);
    }
}

struct Rebuilding<'a> {
    store: &'a dyn Read,
    steps: Steps<'a>,
    roles: BTreeMap<RoleName, RoleHistory>,
    heads: BTreeMap<Digest, Arc<Head>>,
    walked: BTreeMap<Key, WalkState>,
    rounds: Rounds,
    /// Lanes that have spoken.
    lanes: BTreeSet<LanePath>,
}

impl<'a> Rebuilding<'a> {
    fn new(store: &'a dyn Read, thread: &ThreadId, workflow: &Workflow) -> Result<Self, Error> {
        let body_readers = resolved_roles::body_readers(workflow)?;
        let mut roles = BTreeMap::new();
        for (name, role) in &workflow.roles {
            let (RoleKind::Model(model), Some(BodyReader::Contract(contract))) = (&role.kind, body_readers.get(name))
            else {
                continue;
            };
            let told = RoleHistory {
                history_policy: resolved_roles::history_policy(model),
                script: resolved_roles::script(model, contract),
            };
            roles.insert(name.clone(), told);
        }
        let names = workflow.roles.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self {
            store,
            steps: Steps::new(store, thread.clone(), names, body_readers),
            roles,
            heads: BTreeMap::new(),
            walked: BTreeMap::new(),
            rounds: Rounds::default(),
            lanes: BTreeSet::new(),
        })
    }

    fn step(
        &mut self,
        stored: &StoredStep,
        note: &Note,
        wanted: bool,
        each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
    ) -> Result<bool, Error> {
        let step = &stored.step;
        let place = self.rounds.step(stored.seq, stored.digest, &step.lane, &step.prev);
        self.enter(&place);
        let mut goes_on = true;
        if let Some(told) = self.roles.remove(&step.role) {
            let key = Key::new(&step.role, &step.lane);
            let new = || WalkState::new(Builder::new(told.history_policy.clone()));
            let mut walked = self.walked.remove(&key).unwrap_or_else(new);
            goes_on = self.visit(stored, note, &told, &mut walked, &place, wanted, each)?;
            self.walked.insert(key, walked);
            self.roles.insert(step.role.clone(), told);
        }
        self.steps.keep(stored.clone(), note);
        Ok(goes_on)
    }

    /// A lane that was first opened goes on with the conversations of the lane that it was opened in.
    fn enter(&mut self, place: &StepLocation) {
        let lane = &place.round.lane;
        let Some(parent) = lane.parent() else { return };
        self.steps.prove(place.seq, place.round.opened_by.clone());
        if self.lanes.insert(lane.clone()) {
            for role in self.roles.keys() {
                if let Some(walked) = self.walked.get(&Key::new(role, &parent)) {
                    let begun = WalkState::new(walked.builder.clone());
                    self.walked.insert(Key::new(role, lane), begun);
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is another part of one step")]
    fn visit(
        &mut self,
        stored: &StoredStep,
        note: &Note,
        told: &RoleHistory,
        walked: &mut WalkState,
        place: &StepLocation,
        wanted: bool,
        each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
    ) -> Result<bool, Error> {
        let step = &stored.step;
        let summary = walked.builder.told(&step.prev, stored.seq, &self.steps)?;
        let before = walked.builder.len();
        walked.truncate(before);
        let opened = walked.builder.open(&step.edge.prompt, &summary);
        walked.plain.extend(opened.after(walked.plain.len()).into_iter().cloned());
        let exact = told.history_policy.history == History::Exact;
        let transcript = match step.transcript.filter(|_| wanted || exact) {
            Some(digest) => Some(object::<Transcript>(self.store, Kind::Transcript, digest)?),
            None => None,
        };
        let mut goes_on = true;
        if let Some(transcript) = transcript.as_ref().filter(|_| wanted) {
            goes_on = self.transcript(stored, transcript, opened, told, walked, each)?;
            walked.truncate(before + 1);
        }
        if wanted
            && goes_on
            && let Some(opening) = walked.plain.last()
        {
            goes_on =
                each(RebuildEvent::Visit(RebuiltVisit { stored, note, opening, transcript: transcript.as_ref() }));
        }
        walked.builder.close(place.clone(), &step.answer, transcript.as_ref());
        Ok(goes_on)
    }

    fn transcript(
        &mut self,
        stored: &StoredStep,
        transcript: &Transcript,
        opened: Conversation,
        told: &RoleHistory,
        walked: &mut WalkState,
        each: &mut dyn FnMut(RebuildEvent<'_>) -> bool,
    ) -> Result<bool, Error> {
        let (mut said, before) = (opened, walked.builder.len());
        for entry in &transcript.entries {
            if let Entry::Model { asked, head, request, .. } = entry {
                let rewritten = match asked {
                    Some(_) => Some(object::<object::Request>(self.store, Kind::Request, *request)?),
                    None => None,
                };
                let rebuilt = match &rewritten {
                    Some(rewritten) => rewritten.digest(),
                    None => said.request(*head),
                };
                let (head_digest, head) = (*head, self.head(*head)?);
                let sent = Sent {
                    stored,
                    recorded: *request,
                    rebuilt,
                    asked: *asked,
                    head_digest,
                    head: &head,
                    plain: &walked.plain,
                    before,
                    kept: walked.kept,
                    rewritten: rewritten.map(|rewritten| rewritten.messages),
                    fault: None,
                };
                let goes_on = each(RebuildEvent::Request(told.checked(sent)));
                walked.kept = walked.plain.len();
                if !goes_on {
                    return Ok(false);
                }
            }
            if let Some(message) = conversation::spoken(entry) {
                walked.plain.push(message.clone());
                said.push(message);
            }
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
