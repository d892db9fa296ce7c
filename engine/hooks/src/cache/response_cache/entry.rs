//! What is kept: an answer with what it had cost.

use rondo_core::hook::ShortCircuit;
use rondo_protocol::call::{ModelAnswer, TurnReply};
use rondo_protocol::object::{Entry, Finish, ModelReply, Usage};
use rondo_protocol::read_set::ReadSet;
use rondo_protocol::{Digest, canonical};
use serde::{Deserialize, Serialize};

use crate::cache::{CacheValue, Key};

/// What one entry holds beside its text.
const FIXED_BYTES: usize = 512;

/// An answer that can be given again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub said: Content,
    /// Tokens, where they were counted.
    pub usage: Option<Usage>,
    /// US dollars, where a price was known.
    pub cost_usd: Option<f64>,
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    Model(ModelReply),
    /// In a whole turn, and what its tools saw.
    Turn(Box<TurnReply>, ReadSet),
}

impl Answer {
    /// A model's answer, if it may be given again: complete, said to its end, not empty.
    pub fn of_model(answer: &ModelAnswer) -> Option<Self> {
        let ModelAnswer { reply, usage, cost_usd } = answer;
        let is_whole = matches!(reply.finish, Finish::Stop | Finish::ToolCalls);
        let is_empty = reply.parts.text().trim().is_empty() && !reply.parts.asks_for_tools();
        let said = Content::Model(reply.clone());
        let kept = Self { said, usage: *usage, cost_usd: *cost_usd, attempts: 1 };
        (is_whole && !is_empty).then_some(kept)
    }

    /// A turn, if it may be given again: all that it did was look, its last answer is whole, the role's first model gave
    /// it, and no request of it was rewritten. An answer that was refused on the way is part of it.
    pub fn of_turn(turn: &TurnReply) -> Option<Self> {
        let seen = turn.seen.clone()?;
        let entries = &turn.transcript.entries;
        let is_rewritten = |entry: &Entry| matches!(entry, Entry::Model { asked: Some(_), .. });
        let is_whole = matches!(entries.last(), Some(Entry::Model { reply, .. }) if reply.finish == Finish::Stop);
        // The store of another thread does not hold the files that its tools returned.
        if entries.iter().any(|entry| !entry.files().is_empty()) {
            return None;
        }
        if turn.fallback.is_some() || !is_whole || turn.answer.trim().is_empty() || entries.iter().any(is_rewritten) {
            return None;
        }
        let said = Content::Turn(Box::new(turn.clone()), seen);
        Some(Self { said, usage: turn.usage, cost_usd: turn.cost_usd, attempts: 1 })
    }

    /// What giving it again saves.
    pub fn instead(&self, key: &Key) -> ShortCircuit {
        let attempts = self.attempts;
        ShortCircuit { key: Some(key.to_string()), saved_usd: self.cost_usd, saved: self.usage, attempts }
    }

    /// What its tools saw.
    pub fn seen(&self) -> Option<&ReadSet> {
        if let Content::Turn(_, seen) = &self.said { Some(seen) } else { None }
    }

    /// The requests of a turn behind its first one.
    pub fn further_requests(&self) -> impl Iterator<Item = Digest> {
        let entries = match &self.said {
            Content::Turn(turn, _) => turn.transcript.entries.as_slice(),
            Content::Model(_) => &[],
        };
        let requests = entries.iter().filter_map(|entry| match entry {
            Entry::Model { request, .. } => Some(*request),
            Entry::Tool { .. } | Entry::Repair { .. } => None,
        });
        requests.skip(1)
    }

    /// Tokens of the answer, as they were paid.
    pub fn tokens(&self) -> u64 {
        self.usage.map_or(0, |usage| usage.prompt_tokens.saturating_add(usage.output_tokens))
    }

    /// What is counted of an answer given again: no tokens, where they had been counted, and no money.
    pub fn free_usage(&self) -> Option<Usage> {
        self.usage.map(|_| Usage::default())
    }
}

impl CacheValue for Answer {
    type Secondary = ();

    fn encode(&self) -> Result<Vec<u8>, String> {
        canonical::to_bytes(self).map_err(|error| error.to_string())
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        canonical::from_slice(bytes).map_err(|error| error.to_string())
    }

    fn weight(&self) -> u64 {
        let bytes = match &self.said {
            Content::Model(reply) => reply.parts.size_bytes(),
            Content::Turn(turn, seen) => {
                let entries = turn.transcript.entries.iter().map(|entry| match entry {
                    Entry::Model { reply, .. } => reply.parts.size_bytes() + FIXED_BYTES,
                    Entry::Tool { arguments, text, .. } => arguments.len() + text.len() + FIXED_BYTES,
                    Entry::Repair { text } => text.len(),
                });
                let read_entries = seen.read_entries.iter().map(|read_entry| read_entry.path.len() + FIXED_BYTES / 2);
                entries.sum::<usize>() + turn.answer.len() + turn.body.len() + read_entries.sum::<usize>()
            }
        };
        u64::try_from(bytes + FIXED_BYTES).unwrap_or(u64::MAX)
    }
}
