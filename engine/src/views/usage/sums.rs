//! Sums in which an unknown figure stays apart from zero, and their JSON line.

use rondo_protocol::object::{HookAnswer, KnownCost, Usage};
use schemars::JsonSchema;
use serde::Serialize;

use super::By;
use crate::views::event;
use crate::views::spending::Spending;

/// The sums of a group of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Threads with a step in the group.
    pub threads: u64,
    pub steps: u64,
    pub model_calls: u64,
    /// Of these, the calls without token counts.
    pub uncounted_calls: u64,
    pub tool_calls: u64,
    /// Model and tool calls, and whole visits, that hooks answered.
    pub saved_calls: u64,
    known: Spending,
    saved: Spending,
}

impl Sums {
    /// A note has one figure for the tokens of its calls: they count as counted if one of them was.
    pub fn add(&mut self, spending: Spending, model_calls: u64, tool_calls: u64) {
        self.model_calls += model_calls;
        self.tool_calls += tool_calls;
        self.uncounted_calls += if spending.usage.is_none() { model_calls } else { 0 };
        self.known += spending;
    }

    /// Adds a call that a hook answered.
    pub fn save(&mut self, answer: &HookAnswer) {
        self.saved_calls += 1;
        self.saved += Spending { usage: answer.saved, cost: answer.saved_cost() };
    }

    /// Zero tokens beside calls without counts would be those of hooks' free answers alone: they are unknown too.
    pub fn known(&self) -> Spending {
        let Spending { usage, cost } = of_calls(self.known, self.model_calls);
        Spending { usage: usage.filter(|usage| *usage != Usage::default() || self.uncounted_calls == 0), cost }
    }

    pub fn saved(&self) -> Spending {
        of_calls(self.saved, self.saved_calls)
    }
}

/// Without any call there is nothing that could be unknown.
fn of_calls(known: Spending, calls: u64) -> Spending {
    if calls > 0 {
        return known;
    }
    Spending { usage: known.usage.or_else(|| Some(Usage::default())), cost: KnownCost::of_call(Some(0.0)) }
}

/// The part of the prompt tokens that providers had cached; `None` if there are none, or unknown.
#[expect(clippy::cast_precision_loss, reason = "a share is shown with a few digits")]
pub fn cached_share(usage: Option<Usage>) -> Option<f64> {
    let usage = usage.filter(|usage| usage.prompt_tokens > 0)?;
    Some(usage.cached_tokens as f64 / usage.prompt_tokens as f64)
}

/// The JSON line of a group; a part of the interface, described in `engine/docs/lines.md`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "usage")]
#[schemars(rename = "UsageLine", transform = event("usage"))]
pub struct UsageLine {
    by: Option<By>,
    key: Option<String>,
    threads: u64,
    steps: u64,
    model_calls: u64,
    uncounted_calls: u64,
    tool_calls: u64,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cached_share: Option<f64>,
    cache_write_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[serde(flatten)]
    cost: KnownCost,
    saved: SavedLine,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SavedLine {
    calls: u64,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[serde(flatten)]
    cost: KnownCost,
}

impl UsageLine {
    pub fn new(by: Option<By>, key: Option<String>, sums: &Sums) -> Self {
        let Spending { usage, cost } = sums.known();
        let saved = sums.saved();
        Self {
            by,
            key,
            threads: sums.threads,
            steps: sums.steps,
            model_calls: sums.model_calls,
            uncounted_calls: sums.uncounted_calls,
            tool_calls: sums.tool_calls,
            prompt_tokens: usage.map(|usage| usage.prompt_tokens),
            cached_tokens: usage.map(|usage| usage.cached_tokens),
            cached_share: cached_share(usage),
            cache_write_tokens: usage.map(|usage| usage.cache_write_tokens),
            output_tokens: usage.map(|usage| usage.output_tokens),
            cost,
            saved: SavedLine {
                calls: sums.saved_calls,
                prompt_tokens: saved.usage.map(|usage| usage.prompt_tokens),
                cached_tokens: saved.usage.map(|usage| usage.cached_tokens),
                output_tokens: saved.usage.map(|usage| usage.output_tokens),
                cost: saved.cost,
            },
        }
    }
}
