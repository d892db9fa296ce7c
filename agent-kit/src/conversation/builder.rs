//! A role's conversation in one lane, extended visit by visit.

use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::{Conversation, FileRef, Message};
use rondo_protocol::object::Transcript;
use rondo_protocol::workflow::History;

use super::layout_v1::{COMPACT_PROMPT, CONTINUED, epoch_text};
use super::{HistoryPolicy, Past, StepLocation, Walk, closing, opening, summary, without_tools};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub role: RoleName,
    pub lane: LanePath,
}

impl Key {
    pub fn new(role: &RoleName, lane: &LanePath) -> Self {
        Self { role: role.clone(), lane: lane.clone() }
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
    /// The visits of this lane that a compaction covers.
    covered: u64,
    /// The number of messages up to the end of each later visit of this lane.
    ends: Arc<Vec<usize>>,
}

impl Builder {
    pub fn new(history_policy: HistoryPolicy) -> Self {
        Self {
            history_policy: Arc::new(history_policy),
            conversation: Conversation::default(),
            opened: None,
            last: None,
            covered: 0,
            ends: Arc::default(),
        }
    }

    /// The conversation of the epoch that a compaction opened, without the visits after it: it covers `covered` visits
    /// of the lane, of which the last one is at `last`.
    pub fn compacted(
        history_policy: HistoryPolicy,
        (first_prompt, summary): (&str, &str),
        covered: u64,
        last: StepLocation,
    ) -> Self {
        let conversation = epoch(first_prompt, summary);
        Self { conversation, last: Some(last), covered, ..Self::new(history_policy) }
    }

    /// Continues it in a lane that opens now.
    pub fn enter_lane(&mut self) {
        self.covered = 0;
        self.ends = Arc::default();
    }

    /// The number of messages up to the end of a visit of this lane; `None` if they are not known one by one.
    fn end_of(&self, visit: u64) -> Option<usize> {
        let at = usize::try_from(visit.checked_sub(self.covered)?.checked_sub(1)?).ok()?;
        self.ends.get(at).copied()
    }

    /// The request for a text in place of the visits of this lane up to `through`, and the bytes of what leaves;
    /// `None` if there are no such visits.
    pub fn leaving(&self, through: u64) -> Option<(Conversation, usize)> {
        let end = self.end_of(through)?;
        let mut left = self.conversation.clone();
        left.truncate(end);
        let mut asked: Conversation = left.messages().into_iter().map(without_tools).collect();
        asked.push(Message::user(COMPACT_PROMPT));
        Some((asked, left.size_bytes()))
    }

    /// Opens an epoch: a text replaces the visits of this lane up to `through`. Later visits stay as they are.
    pub fn compact(&mut self, first_prompt: &str, summary: &str, through: u64) {
        let Some(end) = self.end_of(through) else { return };
        let kept = self.conversation.after(end).into_iter().cloned();
        let mut conversation = epoch(first_prompt, summary);
        let begun = conversation.len();
        conversation.extend(kept);
        self.ends = Arc::new(self.ends.iter().filter(|at| **at > end).map(|at| at - end + begun).collect());
        self.covered = through;
        self.conversation = conversation;
    }

    pub fn history_policy(&self) -> &HistoryPolicy {
        &self.history_policy
    }

    /// Continues with another policy, which counts from the next visit: earlier ones stay as they were sent.
    pub fn set_policy(&mut self, history_policy: HistoryPolicy) {
        if history_policy.history == History::None {
            self.conversation = Conversation::default();
            self.ends = Arc::default();
        }
        if *self.history_policy != history_policy {
            self.history_policy = Arc::new(history_policy);
        }
    }

    /// The role's last visit, in this lane or in its outer lanes.
    pub fn last(&self) -> Option<&StepLocation> {
        self.last.as_ref()
    }

    /// The number of messages before the next visit.
    pub fn len(&self) -> usize {
        self.conversation.len()
    }

    /// The bytes of the messages before the next visit.
    pub fn size_bytes(&self) -> usize {
        self.conversation.size_bytes()
    }

    pub fn is_empty(&self) -> bool {
        self.conversation.is_empty()
    }

    /// Summarizes what happened since the role's last visit, for a visit that follows the steps `prev`, all before step
    /// `before`. Reads no more steps than the summary includes.
    pub fn context_report<P: Past>(&self, prev: &[Digest], before: u64, past: &P) -> Result<String, P::Error> {
        let mut walk = Walk::new(past, prev, before, self.last.as_ref())?;
        let text = summary(&self.history_policy.context, self.last.is_none(), &mut walk);
        walk.fault.map_or(Ok(text), Err)
    }

    /// Opens a visit and returns the messages of its first request. Discards an earlier visit that was not closed.
    pub fn open(&mut self, prompt: &str, context_report: &str, files: &[FileRef]) -> Conversation {
        let mut opened = self.conversation.clone();
        opened.push(opening(prompt, context_report, files));
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
        Arc::make_mut(&mut self.ends).push(self.conversation.len());
        self.last = Some(place);
    }
}

fn epoch(first_prompt: &str, summary: &str) -> Conversation {
    [Message::user(epoch_text(first_prompt, summary)), Message::assistant(CONTINUED)].into_iter().collect()
}
