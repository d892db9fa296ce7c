//! A role's conversation in one lane, extended visit by visit.

use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Conversation;
use rondo_protocol::object::Transcript;
use rondo_protocol::workflow::History;

use super::{HistoryPolicy, Past, StepLocation, Walk, closing, opening, summary};

/// Identifies a conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The role.
    pub role: RoleName,
    /// The lane.
    pub lane: LanePath,
    /// The epoch.
    pub epoch: u64,
}

impl Key {
    /// The key of a role in a lane.
    pub fn new(role: &RoleName, lane: &LanePath) -> Self {
        Self { role: role.clone(), lane: lane.clone(), epoch: 0 }
    }
}

/// Builds a conversation. A clone is cheap at any length and independent: a lane's conversation starts as a clone of
/// its outer lane's, as of the lane's first opening.
#[derive(Debug, Clone)]
pub struct Builder {
    history_policy: Arc<HistoryPolicy>,
    /// The messages up to the end of the last visit.
    conversation: Conversation,
    /// The same with the message that opens the visit in progress.
    opened: Option<Conversation>,
    last: Option<StepLocation>,
}

impl Builder {
    /// Creates the conversation of a role without visits.
    pub fn new(history_policy: HistoryPolicy) -> Self {
        Self {
            history_policy: Arc::new(history_policy),
            conversation: Conversation::default(),
            opened: None,
            last: None,
        }
    }

    /// The role's history policy.
    pub fn history_policy(&self) -> &HistoryPolicy {
        &self.history_policy
    }

    /// The role's last visit, in this lane or in its outer lanes.
    pub fn last(&self) -> Option<&StepLocation> {
        self.last.as_ref()
    }

    /// The number of messages before the next visit.
    pub fn len(&self) -> usize {
        self.conversation.len()
    }

    /// Whether there are no messages before the next visit.
    pub fn is_empty(&self) -> bool {
        self.conversation.is_empty()
    }

    /// Summarizes what happened since the role's last visit, for a visit that follows the steps `prev`, all before step
    /// `before`. Reads no more steps than the summary includes.
    ///
    /// # Errors
    /// When a step cannot be read.
    pub fn told<P: Past>(&self, prev: &[Digest], before: u64, past: &P) -> Result<String, P::Error> {
        let mut walk = Walk::new(past, prev, before, self.last.as_ref())?;
        let text = summary(&self.history_policy.context, self.last.is_none(), &mut walk);
        walk.fault.map_or(Ok(text), Err)
    }

    /// Opens a visit and returns the messages of its first request. Discards an earlier visit that was not closed.
    pub fn open(&mut self, prompt: &str, told: &str) -> Conversation {
        let mut opened = self.conversation.clone();
        opened.push(opening(prompt, told));
        self.opened = Some(opened.clone());
        opened
    }

    /// Closes the open visit with its answer and, for a role with `exact` history, with its transcript.
    pub fn close(&mut self, place: StepLocation, answer: &str, transcript: Option<&Transcript>) {
        let opened = self.opened.take();
        if let Some(mut conversation) = opened.filter(|_| self.history_policy.history != History::None) {
            conversation.extend(closing(self.history_policy.history, answer, transcript));
            self.conversation = conversation;
        }
        self.last = Some(place);
    }
}
