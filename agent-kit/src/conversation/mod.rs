//! Reconstructs message histories: the messages sent to a role are a pure function of the earlier steps.
//!
//! Law `prefix`: within an epoch of a role in a lane, the first request of visit n+1 starts with the first request of
//! visit n, followed by its answer (`condensed`) or by its whole transcript (`exact`). The layout that formats the
//! texts has a version, which a thread pins.
//!
//! A lane's conversation starts as a copy of its outer lane's, as of the lane's first opening, and continues with the
//! lane's own visits, also across later rounds of the same path. Everything else that a role may know of
//! ([`Round::sees`]) appears in the summary of what happened since, in causal order ([`Position`]), so that nothing
//! depends on which of two lanes was faster.
//!
//! This module uses no clock, no file and no network, and computes no digests.

mod builder;
mod escape;
mod layout_v1;
mod place;
mod summary;
mod walk;

use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::message::{FileRef, Message, Speaker};
use rondo_protocol::object::{Entry, LAYOUT, Transcript};
use rondo_protocol::workflow::{Context, History};

pub use builder::{Builder, Key};
pub use layout_v1::{
    COMPACT_PROMPT, CUT, EMPTY_LINE, LEFT_OUT, NO_ANSWER, SHOWN_MAX_BYTES, choices_text, result_text, summary,
    system_text,
};
pub use place::{Position, Round, Rounds, StepLocation};
pub use summary::Summary;
pub use walk::{Past, PastStep, Walk};

/// A step as history sees it. The body is derived from the answer by its contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Its number in the thread, from 1.
    pub seq: u64,
    pub role: RoleName,
    pub lane: LanePath,
    /// For each part of the lane's path, the number of the step that opened its round; the trunk has none.
    pub opened_by: Vec<u64>,
    /// The edge prompt.
    pub prompt: String,
    /// The exact answer; empty when there was none.
    pub answer: String,
    pub status: Status,
    pub output: Value,
    /// The text of the answer outside its fields.
    pub body: String,
    /// The whole transcript, if its role has an `exact` history.
    pub transcript: Option<Arc<Transcript>>,
}

impl Episode {
    pub fn place(&self) -> StepLocation {
        let round = Round { lane: self.lane.clone(), opened_by: self.opened_by.clone() };
        StepLocation { seq: self.seq, round }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPolicy {
    /// What it sees of its own earlier visits.
    pub history: History,
    /// What it sees of the other roles' steps.
    pub context: Context,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message layout {found} is not known; this version writes layout {LAYOUT}")]
pub struct UnknownLayout {
    pub found: u32,
}

/// Whether a summary within `context` includes steps of `other`.
pub fn tells_of(context: &Context, other: &RoleName) -> bool {
    context.from.as_ref().is_none_or(|from| from.contains(other))
}

/// The message that opens a visit: the prompt and the summary, and the files that go with them.
pub fn opening(prompt: &str, summary: &str, files: &[FileRef]) -> Message {
    Message::user(layout_v1::user_text(prompt, summary)).with_files(files.iter().cloned())
}

/// The messages that close a visit: its answer, or with `exact` its whole transcript, so that the next request extends
/// its last one.
pub fn closing(history: History, answer: &str, transcript: Option<&Transcript>) -> Vec<Message> {
    let mut said: Vec<Message> = match transcript {
        // A visit that a hook answered as a whole may have no transcript, only the answer.
        Some(transcript) if history == History::Exact && !transcript.entries.is_empty() => {
            transcript.entries.iter().filter_map(spoken).collect()
        }
        _ if answer.is_empty() => Vec::new(),
        _ => vec![Message::assistant(answer)],
    };
    if said.last().is_none_or(|last| last.role() != Speaker::Assistant) {
        said.push(Message::assistant(NO_ANSWER));
    }
    said
}

/// The message that an entry adds to the conversation of its turn, for the requests that follow.
pub fn spoken(entry: &Entry) -> Option<Message> {
    match entry {
        // Reasoning is sent back only with tool calls, where some providers require it.
        Entry::Model { reply, .. } if reply.parts.asks_for_tools() => Some(reply.parts.clone().into()),
        // A provider may refuse an empty assistant message, so an empty answer is left out.
        Entry::Model { reply, .. } => {
            let said = reply.parts.without_reasoning();
            (!said.is_empty()).then(|| said.into())
        }
        Entry::Tool { failed, files, id, text, .. } => {
            Some(Message::tool(id.clone(), result_text(text), *failed).with_files(files.iter().cloned()))
        }
        Entry::Repair { text } => Some(Message::user(text.clone())),
    }
}

/// A message with its tool calls and results as text, for a model that has no tools. The text of a result names its
/// files.
fn without_tools(message: &Message) -> Message {
    match message.role() {
        Speaker::Tool => Message::user(format!("[result]\n{}", message.text())),
        Speaker::Assistant if message.tool_calls().next().is_some() => {
            let calls = message.tool_calls().map(|call| format!("[calls {} {}]", call.name, call.arguments));
            let said = Some(message.text().into_owned()).filter(|said| !said.is_empty());
            Message::assistant(said.into_iter().chain(calls).collect::<Vec<_>>().join("\n"))
        }
        _ => message.clone(),
    }
}

#[cfg(test)]
mod forgery_tests;
#[cfg(test)]
mod lane_tests;
#[cfg(test)]
mod tests;
