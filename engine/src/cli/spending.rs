//! What model calls used, for people: an unknown price is never shown as zero, and a sum without some of its calls never
//! as whole.

use std::fmt::Write as _;

use rondo_protocol::object::{CancelledLane, Usage};

use super::lines::{NoteLine, Totals};
use super::output::plural;

/// Tokens and money of some model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spending {
    /// Tokens; `None` if no call has counts.
    pub usage: Option<Usage>,
    /// US dollars of the calls whose price is known; `None` if there are none.
    pub cost_usd: Option<f64>,
    /// The number of the other calls.
    pub unpriced_calls: u64,
}

impl Spending {
    pub fn of_call(usage: Option<Usage>, cost_usd: Option<f64>) -> Self {
        Self { usage, cost_usd, unpriced_calls: u64::from(cost_usd.is_none()) }
    }

    pub fn add(&mut self, other: Self) {
        if let Some(usage) = other.usage {
            *self.usage.get_or_insert_default() += usage;
        }
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
        self.unpriced_calls += other.unpriced_calls;
    }

    /// The known cost in US dollars.
    pub fn known_usd(&self) -> Option<f64> {
        known_usd(self.cost_usd, self.unpriced_calls)
    }

    /// Dollars, such as `$0.0030 + 2 calls of unknown price`.
    pub fn cost_text(&self) -> Option<String> {
        let mut text = format!("${:.4}", self.known_usd()?);
        if self.unpriced_calls > 0 {
            let _ = write!(text, " + {} of unknown price", plural(self.unpriced_calls, "call"));
        }
        Some(text)
    }

    /// Tokens and dollars, each after two blanks; empty for what is not known.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(usage) = self.usage.filter(|usage| *usage != Usage::default()) {
            let _ = write!(text, "  {} in", usage.prompt_tokens);
            if let Some(percent) = usage.cached_tokens.saturating_mul(100).checked_div(usage.prompt_tokens) {
                let _ = write!(text, " ({percent}% cached)");
            }
            let _ = write!(text, ", {} out", usage.output_tokens);
        }
        if let Some(cost) = self.cost_text() {
            let _ = write!(text, "  {cost}");
        }
        text
    }
}

/// A cost beside that of calls whose price is not known. A zero would be that of hooks' free answers alone: it is unknown
/// too.
pub fn known_usd(cost_usd: Option<f64>, unpriced_calls: u64) -> Option<f64> {
    cost_usd.filter(|cost| *cost > 0.0 || unpriced_calls == 0)
}

impl From<&Totals> for Spending {
    fn from(totals: &Totals) -> Self {
        let Totals { cost_usd, unpriced_calls, .. } = *totals;
        Self { usage: Some(totals.usage()), cost_usd, unpriced_calls }
    }
}

impl From<&NoteLine> for Spending {
    fn from(note: &NoteLine) -> Self {
        let NoteLine { usage, cost_usd, unpriced_calls, .. } = *note;
        Self { usage, cost_usd, unpriced_calls }
    }
}

impl From<&CancelledLane> for Spending {
    fn from(lost: &CancelledLane) -> Self {
        Self { usage: lost.usage, cost_usd: lost.cost_usd, unpriced_calls: lost.unpriced() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(costs: &[Option<f64>]) -> Spending {
        let mut sum = Spending::default();
        for cost in costs {
            sum.add(Spending::of_call(None, *cost));
        }
        sum
    }

    #[test]
    fn a_sum_without_some_of_its_calls_does_not_look_whole() {
        assert_eq!(sum(&[Some(0.001), Some(0.002)]).text(), "  $0.0030");
        assert_eq!(sum(&[Some(0.001), None, Some(0.002), None]).text(), "  $0.0030 + 2 calls of unknown price");
        assert_eq!(sum(&[None, Some(0.001)]).text(), "  $0.0010 + 1 call of unknown price");
    }

    #[test]
    fn an_unknown_cost_is_not_zero() {
        assert_eq!(sum(&[None, None]).text(), "");
        // A hook's answer costs nothing; that says nothing of the other call.
        assert_eq!(sum(&[Some(0.0), None]).known_usd(), None);
        assert_eq!(sum(&[Some(0.0), None]).text(), "");
        assert_eq!(sum(&[Some(0.0)]).text(), "  $0.0000");
    }
}
