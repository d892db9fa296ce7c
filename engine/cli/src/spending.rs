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
