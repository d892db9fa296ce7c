//! The requests of one role, each compared with the one before it in its lane. The first one in a lane is compared
//! with what the lane continues from, or with the last request without history.

use std::collections::BTreeMap;

use rondo_agent_kit::model::protocol::misplaced_reasoning;
use rondo_agent_kit::prefix::{self, Block, Break, Cause, Request, compare, is_same_head};
use rondo_core::conversation::rebuild::{self, RebuiltCompaction, RebuiltVisit};
use rondo_core::models::Price;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Conversation;
use rondo_protocol::object::Usage;
use rondo_protocol::workflow::History;

use super::strategy::Strategies;
use super::{PrefixBreak, RoleSum, Shared, VisitPrefix};

/// What a role has sent so far, as needed to compare its next request.
pub(super) struct RoleRequests {
    price: Option<Price>,
    lanes: BTreeMap<LanePath, Lane>,
    /// The last request without messages of an earlier visit.
    fresh: Option<LastRequest>,
    shared: Shared,
    broke: Option<PrefixBreak>,
    strategies: Strategies,
    sum: RoleSum,
}

/// What the role has sent in one lane.
#[derive(Default)]
struct Lane {
    last: Option<LastRequest>,
    /// The prefix that the first request of the next visit is expected to have.
    expected: Option<ExpectedPrefix>,
    /// What the next visit says of the compaction before it.
    compaction: Option<String>,
}

/// A request that the next one is compared with.
#[derive(Clone)]
struct LastRequest {
    request: Request,
    /// The bytes that were sent; after a compaction the request has fewer.
    bytes: u64,
}

/// The expected prefix of the next visit: a request, and the messages after it.
#[derive(Clone)]
struct ExpectedPrefix {
    last: LastRequest,
    /// How many messages of the plain conversation the request has.
    length: usize,
    /// Whether its messages are no longer those of the plain conversation.
    is_apart: bool,
}

impl RoleRequests {
    pub(super) fn new(role: &RoleName, history: History, price: Option<Price>) -> Self {
        let strategies = Strategies::default();
        Self {
            price,
            lanes: BTreeMap::new(),
            fresh: None,
            shared: Shared::default(),
            broke: None,
            sum: RoleSum::new(role, history, strategies.costs(price)),
            strategies,
        }
    }

    pub(super) fn request(&mut self, sent: &rebuild::Request) {
        let path = &sent.lane;
        let mut lane = self.lane(path);
        let is_first = self.shared.requests == 0;
        let previous = match self.sum.history {
            History::None if is_first => self.fresh.clone(),
            _ => lane.last.clone().or_else(|| self.fresh.clone()),
        };
        let messages = sent.messages().clone();
        let request = match &previous {
            Some(previous) => previous.request.next(&sent.head, messages),
            None => Request::new(&sent.head, messages),
        };
        let compared = previous.as_ref().map(|previous| compare(&previous.request, &request));
        if self.broke.is_none() {
            let broke = if is_first {
                lane.expected.as_ref().and_then(|expected| self.against(expected, &request, sent))
            } else {
                let broke = compared.as_ref().and_then(|compared| compared.broke.clone());
                broke.zip(previous.as_ref()).map(|(at, previous)| (at, previous.bytes))
            };
            self.broke = broke.map(|(at, expected)| {
                let at = match lane.compaction.take() {
                    Some(detail) => Break { cause: Cause::Compacted, detail, ..at },
                    None => at,
                };
                let at = with_reasoning(at, sent);
                let lost = expected.saturating_sub(at.byte);
                PrefixBreak::new(at, lost, self.price)
            });
        }
        let shared = compared.map_or(0, |compared| compared.shared_bytes);
        self.shared += Shared::one(request.bytes(), shared);
        if is_first {
            let changed = previous.filter(|previous| !is_same_head(previous.request.head(), request.head()));
            let alone = |request: &Request| request.next(request.head(), Conversation::default());
            let shared_head = changed.map(|previous| compare(&alone(&previous.request), &alone(&request)).shared_bytes);
            self.strategies.begin(request.head_bytes(), shared_head);
        }
        let last = LastRequest { bytes: request.bytes(), request };
        if is_first || self.sum.history == History::Exact {
            let is_apart = sent.rewritten.is_some() || self.sum.history == History::None;
            lane.expected = Some(ExpectedPrefix { last: last.clone(), length: sent.plain.len(), is_apart });
        }
        if sent.before == 0 {
            self.fresh = Some(last.clone());
        }
        lane.last = Some(last);
        self.lanes.insert(path.clone(), lane);
    }

    /// The state of a lane, or that of the enclosing lane which it continues.
    fn lane(&mut self, path: &LanePath) -> Lane {
        if let Some(lane) = self.lanes.remove(path) {
            return lane;
        }
        let around = path.outward().find_map(|lane| self.lanes.get(&lane));
        let begun = |lane: &Lane| Lane { last: lane.last.clone(), expected: lane.expected.clone(), compaction: None };
        around.map(begun).unwrap_or_default()
    }

    /// Where the first request of a visit departs from the expected prefix, and the bytes of that prefix.
    fn against(&self, expected: &ExpectedPrefix, request: &Request, sent: &rebuild::Request) -> Option<(Break, u64)> {
        let ExpectedPrefix { last, length, is_apart } = expected;
        if !is_apart && sent.rewritten.is_none() && is_same_head(last.request.head(), request.head()) {
            // Law `prefix`: one conversation, extended.
            return None;
        }
        let mut before = sent.plain.clone();
        before.truncate(sent.before);
        let mut whole = last.request.clone();
        whole.messages.extend(before.after(*length).into_iter().cloned());
        let at = compare(&whole, request).broke?;
        Some((if self.sum.history == History::None { by_choice(at) } else { at }, last.bytes))
    }

    /// Adds a compaction: of the conversation so far, only the head and the first message can still be shared.
    pub(super) fn compacted(&mut self, compacted: &RebuiltCompaction<'_>) {
        let path = &compacted.compaction.lane;
        let mut lane = self.lane(path);
        if let Some(last) = &mut lane.last {
            last.request.messages.truncate(1);
        }
        if let Some(expected) = &mut lane.expected {
            expected.last.request.messages.truncate(1);
            (expected.length, expected.is_apart) = (1, true);
        }
        lane.compaction = Some(break_even(compacted, self.price));
        self.lanes.insert(path.clone(), lane);
    }

    pub(super) fn visit(&mut self, visited: &RebuiltVisit<'_>) -> VisitPrefix {
        self.strategies.visit(visited);
        let visit = VisitPrefix::of(visited, std::mem::take(&mut self.shared), self.broke.take());
        self.sum.add(&visit);
        visit
    }

    pub(super) fn into_sum(self) -> RoleSum {
        RoleSum { costs: self.strategies.costs(self.price), ..self.sum }
    }
}

/// A break, with the reasoning that can no longer go back because of it. Where nothing broke, all of it still holds.
fn with_reasoning(at: Break, sent: &rebuild::Request) -> Break {
    let Some(number) = misplaced_reasoning(&sent.head, sent.messages()) else { return at };
    let lost = format!("reasoning is not returned, because that of message {number} was given after other messages");
    let detail = if at.detail.is_empty() { lost } else { format!("{}; {lost}", at.detail) };
    Break { detail, ..at }
}

/// What a compaction cost and when it pays off. Until then its text costs more than the tokens it saves: the call that
/// wrote it, and the new beginning, which no provider has cached. A token without a price counts as one, cached or not.
fn break_even(compacted: &RebuiltCompaction<'_>, price: Option<Price>) -> String {
    const ONE: Price = Price {
        input: 1.0,
        cached_input: 1.0,
        cache_write: 1.0,
        cache_write_long: 1.0,
        output: 1.0,
        long_prompt: None,
    };
    let (before, after) = (to_tokens(compacted.bytes.0), to_tokens(compacted.bytes.1));
    let written = compacted.note.usage.unwrap_or_default();
    let text = format!(
        "{before} tokens of history became {after}; the text took {} tokens and gave {}",
        written.prompt_tokens, written.output_tokens
    );
    let own = price.unwrap_or(ONE);
    let written_usd = compacted.note.cost_usd.filter(|_| price.is_some()).unwrap_or_else(|| own.of(written));
    let cost = written_usd + own.of_unserved(after);
    let cached = |tokens: u64| Usage { prompt_tokens: tokens, cached_tokens: tokens, ..Usage::default() };
    let saved = own.of(cached(before)) - own.of(cached(after));
    if saved <= 0.0 {
        return format!("{text}; it does not pay off");
    }
    format!("{text}; it pays off after {:.0} visits", (cost / saved).ceil().max(1.0))
}

fn to_tokens(bytes: usize) -> u64 {
    prefix::tokens(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// A different message in a fresh conversation is the author's choice, unless the change is volatile.
fn by_choice(at: Break) -> Break {
    match (&at.block, at.cause) {
        (Block::Message(_), Cause::VolatileInPrompt(_)) => at,
        (Block::Message(_), _) => Break { cause: Cause::HistoryNone, ..at },
        _ => at,
    }
}
