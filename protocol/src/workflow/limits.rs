//! How much a thread or a role may use.

use serde::{Deserialize, Serialize};

/// Limits of a thread. `None` = no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// How deep child workflows may nest.
    pub depth: u64,
    /// Model calls of one step.
    pub model_calls: u64,
    /// Steps of the thread.
    pub steps: u64,
    /// Prompt and output tokens of the thread.
    pub tokens: Option<u64>,
    /// Tool calls of one step.
    pub tool_calls: u64,
    /// Visits of one role in one lane.
    pub visits: Option<u64>,
    /// Milliseconds that the thread may run, waiting for people not counted.
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
    /// US dollars of all its steps.
    pub cost_usd: Option<f64>,
    /// Model calls of one of its steps.
    pub model_calls: Option<u64>,
    /// Prompt and output tokens of all its steps.
    pub tokens: Option<u64>,
    /// Tool calls of one of its steps.
    pub tool_calls: Option<u64>,
    /// Visits in one lane.
    pub visits: Option<u64>,
}

/// Milliseconds that a step may take unless its role says otherwise.
pub const DEFAULT_STEP_TIMEOUT_MS: u64 = 10 * 60 * 1000;
