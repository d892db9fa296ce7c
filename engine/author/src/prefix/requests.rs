//! The requests of one role, each compared with the one before it in its lane. The first one in a lane is compared
//! with what the lane continues from, or with the last request without history.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::protocol::misplaced_reasoning;
use rondo_agent_kit::prefix::{self, Block, Break, Cause, Comparison, Request, compare, compare_beyond};
use rondo_core::conversation::rebuild::{RebuiltCompaction, RebuiltVisit, Sent};
use rondo_core::models::Price;
use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Message;
use rondo_protocol::object::{Head, Usage};
use rondo_protocol::workflow::History;

use super::strategy::Strategies;
use super::{PrefixBreak, RoleSum, Shared, VisitPrefix, extend};

/// What a role has sent so far, as needed to compare its next request.
pub(super) struct RoleRequests {
    history: History,
    price: Option<Price>,
    lanes: BTreeMap<LanePath, Lane>,
    /// The last request without messages of an earlier visit.
    fresh: Option<Arc<LastRequest>>,
    shared: Shared,
    broke: Option<PrefixBreak>,
    strategies: Strategies,
    sum: RoleSum,
}

/// What the role has sent in one lane.
#[derive(Default)]
struct Lane {
    /// Cumulative bytes of the plain conversation up to each message.
    sizes: Vec<u64>,
    last: Option<Arc<LastRequest>>,
    /// The prefix that the first request of the next visit is expected to have.
    expected: Option<Arc<ExpectedPrefix>>,
    /// What the next visit says of the compaction before it.
    compaction: Option<String>,
}

#[derive(Clone)]
struct SizedHead {
    digest: Digest,
    head: Arc<Head>,
    bytes: u64,
}

/// The previous request: a number of messages of the plain conversation, and those after them.
#[derive(Clone)]
struct LastRequest {
    head: SizedHead,
    base: usize,
    tail: Vec<Message>,
    is_plain: bool,
    bytes: u64,
}

/// The expected prefix of the next visit: a request, and the messages after it.
struct ExpectedPrefix {
    head: SizedHead,
    /// How many messages of the plain conversation the request has.
    length: usize,
    /// Its messages, if they are no longer those of the plain conversation.
    messages: Option<Vec<Message>>,
    bytes: u64,
}

impl RoleRequests {
    pub(super) fn new(role: &RoleName, history: History, price: Option<Price>) -> Self {
        let strategies = Strategies::default();
        Self {
            history,
            price,
            lanes: BTreeMap::new(),
            fresh: None,
            shared: Shared::default(),
            broke: None,
            sum: RoleSum::new(role, history, strategies.costs(price)),
            strategies,
        }
    }

    pub(super) fn request(&mut self, sent: Sent<'_>) {
        let path = sent.site.lane.clone();
        let mut lane = self.lane(&path);
        extend(&mut lane.sizes, sent.kept, sent.plain);
        let is_first = self.shared.requests == 0;
        let previous = match self.history {
            History::None if is_first => self.fresh.clone(),
            _ => lane.last.clone().or_else(|| self.fresh.clone()),
        };
        let head = sized(previous.as_deref(), &sent);
        let messages_bytes = match &sent.rewritten {
            Some(rewritten) => rewritten.iter().map(prefix::bytes_of_message).sum(),
            None => lane.sizes.last().copied().unwrap_or_default(),
        };
        let bytes = head.bytes.saturating_add(messages_bytes);
        let compared = previous.as_ref().map(|previous| after(&lane.sizes, previous, &head, &sent));
        if self.broke.is_none() {
            let broke = if is_first {
                lane.expected.as_ref().and_then(|expected| self.against(expected, &head, &sent))
            } else {
                let broke = compared.as_ref().and_then(|compared| compared.broke.clone());
                broke.map(|at| (at, previous.as_ref().map_or(0, |previous| previous.bytes)))
            };
            self.broke = broke.map(|(at, expected)| {
                let at = match lane.compaction.take() {
                    Some(detail) => Break { cause: Cause::Compacted, detail, ..at },
                    None => at,
                };
                let at = with_reasoning(at, &sent);
                let lost = expected.saturating_sub(at.byte);
                PrefixBreak::new(at, lost, self.price)
            });
        }
        let shared = compared.map_or(0, |compared| compared.shared_bytes);
        self.shared += Shared::one(bytes, shared);
        if is_first {
            let changed = previous.as_ref().filter(|previous| previous.head.digest != head.digest);
            let shared_head = changed.map(|previous| of_heads(&previous.head, None, &head, None).shared_bytes);
            self.strategies.begin(head.bytes, shared_head);
        }
        self.remember(&mut lane, head, bytes, is_first, sent);
        self.lanes.insert(path, lane);
    }

    /// The state of a lane, or that of the enclosing lane which it continues.
    fn lane(&mut self, path: &LanePath) -> Lane {
        if let Some(lane) = self.lanes.remove(path) {
            return lane;
        }
        let around = path.outward().find_map(|lane| self.lanes.get(&lane));
        let begun = |lane: &Lane| Lane { last: lane.last.clone(), expected: lane.expected.clone(), ..Lane::default() };
        around.map(begun).unwrap_or_default()
    }

    /// Where the first request of a visit departs from the expected prefix, and the bytes of that prefix.
    fn against(&self, expected: &ExpectedPrefix, head: &SizedHead, sent: &Sent<'_>) -> Option<(Break, u64)> {
        let own = expected.messages.as_deref();
        if expected.head.digest != head.digest {
            let first = own.unwrap_or(sent.plain).get(..1);
            let broke = of_heads(&expected.head, first, head, sent.messages().get(..1)).broke;
            return broke.map(|at| (at, expected.bytes));
        }
        let known = prefix::Shared { messages: 0, bytes: head.bytes };
        if self.history == History::None {
            let compared = compare_beyond(known, own.unwrap_or_default(), sent.messages());
            return compared.broke.map(|at| (by_choice(at), expected.bytes));
        }
        if own.is_none() && sent.rewritten.is_none() {
            // Law `prefix`: one conversation, extended.
            return None;
        }
        let request = own.unwrap_or_else(|| sent.plain.get(..expected.length).unwrap_or_default());
        let said = sent.plain.get(expected.length..sent.before).unwrap_or_default();
        let compared = compare_beyond(known, &[request, said].concat(), sent.messages());
        compared.broke.map(|at| (at, expected.bytes))
    }

    fn remember(&mut self, lane: &mut Lane, head: SizedHead, bytes: u64, is_first: bool, sent: Sent<'_>) {
        let (length, before) = (sent.plain.len(), sent.before);
        // After the visit the conversation is cut behind the visit's first message.
        let tail = match lane.last.take() {
            Some(last) if !is_first && last.is_plain && sent.rewritten.is_none() => {
                let mut tail = Arc::unwrap_or_clone(last).tail;
                tail.extend_from_slice(sent.plain.get(before + tail.len()..).unwrap_or_default());
                Some(tail)
            }
            _ => None,
        };
        let rewritten = sent.rewritten;
        if is_first || self.history == History::Exact {
            let messages = match &rewritten {
                Some(rewritten) => Some(rewritten.clone()),
                None if self.history == History::None => Some(sent.plain.to_vec()),
                None => None,
            };
            lane.expected = Some(Arc::new(ExpectedPrefix { head: head.clone(), length, messages, bytes }));
        }
        let (is_plain, base, tail) = match (rewritten, tail) {
            (Some(rewritten), _) => (false, 0, rewritten),
            (None, Some(tail)) => (true, before, tail),
            (None, None) => (true, before, sent.plain.get(before..).unwrap_or_default().to_vec()),
        };
        let last = Arc::new(LastRequest { head, base, tail, is_plain, bytes });
        if before == 0 {
            self.fresh = Some(Arc::clone(&last));
        }
        lane.last = Some(last);
    }

    /// Adds a compaction: of the conversation so far, only the head and the first message can still be shared.
    pub(super) fn compacted(&mut self, compacted: &RebuiltCompaction<'_>) {
        let path = &compacted.compaction.lane;
        let mut lane = self.lane(path);
        lane.sizes.clear();
        let first: Vec<Message> = compacted.first.iter().cloned().collect();
        if let Some(last) = lane.last.take() {
            let (head, bytes) = (last.head.clone(), last.bytes);
            lane.last = Some(Arc::new(LastRequest { head, base: 0, tail: first.clone(), is_plain: true, bytes }));
        }
        if let Some(expected) = lane.expected.take() {
            let (head, bytes) = (expected.head.clone(), expected.bytes);
            lane.expected = Some(Arc::new(ExpectedPrefix { head, length: 1, messages: Some(first), bytes }));
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
fn with_reasoning(at: Break, sent: &Sent<'_>) -> Break {
    let Some(number) = misplaced_reasoning(sent.head, sent.messages()) else { return at };
    let lost = format!("reasoning is not returned, because that of message {number} was given after other messages");
    let detail = if at.detail.is_empty() { lost } else { format!("{}; {lost}", at.detail) };
    Break { detail, ..at }
}

fn sized(last: Option<&LastRequest>, sent: &Sent<'_>) -> SizedHead {
    match last {
        // A head that differs only in parameters has the same prefix.
        Some(last) if last.head.digest == sent.head_digest || prefix::is_same_head(&last.head.head, sent.head) => {
            last.head.clone()
        }
        _ => {
            SizedHead { digest: sent.head_digest, head: Arc::clone(sent.head), bytes: prefix::bytes_of_head(sent.head) }
        }
    }
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

/// Compares a request with the one before it; `last.base` messages of that one are in the same conversation.
fn after(sizes: &[u64], last: &LastRequest, head: &SizedHead, sent: &Sent<'_>) -> Comparison {
    let base = sent.plain.get(..last.base).unwrap_or_default();
    if last.head.digest != head.digest {
        // If the heads differ, only the first message can matter.
        let first = if base.is_empty() { last.tail.get(..1) } else { base.get(..1) };
        return of_heads(&last.head, first, head, sent.messages().get(..1));
    }
    if sent.rewritten.is_none() {
        let bytes = last.base.checked_sub(1).and_then(|at| sizes.get(at)).copied().unwrap_or_default();
        let known = prefix::Shared { messages: last.base, bytes: head.bytes.saturating_add(bytes) };
        return compare_beyond(known, &last.tail, sent.plain.get(last.base..).unwrap_or_default());
    }
    let known = prefix::Shared { messages: 0, bytes: head.bytes };
    compare_beyond(known, &[base, &last.tail].concat(), sent.messages())
}

fn of_heads(
    old: &SizedHead,
    old_first: Option<&[Message]>,
    new: &SizedHead,
    new_first: Option<&[Message]>,
) -> Comparison {
    let before = Request { head: &old.head, messages: old_first.unwrap_or_default() };
    let after = Request { head: &new.head, messages: new_first.unwrap_or_default() };
    compare(before, after)
}

/// A different message in a fresh conversation is the author's choice, unless the change is volatile.
fn by_choice(at: Break) -> Break {
    match (&at.block, at.cause) {
        (Block::Message(_), Cause::VolatileInPrompt(_)) => at,
        (Block::Message(_), _) => Break { cause: Cause::HistoryNone, ..at },
        _ => at,
    }
}
