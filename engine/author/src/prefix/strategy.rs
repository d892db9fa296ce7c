//! The cost of the same steps with each `history`: how much is sent, and how much of it an ideal prefix cache serves.
//!
//! Heads are those that were sent. Messages are computed from the steps, without rewrites by hooks, by the functions
//! that a run uses.

use std::collections::BTreeMap;

use rondo_agent_kit::conversation;
use rondo_agent_kit::prefix::{self, bytes_of_message, compare_beyond};
use rondo_core::conversation::rebuild::RebuiltVisit;
use rondo_core::models::Price;
use rondo_protocol::id::LanePath;
use rondo_protocol::message::Message;
use rondo_protocol::object::Entry;
use rondo_protocol::workflow::History;

use super::Shared;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub history: History,
    pub shared: Shared,
    /// Estimated US dollars for prompts, and for counted replies, if a price is known.
    pub cost_usd: Option<f64>,
}

/// All three histories, for one role.
pub(super) struct Strategies {
    each: [Strategy; 3],
    /// Bytes of the visit's head.
    head: u64,
    /// Bytes that it shares with the previous head, if that one differs.
    changed_head: Option<u64>,
    output_tokens: u64,
}

impl Default for Strategies {
    fn default() -> Self {
        let each = [History::Condensed, History::Exact, History::None].map(Strategy::new);
        Self { each, head: 0, changed_head: None, output_tokens: 0 }
    }
}

impl Strategies {
    /// Starts a visit: the bytes of its first request's head, and how many are shared with the previous head if the
    /// two are not equal.
    pub(super) fn begin(&mut self, head: u64, changed_head: Option<u64>) {
        self.head = head;
        self.changed_head = changed_head;
    }

    pub(super) fn visit(&mut self, visited: &RebuiltVisit<'_>) {
        let output = visited.note.usage.map_or(0, |usage| usage.output_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output);
        for strategy in &mut self.each {
            strategy.visit(visited, self.head, self.changed_head);
        }
    }

    pub(super) fn costs(&self, price: Option<Price>) -> [Cost; 3] {
        self.each.each_ref().map(|strategy| {
            let (prompt, served) = (strategy.shared.request_bytes, strategy.shared.shared_bytes);
            let usage = rondo_protocol::object::Usage {
                prompt_tokens: prefix::tokens(prompt),
                cached_tokens: prefix::tokens(served),
                output_tokens: self.output_tokens,
                // Only the provider can count its cache writes.
                ..rondo_protocol::object::Usage::default()
            };
            // These are the tokens of many requests, none of which need be long.
            let cost_usd = price.map(|price| Price { long_prompt: None, ..price }.of(usage));
            Cost { history: strategy.history, shared: strategy.shared, cost_usd }
        })
    }
}

/// A role's conversations under one history.
struct Strategy {
    history: History,
    /// By lane; a single one if every visit starts afresh.
    lanes: BTreeMap<LanePath, LaneState>,
    /// The opening message of the last visit without a history.
    first: Option<Message>,
    shared: Shared,
}

/// A conversation in a lane. Sizes are bytes of messages, without the head.
#[derive(Clone, Default)]
struct LaneState {
    /// The size before the next visit.
    length: u64,
    /// The part of the last request that the next visit certainly starts with.
    served: u64,
    /// The messages after that in the last request.
    tail: Vec<Message>,
    /// The messages after it in the next request, before the opening message of the visit.
    closing: Vec<Message>,
}

impl Strategy {
    fn new(history: History) -> Self {
        Self { history, lanes: BTreeMap::new(), first: None, shared: Shared::default() }
    }

    /// The conversation of a lane so far: its own, or initially that of the enclosing lane.
    fn lane_state(&self, lane: &LanePath) -> LaneState {
        lane.outward().find_map(|lane| self.lanes.get(&lane).cloned()).unwrap_or_default()
    }

    fn visit(&mut self, visited: &RebuiltVisit<'_>, head: u64, changed_head: Option<u64>) {
        let lane = match self.history {
            History::None => LanePath::trunk(),
            _ => visited.stored.step.lane.clone(),
        };
        let mut state = self.lane_state(&lane);
        let opening = bytes_of_message(visited.opening);
        let opened = state.length.saturating_add(opening);
        let mut request = opened;
        let mut sent: Option<u64> = None;
        let mut said = Vec::new();
        let mut said_in_request = 0;
        for entry in visited.transcript.iter().flat_map(|transcript| &transcript.entries) {
            if let Entry::Model { .. } = entry {
                let shared = match sent {
                    Some(before) => head.saturating_add(before),
                    None => self.shared_by_first(&state, visited.opening, head, changed_head),
                };
                self.shared += Shared::one(head.saturating_add(request), shared);
                sent = Some(request);
                said_in_request = said.len();
            }
            if let Some(message) = conversation::spoken(entry) {
                request = request.saturating_add(bytes_of_message(&message));
                said.push(message);
            }
        }
        let closing = conversation::closing(self.history, &visited.stored.step.answer, visited.transcript);
        let closed = closing.iter().map(bytes_of_message).sum::<u64>();
        if let Some(sent) = sent {
            said.truncate(said_in_request);
            state.tail.clear();
            state.closing.clear();
            match self.history {
                History::Exact => state.served = sent,
                History::Condensed => {
                    state.served = opened;
                    if !said.is_empty() {
                        state.tail = said;
                        state.closing = closing;
                    }
                }
                History::None => {
                    state.served = 0;
                    state.tail.push(visited.opening.clone());
                    state.tail.append(&mut said);
                }
            }
            if state.length == 0 {
                self.first = Some(visited.opening.clone());
            }
        }
        state.length = if self.history == History::None { 0 } else { opened.saturating_add(closed) };
        self.lanes.insert(lane, state);
    }

    /// What the first request of a visit shares with the previous request.
    fn shared_by_first(&self, state: &LaneState, opening: &Message, head: u64, changed_head: Option<u64>) -> u64 {
        if self.shared.requests == 0 {
            return 0;
        }
        if let Some(shared) = changed_head {
            return shared;
        }
        let known = prefix::Shared { messages: 0, bytes: head.saturating_add(state.served) };
        if state.tail.is_empty() {
            // A lane without a history shares the beginning of its first message with another one.
            return match &self.first {
                Some(first) if state.length == 0 => compare_beyond(known, &[first], &[opening]).shared_bytes,
                _ => known.bytes,
            };
        }
        let before: Vec<&Message> = state.tail.iter().collect();
        let after: Vec<&Message> = state.closing.iter().chain([opening]).collect();
        compare_beyond(known, &before, &after).shared_bytes
    }
}
