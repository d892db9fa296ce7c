//! Calls, the unit that hooks see, and their replies.
//!
//! A *turn* is a whole visit of a role, a *model* call one request, a *tool* call one invocation. The agent loop acts
//! only by performing calls; hooks are between it and the port.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::canonical::Value;
use crate::diagnostic::Code;
use crate::digest::Digest;
use crate::file::File;
use crate::hint::Hint;
use crate::id::{LanePath, RoleName, Status, ThreadId};
use crate::message::Conversation;
use crate::object::{AnsweredBy, Head, ModelReply, Transcript, Usage};
use crate::read_set::ReadSet;

pub use crate::call_kind::CallKind;

/// The location of a call in a thread. It is context, not content: equal calls of two threads differ in it. Sites are
/// ordered by their fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    pub thread: ThreadId,
    pub role: RoleName,
    pub lane: LanePath,
    /// The role's visit in that lane, from 1.
    pub visit: u64,
    /// The call's position in the step, from 0; a retry keeps it.
    pub position: u32,
}

/// One unit of work that passes through hooks to a port.
#[derive(Debug, Clone)]
pub enum Call {
    Turn(TurnCall),
    Model(ModelCall),
    Tool(ToolCall),
}

impl Call {
    pub fn kind(&self) -> CallKind {
        match self {
            Self::Turn(_) => CallKind::Turn,
            Self::Model(_) => CallKind::Model,
            Self::Tool(_) => CallKind::Tool,
        }
    }

    pub fn site(&self) -> &Site {
        match self {
            Self::Turn(call) => &call.site,
            Self::Model(call) => &call.site,
            Self::Tool(call) => &call.site,
        }
    }
}

/// A whole visit of a model role: its first request.
#[derive(Debug, Clone)]
pub struct TurnCall {
    pub site: Site,
    pub head_digest: Digest,
    pub head: Arc<Head>,
    pub conversation: Arc<Conversation>,
}

#[derive(Debug, Clone)]
pub struct ModelCall {
    pub site: Site,
    /// The number of earlier attempts at this call.
    pub attempt: u32,
    /// The number of earlier attempts of this role in this lane, over the whole thread: the position in a script.
    pub ordinal: u64,
    pub model: String,
    pub head_digest: Digest,
    pub head: Arc<Head>,
    pub conversation: Arc<Conversation>,
    pub files: Files,
    pub time_left: Duration,
}

/// The contents of files, by their digests. They are read when a call is about to be made.
#[derive(Clone, Default)]
pub struct Files(Arc<BTreeMap<Digest, Arc<[u8]>>>);

impl Files {
    pub fn get(&self, digest: Digest) -> Option<&[u8]> {
        self.0.get(&digest).map(AsRef::as_ref)
    }
}

impl FromIterator<(Digest, Arc<[u8]>)> for Files {
    fn from_iter<T: IntoIterator<Item = (Digest, Arc<[u8]>)>>(files: T) -> Self {
        Self(Arc::new(files.into_iter().collect()))
    }
}

impl fmt::Debug for Files {
    /// Only their digests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl ModelCall {
    pub fn request(&self) -> Digest {
        self.conversation.request(self.head_digest)
    }
}

#[derive(Debug, Clone)]
pub struct ToolCall {
    pub site: Site,
    /// The model's id for this call.
    pub id: String,
    pub name: String,
    /// The arguments as received; they are JSON and match the tool's schema.
    pub arguments: String,
    pub effect: Effect,
    /// The same for every execution of this call: thread, step and call.
    pub idempotency_key: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Effect {
    /// Its result depends only on its arguments.
    Pure,
    Reads(Vec<String>),
    Writes(Vec<String>),
    /// Anything else.
    External,
}

impl Effect {
    pub fn name(&self) -> &'static str {
        self.into()
    }

    pub fn is_repeatable(&self) -> bool {
        matches!(self, Self::Pure | Self::Reads(_))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Turn(Box<TurnReply>),
    Model(ModelAnswer),
    Tool(ToolReply),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnReply {
    pub transcript: Transcript,
    /// The answer exactly as it entered the thread.
    pub answer: String,
    /// The text of the answer outside its fields.
    pub body: String,
    pub status: Status,
    pub output: Value,
    /// The tokens of all its model calls, if counted.
    pub usage: Option<Usage>,
    /// The cost of all its model calls in US dollars, if a price is known.
    pub cost_usd: Option<f64>,
    /// The resolved model of the last reply.
    pub model: Option<String>,
    /// The logical name of the model that answered last, if it is not the role's first.
    pub fallback: Option<String>,
    /// What gave the last model reply.
    pub answered_by: Option<AnsweredBy>,
    /// The number of attempts at a port, including failed ones.
    #[serde(default)]
    pub attempts: u64,
    /// The read set of its tool calls; `None` = one of them did more than read, failed, or has no read set.
    #[serde(skip)]
    pub seen: Option<ReadSet>,
}

impl TurnReply {
    /// A visit that answered with a status and no fields, without any model or tool call.
    pub fn said(status: Status, answer: impl Into<String>) -> Self {
        Self {
            transcript: Transcript::default(),
            answer: answer.into(),
            body: String::new(),
            status,
            output: Value::empty_object(),
            usage: None,
            cost_usd: None,
            model: None,
            fallback: None,
            answered_by: None,
            attempts: 0,
            seen: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    pub reply: ModelReply,
    pub usage: Option<Usage>,
    /// US dollars, if a price is known.
    pub cost_usd: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReply {
    pub text: String,
    /// The files that belong to it, with their contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    pub failed: bool,
    /// For a failed call: the code of its fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Its read set; `None` = unknown.
    #[serde(skip)]
    pub seen: Option<ReadSet>,
}

impl ToolReply {
    /// The bytes of its text and its files.
    pub fn size_bytes(&self) -> usize {
        self.files.iter().map(|file| file.bytes.len()).sum::<usize>().saturating_add(self.text.len())
    }

    pub fn said(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn failed(text: impl Into<String>, code: Option<Code>) -> Self {
        Self { text: text.into(), failed: true, code: code.map(|code| code.to_string()), ..Self::default() }
    }
}

/// Why a call could not be answered. An operating fault, not a fault of the author's file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    pub code: Code,
    pub class: FaultClass,
    /// What happened, without secrets.
    pub message: String,
    /// How long the other side asked to wait, not yet clamped.
    pub retry_after_ms: Option<u64>,
    /// The limit that was reached, if one with a key in workflow files was.
    pub limit: Option<Box<ReachedLimit>>,
    /// What the provider billed for the attempt, if it said so.
    pub billed: Option<Box<Billed>>,
    /// How the thread continues, and what to change before it.
    pub hint: Option<Hint>,
}

/// What a provider billed for an attempt that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Billed {
    pub usage: Usage,
    pub cost_usd: Option<f64>,
}

/// A limit that stands in the way of a visit or a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ReachedLimit {
    /// Its key below `limits` in a workflow file.
    pub key: &'static str,
    /// The role whose own limit it may be.
    pub role: Option<RoleName>,
    /// Whether the thread's limit of that key may be the one.
    pub is_of_thread: bool,
    /// The least value that lets the visit or call through, in the key's unit; milliseconds for a time.
    pub needed: f64,
}

/// The class of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// The provider asks for fewer requests.
    RateLimit,
    /// The provider has an internal fault, or broke the protocol.
    Server,
    /// The provider sent nothing for too long.
    Timeout,
    /// The provider could not be reached, or the connection broke.
    Network,
    /// The request was refused: a key, a model or a parameter is wrong. Another attempt would be refused again.
    Refused,
    /// The answer broke its contract three times.
    Contract,
    /// A script has no entry left, or a recording does not contain the request.
    ScriptEnd,
    /// A limit was reached.
    Limit,
    /// Something is not permitted.
    Denied,
    /// It is unknown whether a tool call took effect.
    InDoubt,
    /// A hook that must not be bypassed failed.
    Hook,
    /// The store failed.
    Store,
    /// A recording cannot be written any further.
    Recording,
    /// The run was cancelled.
    Cancelled,
}

impl Fault {
    pub fn new(code: Code, class: FaultClass, message: impl Into<String>) -> Self {
        Self { code, class, message: message.into(), retry_after_ms: None, limit: None, billed: None, hint: None }
    }

    pub fn of_limit(code: Code, limit: ReachedLimit, message: impl Into<String>) -> Self {
        Self { limit: Some(Box::new(limit)), ..Self::new(code, FaultClass::Limit, message) }
    }

    /// The same fault of an attempt for which this was billed.
    #[must_use]
    pub fn with_usage(self, usage: Option<Usage>) -> Self {
        Self { billed: usage.map(|usage| Box::new(Billed { usage, cost_usd: None })), ..self }
    }

    /// The reserved status that routes it, or `None` when a graph cannot route it.
    pub fn routed_by(&self) -> Option<crate::object::FaultKind> {
        use crate::object::FaultKind;
        match self.class {
            FaultClass::RateLimit
            | FaultClass::Server
            | FaultClass::Network
            | FaultClass::Refused
            | FaultClass::Contract
            | FaultClass::Hook => Some(FaultKind::Error),
            FaultClass::Timeout => Some(FaultKind::Timeout),
            FaultClass::Limit => Some(FaultKind::Limit),
            FaultClass::ScriptEnd
            | FaultClass::Denied
            | FaultClass::InDoubt
            | FaultClass::Store
            | FaultClass::Recording
            | FaultClass::Cancelled => None,
        }
    }
}
