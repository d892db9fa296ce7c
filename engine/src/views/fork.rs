//! The JSON line of what a fork would do.

use rondo_core::local::ForkPlan;
use rondo_protocol::event::Visit;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::KnownCost;
use schemars::JsonSchema;
use serde::Serialize;

use super::event;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "fork")]
#[schemars(rename = "ForkLine", transform = event("fork"))]
pub struct ForkLine<'a> {
    thread: &'a ThreadId,
    at: u64,
    changed: Option<ChangedLine<'a>>,
    again: AgainLine,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ChangedLine<'a> {
    seq: u64,
    #[serde(flatten)]
    visit: &'a Visit,
    why: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgainLine {
    steps: u64,
    model_calls: u64,
    tool_calls: u64,
    prompt_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[serde(flatten)]
    cost: KnownCost,
}

pub fn fork_line<'a>(thread: &'a ThreadId, plan: &'a ForkPlan) -> ForkLine<'a> {
    let changed = plan.changed.as_ref().map(|step| ChangedLine { seq: step.seq, visit: &step.visit, why: &step.why });
    let (again, usage) = (plan.again, plan.again.usage);
    let again = AgainLine {
        steps: again.steps,
        model_calls: again.model_calls,
        tool_calls: again.tool_calls,
        prompt_tokens: usage.map(|usage| usage.prompt_tokens),
        output_tokens: usage.map(|usage| usage.output_tokens),
        cost: again.cost,
    };
    ForkLine { thread, at: plan.at, changed, again }
}
