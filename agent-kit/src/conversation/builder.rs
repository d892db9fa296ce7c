//! A role's conversation in one lane, extended visit by visit.

use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Conversation;
use rondo_protocol::object::Transcript;
use rondo_protocol::workflow::History;

use super::{HistoryPolicy, Past, StepLocation, Walk, closing, opening, summary};

/// Whose conversation it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The role.
    pub role: RoleName,
    /// The lane.
    pub lane: LanePath,
    /// The stretch within which the prefix only grows.
    pub epoch: u64,
}

impl Key {
    /// That of a role in a lane.
    pub fn new(role: &RoleName, lane: &LanePath) -> Self {
        Self { role: role.clone(), lane: lane.clone(), epoch: 0 }
    }
}

/// Builds a conversation. A copy costs nothing, whatever its length, and goes on apart: a lane's begins as a copy of its
/// parent lane's, as that stood when the lane was first opened.
#[derive(Debug, Clone)]
pub struct Builder {
    history_policy: Arc<HistoryPolicy>,
    /// Up to the end of the last visit.
    conversation: Conversation,
    /// With the message that opens the visit in progress.
    opened: Option<Conversation>,
    last: Option<StepLocation>,
}

impl Builder {
    /// That of a role that has not spoken yet.
    pub fn new(history_policy: HistoryPolicy) -> Self {
        Self {
            history_policy: Arc::new(history_policy),
            conversation: Conversation::default(),
            opened: None,
            last: None,
        }
    }

    /// How the role is told its history.
    pub fn history_policy(&self) -> &HistoryPolicy {
        &self.history_policy
    }

    /// Where the role spoke last, in this lane or in those that it was opened in.
    pub fn last(&self) -> Option<&StepLocation> {
        self.last.as_ref()
    }

    /// How many messages stand before the next visit.
    pub fn len(&self) -> usize {
        self.conversation.len()
    }

    /// Whether no message stands before the next visit.
    pub fn is_empty(&self) -> bool {
        self.conversation.is_empty()
    }

    /// What happened since the role spoke last, as it is told in a visit that follows the steps `prev`, all before step
    /// `before`. No more steps are read than are told.
    ///
    /// # Errors
    /// When a step cannot be had.
    pub fn told<P: Past>(&self, prev: &[Digest], before: u64, past: &P) -> Result<String, P::Error> {
        let mut walk = Walk::new(past, prev, before, self.last.as_ref())?;
        let text = summary(&self.history_policy.context, self.last.is_none(), &mut walk);
        walk.fault.map_or(Ok(text), Err)
    }

    /// Opens a visit: the messages of its first request. One that was opened before and not closed is forgotten.
    pub fn open(&mut self, prompt: &str, told: &str) -> Conversation {
        let mut opened = self.conversation.clone();
        opened.push(opening(prompt, told));
        self.opened = Some(opened.clone());
        opened
    }

    /// Closes the visit that was opened last with its answer and, where the role is told its visits exactly, with all
    /// that was said in it.
    pub fn close(&mut self, place: StepLocation, answer: &str, transcript: Option<&Transcript>) {
        let opened = self.opened.take();
        if let Some(mut conversation) = opened.filter(|_| self.history_policy.history != History::None) {
            conversation.extend(closing(self.history_policy.history, answer, transcript));
            self.conversation = conversation;
        }
        self.last = Some(place);
    }
}
