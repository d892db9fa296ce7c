//! Limits of a thread and of a role.

use super::Reader;
use super::part::Part;
use crate::workflow::format::{LIMITS, ROLE_LIMITS};
use crate::workflow::{Limits, RoleLimits};

impl Reader<'_> {
    pub(super) fn limits(&mut self, part: &Part<'_>) -> Limits {
        let mut limits = Limits::default();
        let Some(fields) = self.fields(part, LIMITS.keys()) else { return limits };
        for field in fields.iter() {
            match field.name() {
                "cost_usd" => limits.cost_usd = self.cost(field),
                "wall_time" => limits.wall_time_ms = self.duration(field),
                "visits" => limits.visits = self.count(field),
                "tokens" => limits.tokens = self.count(field),
                "steps" => limits.steps = self.count(field).unwrap_or(limits.steps),
                "model_calls" => limits.model_calls = self.count(field).unwrap_or(limits.model_calls),
                "tool_calls" => limits.tool_calls = self.count(field).unwrap_or(limits.tool_calls),
                _ => limits.depth = self.count(field).unwrap_or(limits.depth),
            }
        }
        limits
    }

    pub(super) fn role_limits(&mut self, part: &Part<'_>) -> RoleLimits {
        let mut limits = RoleLimits::default();
        let Some(fields) = self.fields(part, ROLE_LIMITS.keys()) else { return limits };
        for field in fields.iter() {
            match field.name() {
                "cost_usd" => limits.cost_usd = self.cost(field),
                "visits" => limits.visits = self.count(field),
                "tokens" => limits.tokens = self.count(field),
                "model_calls" => limits.model_calls = self.count(field),
                _ => limits.tool_calls = self.count(field),
            }
        }
        limits
    }

    fn count(&mut self, part: &Part<'_>) -> Option<u64> {
        self.integer(part, 1, u64::MAX)
    }

    fn cost(&mut self, part: &Part<'_>) -> Option<f64> {
        self.number(part, "US dollars, more than 0", |dollars| dollars > 0.0)
    }
}
