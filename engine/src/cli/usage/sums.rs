//! Sums in which an unknown figure stays apart from zero, and their JSON line.

use rondo_protocol::object::{CancelledLane, HookAnswer, Note, Usage};
use serde::Serialize;

use super::By;

/// What a step or a cancelled visit used.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    unpriced_calls: u64,
    model_calls: u64,
    tool_calls: u64,
}

impl From<&Note> for Used {
    fn from(note: &Note) -> Self {
        let Note { usage, cost_usd, model_calls, tool_calls, .. } = *note;
        Self { usage, cost_usd, unpriced_calls: note.unpriced(), model_calls, tool_calls }
    }
}

impl From<&CancelledLane> for Used {
    fn from(lost: &CancelledLane) -> Self {
        let CancelledLane { usage, cost_usd, model_calls, tool_calls, .. } = *lost;
        Self { usage, cost_usd, unpriced_calls: lost.unpriced(), model_calls, tool_calls }
    }
}

/// Tokens and money, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Known {
    /// `None` if no call has token counts.
    pub usage: Option<Usage>,
    /// US dollars; `None` if no call has a price.
    pub cost_usd: Option<f64>,
}

impl Known {
    fn add(&mut self, usage: Option<Usage>, cost_usd: Option<f64>) {
        if let Some(usage) = usage {
            *self.usage.get_or_insert_default() += usage;
        }
        if let Some(cost) = cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
    }

    /// Without any call there is nothing that could be unknown.
    fn of_calls(self, calls: u64) -> Self {
        if calls > 0 {
            return self;
        }
        Self { usage: self.usage.or_else(|| Some(Usage::default())), cost_usd: self.cost_usd.or(Some(0.0)) }
    }
}

/// The sums of a group of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Threads with a step in the group.
    pub threads: u64,
    pub steps: u64,
    pub model_calls: u64,
    /// Of these, the calls without token counts.
    pub uncounted_calls: u64,
    /// Of these, the calls without a price.
    pub unpriced_calls: u64,
    pub tool_calls: u64,
    /// Model and tool calls, and whole visits, that hooks answered.
    pub saved_calls: u64,
    known: Known,
    saved: Known,
}

impl Sums {
    /// A note has one figure for the tokens of its calls: they count as counted if one of them was.
    pub fn add(&mut self, used: Used) {
        let Used { usage, cost_usd, unpriced_calls, model_calls, tool_calls } = used;
        self.model_calls += model_calls;
        self.tool_calls += tool_calls;
        self.uncounted_calls += if usage.is_none() { model_calls } else { 0 };
        self.unpriced_calls += unpriced_calls;
        self.known.add(usage, cost_usd);
    }

    /// Adds a call that a hook answered.
    pub fn save(&mut self, answer: &HookAnswer) {
        self.saved_calls += 1;
        self.saved.add(answer.saved, answer.saved_usd);
    }

    /// A zero beside calls that are not known would be one of hooks' free answers alone: it is unknown too.
    pub fn known(&self) -> Known {
        let Known { usage, cost_usd } = self.known.of_calls(self.model_calls);
        Known {
            usage: usage.filter(|usage| *usage != Usage::default() || self.uncounted_calls == 0),
            cost_usd: cost_usd.filter(|cost| *cost > 0.0 || self.unpriced_calls == 0),
        }
    }

    pub fn saved(&self) -> Known {
        self.saved.of_calls(self.saved_calls)
    }
}

/// The part of the prompt tokens that providers had cached; `None` if there are none, or unknown.
#[expect(clippy::cast_precision_loss, reason = "a share is shown with a few digits")]
pub fn cached_share(usage: Option<Usage>) -> Option<f64> {
    let usage = usage.filter(|usage| usage.prompt_tokens > 0)?;
    Some(usage.cached_tokens as f64 / usage.prompt_tokens as f64)
}

/// The JSON line of a group; a part of the interface, described in `engine/docs/lines.md`.
#[derive(Debug, Serialize)]
pub struct UsageLine {
    event: &'static str,
    by: Option<By>,
    key: Option<String>,
    threads: u64,
    steps: u64,
    model_calls: u64,
    uncounted_calls: u64,
    unpriced_calls: u64,
    tool_calls: u64,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cached_share: Option<f64>,
    cache_write_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cost_usd: Option<f64>,
    saved: SavedLine,
}

#[derive(Debug, Serialize)]
struct SavedLine {
    calls: u64,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cost_usd: Option<f64>,
}

impl UsageLine {
    pub(super) fn new(by: Option<By>, key: Option<String>, sums: &Sums) -> Self {
        let Known { usage, cost_usd } = sums.known();
        let saved = sums.saved();
        Self {
            event: "usage",
            by,
            key,
            threads: sums.threads,
            steps: sums.steps,
            model_calls: sums.model_calls,
            uncounted_calls: sums.uncounted_calls,
            unpriced_calls: sums.unpriced_calls,
            tool_calls: sums.tool_calls,
            prompt_tokens: usage.map(|usage| usage.prompt_tokens),
            cached_tokens: usage.map(|usage| usage.cached_tokens),
            cached_share: cached_share(usage),
            cache_write_tokens: usage.map(|usage| usage.cache_write_tokens),
            output_tokens: usage.map(|usage| usage.output_tokens),
            cost_usd,
            saved: SavedLine {
                calls: sums.saved_calls,
                prompt_tokens: saved.usage.map(|usage| usage.prompt_tokens),
                cached_tokens: saved.usage.map(|usage| usage.cached_tokens),
                output_tokens: saved.usage.map(|usage| usage.output_tokens),
                cost_usd: saved.cost_usd,
            },
        }
    }
}
