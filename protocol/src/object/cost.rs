//! The cost of model calls. What is not known stays apart from zero, and a sum that lacks it does not look whole.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The fewest decimals of an amount.
const MIN_DECIMALS: usize = 4;

/// An amount of US dollars, shown with two significant digits and at least four decimals: only zero reads as zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dollars(pub f64);

impl fmt::Display for Dollars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut decimals = MIN_DECIMALS;
        let mut shown = self.0.abs() * 1e3;
        while shown > 0.0 && shown < 1.0 {
            decimals += 1;
            shown *= 10.0;
        }
        formatter.pad(&format!("${:.decimals$}", self.0))
    }
}

/// The cost of some model calls, as far as it is known.
///
/// It is displayed as `$0.0030`, as `≥ $0.0030` if it lacks calls without a known price, or as `unknown`. Written as
/// the members `cost_usd`, which may be `null`, and `unpriced_calls`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct KnownCost {
    /// US dollars of the calls with a known price.
    cost_usd: Option<f64>,
    /// The number of other calls.
    unpriced_calls: u64,
}

impl KnownCost {
    /// A sum in US dollars over calls with a known price, if there are any, beside a number of other calls.
    pub fn new(sum_usd: Option<f64>, unpriced_calls: u64) -> Self {
        // A zero beside calls without a known price is that of hooks' free answers alone, which says nothing of the others.
        Self { cost_usd: sum_usd.filter(|cost| *cost > 0.0 || unpriced_calls == 0), unpriced_calls }
    }

    /// The cost of one call in US dollars, if its price is known.
    pub fn of_call(cost_usd: Option<f64>) -> Self {
        Self::new(cost_usd, u64::from(cost_usd.is_none()))
    }

    /// The known cost in US dollars.
    pub fn usd(self) -> Option<f64> {
        self.cost_usd
    }

    /// The number of calls without a known price, which [`KnownCost::usd`] leaves out.
    pub fn unpriced_calls(self) -> u64 {
        self.unpriced_calls
    }
}

impl std::ops::AddAssign for KnownCost {
    fn add_assign(&mut self, other: Self) {
        let sum_usd = other.cost_usd.map(|cost| cost + self.cost_usd.unwrap_or_default()).or(self.cost_usd);
        *self = Self::new(sum_usd, self.unpriced_calls.saturating_add(other.unpriced_calls));
    }
}

impl fmt::Display for KnownCost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.usd(), self.unpriced_calls) {
            (None, _) => formatter.pad("unknown"),
            (Some(cost), 0) => Dollars(cost).fmt(formatter),
            (Some(cost), _) => formatter.pad(&format!("≥ {}", Dollars(cost))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(costs: &[Option<f64>]) -> KnownCost {
        let mut sum = KnownCost::default();
        for cost in costs {
            sum += KnownCost::of_call(*cost);
        }
        sum
    }

    #[test]
    fn only_zero_reads_as_zero() {
        let shown =
            [0.0, 0.000_000_3, 0.000_049, 0.000_53, 0.0042, 1.0, 12.345_678].map(|usd| Dollars(usd).to_string());
        assert_eq!(shown, ["$0.0000", "$0.00000030", "$0.000049", "$0.00053", "$0.0042", "$1.0000", "$12.3457"]);
        assert_eq!(format!("{:>8}|", Dollars(0.5)), " $0.5000|");
    }

    #[test]
    fn a_sum_without_some_of_its_calls_does_not_look_whole() {
        assert_eq!(sum(&[Some(0.001), Some(0.002)]).to_string(), "$0.0030");
        assert_eq!(sum(&[Some(0.001), None, Some(0.002), None]).to_string(), "≥ $0.0030");
        let json = serde_json::to_string(&sum(&[Some(0.5), None])).unwrap();
        assert_eq!(json, r#"{"cost_usd":0.5,"unpriced_calls":1}"#);
    }

    #[test]
    fn an_unknown_cost_is_not_zero() {
        assert_eq!(sum(&[None, None]).to_string(), "unknown");
        // A hook's answer costs nothing; that says nothing of the other call.
        assert_eq!(sum(&[Some(0.0), None]).usd(), None);
        assert_eq!(sum(&[Some(0.0)]).to_string(), "$0.0000");
        let json = serde_json::to_string(&sum(&[Some(0.0), None])).unwrap();
        assert_eq!(json, r#"{"cost_usd":null,"unpriced_calls":1}"#);
    }
}
