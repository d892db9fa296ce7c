//! Visits whose step is not committed: the answers that they have, which were paid for, and what refused them.

use rondo_core::local::{CallInFlight, VisitInFlight, in_flight};
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::{KnownCost, Usage};
use rondo_store::{Read, Row, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::event;
use super::spending::Spending;
use crate::failure::Failure;

/// What the calls of such visits used; the totals of the thread leave them out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct InFlightTotals {
    pub model_calls: u64,
    /// Of these, the answers that were refused.
    pub refused: u64,
    pub tool_calls: u64,
    /// Tokens; `None` if no call has counts.
    pub prompt_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    #[serde(flatten)]
    pub cost: KnownCost,
    #[serde(skip)]
    #[schemars(skip)]
    pub usage: Option<Usage>,
}

impl InFlightTotals {
    /// `None` if there are no calls.
    pub fn of(visits: &[VisitInFlight]) -> Option<Self> {
        let (mut totals, mut spending) = (Self::default(), Spending::default());
        for call in visits.iter().flat_map(|visit| &visit.calls) {
            match call {
                CallInFlight::Model(model) => {
                    totals.model_calls += 1;
                    totals.refused += u64::from(model.refused.is_some());
                    spending += Spending::of_call(model.usage, model.cost_usd);
                }
                CallInFlight::Tool(_) => totals.tool_calls += 1,
            }
        }
        (totals.usage, totals.cost) = (spending.usage, spending.cost);
        if let Some(usage) = spending.usage {
            totals.prompt_tokens = Some(usage.prompt_tokens);
            totals.cached_tokens = Some(usage.cached_tokens);
            totals.output_tokens = Some(usage.output_tokens);
        }
        (totals.model_calls + totals.tool_calls > 0).then_some(totals)
    }
}

/// The visits of a thread that are not committed. One that has come to its end has none: its last commit took them in.
pub fn visits(store: &dyn Read, thread: &ThreadId, row: &Row) -> Result<Vec<VisitInFlight>, Failure> {
    Ok(if row.status == Status::Done { Vec::new() } else { in_flight(store, thread)? })
}

/// The line of such a visit.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "in_flight")]
#[schemars(rename = "InFlightLine", transform = event("in_flight"))]
pub struct VisitLine<'a> {
    #[serde(flatten)]
    visit: &'a VisitInFlight,
    pub totals: Option<InFlightTotals>,
}

impl<'a> VisitLine<'a> {
    pub fn of(visit: &'a VisitInFlight) -> Self {
        Self { visit, totals: InFlightTotals::of(std::slice::from_ref(visit)) }
    }
}
