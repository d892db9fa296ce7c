//! The inputs and outputs of a machine.

use rondo_agent_kit::conversation::{Episode, StepLocation};
use rondo_protocol::call::Fault;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{self, CommittedSite};
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::message::FileRef;
use rondo_protocol::object::{BoundedEdge, Followed, Note, Observation, Record};
use rondo_protocol::workflow::Limits;
use rondo_protocol::{Digest, Value};

use super::origin::Ending;
use super::task::Task;
use crate::graph::Graph;
use std::sync::Arc;

/// Kind, digest, canonical bytes.
pub type Object = (Kind, Digest, Vec<u8>);

/// The definition of a machine.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The workflow.
    pub graph: Arc<Graph>,
    /// The digest of the thread's start.
    pub start: Digest,
    /// The input, an object.
    pub input: Arc<Value>,
    /// The limits in force: the lower of workflow and operator.
    pub limits: Limits,
}

/// An input of the machine.
#[derive(Debug)]
pub enum Input {
    /// The driver is ready: a new thread starts, or an existing one continues.
    Begin {
        /// The start of the thread, in Unix milliseconds.
        at_ms: u64,
    },
    /// A visit of a lane ended.
    Ended {
        /// Which lane.
        lane: LanePath,
        /// Its outcome.
        end: Box<VisitEnd>,
    },
    /// The request of a visit exceeds what its role's `compact` allows.
    TooLong {
        /// The lane.
        lane: LanePath,
        /// The bytes of the messages that a compaction replaces.
        leaving_bytes: usize,
    },
    /// A commit became durable as requested; commits complete in the order of the requests.
    Synced {
        /// The row's version after it.
        version: u64,
    },
    /// The thread has to end for good. No visit is in progress.
    Cancel {
        /// Unix milliseconds.
        at_ms: u64,
    },
}

/// An output of the machine.
#[derive(Debug, Clone)]
pub enum Action {
    /// Store this.
    Commit(Box<Commit>),
    /// Visit a role.
    Visit(Box<Visit>),
    /// A lane is no longer needed: stop its visit.
    CancelLane(LanePath),
    /// Notify observers.
    Tell(Notice),
    /// The thread has ended, and its end is stored.
    Finish(Ending),
    /// The thread stops and can be resumed.
    Stop(Fault),
}

/// A visit to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// The lane.
    pub lane: LanePath,
    /// For each part of the lane's path the step that opened this round.
    pub opened_by: Vec<u64>,
    /// For each part of the lane's path the step that opened the first round.
    pub first_opened_by: Vec<u64>,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    /// The role.
    pub role: RoleName,
    /// The number of the role's visit in this lane, from 1.
    pub visit: u64,
    /// The role's earlier attempts in this lane.
    pub attempts: u64,
    /// The prompt.
    pub prompt: String,
    /// The files that go with it.
    pub files: Vec<FileRef>,
    /// What it has to do.
    pub task: Task,
    /// When the role's history is compacted first; `None` if it cannot be.
    pub compact: Option<CompactOffer>,
    /// Whether a text that was to replace older visits was refused.
    pub is_uncompacted: bool,
    /// Milliseconds of wall time left for the thread.
    pub wall_time_left_ms: Option<u64>,
    /// The limit on wall time.
    pub wall_time_limit_ms: Option<u64>,
}

/// When a role's history is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactOffer {
    /// If the request exceeds so many tokens, estimated as a quarter of its bytes.
    pub at_tokens: u64,
    /// The last visit that the text would cover.
    pub through_visit: u64,
}

/// The outcome of a visit.
#[derive(Debug)]
pub struct VisitEnd {
    /// The answer, or the fault.
    pub outcome: Result<Answered, Fault>,
    /// The note, which is not hashed.
    pub note: Note,
    /// Objects that its step names and that are not stored yet.
    pub objects: Vec<Object>,
    /// Milliseconds spent only waiting for a person.
    pub waited_ms: u64,
    /// The tool that had started an effect when the visit was cancelled, and did not end in time.
    pub effect_unknown: Option<String>,
}

impl VisitEnd {
    /// The end of a visit that waited for nobody, stored nothing and left no effect in doubt.
    pub fn of(outcome: Result<Answered, Fault>, note: Note) -> Self {
        Self { outcome, note, objects: Vec::new(), waited_ms: 0, effect_unknown: None }
    }
}

/// The answer of a visit.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The status.
    pub status: Status,
    /// The declared fields.
    pub output: Value,
    /// The answer exactly as it entered the thread.
    pub answer: String,
    /// The body.
    pub body: String,
    /// The digest of the transcript.
    pub transcript: Option<Digest>,
    /// Observations that affect routing.
    pub observations: Vec<Observation>,
}

impl Answered {
    /// An answer that no call gave, so that it has no text.
    pub(super) fn uncalled(status: Status, output: Value) -> Self {
        Self { status, output, answer: String::new(), body: String::new(), transcript: None, observations: Vec::new() }
    }
}

/// The contents of one commit.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// The row's version after it.
    pub version: u64,
    /// The step, if this commit adds one.
    pub step: Option<NewStep>,
    /// The compaction or rebind, if this commit adds one.
    pub epoch: Option<NewEpoch>,
    /// The number of the last step.
    pub seq: u64,
    /// The digest of the trunk's last step.
    pub head: Option<Digest>,
    /// The trunk's fold and the thread's usage.
    pub checkpoint: Vec<u8>,
    /// The lane of the step, unless it is the trunk; after steps were followed every open lane, because its row may be
    /// missing.
    pub lanes: Vec<(LanePath, LaneState)>,
    /// Lanes whose rows are deleted.
    pub closed: Vec<LanePath>,
    /// The list of an `each` that this step opens, with the number of the step; after steps were followed every list of an
    /// open fan-out.
    pub lists: Vec<(u64, Arc<Value>)>,
    /// The list that is no longer needed, by the step that opened it.
    pub closed_list: Option<u64>,
    /// Objects that the step names.
    pub objects: Vec<Object>,
    /// Lanes whose journal is cleared.
    pub clear_journal: Vec<LanePath>,
    /// The thread's end, if this commit ends it.
    pub ending: Option<Ending>,
}

/// A step to store.
#[derive(Debug, Clone)]
pub struct NewStep {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    /// Its transcript, if a call was made.
    pub transcript: Option<Digest>,
    /// The role's visit in its lane, from 1.
    pub visit: u64,
    /// The note, which is not hashed.
    pub note: Note,
    /// The step for templates.
    pub episode: Arc<Episode>,
}

/// A compaction or a rebind to store.
#[derive(Debug, Clone)]
pub struct NewEpoch {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// The record.
    pub record: Record,
    /// Its location among the steps.
    pub place: StepLocation,
    /// The note, which is not hashed.
    pub note: Note,
}

/// A lane's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneState {
    /// Its last step.
    pub frontier: Option<Digest>,
    /// The lane's part of the fold.
    pub fold: Vec<u8>,
    /// The step that opened this round.
    pub opened_by: u64,
    /// Its position.
    pub index: u32,
}

/// A notice to observers.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A record has been synced.
    Committed {
        /// Its visit.
        site: CommittedSite,
        /// Its number.
        seq: u64,
        /// Its digest.
        step: Digest,
        /// The steps it follows.
        prev: Vec<Digest>,
        /// The status of a step.
        status: Option<Status>,
        /// When it ended, in Unix milliseconds.
        at_ms: u64,
    },
    /// What followed a step, or the start.
    After {
        /// The visit it followed; `None` for the start.
        visit: Option<event::Visit>,
        /// That visit's status.
        status: Option<Status>,
        /// What followed.
        followed: Followed,
    },
}

/// The state that an earlier process left of a visit in flight.
#[derive(Debug, Clone, Default)]
pub struct InFlight {
    /// What the replies received have used.
    pub used: Note,
    /// The fault to stop with if a tool call may have had its effect.
    pub in_doubt: Option<Fault>,
}

/// An earlier step, for a machine that follows it.
#[derive(Debug, Clone)]
pub struct PastStep {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// The body.
    pub body: String,
    /// The note, which is not hashed.
    pub note: Note,
}

/// How a machine reached a step that it followed.
#[derive(Debug, Clone, PartialEq)]
pub struct ReachedBy {
    /// The part of the workflow that led there.
    pub part: Arc<str>,
    /// The prompt that it renders.
    pub prompt: String,
    /// For each part of the step's lane the step that opened this round.
    pub opened_by: Vec<u64>,
    /// For each part of the step's lane the step that opened the first round.
    pub first_opened_by: Vec<u64>,
    /// What followed from the step, in the order of its events.
    pub after: Vec<Followed>,
    /// The bounded edge that leaves the step.
    pub left_by: Option<BoundedEdge>,
}
