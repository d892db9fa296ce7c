//! What each visit of a thread shares with its role's visit before, where a prefix broke, and what that cost.
//!
//! Every request is rebuilt from the store and compared, as it was sent, with the role's request before it. Two
//! questions are kept apart:
//! - *How much do the two share?* That is counted, byte by byte.
//! - *Is that less than the role's `history` promises?* Only then a prefix broke. With `condensed` the first request of
//!   a visit begins with the first one of the visit before, and that visit's answer; tool traffic and repairs are left
//!   out on purpose. With `exact` it begins with the last one. With `none` only the head is expected; its
//!   cost is reported all the same.
//!
//! Law: a visit costs what is new in it, so that a long thread is read in a time that grows with its length alone. Of
//! each role only the request before is held.
//!
//! It must never know providers: what one reported as cached is read from the notes.

mod against;
mod requests;
mod strategy;

use std::collections::BTreeMap;

use rondo_agent_kit::prefix::{self, Break};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::Usage;
use rondo_protocol::workflow::{History, Workflow};

use crate::conversation::rebuild::{self, RebuildEvent};
use crate::models::Price;
use crate::store::{Read, Row};
use requests::RoleRequests;

pub use against::{VisitPair, against};
pub use strategy::Cost;

/// What a visit's requests share with those before them.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// The step.
    pub seq: u64,
    /// Who spoke.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// Which visit of the role in the lane, from 1.
    pub visit: u64,
    /// What its requests come to.
    pub shared: Shared,
    /// What the provider counted, where it did.
    pub usage: Option<Usage>,
    /// What it cost in US dollars, where a price was known.
    pub cost_usd: Option<f64>,
    /// The first prefix that broke in it.
    pub broke: Option<PrefixBreak>,
}

/// Sizes of requests, and what of them was sent before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared {
    /// How many requests.
    pub requests: u64,
    /// Bytes of them.
    pub request_bytes: u64,
    /// Bytes that each shares with the role's request before it.
    pub shared_bytes: u64,
}

impl Shared {
    /// The share of the bytes that were sent before, 0 to 1; `None` without a request.
    pub fn share(self) -> Option<f64> {
        prefix::share(self.shared_bytes, self.request_bytes)
    }

    /// Of one request.
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

/// A prefix that broke, and what that cost.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixBreak {
    /// Where and why.
    pub at: Break,
    /// Estimated tokens that a provider can no longer serve.
    pub lost_tokens: u64,
    /// What they cost more than served ones, in US dollars, where a price is known.
    pub lost_usd: Option<f64>,
}

impl PrefixBreak {
    fn new(at: Break, lost_bytes: u64, price: Option<Price>) -> Self {
        let lost_tokens = prefix::tokens(lost_bytes);
        Self { at, lost_tokens, lost_usd: price.map(|price| price.of_unserved(lost_tokens)) }
    }
}

/// What a role's visits come to.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleSum {
    /// Whose.
    pub role: RoleName,
    /// What of its earlier visits it is told.
    pub history: History,
    /// How many visits.
    pub visits: u64,
    /// Their requests.
    pub shared: Shared,
    /// What the provider counted, where it did.
    pub usage: Option<Usage>,
    /// What they cost in US dollars, where a price was known.
    pub cost_usd: Option<f64>,
    /// In how many visits a prefix broke.
    pub breaks: u64,
    /// Estimated tokens that could no longer be served.
    pub lost_tokens: u64,
    /// What they cost more, where a price is known.
    pub lost_usd: Option<f64>,
    /// What each history would cost on the same steps.
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
            cost_usd: None,
            breaks: 0,
            lost_tokens: 0,
            lost_usd: None,
            costs,
        }
    }

    fn add(&mut self, visit: &Visit) {
        self.visits += 1;
        self.shared += visit.shared;
        if let Some(usage) = visit.usage {
            *self.usage.get_or_insert_default() += usage;
        }
        if let Some(cost) = visit.cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
        if let Some(broke) = &visit.broke {
            self.breaks += 1;
            self.lost_tokens = self.lost_tokens.saturating_add(broke.lost_tokens);
            if let Some(lost) = broke.lost_usd {
                *self.lost_usd.get_or_insert_default() += lost;
            }
        }
    }
}

/// What the tokens of each role's model cost, where a price is known.
pub type Prices = BTreeMap<RoleName, Price>;

/// The prices of a workflow's roles, by those of its logical models.
pub fn prices(workflow: &Workflow, of_model: &dyn Fn(&str) -> Option<Price>) -> Prices {
    let priced = crate::resolved_roles::model_roles(workflow);
    priced.filter_map(|(name, _, role)| Some((name.clone(), of_model(&role.model)?))).collect()
}

/// Hands each visit of a thread to `each` in order until it says stop (`false`), and gives the sums of its roles.
///
/// # Errors
/// When a step or an object is missing or damaged, or the thread is of another version.
pub fn visits(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    prices: &Prices,
    each: &mut dyn FnMut(Visit) -> bool,
) -> Result<Vec<RoleSum>, rebuild::Error> {
    let workflow = rebuild::beginning(store, row)?.workflow;
    let requests = |(name, _, role): (&RoleName, _, &rondo_protocol::workflow::ModelRole)| {
        (name.clone(), RoleRequests::new(name, role.history, prices.get(name).copied()))
    };
    let mut roles: BTreeMap<RoleName, RoleRequests> =
        crate::resolved_roles::model_roles(&workflow).map(requests).collect();
    rebuild::walk(store, thread, row, &|_| true, &mut |met| match met {
        RebuildEvent::Request(sent) => {
            if let Some(requests) = roles.get_mut(&sent.stored.step.role) {
                requests.request(sent);
            }
            true
        }
        RebuildEvent::Visit(visited) => {
            roles.get_mut(&visited.stored.step.role).is_none_or(|requests| each(requests.visit(&visited)))
        }
    })?;
    Ok(roles.into_values().map(RoleRequests::into_sum).filter(|sum| sum.visits > 0).collect())
}
