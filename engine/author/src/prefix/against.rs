//! Compares two threads: what the first request of each visit shares with that of the same visit in another thread,
//! such as a run of the workflow before an edit.
//!
//! Of the other thread only the new part of each visit is held, which amounts to one conversation per role.

use std::collections::{BTreeMap, VecDeque};

use rondo_agent_kit::prefix::{self, Comparison, Request, compare, compare_beyond, is_same_head};
use rondo_core::conversation::rebuild::{self, RebuildEvent};
use rondo_core::store::{Read, Row};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::{Conversation, Message};

use super::{PrefixBreak, Prices, Shared, VisitPrefix};

/// How many messages after the first difference are searched for the cause.
const LOOKED_AT: usize = 64;

/// A visit and its counterpart in the other thread.
#[derive(Debug, Clone, PartialEq)]
pub struct VisitPair {
    pub visit: VisitPrefix,
    pub has_counterpart: bool,
}

/// Passes each visit of `thread` to `each` in order until it returns `false`, compared with the same visit of `other`.
pub fn against(
    store: &dyn Read,
    (thread, row): (&ThreadId, &Row),
    (other, other_row): (&ThreadId, &Row),
    prices: &Prices,
    each: &mut dyn FnMut(VisitPair) -> bool,
) -> Result<(), rebuild::Error> {
    let mut pairs: BTreeMap<(RoleName, LanePath), PairReader> = BTreeMap::new();
    rebuild::walk(store, other, other_row, &|_| true, &mut |met| {
        if let RebuildEvent::Request(sent) = met
            && !sent.is_compaction
        {
            let visits = &mut pairs.entry(key(&sent)).or_default().visits;
            if visits.back().is_none_or(|(visit, _)| *visit != sent.visit) {
                visits.push_back((sent.visit, Request::new(&sent.head, sent.messages().clone())));
            }
        }
        true
    })?;
    let mut first: Option<(Shared, Option<PrefixBreak>, bool)> = None;
    rebuild::walk(store, thread, row, &|_| true, &mut |met| match met {
        RebuildEvent::Compaction(_) => true,
        RebuildEvent::Request(sent) => {
            if first.is_none() && !sent.is_compaction {
                let key = key(&sent);
                let request = Request::new(&sent.head, sent.messages().clone());
                let price = prices.get(&key.0).copied();
                let compared = pairs.entry(key).or_default().request(sent.visit, &request);
                let has_counterpart = compared.is_some();
                let shared_bytes = compared.as_ref().map_or(0, |(compared, _)| compared.shared_bytes);
                let shared = Shared::one(request.bytes(), shared_bytes);
                let broke = compared.and_then(|(compared, other_bytes)| {
                    let at = compared.broke?;
                    let lost = other_bytes.saturating_sub(at.byte);
                    Some(PrefixBreak::new(at, lost, price))
                });
                first = Some((shared, broke, has_counterpart));
            }
            true
        }
        RebuildEvent::Visit(visited) => {
            let (shared, broke, has_counterpart) = first.take().unwrap_or_default();
            each(VisitPair { visit: VisitPrefix::of(&visited, shared, broke), has_counterpart })
        }
    })
}

fn key(sent: &rebuild::Request) -> (RoleName, LanePath) {
    (sent.role.clone(), sent.lane.clone())
}

/// Reads both sides of a role together.
#[derive(Default)]
struct PairReader {
    /// The first request of each visit of the other side, by visit, from the one that was compared last.
    visits: VecDeque<(u64, Request)>,
    other: Side,
    own: Side,
    /// The length of the common prefix in messages.
    alike: usize,
}

impl PairReader {
    /// Compares the first request of a visit with the other side's, if there is one, and returns the bytes of that one.
    fn request(&mut self, visit: u64, request: &Request) -> Option<(Comparison, u64)> {
        self.alike = self.alike.min(self.own.follow(&request.messages));
        let passed = self.visits.iter().take_while(|(other, _)| *other < visit).count();
        self.visits.drain(..passed);
        let (_, other) = self.visits.front().filter(|(other, _)| *other == visit)?;
        self.alike = self.alike.min(self.other.follow(&other.messages));
        if !is_same_head(other.head(), request.head()) {
            return Some((compare(other, request), other.bytes()));
        }
        let (old, new) = (&self.other.messages, &self.own.messages);
        while old.get(self.alike).is_some_and(|other| new.get(self.alike) == Some(other)) {
            self.alike += 1;
        }
        let known = prefix::Shared {
            messages: self.alike,
            bytes: request.head_bytes().saturating_add(self.own.bytes_of_first(self.alike)),
        };
        let compared = compare_beyond(known, &self.other.window(self.alike), &self.own.window(self.alike));
        Some((compared, other.bytes()))
    }
}

/// The messages of the request that one side has reached.
#[derive(Default)]
struct Side {
    conversation: Conversation,
    messages: Vec<Message>,
    /// The bytes up to each message.
    sizes: Vec<u64>,
}

impl Side {
    /// Goes on to another request; returns how many messages it shares with the one before.
    fn follow(&mut self, next: &Conversation) -> usize {
        let kept = self.conversation.common(next).len();
        self.messages.truncate(kept);
        self.sizes.truncate(kept);
        for message in next.after(kept) {
            self.sizes.push(self.bytes_of_first(self.sizes.len()).saturating_add(prefix::bytes_of_message(message)));
            self.messages.push(message.clone());
        }
        self.conversation = next.clone();
        kept
    }

    fn window(&self, at: usize) -> Vec<&Message> {
        self.messages.iter().skip(at).take(LOOKED_AT).collect()
    }

    fn bytes_of_first(&self, count: usize) -> u64 {
        count.checked_sub(1).and_then(|at| self.sizes.get(at)).copied().unwrap_or_default()
    }
}
