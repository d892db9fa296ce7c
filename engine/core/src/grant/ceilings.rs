//! The operator's limits.

use rondo_protocol::workflow::Limits;
use serde::{Deserialize, Serialize};

/// The operator's limits; the lower of these and a workflow's applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// US dollars per thread.
    pub cost_usd: Option<f64>,
    /// The depth of nested child workflows.
    pub depth: Option<u64>,
    /// Model calls per step.
    pub model_calls: Option<u64>,
    /// Steps per thread.
    pub steps: Option<u64>,
    /// Tokens per thread.
    pub tokens: Option<u64>,
    /// Tool calls per step.
    pub tool_calls: Option<u64>,
    /// Visits per role.
    pub visits: Option<u64>,
    /// Milliseconds per thread.
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
