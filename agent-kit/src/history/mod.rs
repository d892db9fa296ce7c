//! Reconstruction of message histories: what a role is sent is a pure function of the steps before.
//!
//! Law `prefix`: within an epoch of a role in a lane, the first request of visit n+1 starts with the first request of
//! visit n, followed by its answer (`condensed`) or by its whole transcript (`exact`). The layout that writes the texts has a version, which a thread pins.
//!
//! This module knows no clock, no file, no network and no digest of its own making.

mod layout_v1;
mod told;

use std::borrow::Borrow;
use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::message::{Message, Speaker};
use rondo_protocol::object::{Entry, LAYOUT, Transcript};
use rondo_protocol::workflow::{Context, History};

use crate::fault_point::{Point, at};

pub use layout_v1::{CUT, EMPTY_LINE, LEFT_OUT, NO_ANSWER, SHOWN_MAX_BYTES, result_text, system_text};
pub use told::Summary;

/// A step as history sees it. The body is derived from the answer by whoever knows the contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Its place in the thread, from 1.
    pub seq: u64,
    /// Who spoke.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// The prompt it was given.
    pub prompt: String,
    /// What it answered, exactly; empty when it gave no answer.
    pub answer: String,
    /// The status it chose.
    pub status: Status,
    /// The declared fields.
    pub output: Value,
    /// What the answer says beside its fields.
    pub body: String,
    /// All that was said in it, where its role is told its visits exactly.
    pub transcript: Option<Arc<Transcript>>,
}

/// How a role is told its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Telling {
    /// What of its own earlier visits.
    pub history: History,
    /// What of the other roles' steps.
    pub context: Context,
}

/// A layout that this version cannot write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message layout {found} is not known; this version writes layout {LAYOUT}")]
pub struct UnknownLayout {
    /// The layout that the thread pins.
    pub found: u32,
}

/// The messages of the first request of a role's next visit, after `episodes` (oldest first) and with `prompt`.
///
/// # Errors
/// [`UnknownLayout`].
pub fn history(
    layout: u32,
    telling: &Telling,
    role: &RoleName,
    lane: &LanePath,
    episodes: &[Arc<Episode>],
    prompt: &str,
) -> Result<Vec<Message>, UnknownLayout> {
    if layout != LAYOUT {
        return Err(UnknownLayout { found: layout });
    }
    let mut messages = Vec::new();
    let mut since = 0;
    for (at, own) in episodes.iter().enumerate().filter(|(_, e)| e.role == *role && e.lane == *lane) {
        if telling.history != History::None {
            let others = episodes.get(since..at).unwrap_or_default();
            let told = summary(telling, role, since == 0, others.iter().rev().map(Arc::as_ref));
            messages.push(opening(&own.prompt, &told));
            messages.extend(closing(telling.history, &own.answer, own.transcript.as_deref()));
        }
        since = at + 1;
    }
    let others = episodes.get(since..).unwrap_or_default();
    let told = summary(telling, role, since == 0, others.iter().rev().map(Arc::as_ref));
    messages.push(opening(prompt, &told));
    Ok(messages)
}

/// What happened since a role's last visit (or `before_first`), from the other roles' steps, **newest first**: no more
/// of them are asked for than fit the ceiling, so that a long wait costs no more than a short one.
pub fn summary(
    telling: &Telling,
    role: &RoleName,
    before_first: bool,
    newest_first: impl Iterator<Item = impl Borrow<Episode>>,
) -> String {
    layout_v1::summary(&telling.context, role, before_first, newest_first)
}

/// The most episodes that a summary within `context` can need, one more than fit, so that it sees that some are left
/// out: whoever collects episodes for a summary keeps this many of the newest.
pub fn most_episodes(context: &Context) -> usize {
    let ceiling = usize::try_from(context.max_bytes).unwrap_or(usize::MAX);
    (ceiling / layout_v1::SHORTEST_ENTRY_BYTES).saturating_add(2)
}

/// Whether a summary for `role` tells of a step of `other`.
pub fn tells_of(context: &Context, role: &RoleName, other: &RoleName) -> bool {
    let is_another = at(Point::OwnStepsTold, role != other, |_| true);
    let is_named = context.from.as_ref().is_none_or(|from| from.contains(other));
    is_another && at(Point::FilterIgnored, is_named, |_| true)
}

/// The message that opens a visit: the prompt, and what happened since.
pub fn opening(prompt: &str, told: &str) -> Message {
    Message::user(layout_v1::user_text(prompt, told))
}

/// The messages that close a visit: its conclusion, or with `exact` all that was said in it, so that the next request
/// goes on from its last one.
pub fn closing(history: History, answer: &str, transcript: Option<&Transcript>) -> Vec<Message> {
    let history = at(Point::ExactCondensed, history, |_| History::Condensed);
    let mut said: Vec<Message> = match transcript {
        // A visit that a hook answered whole may have no transcript; its answer is all that was said.
        Some(transcript) if history == History::Exact && !transcript.entries.is_empty() => {
            transcript.entries.iter().filter_map(spoken).collect()
        }
        _ if answer.is_empty() => Vec::new(),
        _ => {
            vec![Message::assistant(at(Point::AnswerRewritten, answer.to_owned(), |answer| answer.replace(": ", ":")))]
        }
    };
    said = at(Point::AnswerDropped, said, |_| Vec::new());
    if said.last().is_none_or(|last| last.role != Speaker::Assistant) {
        said.push(Message::assistant(at(Point::NoAnswer, NO_ANSWER, |_| "(none)")));
    }
    said
}

/// The message that an entry adds to the conversation of its turn, for the requests that follow it.
pub fn spoken(entry: &Entry) -> Option<Message> {
    match entry {
        Entry::Model { reply, .. } if !reply.tool_calls.is_empty() => Some(Message {
            reasoning: reply.reasoning.clone(),
            tool_calls: reply.tool_calls.clone(),
            ..Message::assistant(reply.text.clone())
        }),
        // A provider may refuse an empty message of the assistant, so an empty answer is not told.
        Entry::Model { reply, .. } => (!reply.text.is_empty()).then(|| Message::assistant(reply.text.clone())),
        Entry::Tool { id, text, .. } => Some(Message::tool(id.clone(), result_text(text))),
        Entry::Repair { text } => Some(Message::user(text.clone())),
    }
}

#[cfg(test)]
mod tests;
