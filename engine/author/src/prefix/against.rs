//! Compares two threads: what the first request of each visit shares with that of the same visit in another thread,
//! such as a run of the workflow before an edit.
//!
//! Of the other thread the first request of each visit is held; requests share the messages of their beginning, so that
//! this amounts to one conversation per role.

use std::collections::BTreeMap;

use rondo_agent_kit::prefix::{self, Comparison, Request, compare, compare_beyond, is_same_head};
use rondo_core::conversation::rebuild::{self, RebuildEvent};
use rondo_core::store::{Read, Row};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};

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
    let mut others: BTreeMap<(RoleName, LanePath, u64), Request> = BTreeMap::new();
    rebuild::walk(store, other, other_row, &|_| true, &mut |met| {
        if let RebuildEvent::Request(sent) = met
            && !sent.is_compaction
        {
            others.entry(key(&sent)).or_insert_with(|| Request::new(&sent.head, sent.messages().clone()));
        }
        true
    })?;
    let mut first: Option<(Shared, Option<PrefixBreak>, bool)> = None;
    rebuild::walk(store, thread, row, &|_| true, &mut |met| match met {
        RebuildEvent::Compaction(_) => true,
        RebuildEvent::Request(sent) => {
            if first.is_none() && !sent.is_compaction {
                let request = Request::new(&sent.head, sent.messages().clone());
                let price = prices.get(&sent.role).copied();
                let other = others.get(&key(&sent));
                let compared = other.map(|other| compared(other, &request));
                let shared_bytes = compared.as_ref().map_or(0, |compared| compared.shared_bytes);
                let shared = Shared::one(request.bytes(), shared_bytes);
                let broke = compared.and_then(|compared| compared.broke).zip(other).map(|(at, other)| {
                    let lost = other.bytes().saturating_sub(at.byte);
                    PrefixBreak::new(at, lost, price)
                });
                first = Some((shared, broke, other.is_some()));
            }
            true
        }
        RebuildEvent::Visit(visited) => {
            let (shared, broke, has_counterpart) = first.take().unwrap_or_default();
            each(VisitPair { visit: VisitPrefix::of(&visited, shared, broke), has_counterpart })
        }
    })
}

/// A visit in any thread.
fn key(sent: &rebuild::Request) -> (RoleName, LanePath, u64) {
    (sent.role.clone(), sent.lane.clone(), sent.visit)
}

/// Compares two requests. Two threads that parted early share little of many messages, so not all are searched.
fn compared(other: &Request, request: &Request) -> Comparison {
    if !is_same_head(other.head(), request.head()) {
        return compare(other, request);
    }
    let shared = other.messages.common(&request.messages);
    let bytes = request.head_bytes().saturating_add(shared.canonical_size_bytes());
    let known = prefix::Shared { messages: shared.len(), bytes };
    let mut windows = [other, request].map(|request| request.messages.after(shared.len()));
    for messages in &mut windows {
        messages.truncate(LOOKED_AT);
    }
    let [before, after] = windows;
    compare_beyond(known, &before, &after)
}
