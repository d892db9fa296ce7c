//! The loop's only way to act.
//!
//! A turn is a pure exchange between the loop and the performer of its calls. The engine implements [`Effects`] with a
//! journal, retries and hooks; a test implements it with a list of replies.

use futures_util::future::BoxFuture;
use rondo_protocol::Digest;
use rondo_protocol::call::{Call, Fault, Reply, ToolCall, ToolReply};
use rondo_protocol::object::AnsweredBy;

pub trait Effects: Send {
    /// Performs one call, with as many attempts as needed.
    ///
    /// # Errors
    /// The fault of the last attempt.
    fn perform(&mut self, call: Call) -> BoxFuture<'_, Result<Performed, Fault>>;

    /// Performs tool calls none of which changes what another sees: side by side where possible. Returns the replies in
    /// the order of the calls.
    ///
    /// # Errors
    /// The first fault, in the order of the calls.
    fn perform_side_by_side(&mut self, calls: Vec<ToolCall>) -> BoxFuture<'_, Result<Vec<Performed>, Fault>>;

    /// Reports a tool call that the loop answered itself, without making it.
    fn answered(&mut self, call: ToolCall, reply: ToolReply) -> BoxFuture<'_, ()>;

    /// Reports the verdict on the reply to the last model call: with `refused`, why it was refused.
    fn settle(&mut self, refused: Option<String>) -> BoxFuture<'_, ()>;
}

#[derive(Debug, Clone)]
pub struct Performed {
    /// The reply, redacted.
    pub reply: Reply,
    pub answered_by: AnsweredBy,
    pub sent: Option<Sent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The digest of the request head: of another model's after a fallback, or of a hook's after a rewrite.
    pub head: Digest,
    pub request: Digest,
    /// The digest of the request as the loop asked it, if a hook rewrote it.
    pub asked: Option<Digest>,
    pub model: String,
    /// The logical name of the model, if it is not the role's first.
    pub fallback: Option<String>,
}

/// The loop's verdict on a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The reply keeps the contract, or asks for tools.
    Accepted,
    /// The reply breaks the contract: it is sent back, or ends the visit.
    Refused,
}
