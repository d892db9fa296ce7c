//! The requests of one role, each compared with the one before it.

use std::sync::Arc;

use rondo_agent_kit::prefix::{self, Block, Break, Cause, Comparison, Request, compare, compare_beyond};
use rondo_protocol::Digest;
use rondo_protocol::id::RoleName;
use rondo_protocol::message::Message;
use rondo_protocol::object::Head;
use rondo_protocol::workflow::History;

use super::strategy::Strategies;
use super::{Broke, RoleSum, Shared, Visit};
use crate::models::Price;
use crate::rebuild::{Sent, Visited};

/// What a role has sent so far, as far as its next request is compared with it.
pub(super) struct Trail {
    history: History,
    price: Option<Price>,
    /// Bytes of the role's plain conversation up to each of its messages.
    sizes: Vec<u64>,
    /// The request before.
    last: Option<Last>,
    /// The request that the first one of the next visit is promised to begin with.
    promised: Option<Promised>,
    /// Of the visit that is being read.
    shared: Shared,
    broke: Option<Broke>,
    strategies: Strategies,
    sum: RoleSum,
}

/// A head with its size.
#[derive(Clone)]
struct Sized {
    digest: Digest,
    head: Arc<Head>,
    bytes: u64,
}

/// The request before: so many messages of the plain conversation, and what followed them.
struct Last {
    head: Sized,
    base: usize,
    tail: Vec<Message>,
    is_plain: bool,
    bytes: u64,
}

/// What the next visit is promised to begin with: a request, and what was said after it.
struct Promised {
    head: Sized,
    /// How many messages of the plain conversation the request has.
    length: usize,
    /// Its messages, where they are not those of the plain conversation any more.
    messages: Option<Vec<Message>>,
    bytes: u64,
}

impl Trail {
    pub(super) fn new(role: &RoleName, history: History, price: Option<Price>) -> Self {
        let strategies = Strategies::default();
        Self {
            history,
            price,
            sizes: Vec::new(),
            last: None,
            promised: None,
            shared: Shared::default(),
            broke: None,
            sum: RoleSum::new(role, history, strategies.costs(price)),
            strategies,
        }
    }

    /// Takes in the role's next request.
    pub(super) fn request(&mut self, sent: Sent<'_>) {
        self.sizes.truncate(sent.kept);
        let mut size = self.sizes.last().copied().unwrap_or_default();
        for message in sent.plain.get(self.sizes.len()..).unwrap_or_default() {
            size = size.saturating_add(prefix::bytes_of_message(message));
            self.sizes.push(size);
        }
        let head = self.sized(&sent);
        let messages_bytes = match &sent.rewritten {
            Some(rewritten) => rewritten.iter().map(prefix::bytes_of_message).sum(),
            None => size,
        };
        let bytes = head.bytes.saturating_add(messages_bytes);
        let is_first = self.shared.requests == 0;
        let compared = self.last.as_ref().map(|last| self.after(last, &head, &sent));
        if self.broke.is_none() {
            let broke = if is_first {
                self.against_promise(&head, &sent)
            } else {
                let broke = compared.as_ref().and_then(|compared| compared.broke.clone());
                broke.map(|at| (at, self.last.as_ref().map_or(0, |last| last.bytes)))
            };
            self.broke = broke.map(|(at, promised)| {
                let lost = promised.saturating_sub(at.byte);
                Broke::new(at, lost, self.price)
            });
        }
        let shared = compared.map_or(0, |compared| compared.shared_bytes);
        self.shared += Shared::one(bytes, shared);
        if is_first {
            let shared_head = self.last.as_ref().and_then(|last| common_head(&last.head, &head));
            self.strategies.begin(head.bytes, shared_head);
        }
        self.remember(head, bytes, is_first, sent);
    }

    fn sized(&self, sent: &Sent<'_>) -> Sized {
        match &self.last {
            // A head that differs in parameters alone is the same beginning.
            Some(last) if last.head.digest == sent.head_digest || prefix::is_same_head(&last.head.head, sent.head) => {
                last.head.clone()
            }
            _ => {
                Sized { digest: sent.head_digest, head: Arc::clone(sent.head), bytes: prefix::bytes_of_head(sent.head) }
            }
        }
    }

    /// Compares a request with the one before it.
    fn after(&self, last: &Last, head: &Sized, sent: &Sent<'_>) -> Comparison {
        let base = sent.plain.get(..last.base).unwrap_or_default();
        if last.head.digest != head.digest {
            // Of the messages only the first can matter where heads part.
            let first = if base.is_empty() { last.tail.get(..1) } else { base.get(..1) };
            return of_heads(&last.head, first, head, sent.messages().get(..1));
        }
        if sent.rewritten.is_none() {
            let bytes = last.base.checked_sub(1).and_then(|at| self.sizes.get(at)).copied().unwrap_or_default();
            let known = prefix::Shared { messages: last.base, bytes: head.bytes.saturating_add(bytes) };
            return compare_beyond(known, &last.tail, sent.plain.get(last.base..).unwrap_or_default());
        }
        let known = prefix::Shared { messages: 0, bytes: head.bytes };
        compare_beyond(known, &[base, &last.tail].concat(), sent.messages())
    }

    /// What of the promise the first request of a visit does not keep, and the bytes of what was promised.
    fn against_promise(&self, head: &Sized, sent: &Sent<'_>) -> Option<(Break, u64)> {
        let promised = self.promised.as_ref()?;
        let own = promised.messages.as_deref();
        if promised.head.digest != head.digest {
            let first = own.unwrap_or(sent.plain).get(..1);
            let broke = of_heads(&promised.head, first, head, sent.messages().get(..1)).broke;
            return broke.map(|at| (at, promised.bytes));
        }
        let known = prefix::Shared { messages: 0, bytes: head.bytes };
        if self.history == History::None {
            let compared = compare_beyond(known, own.unwrap_or_default(), sent.messages());
            return compared.broke.map(|at| (by_choice(at), promised.bytes));
        }
        if own.is_none() && sent.rewritten.is_none() {
            // Law `prefix`: one conversation, extended.
            return None;
        }
        let request = own.unwrap_or_else(|| sent.plain.get(..promised.length).unwrap_or_default());
        let said = sent.plain.get(promised.length..sent.before).unwrap_or_default();
        let compared = compare_beyond(known, &[request, said].concat(), sent.messages());
        compared.broke.map(|at| (at, promised.bytes))
    }

    fn remember(&mut self, head: Sized, bytes: u64, is_first: bool, sent: Sent<'_>) {
        let (length, before) = (sent.plain.len(), sent.before);
        // The conversation is cut behind the visit's first message when the visit is over.
        let tail = match &mut self.last {
            Some(last) if !is_first && last.is_plain && sent.rewritten.is_none() => {
                let mut tail = std::mem::take(&mut last.tail);
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
            self.promised = Some(Promised { head: head.clone(), length, messages, bytes });
        }
        let (is_plain, base, tail) = match (rewritten, tail) {
            (Some(rewritten), _) => (false, 0, rewritten),
            (None, Some(tail)) => (true, before, tail),
            (None, None) => (true, before, sent.plain.get(before..).unwrap_or_default().to_vec()),
        };
        self.last = Some(Last { head, base, tail, is_plain, bytes });
    }

    /// Takes in the end of a visit.
    pub(super) fn visit(&mut self, visited: &Visited<'_>) -> Visit {
        let (stored, note) = (visited.stored, visited.note);
        self.strategies.visit(visited);
        let visit = Visit {
            seq: stored.seq,
            role: stored.step.role.clone(),
            lane: stored.step.lane.clone(),
            visit: stored.visit,
            shared: std::mem::take(&mut self.shared),
            usage: note.usage,
            cost_usd: note.cost_usd,
            broke: self.broke.take(),
        };
        self.sum.add(&visit);
        visit
    }

    pub(super) fn into_sum(self) -> RoleSum {
        RoleSum { costs: self.strategies.costs(self.price), ..self.sum }
    }
}

/// Compares two requests by their heads and their first messages.
fn of_heads(old: &Sized, old_first: Option<&[Message]>, new: &Sized, new_first: Option<&[Message]>) -> Comparison {
    let before = Request { head: &old.head, messages: old_first.unwrap_or_default() };
    let after = Request { head: &new.head, messages: new_first.unwrap_or_default() };
    compare(before, after)
}

/// Bytes that two heads begin with alike, where they are not equal.
fn common_head(old: &Sized, new: &Sized) -> Option<u64> {
    (old.digest != new.digest).then(|| of_heads(old, None, new, None).shared_bytes)
}

/// A message of a fresh conversation is another one because the author chose so, unless what changed is volatile.
fn by_choice(at: Break) -> Break {
    match (&at.block, at.cause) {
        (Block::Message(_), Cause::VolatileInPrompt(_)) => at,
        (Block::Message(_), _) => Break { cause: Cause::HistoryNone, ..at },
        _ => at,
    }
}
