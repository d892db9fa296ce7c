//! Rebuilds what was sent: every request of every transcript from the steps and the objects they name.
//!
//! Law `rebuild`: the digest of each rebuilt request is the one that the transcript names. Nothing here trusts what a
//! run kept in memory; it starts from the store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_agent_kit::history::{self, Episode};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{RoleName, ThreadId};
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::{self, Entry, Head, LAYOUT, Note, Start, Transcript};
use rondo_protocol::workflow::{History, RoleKind, Workflow};
use rondo_protocol::{Digest, canonical};

use crate::cast::{self, Reading};
use crate::store::{self, Read, Row, StoredStep};
use crate::thread;

/// One request, rebuilt.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The step.
    pub seq: u64,
    /// The role's visit.
    pub visit: u64,
    /// Who asked.
    pub role: RoleName,
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
    Cast(#[from] cast::Error),
    /// The thread pins a layout that this version cannot write.
    #[error(transparent)]
    Layout(#[from] history::UnknownLayout),
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
    let damaged = |what: String| store::Error::Damaged { what };
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
    let Beginning { workflow, start } = beginning(store, row)?;
    if start.layout != LAYOUT {
        return Err(history::UnknownLayout { found: start.layout }.into());
    }
    let mut rebuilding = Rebuilding::new(store, &workflow)?;
    let mut fault = None;
    store.scan(thread, 1..=row.seq, &mut |stored, _: Note| match rebuilding.step(&stored, wanted(&stored), each) {
        Ok(goes_on) => goes_on,
        Err(error) => {
            fault = Some(error);
            false
        }
    })?;
    fault.map_or(Ok(()), Err)
}

/// What a role's answer says beside its fields; empty where there is no answer or it cannot be read.
pub fn body(readings: &BTreeMap<RoleName, Reading>, role: &RoleName, answer: &str) -> String {
    readings.get(role).map(|reading| reading.body(answer)).unwrap_or_default()
}

struct Told {
    telling: history::Telling,
    script: cast::Script,
    conversation: Conversation,
    /// The other roles' episodes since its last visit, oldest first.
    since: VecDeque<Arc<Episode>>,
    visited: bool,
}

struct Rebuilding<'a> {
    store: &'a dyn Read,
    readings: BTreeMap<RoleName, Reading>,
    roles: BTreeMap<RoleName, Told>,
    heads: BTreeMap<Digest, Head>,
}

impl<'a> Rebuilding<'a> {
    fn new(store: &'a dyn Read, workflow: &Workflow) -> Result<Self, Error> {
        let readings = cast::readings(workflow)?;
        let mut roles = BTreeMap::new();
        for (name, role) in &workflow.roles {
            let (RoleKind::Model(model), Some(Reading::Contract(contract))) = (&role.kind, readings.get(name)) else {
                continue;
            };
            let told = Told {
                telling: cast::telling(model),
                script: cast::script(model, contract),
                conversation: Conversation::default(),
                since: VecDeque::new(),
                visited: false,
            };
            roles.insert(name.clone(), told);
        }
        Ok(Self { store, readings, roles, heads: BTreeMap::new() })
    }

    fn step(
        &mut self,
        stored: &StoredStep,
        wanted: bool,
        each: &mut dyn FnMut(Request) -> bool,
    ) -> Result<bool, Error> {
        let step = &stored.step;
        let mut goes_on = true;
        if let Some(mut told) = self.roles.remove(&step.role) {
            if told.telling.history == History::None {
                told.conversation.truncate(0);
            }
            let newest_first = told.since.iter().rev().map(Arc::as_ref);
            let summary = history::summary(&told.telling, &step.role, !told.visited, newest_first);
            told.conversation.push(history::opening(&step.edge.prompt, &summary));
            let opened = told.conversation.messages().len();
            let exact = told.telling.history == History::Exact;
            let transcript = match step.transcript.filter(|_| wanted || exact) {
                Some(digest) => Some(object::<Transcript>(self.store, Kind::Transcript, digest)?),
                None => None,
            };
            if let Some(transcript) = transcript.as_ref().filter(|_| wanted) {
                goes_on = self.transcript(stored, transcript, &mut told, each)?;
                told.conversation.truncate(opened);
            }
            told.conversation.extend(history::closing(told.telling.history, &step.answer, transcript.as_ref()));
            told.since.clear();
            told.visited = true;
            self.roles.insert(step.role.clone(), told);
        }
        let body = body(&self.readings, &step.role, &step.answer);
        let episode = Arc::new(thread::episode(stored.seq, step, body));
        for (role, told) in &mut self.roles {
            let context = &told.telling.context;
            if history::tells_of(context, role, &step.role) {
                told.since.push_back(Arc::clone(&episode));
                if told.since.len() > history::most_episodes(context) {
                    told.since.pop_front();
                }
            }
        }
        Ok(goes_on)
    }

    fn transcript(
        &mut self,
        stored: &StoredStep,
        transcript: &Transcript,
        told: &mut Told,
        each: &mut dyn FnMut(Request) -> bool,
    ) -> Result<bool, Error> {
        for entry in &transcript.entries {
            if let Entry::Model { asked, head, request, .. } = entry {
                let request = self.request(stored, told, *head, *request, *asked)?;
                if !each(request) {
                    return Ok(false);
                }
            }
            if let Some(message) = history::spoken(entry) {
                told.conversation.push(message);
            }
        }
        Ok(true)
    }

    fn request(
        &mut self,
        stored: &StoredStep,
        told: &Told,
        head_digest: Digest,
        recorded: Digest,
        asked: Option<Digest>,
    ) -> Result<Request, Error> {
        let head = match self.heads.get(&head_digest) {
            Some(head) => head.clone(),
            None => object::<Head>(self.store, Kind::Head, head_digest)?,
        };
        self.heads.insert(head_digest, head.clone());
        let plain = told.conversation.messages().to_vec();
        let mut request = Request {
            seq: stored.seq,
            visit: stored.visit,
            role: stored.step.role.clone(),
            recorded,
            rebuilt: told.conversation.request(head_digest),
            asked,
            head_digest,
            head,
            messages: plain,
            asked_messages: None,
            fault: None,
        };
        if asked.is_some() {
            let rewritten: object::Request = object(self.store, Kind::Request, recorded)?;
            request.rebuilt = rewritten.digest();
            request.asked_messages = Some(std::mem::replace(&mut request.messages, rewritten.messages));
        } else if request.head.system != told.script.system
            || request.head.response_format != told.script.response_format
        {
            request.fault = Some("its head is not the one that the workflow gives this role".to_owned());
        }
        Ok(request)
    }
}
