//! List prices of common models, used if the operator sets none. They are the public prices of a provider, not those
//! of a contract.

use rondo_core::models;

use super::Price;

const SOURCE: &str = "https://platform.openai.com/docs/pricing (list price)";
const DATE: &str = "2025-11-24";

/// Model, then US dollars per million tokens of prompt, cached prompt, and reply.
const LIST: [(&str, f64, f64, f64); 14] = [
    ("gpt-5.1", 1.25, 0.125, 10.0),
    ("gpt-5", 1.25, 0.125, 10.0),
    ("gpt-5-mini", 0.25, 0.025, 2.0),
    ("gpt-5-nano", 0.05, 0.005, 0.4),
    ("gpt-5-chat-latest", 1.25, 0.125, 10.0),
    ("gpt-4.1", 2.0, 0.5, 8.0),
    ("gpt-4.1-mini", 0.4, 0.1, 1.6),
    ("gpt-4.1-nano", 0.1, 0.025, 0.4),
    ("gpt-4o", 2.5, 1.25, 10.0),
    ("gpt-4o-mini", 0.15, 0.075, 0.6),
    ("o1", 15.0, 7.5, 60.0),
    ("o3", 2.0, 0.5, 8.0),
    ("o3-mini", 1.1, 0.55, 4.4),
    ("o4-mini", 1.1, 0.275, 4.4),
];

/// The list price of a model, by its id, which may end with a date, as in `gpt-4.1-mini-2025-04-14`.
pub fn list_price(model: &str) -> Option<Price> {
    let is_date = |rest: &str| rest.len() == 10 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_of = |name: &str| {
        model == name || model.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_date)
    };
    let (_, input, cached_input, output) = LIST.iter().copied().find(|(name, ..)| is_of(name))?;
    let (source, date) = (Some(SOURCE.to_owned()), Some(DATE.to_owned()));
    let dollars = models::Price { input, cached_input, cache_write: input, output };
    Some(Price { dollars, source, date, is_claim: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_id_and_by_its_day() {
        let input = |model: &str| list_price(model).map(|price| price.dollars.input);
        assert_eq!(input("gpt-4.1-mini"), Some(0.4));
        assert_eq!(input("gpt-4.1-mini-2025-04-14"), Some(0.4));
        assert_eq!(input("gpt-5-mini"), Some(0.25));
        for unknown in ["gpt-4.1-mini-tuned", "gpt-4", "", "mistral-large"] {
            assert_eq!(input(unknown), None, "{unknown}");
        }
    }
}
