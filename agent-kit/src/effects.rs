//! The loop's only way to act.
//!
//! A turn is a pure conversation between the loop and the performer of its calls. The engine stands behind
//! [`Effects`] with a journal, retries and hooks; a test stands there with a list of replies.

use futures_util::future::BoxFuture;
use rondo_protocol::Digest;
use rondo_protocol::call::{Call, Fault, Reply, ToolCall, ToolReply};
use rondo_protocol::object::AnsweredBy;

/// Performs calls.
pub trait Effects: Send {
    /// Performs one call, however many attempts that takes.
    ///
    /// # Errors
    /// The fault of the last attempt.
    fn perform(&mut self, call: Call) -> BoxFuture<'_, Result<Performed, Fault>>;

    /// Performs tool calls none of which changes what another sees: side by side where that is possible. The replies
    /// stand in the order of the calls.
    ///
    /// # Errors
    /// The fault of the first call, in that order, that has one.
    fn perform_side_by_side(&mut self, calls: Vec<ToolCall>) -> BoxFuture<'_, Result<Vec<Performed>, Fault>>;

    /// Tells of a tool call that the loop answered by itself, without making it.
    fn answered(&mut self, call: ToolCall, reply: ToolReply) -> BoxFuture<'_, ()>;

    /// Tells what the loop made of the reply to the last model call.
    fn settle(&mut self, verdict: Verdict) -> BoxFuture<'_, ()>;
}

/// A reply, and how it came about.
#[derive(Debug, Clone)]
pub struct Performed {
    /// The reply, redacted.
    pub reply: Reply,
    /// Who gave it.
    pub answered_by: AnsweredBy,
    /// Of a model call: what was sent.
    pub sent: Option<Sent>,
}

/// What was sent to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The digest of the head: that of another model's after a fallback, or of a hook's after a rewrite.
    pub head: Digest,
    /// The digest of the request.
    pub request: Digest,
    /// The digest of the request as the loop asked it, when a hook rewrote it.
    pub asked: Option<Digest>,
    /// The resolved model.
    pub model: String,
    /// The logical name of the model, when it is not the role's first.
    pub fallback: Option<String>,
}

/// What the loop made of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It keeps the contract, or asks for tools.
    Accepted,
    /// It does not, and is sent back.
    Refused,
}
