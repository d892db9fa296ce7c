//! What goes into a machine and what comes out of it.

use super::origin::Ending;
use crate::graph::Graph;
use rondo_agent_kit::conversation::Episode;
use rondo_protocol::call::Fault;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{self};
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::object::{Followed, Note, Observation, Step, Usage};
use rondo_protocol::workflow::Limits;
use rondo_protocol::{Digest, Value};
use std::sync::Arc;

/// Kind, digest, canonical bytes.
pub type Object = (Kind, Digest, Vec<u8>);

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The workflow.
    pub graph: Arc<Graph>,
    /// The digest of the thread's beginning.
    pub start: Digest,
    /// The input, an object.
    pub input: Arc<Value>,
    /// The limits in force: the lower of workflow and operator.
    pub limits: Limits,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The driver is ready: a new thread begins, or one goes on.
    Begin,
    /// A visit of a lane ended.
    Ended {
        /// Which lane.
        lane: LanePath,
        /// What it came to.
        end: Box<VisitEnd>,
    },
    /// A commit was made as durable as it was wanted; commits come back in the order in which they were asked for.
    Synced {
        /// The row's version after it.
        version: u64,
    },
    /// The thread is to end for good. No visit is under way any more.
    Cancel {
        /// Unix milliseconds.
        at_ms: u64,
    },
}

/// What is to be done.
#[derive(Debug, Clone)]
pub enum Action {
    /// Store this.
    Commit(Box<Commit>),
    /// Visit a role.
    Visit(Box<Visit>),
    /// A lane is not needed any more: its visit is to stop and to end.
    CancelLane(LanePath),
    /// Notify observers.
    Tell(Notice),
    /// The thread has ended, and that is stored.
    Finish(Ending),
    /// The thread stops and can be resumed.
    Stop(Fault),
}

/// A visit to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// In which lane.
    pub lane: LanePath,
    /// For each part of the lane's path the step that opened this round.
    pub opened_by: Vec<u64>,
    /// The same of the first round.
    pub first_opened_by: Vec<u64>,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    /// Whose visit.
    pub role: RoleName,
    /// Which one in this lane, from 1.
    pub visit: u64,
    /// Attempts that the role made in this lane before.
    pub attempts: u64,
    /// What it is given.
    pub prompt: String,
    /// Of a tool role: what its tool is given, an object.
    pub args: Option<Value>,
    /// Milliseconds of wall time that are left to the thread.
    pub wall_time_left_ms: Option<u64>,
    /// The limit that they are left of.
    pub wall_time_limit_ms: Option<u64>,
}

/// What a visit came to.
#[derive(Debug)]
pub struct VisitEnd {
    /// The answer, or why there is none.
    pub outcome: Result<Answered, Fault>,
    /// What is known of it and not hashed.
    pub note: Note,
    /// Objects that its step names and that are not stored yet.
    pub objects: Vec<Object>,
    /// Milliseconds in which it only waited for a person.
    pub waited_ms: u64,
    /// The tool that was changing something when the visit was cancelled, and did not end in time.
    pub effect_unknown: Option<String>,
}

/// The answer of a visit.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The status that it chose.
    pub status: Status,
    /// The declared fields.
    pub output: Value,
    /// The answer exactly as it entered the thread.
    pub answer: String,
    /// What it says beside its fields.
    pub body: String,
    /// What was said within it.
    pub transcript: Option<Digest>,
    /// What happened on the way that decides what follows.
    pub observations: Vec<Observation>,
}

/// What is stored at once.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The row's version after it.
    pub version: u64,
    /// The step, if this commit adds one.
    pub step: Option<NewStep>,
    /// The number of the last step.
    pub seq: u64,
    /// The digest of the trunk's last step.
    pub head: Option<Digest>,
    /// The trunk's fold and what the thread used.
    pub checkpoint: Vec<u8>,
    /// The lane that the step belongs to, unless that is the trunk.
    pub lane: Option<(LanePath, LaneState)>,
    /// Lanes whose rows go.
    pub closed: Vec<LanePath>,
    /// The list of an `each` that is opened by this step, by that step.
    pub list: Option<(u64, Arc<Value>)>,
    /// The list that is not needed any more, by the step that opened it.
    pub closed_list: Option<u64>,
    /// Objects that the step names.
    pub objects: Vec<Object>,
    /// Lanes whose journal is cleared.
    pub clear_journal: Vec<LanePath>,
    /// The thread's end, if this is it.
    pub ending: Option<Ending>,
}

/// A step to be stored.
#[derive(Debug, Clone)]
pub struct NewStep {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// The step.
    pub step: Step,
    /// The role's visit in its lane, from 1.
    pub visit: u64,
    /// What is known of it and not hashed.
    pub note: Note,
    /// As templates see it.
    pub episode: Arc<Episode>,
}

/// A lane as its row keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneState {
    /// Its last step.
    pub frontier: Option<Digest>,
    /// Its part of the fold.
    pub fold: Vec<u8>,
    /// The step that opened this round of it.
    pub opened_by: u64,
    /// Its position.
    pub index: u32,
}

/// What observers are notified of.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// A step has been synced.
    Committed {
        /// Whose.
        visit: event::Visit,
        /// Its number.
        seq: u64,
        /// Its digest.
        step: Digest,
        /// The steps it follows.
        prev: Vec<Digest>,
        /// The status it chose.
        status: Status,
        /// When it ended, in Unix milliseconds.
        at_ms: u64,
    },
    /// What followed from it, or from the beginning.
    After {
        /// The visit that it follows from; `None` = the beginning.
        visit: Option<event::Visit>,
        /// The status that it chose.
        status: Option<Status>,
        /// What followed.
        followed: Followed,
    },
}

/// What an earlier process left of a visit in flight.
#[derive(Debug, Clone, Default)]
pub struct InFlight {
    /// Tokens of the replies that it had got.
    pub usage: Option<Usage>,
    /// What these cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// How many they are.
    pub model_calls: u64,
    /// The fault to stop with because it is unknown whether a tool call had its effect.
    pub in_doubt: Option<Fault>,
}

/// A step that was committed before, for a machine that follows it.
#[derive(Debug, Clone)]
pub struct PastStep {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// What it says beside its fields.
    pub body: String,
    /// What is known of it and not hashed.
    pub note: Note,
}

/// How a machine came to a step that it followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedBy {
    /// Which part of the workflow led there.
    pub part: Arc<str>,
    /// For each part of the step's lane the step that opened this round.
    pub opened_by: Vec<u64>,
    /// The same of the first round.
    pub first_opened_by: Vec<u64>,
}
