//! Limits of a thread and of a role: folds over steps and notes, asked before a visit.

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{Limits, RoleLimits};
use serde::{Deserialize, Serialize};

use crate::thread::State;

/// The operator's limits; where the workflow has one too, the lower holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// US dollars of a thread.
    pub cost_usd: Option<f64>,
    /// How deep child workflows may nest.
    pub depth: Option<u64>,
    /// Model calls of one step.
    pub model_calls: Option<u64>,
    /// Steps of a thread.
    pub steps: Option<u64>,
    /// Tokens of a thread.
    pub tokens: Option<u64>,
    /// Tool calls of one step.
    pub tool_calls: Option<u64>,
    /// Visits of one role.
    pub visits: Option<u64>,
    /// Milliseconds of a thread.
    pub wall_time_ms: Option<u64>,
}

impl Ceilings {
    /// The lower of these and a workflow's.
    #[must_use]
    pub fn over(&self, limits: &Limits) -> Limits {
        let lower = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let at_most = |limit: u64, ceiling: Option<u64>| ceiling.map_or(limit, |ceiling| limit.min(ceiling));
        Limits {
            cost_usd: match (self.cost_usd, limits.cost_usd) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            depth: at_most(limits.depth, self.depth),
            model_calls: at_most(limits.model_calls, self.model_calls),
            steps: at_most(limits.steps, self.steps),
            tokens: lower(limits.tokens, self.tokens),
            tool_calls: at_most(limits.tool_calls, self.tool_calls),
            visits: lower(limits.visits, self.visits),
            wall_time_ms: lower(limits.wall_time_ms, self.wall_time_ms),
        }
    }
}

/// The limit that a visit of `role` would break.
pub fn broken_by_visit(state: &State, role: &RoleName, limits: &Limits, own: &RoleLimits) -> Option<Fault> {
    let thread = |what: &str, most: String| {
        let message = format!("the thread reached its limit of {most} {what}");
        Some(Fault::new(Code::ThreadLimit, FaultClass::Limit, message))
    };
    if state.seq >= limits.steps {
        return thread("steps", limits.steps.to_string());
    }
    let visits = limits.visits.into_iter().chain(own.visits).min();
    if let Some(most) = visits.filter(|most| state.visits(role) >= *most) {
        let message = format!("the role {role} reached its limit of {most} visits");
        return Some(Fault::new(Code::VisitLimit, FaultClass::Limit, message));
    }
    if let Some(most) = limits.wall_time_ms.filter(|most| state.spent.active_ms >= *most) {
        return thread("wall time", format!("{most} ms"));
    }
    let tokens = state.spent.usage.prompt_tokens.saturating_add(state.spent.usage.output_tokens);
    if let Some(most) = limits.tokens.filter(|most| tokens >= *most) {
        return thread("tokens", most.to_string());
    }
    if let Some(most) = limits.cost_usd.filter(|most| state.spent.cost_usd.is_some_and(|cost| cost >= *most)) {
        return thread("US dollars", most.to_string());
    }
    None
}
