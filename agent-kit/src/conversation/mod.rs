//! Reconstruction of message histories: what a role is sent is a pure function of the steps before.
//!
//! Law `prefix`: within an epoch of a role in a lane, the first request of visit n+1 starts with the first request of
//! visit n, followed by its answer (`condensed`) or by its whole transcript (`exact`). The layout that writes the texts
//! has a version, which a thread pins.
//!
//! A lane's conversation is that of the lane that it was first opened in, as it stood then, and goes on with the lane's
//! own visits; a later round of the same path continues it. All else that a role may know of ([`Round::sees`]) is told
//! as what happened since, in causal order ([`Position`]), so that nothing depends on which of two lanes was faster.
//!
//! This module knows no clock, no file, no network and no digest of its own making.

mod builder;
mod escape;
mod layout_v1;
mod place;
mod rounds;
mod told;
mod walk;

use std::borrow::Borrow;
use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::message::{Conversation, Message, Speaker};
use rondo_protocol::object::{Entry, LAYOUT, Transcript};
use rondo_protocol::workflow::{Context, History};

pub use builder::{Builder, Key};
pub use layout_v1::{CUT, EMPTY_LINE, LEFT_OUT, NO_ANSWER, SHOWN_MAX_BYTES, result_text, system_text};
pub use place::{Position, Round, StepLocation};
pub use rounds::Rounds;
pub use told::Summary;
pub use walk::{Past, PastStep, Walk};

/// A step as history sees it. The body is derived from the answer by its contract.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Its place in the thread, from 1.
    pub seq: u64,
    /// Who spoke.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// Of each part of the lane's path, the number of the step that opened its round; the trunk has none.
    pub opened_by: Vec<u64>,
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

impl Episode {
    /// Where it stands.
    pub fn place(&self) -> StepLocation {
        let round = Round { lane: self.lane.clone(), opened_by: self.opened_by.clone() };
        StepLocation { seq: self.seq, round }
    }
}

#[cfg(test)]
impl Episode {
    fn test(seq: u64) -> Self {
        Self {
            seq,
            role: RoleName::new("a").unwrap_or_else(|error| panic!("{error}")),
            lane: LanePath::trunk(),
            opened_by: Vec::new(),
            prompt: String::new(),
            answer: String::new(),
            status: Status::new("done").unwrap_or_else(|error| panic!("{error}")),
            output: Value::empty_object(),
            body: String::new(),
            transcript: None,
        }
    }
}

/// How a role is told its history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPolicy {
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

/// The messages of the first request of a role's next visit after `episodes` of the trunk (oldest first), with `prompt`.
///
/// # Errors
/// [`UnknownLayout`].
pub fn history(
    layout: u32,
    history_policy: &HistoryPolicy,
    role: &RoleName,
    episodes: &[Arc<Episode>],
    prompt: &str,
) -> Result<Conversation, UnknownLayout> {
    if layout != LAYOUT {
        return Err(UnknownLayout { found: layout });
    }
    let mut builder = Builder::new(history_policy.clone());
    let mut since = 0;
    let told = |builder: &Builder, since: usize, end: usize| {
        let news = episodes.get(since..end).unwrap_or_default();
        summary(&history_policy.context, builder.last().is_none(), news.iter().rev().map(Arc::as_ref))
    };
    for (at, own) in episodes.iter().enumerate().filter(|(_, e)| e.role == *role) {
        if history_policy.history != History::None {
            let told = told(&builder, since, at);
            builder.open(&own.prompt, &told);
        }
        builder.close(own.place(), &own.answer, own.transcript.as_deref());
        since = at + 1;
    }
    let told = told(&builder, since, episodes.len());
    Ok(builder.open(prompt, &told))
}

/// What happened since a role's last visit (or `before_first`), from the steps that are news to it, **newest first** in
/// causal order: no more of them are asked for than fit the ceiling, so that a long wait costs no more than a short one.
pub fn summary(
    context: &Context,
    before_first: bool,
    newest_first: impl Iterator<Item = impl Borrow<Episode>>,
) -> String {
    layout_v1::summary(context, before_first, newest_first)
}

/// Whether a summary within `context` tells of steps of `other`.
pub fn tells_of(context: &Context, other: &RoleName) -> bool {
    context.from.as_ref().is_none_or(|from| from.contains(other))
}

/// The message that opens a visit: the prompt, and what happened since.
pub fn opening(prompt: &str, told: &str) -> Message {
    Message::user(layout_v1::user_text(prompt, told))
}

/// The messages that close a visit: its conclusion, or with `exact` all that was said in it, so that the next request
/// goes on from its last one.
pub fn closing(history: History, answer: &str, transcript: Option<&Transcript>) -> Vec<Message> {
    let mut said: Vec<Message> = match transcript {
        // A visit that a hook answered whole may have no transcript; its answer is all that was said.
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

/// The message that an entry adds to the conversation of its turn, for the requests that follow it.
pub fn spoken(entry: &Entry) -> Option<Message> {
    match entry {
        // Reasoning goes back only beside calls, where some providers demand it.
        Entry::Model { reply, .. } if reply.parts.asks_for_tools() => Some(reply.parts.clone().into()),
        // A provider may refuse an empty message of the assistant, so an empty answer is not told.
        Entry::Model { reply, .. } => {
            let said = reply.parts.without_reasoning();
            (!said.is_empty()).then(|| said.into())
        }
        Entry::Tool { failed, id, text, .. } => Some(Message::tool(id.clone(), result_text(text), *failed)),
        Entry::Repair { text } => Some(Message::user(text.clone())),
    }
}

#[cfg(test)]
mod forgery_tests;
#[cfg(test)]
mod lane_tests;
#[cfg(test)]
mod tests;
