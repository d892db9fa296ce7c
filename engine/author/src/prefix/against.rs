//! Compares two threads: what the first request of each visit shares with that of the same visit in another thread,
//! such as a run of the workflow before an edit.
//!
//! Of the other thread only the new part of each visit is held, which amounts to one conversation per role.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_agent_kit::prefix::{self, Comparison, Request, compare, compare_beyond};
use rondo_core::conversation::rebuild::{self, RebuildEvent, Sent};
use rondo_core::store::{Read, Row};
use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::Message;
use rondo_protocol::object::Head;

use super::{PrefixBreak, Prices, Shared, VisitPrefix, extend};

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
    let mut sides: BTreeMap<(RoleName, LanePath), Baseline> = BTreeMap::new();
    rebuild::walk(store, other, other_row, &|_| true, &mut |met| {
        if let RebuildEvent::Request(sent) = met
            && !sent.is_compaction
        {
            let side = sides.entry(key(&sent)).or_default();
            if side.recorded_visit != sent.site.visit {
                side.record(&sent);
            }
        }
        true
    })?;
    let mut read: BTreeMap<(RoleName, LanePath), PairReader> = BTreeMap::new();
    let mut first: Option<(Shared, Option<PrefixBreak>, bool)> = None;
    rebuild::walk(store, thread, row, &|_| true, &mut |met| match met {
        RebuildEvent::Compaction(_) => true,
        RebuildEvent::Request(sent) => {
            if first.is_none() && !sent.is_compaction {
                let key = key(&sent);
                let reader = read.entry(key.clone()).or_insert_with(|| {
                    let visits = sides.remove(&key).map(|side| side.visits).unwrap_or_default();
                    PairReader { visits, ..PairReader::default() }
                });
                let price = prices.get(&key.0).copied();
                let (request_bytes, compared) = reader.request(&sent);
                let has_counterpart = compared.is_some();
                let shared_bytes = compared.as_ref().map_or(0, |compared| compared.shared_bytes);
                let shared = Shared::one(request_bytes, shared_bytes);
                let broke = compared.and_then(|compared| compared.broke);
                let broke = broke.map(|at| {
                    let lost = reader.other_bytes.saturating_sub(at.byte);
                    PrefixBreak::new(at, lost, price)
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

fn key(sent: &Sent<'_>) -> (RoleName, LanePath) {
    (sent.site.role.clone(), sent.site.lane.clone())
}

/// The first requests of a role in the other thread.
#[derive(Default)]
struct Baseline {
    visits: VecDeque<BaselineRequest>,
    recorded_visit: u64,
    messages: Vec<Message>,
    plain: PlainLength,
}

/// The message count of the first request of the last visit, if no hook rewrote it: the next one starts with them.
#[derive(Default)]
struct PlainLength(usize);

impl PlainLength {
    /// How many messages a visit's first request certainly shares with the previous one.
    fn kept(&mut self, sent: &Sent<'_>) -> usize {
        let before = std::mem::take(&mut self.0);
        if sent.rewritten.is_some() {
            return 0;
        }
        self.0 = sent.plain.len();
        before.min(sent.before)
    }
}

/// The first request of a visit, as its difference to the previous one.
struct BaselineRequest {
    visit: u64,
    digest: Digest,
    head: Arc<Head>,
    kept: usize,
    fresh: Vec<Message>,
}

impl Baseline {
    fn record(&mut self, sent: &Sent<'_>) {
        self.recorded_visit = sent.site.visit;
        let messages = sent.messages();
        let kept = self.plain.kept(sent);
        let kept = kept + self.messages.iter().zip(messages).skip(kept).take_while(|(a, b)| a == b).count();
        let fresh = messages.get(kept..).unwrap_or_default().to_vec();
        self.messages.truncate(kept);
        self.messages.extend_from_slice(&fresh);
        let head = Arc::clone(sent.head);
        self.visits.push_back(BaselineRequest { visit: sent.site.visit, digest: sent.head_digest, head, kept, fresh });
    }
}

/// Reads both sides of a role together.
#[derive(Default)]
struct PairReader {
    visits: VecDeque<BaselineRequest>,
    /// The other side's request, and its cumulative bytes up to each message.
    other: Vec<Message>,
    other_sizes: Vec<u64>,
    other_bytes: u64,
    /// This side's cumulative bytes up to each message.
    sizes: Vec<u64>,
    plain: PlainLength,
    /// The length of the common prefix in messages.
    alike: usize,
}

impl PairReader {
    /// Adds the first request of a visit. Returns its bytes, and its comparison with the other side's, if there is
    /// one.
    fn request(&mut self, sent: &Sent<'_>) -> (u64, Option<Comparison>) {
        let messages = sent.messages();
        let kept = self.plain.kept(sent);
        extend(&mut self.sizes, kept, messages);
        self.alike = self.alike.min(kept);
        let head_bytes = prefix::bytes_of_head(sent.head);
        let request_bytes = head_bytes.saturating_add(self.sizes.last().copied().unwrap_or_default());
        let mut found = None;
        while self.visits.front().is_some_and(|next| next.visit <= sent.site.visit) {
            let Some(next) = self.visits.pop_front() else { break };
            self.alike = self.alike.min(next.kept);
            self.other.truncate(next.kept);
            self.other.extend(next.fresh);
            extend(&mut self.other_sizes, next.kept, &self.other);
            found = (next.visit == sent.site.visit).then_some((next.digest, next.head));
        }
        let Some((digest, head)) = found else { return (request_bytes, None) };
        let other_messages = self.other_sizes.last().copied().unwrap_or_default();
        self.other_bytes = prefix::bytes_of_head(&head).saturating_add(other_messages);
        if digest != sent.head_digest {
            let before = Request { head: &head, messages: self.other.get(..1).unwrap_or_default() };
            let after = Request { head: sent.head, messages: messages.get(..1).unwrap_or_default() };
            let compared = compare(before, after);
            // Heads that differ only in parameters are the same prefix.
            if compared.broke.is_some() {
                return (request_bytes, Some(compared));
            }
        }
        while self.other.get(self.alike).is_some_and(|other| messages.get(self.alike) == Some(other)) {
            self.alike += 1;
        }
        let alike_bytes = self.alike.checked_sub(1).and_then(|at| self.sizes.get(at)).copied().unwrap_or_default();
        let known = prefix::Shared { messages: self.alike, bytes: head_bytes.saturating_add(alike_bytes) };
        let window =
            |messages: &[Message], at: usize| messages.iter().skip(at).take(LOOKED_AT).cloned().collect::<Vec<_>>();
        let compared = compare_beyond(known, &window(&self.other, self.alike), &window(messages, self.alike));
        (request_bytes, Some(compared))
    }
}
