//! Calls: the unit that hooks see, and what comes back.
//!
//! A *turn* is a whole visit of a role, a *model* call one request, a *tool* call one invocation. The agent loop acts
//! only by performing calls; hooks stand between it and the port.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::canonical::Value;
use crate::diagnostic::Code;
use crate::digest::Digest;
use crate::id::{LanePath, RoleName, Status, ThreadId};
use crate::message::Conversation;
use crate::object::{AnsweredBy, Head, ModelReply, Transcript, Usage};
use crate::read_set::ReadSet;

pub use crate::call_kind::CallKind;

/// Where in which thread a call is made. It is context, not content: equal calls of two threads differ in it. Its order
/// is that of its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The thread.
    pub thread: ThreadId,
    /// Who acts.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// The role's visit in that lane, from 1.
    pub visit: u64,
    /// The call's position in the step, from 0; a retry keeps it.
    pub position: u32,
}

/// One unit of work that passes through hooks to a port.
#[derive(Debug, Clone)]
pub enum Call {
    /// A whole visit.
    Turn(TurnCall),
    /// One request.
    Model(ModelCall),
    /// One invocation.
    Tool(ToolCall),
}

impl Call {
    /// Which of the three.
    pub fn kind(&self) -> CallKind {
        match self {
            Self::Turn(_) => CallKind::Turn,
            Self::Model(_) => CallKind::Model,
            Self::Tool(_) => CallKind::Tool,
        }
    }

    /// Where it is made.
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
    /// Where.
    pub site: Site,
    /// The digest of `head`.
    pub head_digest: Digest,
    /// The request head of every request of the turn.
    pub head: Arc<Head>,
    /// The messages of the first request.
    pub conversation: Arc<Conversation>,
}

/// One request to a model.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// Where.
    pub site: Site,
    /// How often this call was tried before: 0 the first time.
    pub attempt: u32,
    /// Attempts that this role made in this lane before this one, over the whole thread: the position in a script.
    pub ordinal: u64,
    /// The logical name of the model that is asked.
    pub model: String,
    /// The digest of `head`.
    pub head_digest: Digest,
    /// The request head.
    pub head: Arc<Head>,
    /// The messages.
    pub conversation: Arc<Conversation>,
    /// What is left of the deadline.
    pub time_left: Duration,
}

impl ModelCall {
    /// The digest of the request.
    pub fn request(&self) -> Digest {
        self.conversation.request(self.head_digest)
    }
}

/// One invocation of a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Where.
    pub site: Site,
    /// The model's name for this use.
    pub id: String,
    /// The tool, by its name in workflows.
    pub name: String,
    /// The arguments as received; they are JSON and keep the tool's schema.
    pub arguments: String,
    /// What the tool says it does to the world.
    pub effect: Effect,
    /// The same for every execution of this use: thread, step and call.
    pub idempotency_key: String,
}

/// What a tool says it does to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Its result depends on its arguments alone.
    Pure,
    /// It reads these paths.
    Reads(Vec<String>),
    /// It writes these paths.
    Writes(Vec<String>),
    /// Anything else.
    External,
}

impl Effect {
    /// The word in settings and events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Reads(_) => "reads",
            Self::Writes(_) => "writes",
            Self::External => "external",
        }
    }

    /// Whether repeating the call changes nothing.
    pub fn is_repeatable(&self) -> bool {
        matches!(self, Self::Pure | Self::Reads(_))
    }
}

/// What came back from a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Of a turn.
    Turn(Box<TurnReply>),
    /// Of a model.
    Model(ModelAnswer),
    /// Of a tool.
    Tool(ToolReply),
}

/// What a whole visit came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnReply {
    /// What was said.
    pub transcript: Transcript,
    /// The answer exactly as it entered the thread.
    pub answer: String,
    /// What the answer says beside its fields.
    pub body: String,
    /// The status it chose.
    pub status: Status,
    /// The declared fields.
    pub output: Value,
    /// Tokens of all its model calls, where they were counted.
    pub usage: Option<Usage>,
    /// US dollars of all its model calls, where a price is known.
    pub cost_usd: Option<f64>,
    /// The resolved model of the last reply.
    pub model: Option<String>,
    /// The logical name of the model that answered last, when it is not the role's first.
    pub fallback: Option<String>,
    /// Who gave the last model reply.
    pub answered_by: Option<AnsweredBy>,
    /// Attempts at a port that it took, failed ones too.
    #[serde(default)]
    pub attempts: u64,
    /// What its tool calls read; `None` = one of them did more than read, failed, or has no read set.
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

/// A complete reply of a model with what its provider said of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// What it said.
    pub reply: ModelReply,
    /// Tokens, where the provider counted.
    pub usage: Option<Usage>,
    /// US dollars, where a price is known.
    pub cost_usd: Option<f64>,
}

/// A result of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReply {
    /// What it said.
    pub text: String,
    /// Whether the call failed.
    pub failed: bool,
    /// Of a call that failed: the code of its fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What it read of the file system; `None` = unknown.
    #[serde(skip)]
    pub seen: Option<ReadSet>,
}

impl ToolReply {
    /// A result.
    pub fn said(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The reply of a call that failed.
    pub fn failed(text: impl Into<String>, code: Option<Code>) -> Self {
        Self { text: text.into(), failed: true, code: code.map(|code| code.to_string()), seen: None }
    }
}

/// Why a call could not be answered. An operating fault, not a fault of the author's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    /// The code, which has a page.
    pub code: Code,
    /// What kind of fault it is, which decides whether another attempt may cure it.
    pub class: FaultClass,
    /// What happened and what to do, without secrets.
    pub message: String,
    /// How long the other side asked to wait, not yet clamped.
    pub retry_after_ms: Option<u64>,
}

/// What kind a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// The provider asks for fewer requests.
    RateLimit,
    /// The provider has a fault of its own, or broke the protocol.
    Server,
    /// Silence for too long.
    Timeout,
    /// It could not be reached, or the connection broke.
    Network,
    /// The request was refused: a key, a model or a parameter is wrong. Another attempt would be refused again.
    Refused,
    /// The answer broke its contract three times.
    Contract,
    /// A script has no entry left, or a recording does not hold the request.
    ScriptEnd,
    /// A limit was reached.
    Limit,
    /// Something is not permitted.
    Denied,
    /// It is not known whether a tool call had its effect.
    InDoubt,
    /// A hook failed that must not be bypassed.
    Hook,
    /// The store failed.
    Store,
    /// A recording cannot be written any further.
    Recording,
    /// The run was told to stop.
    Cancelled,
}

impl Fault {
    /// A fault without a wish for a pause.
    pub fn new(code: Code, class: FaultClass, message: impl Into<String>) -> Self {
        Self { code, class, message: message.into(), retry_after_ms: None }
    }

    /// Which of the reserved statuses routes it, or `None` when it is not for a graph to route.
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
