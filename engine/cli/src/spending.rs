//! What model calls used, in words for people.

use rondo::protocol::object::{KnownCost, Usage};
use rondo::tell::plural;
use rondo::views::spending::Spending;

/// Tokens and dollars, each after two blanks; empty for what is not known.
pub fn spending_text(spending: &Spending) -> String {
    let tokens = spending.usage.filter(|usage| *usage != Usage::default()).map(|usage| {
        let percent = usage.cached_tokens.saturating_mul(100).checked_div(usage.prompt_tokens);
        let cached = percent.map_or_else(String::new, |percent| format!(" ({percent}% cached)"));
        format!("  {} in{cached}, {} out", usage.prompt_tokens, usage.output_tokens)
    });
    tokens.unwrap_or_default() + &cost_text(spending.cost).map_or_else(String::new, |cost| format!("  {cost}"))
}

/// Dollars, such as `≥ $0.0030, 2 calls without a price`; `None` if no price is known.
pub fn cost_text(cost: KnownCost) -> Option<String> {
    cost.usd()?;
    Some(match cost.unpriced_calls() {
        0 => cost.to_string(),
        calls => format!("{cost}, {} without a price", plural(calls, "call")),
    })
}

/// Dollars in a cell of a table.
pub fn cost_cell(cost: KnownCost) -> String {
    cost.usd().map_or_else(|| "-".to_owned(), |_| cost.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(costs: &[Option<f64>]) -> String {
        let mut sum = Spending::default();
        for cost in costs {
            sum += Spending::of_call(None, *cost);
        }
        spending_text(&sum)
    }

    #[test]
    fn a_sum_without_some_of_its_calls_says_how_many() {
        assert_eq!(text(&[Some(0.001), Some(0.002)]), "  $0.0030");
        assert_eq!(text(&[Some(0.001), None, Some(0.002), None]), "  ≥ $0.0030, 2 calls without a price");
        assert_eq!(text(&[None, Some(0.001)]), "  ≥ $0.0010, 1 call without a price");
    }

    #[test]
    fn an_unknown_cost_is_left_out() {
        assert_eq!(text(&[None, None]), "");
        assert_eq!(text(&[Some(0.0), None]), "");
        assert_eq!(text(&[Some(0.0)]), "  $0.0000");
    }
}
