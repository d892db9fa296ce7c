//! Limits of a thread and of a role.

use serde::{Deserialize, Serialize};

/// Limits of a thread. `None` = no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// The maximum nesting of child workflows.
    pub depth: u64,
    /// Model calls of one step.
    pub model_calls: u64,
    /// Steps of the thread.
    pub steps: u64,
    /// The prompt and output tokens of the thread.
    pub tokens: Option<u64>,
    /// Tool calls of one step.
    pub tool_calls: u64,
    /// Visits of one role in one lane.
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

/// The default time limit of a step in milliseconds.
pub const DEFAULT_STEP_TIMEOUT_MS: u64 = 10 * 60 * 1000;
