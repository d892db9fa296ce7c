//! Limits of a thread and of a role.

use serde::{Deserialize, Serialize};

/// Limits of a thread, each as the table of keys in `format.rs` says. `None` = no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub cost_usd: Option<f64>,
    pub depth: u64,
    pub model_calls: u64,
    pub steps: u64,
    pub tokens: Option<u64>,
    pub tool_calls: u64,
    pub visits: Option<u64>,
    /// The run time of the thread in milliseconds, without waiting for people.
    pub wall_time_ms: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cost_usd: None,
            depth: 8,
            model_calls: 100,
            steps: 200,
            tokens: None,
            tool_calls: 200,
            visits: None,
            wall_time_ms: None,
        }
    }
}

/// Limits of a role. `None` = the thread's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleLimits {
    pub cost_usd: Option<f64>,
    pub model_calls: Option<u64>,
    pub tokens: Option<u64>,
    pub tool_calls: Option<u64>,
    pub visits: Option<u64>,
}

pub const DEFAULT_STEP_TIMEOUT_MS: u64 = 10 * 60 * 1000;
