//! What each visit of a thread shares with its role's previous visit, where a prefix broke, and the cost.
//!
//! Every request is rebuilt from the store and compared, as it was sent, with the role's previous request. Two
//! questions are separate:
//! - *How much do the two share?* This is counted, byte by byte.
//! - *Is it less than the role's `history` promises?* Only then a prefix broke. With `condensed` the first request of
//!   a visit starts with the first one of the previous visit, and that visit's answer; tool traffic and repairs are
//!   left out on purpose. With `exact` it starts with the last one. With `none` only the head is expected; the cost is
//!   still reported.
//!
//! Law: the cost of a visit depends on what is new in it, so the time to read a thread is linear in its length. Only
//! the previous request of each role is held.
//!
//! It must never know providers: their reported cache hits come from the notes.

mod against;
mod requests;
mod strategy;

use std::collections::BTreeMap;

use rondo_agent_kit::prefix::{self, Break};
use rondo_core::conversation::rebuild::{self, RebuildEvent, RebuiltVisit};
use rondo_core::models::Price;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{KnownCost, Usage};
use rondo_protocol::workflow::{History, Workflow};
use schemars::JsonSchema;
use serde::Serialize;

use requests::RoleRequests;
use rondo_core::store::{Read, Row};

pub use against::{VisitPair, against};
pub use strategy::Cost;

/// What a visit's requests share with earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub struct VisitPrefix {
    pub seq: u64,
    pub role: RoleName,
    pub lane: LanePath,
    /// The number of the role's visit in the lane, from 1.
    pub visit: u64,
    pub shared: Shared,
    /// The provider's count, if any.
    pub usage: Option<Usage>,
    pub cost: KnownCost,
    /// The first prefix that broke in it.
    pub broke: Option<PrefixBreak>,
}

impl VisitPrefix {
    fn of(visited: &RebuiltVisit<'_>, shared: Shared, broke: Option<PrefixBreak>) -> Self {
        let (stored, note) = (visited.stored, visited.note);
        let (role, lane) = (stored.step.role.clone(), stored.step.lane.clone());
        let (usage, cost) = (note.usage, note.cost());
        Self { seq: stored.seq, role, lane, visit: stored.visit, shared, usage, cost, broke }
    }
}

/// Sizes of requests, and how much of them was sent before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Shared {
    pub requests: u64,
    pub request_bytes: u64,
    /// Bytes that each shares with the role's previous request.
    pub shared_bytes: u64,
}

impl Shared {
    /// The share of bytes sent before, 0 to 1; `None` without a request.
    pub fn share(self) -> Option<f64> {
        prefix::share(self.shared_bytes, self.request_bytes)
    }

    fn one(request_bytes: u64, shared_bytes: u64) -> Self {
        Self { requests: 1, request_bytes, shared_bytes }
    }
}

impl std::ops::AddAssign for Shared {
    fn add_assign(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.request_bytes = self.request_bytes.saturating_add(other.request_bytes);
        self.shared_bytes = self.shared_bytes.saturating_add(other.shared_bytes);
    }
}

/// A prefix that broke, and the cost.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixBreak {
    pub at: Break,
    /// Estimated tokens that a provider can no longer serve.
    pub lost_tokens: u64,
    /// Their extra cost over cached ones, in US dollars, if a price is known.
    pub lost_usd: Option<f64>,
}

impl PrefixBreak {
    fn new(at: Break, lost_bytes: u64, price: Option<Price>) -> Self {
        let lost_tokens = prefix::tokens(lost_bytes);
        Self { at, lost_tokens, lost_usd: price.map(|price| price.of_unserved(lost_tokens)) }
    }
}

/// The sums of a role's visits.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleSum {
    pub role: RoleName,
    pub history: History,
    pub visits: u64,
    pub shared: Shared,
    pub usage: Option<Usage>,
    pub cost: KnownCost,
    /// The number of visits with a broken prefix.
    pub breaks: u64,
    pub lost_tokens: u64,
    pub lost_usd: Option<f64>,
    /// The cost of each history on the same steps.
    pub costs: [Cost; 3],
}

impl RoleSum {
    fn new(role: &RoleName, history: History, costs: [Cost; 3]) -> Self {
        Self {
            role: role.clone(),
            history,
            visits: 0,
            shared: Shared::default(),
            usage: None,
            cost: KnownCost::default(),
            breaks: 0,
            lost_tokens: 0,
            lost_usd: None,
            costs,
        }
    }

    fn add(&mut self, visit: &VisitPrefix) {
        self.visits += 1;
        self.shared += visit.shared;
        if let Some(usage) = visit.usage {
            *self.usage.get_or_insert_default() += usage;
        }
        self.cost += visit.cost;
        if let Some(broke) = &visit.broke {
            self.breaks += 1;
            self.lost_tokens = self.lost_tokens.saturating_add(broke.lost_tokens);
            if let Some(lost) = broke.lost_usd {
                *self.lost_usd.get_or_insert_default() += lost;
            }
        }
    }
}

/// The token prices of each role's model, if known.
pub type Prices = BTreeMap<RoleName, Price>;

pub fn prices(workflow: &Workflow, of_model: &dyn Fn(&str) -> Option<Price>) -> Prices {
    let priced = rondo_core::resolved_roles::model_roles(workflow);
    priced.filter_map(|(name, _, role)| Some((name.clone(), of_model(&role.model)?))).collect()
}

/// Passes each visit of a thread to `each` in order until it returns `false`, and returns the sums of its roles.
pub fn visits(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    prices: &Prices,
    each: &mut dyn FnMut(VisitPrefix) -> bool,
) -> Result<Vec<RoleSum>, rebuild::Error> {
    let workflow = rebuild::beginning(store, row)?.workflow;
    let requests = |(name, _, role): (&RoleName, _, &rondo_protocol::workflow::ModelRole)| {
        (name.clone(), RoleRequests::new(name, role.history, prices.get(name).copied()))
    };
    let mut roles: BTreeMap<RoleName, RoleRequests> =
        rondo_core::resolved_roles::model_roles(&workflow).map(requests).collect();
    rebuild::walk(store, thread, row, &|_| true, &mut |met| match met {
        RebuildEvent::Request(sent) => {
            if let Some(requests) = roles.get_mut(&sent.role).filter(|_| !sent.is_compaction) {
                requests.request(&sent);
            }
            true
        }
        RebuildEvent::Visit(visited) => {
            roles.get_mut(&visited.stored.step.role).is_none_or(|requests| each(requests.visit(&visited)))
        }
        RebuildEvent::Compaction(compacted) => {
            if let Some(requests) = roles.get_mut(&compacted.compaction.role) {
                requests.compacted(&compacted);
            }
            true
        }
    })?;
    Ok(roles.into_values().map(RoleRequests::into_sum).filter(|sum| sum.visits > 0).collect())
}
