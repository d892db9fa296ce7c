//! The JSON lines of what each visit shares with its role's previous one.

use rondo_agent_kit::prefix::tokens;
use rondo_author::prefix::{Cost, RoleSum, Shared, VisitPrefix};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{KnownCost, Usage};
use rondo_protocol::workflow::History;
use schemars::JsonSchema;
use serde::Serialize;

use super::event;

/// The line of a visit.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "visit")]
#[schemars(rename = "PrefixVisitLine", transform = event("visit"))]
pub struct VisitLine<'a> {
    role: &'a RoleName,
    lane: &'a LanePath,
    visit: u64,
    seq: u64,
    #[serde(flatten)]
    figures: Figures,
    broke: Option<BrokeLine<'a>>,
    against: Option<AgainstLine<'a>>,
}

/// What was sent and counted, in a visit or in all visits of a role.
#[derive(Debug, Serialize, JsonSchema)]
struct Figures {
    #[serde(flatten)]
    shared: Shared,
    shared_tokens: u64,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    expected_share: Option<f64>,
    #[serde(flatten)]
    cost: KnownCost,
}

/// A broken prefix within its visit's line.
#[derive(Debug, Serialize, JsonSchema)]
struct BrokeLine<'a> {
    byte: u64,
    block: String,
    cause: &'static str,
    detail: &'a str,
    lost_tokens: u64,
    lost_usd: Option<f64>,
}

/// The other thread, and whether it has this visit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgainstLine<'a> {
    pub thread: &'a ThreadId,
    pub has_visit: bool,
}

/// The line of all visits of a role.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "role")]
#[schemars(rename = "PrefixRoleLine", transform = event("role"))]
pub struct RoleLine<'a> {
    role: &'a RoleName,
    history: History,
    visits: u64,
    #[serde(flatten)]
    figures: Figures,
    breaks: u64,
    lost_tokens: u64,
    lost_usd: Option<f64>,
}

/// The cost of a history for a role on the same steps.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "strategy")]
pub struct StrategyLine<'a> {
    role: &'a RoleName,
    history: History,
    is_chosen: bool,
    #[serde(flatten)]
    shared: Shared,
    prompt_tokens_estimated: u64,
    served_tokens_estimated: u64,
    cost_usd: Option<f64>,
}

pub fn visit_line<'a>(visit: &'a VisitPrefix, against: Option<AgainstLine<'a>>) -> VisitLine<'a> {
    let broke = visit.broke.as_ref().map(|broke| BrokeLine {
        byte: broke.at.byte,
        block: broke.at.block.to_string(),
        cause: broke.at.cause.phrase(),
        detail: &broke.at.detail,
        lost_tokens: broke.lost_tokens,
        lost_usd: broke.lost_usd,
    });
    let VisitPrefix { role, lane, visit: number, seq, shared, usage, cost, .. } = visit;
    let figures = Figures::of(*shared, *usage, *cost);
    VisitLine { role, lane, visit: *number, seq: *seq, figures, broke, against }
}

impl Figures {
    fn of(shared: Shared, usage: Option<Usage>, cost: KnownCost) -> Self {
        Self {
            shared,
            shared_tokens: tokens(shared.shared_bytes),
            prompt_tokens: usage.map(|usage| usage.prompt_tokens),
            cached_tokens: usage.map(|usage| usage.cached_tokens),
            expected_share: shared.share(),
            cost,
        }
    }
}

pub fn role_line(sum: &RoleSum) -> RoleLine<'_> {
    let RoleSum { role, history, visits, shared, usage, cost, breaks, lost_tokens, lost_usd, costs: _ } = sum;
    let figures = Figures::of(*shared, *usage, *cost);
    let (history, visits, breaks) = (*history, *visits, *breaks);
    RoleLine { role, history, visits, figures, breaks, lost_tokens: *lost_tokens, lost_usd: *lost_usd }
}

pub fn strategy_line<'a>(sum: &'a RoleSum, cost: &Cost) -> StrategyLine<'a> {
    let Cost { history, shared, cost_usd } = *cost;
    StrategyLine {
        role: &sum.role,
        history,
        is_chosen: history == sum.history,
        shared,
        prompt_tokens_estimated: tokens(shared.request_bytes),
        served_tokens_estimated: tokens(shared.shared_bytes),
        cost_usd,
    }
}
