//! Limits and money of a thread: what was used, what is in progress, and whether a visit or a call may be made.
//!
//! Tokens and money are reserved before each call. If the price and the output ceiling of a call are known, all lanes
//! together never exceed a limit; otherwise they exceed it by at most the calls in flight.

use std::collections::BTreeMap;

use rondo_protocol::call::{Fault, ReachedLimit};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::{Dollars, KnownCost, Note, Usage};
use rondo_protocol::workflow::{Limits, RoleLimits};
use serde::{Deserialize, Serialize, Serializer};

/// Counted usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Model replies that entered the thread.
    pub model_calls: u64,
    /// Tool results that entered it.
    pub tool_calls: u64,
    /// Tokens.
    #[serde(serialize_with = "every_count")]
    pub usage: Usage,
    /// US dollars, if prices are known.
    pub cost_usd: Option<f64>,
    /// Model replies without a known price.
    #[serde(default)]
    pub unpriced_calls: u64,
    /// Milliseconds with at least one active lane.
    pub active_ms: u64,
}

/// Writes also the counts that JSON leaves out when they are 0: a checkpoint has no names.
fn every_count<S: Serializer>(usage: &Usage, serializer: S) -> Result<S::Ok, S::Error> {
    let Usage { prompt_tokens, cached_tokens, cache_write_tokens, cache_write_long_tokens, .. } = *usage;
    let read = (prompt_tokens, cached_tokens, cache_write_tokens, cache_write_long_tokens);
    (read, usage.output_tokens, usage.reasoning_tokens).serialize(serializer)
}

impl Spent {
    /// The cost of its model replies.
    pub fn cost(&self) -> KnownCost {
        KnownCost::new(self.cost_usd, self.unpriced_calls)
    }

    /// Adds a step and the visits that were cancelled with it, but for their time.
    pub fn add(&mut self, note: &Note) {
        let calls = (note.model_calls, note.tool_calls, note.cost().unpriced_calls());
        self.add_visit(calls, note.usage, note.cost_usd);
        for lost in &note.cancelled {
            let calls = (lost.model_calls, lost.tool_calls, lost.cost().unpriced_calls());
            self.add_visit(calls, lost.usage, lost.cost_usd);
        }
    }

    fn add_visit(&mut self, (models, tools, unpriced): (u64, u64, u64), usage: Option<Usage>, cost_usd: Option<f64>) {
        self.model_calls += models;
        self.tool_calls += tools;
        self.unpriced_calls += unpriced;
        self.usage += usage.unwrap_or_default();
        if let Some(cost) = cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
    }
}

/// Tokens and US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// Prompt and output tokens.
    pub tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
}

impl Amount {
    fn of(usage: Option<Usage>, cost_usd: Option<f64>) -> Self {
        let tokens = usage.map_or(0, |usage| usage.prompt_tokens.saturating_add(usage.output_tokens));
        Self { tokens, cost_usd: cost_usd.unwrap_or(0.0) }
    }

    fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost_usd: self.cost_usd + other.cost_usd }
    }

    fn minus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), cost_usd: (self.cost_usd - other.cost_usd).max(0.0) }
    }
}

/// An estimate for a requested model call.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallEstimate {
    /// Bytes of its request.
    pub prompt_bytes: u64,
    /// The most tokens of its reply, if a parameter sets it.
    pub max_output_tokens: Option<u64>,
    /// US dollars per uncached prompt token, if a price is known.
    pub input_usd: Option<f64>,
    /// US dollars per reply token.
    pub output_usd: Option<f64>,
}

/// A reservation for a call, released when the call is settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservation {
    lane: LanePath,
    role: RoleName,
    prompt_bytes: u64,
    amount: Amount,
}

/// The account of a thread.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// The usage of its steps, and of cancelled lanes.
    pub spent: Spent,
    /// The usage of each role, in all lanes.
    pub roles: BTreeMap<RoleName, Amount>,
    /// The usage of visits in progress, by lane and role.
    under_way: BTreeMap<LanePath, (RoleName, Amount)>,
    /// The reservations for calls in flight, by role.
    reserved: BTreeMap<RoleName, Amount>,
    /// The highest number of tokens per request byte, by role, learned from the providers' counts.
    tokens_a_byte: BTreeMap<RoleName, f64>,
}

/// The factor by which a token estimate exceeds the observed rate.
const MARGIN: f64 = 1.25;

impl Budget {
    /// Adds the usage of a step.
    pub fn commit(&mut self, lane: &LanePath, role: &RoleName, note: &Note) {
        self.spent.add(note);
        self.under_way.remove(lane);
        self.add(role, note.usage, note.cost_usd);
        for lost in &note.cancelled {
            self.under_way.remove(&lost.lane);
            self.add(&lost.role, lost.usage, lost.cost_usd);
        }
    }

    fn add(&mut self, role: &RoleName, usage: Option<Usage>, cost_usd: Option<f64>) {
        let of_role = self.roles.entry(role.clone()).or_default();
        *of_role = of_role.plus(Amount::of(usage, cost_usd));
    }

    /// All usage, actual or possible: committed, in progress and reserved; of one role, or of the thread.
    fn used(&self, role: Option<&RoleName>) -> Amount {
        let is_counted = |of: &RoleName| role.is_none_or(|role| role == of);
        let committed = match role {
            Some(role) => self.roles.get(role).copied().unwrap_or_default(),
            None => Amount::of(Some(self.spent.usage), self.spent.cost_usd),
        };
        let under_way = self.under_way.values().filter(|(of, _)| is_counted(of)).map(|(_, amount)| *amount);
        let reserved = self.reserved.iter().filter(|(of, _)| is_counted(of)).map(|(_, amount)| *amount);
        under_way.chain(reserved).fold(committed, Amount::plus)
    }

    /// The limit of tokens or money that is reached, or that `more` could exceed.
    pub fn broken(&self, role: &RoleName, more: Option<Amount>, limits: &Limits, own: &RoleLimits) -> Option<Fault> {
        let both = [(None, limits.tokens, limits.cost_usd), (Some(role), own.tokens, own.cost_usd)];
        let mut limited = both.into_iter().filter(|(_, tokens, cost_usd)| tokens.is_some() || cost_usd.is_some());
        limited.find_map(|(role, tokens, cost_usd)| {
            let used = self.used(role);
            let fault = |key: &'static str, needed: f64, most: String, what: &str, rest: String| {
                let who = role.map_or_else(|| "the thread".to_owned(), |role| format!("the role {role}"));
                let message = match rest.as_str() {
                    "" => format!("{who} reached its limit of {most} {what}"),
                    rest => format!("the next call could take {who} past its limit of {most} {what}: {rest}"),
                };
                let limit = ReachedLimit { key, role: role.cloned(), is_of_thread: role.is_none(), needed };
                Fault::of_limit(Code::ThreadLimit, limit, message)
            };
            if let Some(most) = tokens {
                #[expect(clippy::cast_precision_loss, reason = "a limit is far below what a float cannot hold")]
                let fault = |needed: u64, rest| fault("tokens", needed as f64, most.to_string(), "tokens", rest);
                if used.tokens >= most {
                    return Some(fault(used.tokens.saturating_add(1), String::new()));
                }
                let needed = more.map(|more| (more.tokens, used.tokens.saturating_add(more.tokens)));
                if let Some((more, needed)) = needed.filter(|(_, needed)| *needed > most) {
                    let rest = format!("{} are used or reserved, and it may take {more} more", used.tokens);
                    return Some(fault(needed, rest));
                }
            }
            let most = cost_usd?;
            let fault = |needed: f64, rest| fault("cost_usd", needed, most.to_string(), "US dollars", rest);
            if used.cost_usd >= most {
                return Some(fault(used.cost_usd.next_up(), String::new()));
            }
            let more = more.filter(|more| used.cost_usd + more.cost_usd > most)?;
            let [of, most_more] = [used.cost_usd, more.cost_usd].map(Dollars);
            let rest = format!("{of} are used or reserved, and it may cost {most_more} more");
            Some(fault(used.cost_usd + more.cost_usd, rest))
        })
    }

    /// Reserves what a call may use, or returns the limit that it could exceed.
    pub fn admit(
        &mut self,
        lane: &LanePath,
        role: &RoleName,
        wanted: &CallEstimate,
        limits: &Limits,
        own: &RoleLimits,
    ) -> Result<Reservation, Fault> {
        let amount = self.most(role, wanted);
        if let Some(fault) = self.broken(role, wanted.max_output_tokens.map(|_| amount), limits, own) {
            return Err(fault);
        }
        let reserved = self.reserved.entry(role.clone()).or_default();
        *reserved = reserved.plus(amount);
        Ok(Reservation { lane: lane.clone(), role: role.clone(), prompt_bytes: wanted.prompt_bytes, amount })
    }

    /// The most that a call may use. A token is at least one byte of a request; earlier counts of the provider lower
    /// the estimate.
    fn most(&self, role: &RoleName, wanted: &CallEstimate) -> Amount {
        let rate = self.tokens_a_byte.get(role).map_or(1.0, |rate| (rate * MARGIN).min(1.0));
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate"
        )]
        let prompt = (wanted.prompt_bytes as f64 * rate).ceil() as u64;
        let output = wanted.max_output_tokens.unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let cost = |tokens: u64, usd: Option<f64>| usd.map_or(0.0, |usd| tokens as f64 * usd);
        Amount {
            tokens: prompt.saturating_add(output),
            cost_usd: cost(prompt, wanted.input_usd) + cost(output, wanted.output_usd),
        }
    }

    /// Releases a reservation, and counts what the call used. `usage` is that of one request, if it was counted.
    pub fn settle(&mut self, reserved: &Reservation, usage: Option<Usage>, cost_usd: Option<f64>) {
        if let Some(held) = self.reserved.get_mut(&reserved.role) {
            *held = held.minus(reserved.amount);
        }
        if let Some(usage) = usage.filter(|usage| usage.prompt_tokens > 0 && reserved.prompt_bytes > 0) {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let rate = usage.prompt_tokens as f64 / reserved.prompt_bytes as f64;
            let known = self.tokens_a_byte.entry(reserved.role.clone()).or_insert(rate);
            *known = known.max(rate);
        }
        self.count(&reserved.lane, &reserved.role, usage, cost_usd);
    }

    /// Counts the usage of a visit in progress, including that before a crash.
    pub fn count(&mut self, lane: &LanePath, role: &RoleName, usage: Option<Usage>, cost_usd: Option<f64>) {
        let entry = self.under_way.entry(lane.clone()).or_insert_with(|| (role.clone(), Amount::default()));
        if entry.0 != *role {
            *entry = (role.clone(), Amount::default());
        }
        entry.1 = entry.1.plus(Amount::of(usage, cost_usd));
    }
}
