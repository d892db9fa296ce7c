//! List prices of common models, used if the operator sets none. They are the public prices of a provider, not those
//! of a contract.

use rondo_core::models::{self, LongPrompt};

use super::Price;

const OPENAI: &str = "https://developers.openai.com/api/docs/pricing (list price)";
const ANTHROPIC: &str = "https://platform.claude.com/docs/en/about-claude/pricing (list price)";
const GOOGLE: &str = "https://ai.google.dev/gemini-api/docs/pricing (list price)";

const DATE: &str = "2026-11-26";

/// US dollars per million tokens.
struct Row {
    model: &'static str,
    source: &'static str,
    input: f64,
    cached: f64,
    output: f64,
    long_prompt: Option<LongPrompt>,
}

const LONG_OPENAI: Option<LongPrompt> = Some(LongPrompt { above: 272_000, input_times: 2.0, output_times: 1.5 });
const LONG_GEMINI: Option<LongPrompt> = Some(LongPrompt { above: 200_000, input_times: 2.0, output_times: 1.5 });
const LONG_HAIKU: Option<LongPrompt> = Some(LongPrompt { above: 100_000, input_times: 5.0, output_times: 5.0 });

const fn openai(model: &'static str, input: f64, cached: f64, output: f64, long_prompt: Option<LongPrompt>) -> Row {
    Row { model, source: OPENAI, input, cached, output, long_prompt }
}

const fn anthropic(model: &'static str, input: f64, cached: f64, output: f64) -> Row {
    Row { source: ANTHROPIC, ..openai(model, input, cached, output, None) }
}

const fn gemini(model: &'static str, input: f64, cached: f64, output: f64, long_prompt: Option<LongPrompt>) -> Row {
    Row { source: GOOGLE, ..openai(model, input, cached, output, long_prompt) }
}

const LIST: [Row; 53] = [
    openai("gpt-6.2-sol", 2.0, 0.1, 10.0, LONG_OPENAI),
    openai("gpt-6.2-astra", 8.0, 0.4, 40.0, LONG_OPENAI),
    openai("gpt-6.1-sol", 2.0, 0.1, 10.0, LONG_OPENAI),
    openai("gpt-6.1-terra", 1.0, 0.05, 5.0, LONG_OPENAI),
    openai("gpt-6-sol", 2.0, 0.2, 10.0, LONG_OPENAI),
    openai("gpt-6-astra", 10.0, 1.0, 50.0, LONG_OPENAI),
    openai("gpt-6-luna", 0.1, 0.01, 0.5, LONG_OPENAI),
    openai("gpt-5.6-terra", 2.0, 0.2, 12.0, LONG_OPENAI),
    openai("gpt-5.6-luna", 0.2, 0.02, 1.2, LONG_OPENAI),
    openai("gpt-5.4", 2.5, 0.25, 15.0, LONG_OPENAI),
    openai("gpt-5.4-mini", 0.75, 0.075, 4.5, None),
    openai("gpt-5.2", 1.75, 0.175, 14.0, None),
    openai("gpt-5.1", 1.25, 0.125, 10.0, None),
    openai("gpt-5", 1.25, 0.125, 10.0, None),
    openai("gpt-5-mini", 0.25, 0.025, 2.0, None),
    openai("gpt-5-nano", 0.05, 0.005, 0.4, None),
    openai("gpt-5-chat-latest", 1.25, 0.125, 10.0, None),
    openai("gpt-4.1", 2.0, 0.5, 8.0, None),
    openai("gpt-4.1-mini", 0.4, 0.1, 1.6, None),
    openai("gpt-4.1-nano", 0.1, 0.025, 0.4, None),
    openai("gpt-4o", 2.5, 1.25, 10.0, None),
    openai("gpt-4o-mini", 0.15, 0.075, 0.6, None),
    openai("o1", 15.0, 7.5, 60.0, None),
    openai("o3", 2.0, 0.5, 8.0, None),
    openai("o3-mini", 1.1, 0.55, 4.4, None),
    openai("o4-mini", 1.1, 0.275, 4.4, None),
    anthropic("claude-fable-5-1", 10.0, 0.25, 50.0),
    anthropic("claude-mythos-5-1", 10.0, 0.25, 50.0),
    anthropic("claude-fable-5", 10.0, 1.0, 50.0),
    anthropic("claude-mythos-5", 10.0, 1.0, 50.0),
    anthropic("claude-opus-5-5", 4.0, 0.2, 20.0),
    anthropic("claude-opus-5", 5.0, 0.5, 25.0),
    anthropic("claude-opus-4-8", 5.0, 0.5, 25.0),
    anthropic("claude-opus-4-7", 5.0, 0.5, 25.0),
    anthropic("claude-opus-4-6", 5.0, 0.5, 25.0),
    anthropic("claude-opus-4-5", 5.0, 0.5, 25.0),
    anthropic("claude-opus-4-1", 15.0, 1.5, 75.0),
    anthropic("claude-sonnet-5-5", 2.0, 0.1, 10.0),
    anthropic("claude-sonnet-5", 2.0, 0.2, 10.0),
    anthropic("claude-sonnet-4-6", 3.0, 0.3, 15.0),
    anthropic("claude-sonnet-4-5", 3.0, 0.3, 15.0),
    anthropic("claude-sonnet-4", 3.0, 0.3, 15.0),
    Row { long_prompt: LONG_HAIKU, ..anthropic("claude-haiku-5-5", 0.1, 0.01, 0.5) },
    anthropic("claude-haiku-4-5", 1.0, 0.1, 5.0),
    anthropic("claude-3-5-haiku", 0.8, 0.08, 4.0),
    gemini("gemini-4-neon", 3.0, 0.15, 15.0, None),
    gemini("gemini-4-hydrogen", 1.5, 0.075, 7.5, None),
    gemini("gemini-3-pro", 2.0, 0.2, 12.0, LONG_GEMINI),
    gemini("gemini-3-pro-preview", 2.0, 0.2, 12.0, LONG_GEMINI),
    gemini("gemini-3-flash-preview", 0.5, 0.05, 3.0, None),
    gemini("gemini-2.5-pro", 1.25, 0.125, 10.0, LONG_GEMINI),
    gemini("gemini-2.5-flash", 0.3, 0.03, 2.5, None),
    gemini("gemini-2.5-flash-lite", 0.1, 0.01, 0.4, None),
];

/// OpenAI's models from this one on are charged for what they write to the cache.
const OPENAI_WRITES_FROM: [&str; 2] = ["gpt-5.6", "gpt-6"];

impl Row {
    /// The multiples of the input price that writes to the cache cost: for the usual time, and for the longer one.
    fn write_times(&self) -> (f64, f64) {
        match self.source {
            ANTHROPIC => (1.25, 2.0),
            OPENAI if OPENAI_WRITES_FROM.iter().any(|first| self.model.starts_with(first)) => (1.25, 2.5),
            _ => (1.0, 1.0),
        }
    }
}

/// The list price of a model, by its id, which may end with a date, as in `gpt-4.1-mini-2025-04-14` or
/// `claude-opus-4-5-20251101`.
pub fn list_price(model: &str) -> Option<Price> {
    let is_date =
        |rest: &str| matches!(rest.len(), 8 | 10) && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_of = |name: &str| {
        model == name || model.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_date)
    };
    let row = LIST.iter().find(|row| is_of(row.model))?;
    let (write, long_write) = row.write_times();
    let dollars = models::Price {
        input: row.input,
        cached_input: row.cached,
        cache_write: row.input * write,
        cache_write_long: row.input * long_write,
        output: row.output,
        long_prompt: row.long_prompt,
    };
    Some(Price { dollars, source: Some(row.source.to_owned()), date: Some(DATE.to_owned()), is_claim: false })
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
        assert_eq!(input("claude-opus-5-5"), Some(4.0));
        assert_eq!(input("claude-opus-4-5-20251101"), Some(5.0));
        assert_eq!(input("gemini-2.5-flash-lite"), Some(0.1));
        for unknown in ["gpt-4.1-mini-tuned", "gpt-4", "", "mistral-large", "claude-opus-9"] {
            assert_eq!(input(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn writes_to_the_cache_have_prices_of_their_own() {
        let writes = |model: &str| {
            list_price(model).map(|price| (price.dollars.cache_write, price.dollars.cache_write_long)).unwrap()
        };
        assert_eq!(writes("claude-opus-5"), (6.25, 10.0));
        assert_eq!(writes("gpt-6.1-sol"), (2.5, 5.0));
        assert_eq!(writes("gpt-5"), (1.25, 1.25));
        assert_eq!(writes("gemini-2.5-pro"), (1.25, 1.25));
    }
}
