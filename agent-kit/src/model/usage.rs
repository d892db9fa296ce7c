//! Reads the usage figures of providers: their numbers, and the members that OpenAI and the servers like it have.
//!
//! Law, for the figures of every protocol: they never cost an answer. An unreadable figure is unknown, not a fault.

use rondo_protocol::object::Usage;
use serde_json::Value;

/// The longest object of figures that is read.
pub(super) const MAX_USAGE_BYTES: usize = 64 << 10;

/// The maximum plausible number of tokens of one reply. Figures up to it can be summed over a whole thread.
const MAX_TOKENS: u64 = 1 << 40;

/// The usage in a chunk; `None` unless it gives the numbers of tokens read and written.
///
/// Providers report cached tokens in different fields: OpenAI and OpenRouter in `prompt_tokens_details`, DeepSeek in
/// `prompt_cache_hit_tokens` (<https://api-docs.deepseek.com/guides/kv_cache>), Moonshot in `cached_tokens`
/// (<https://platform.moonshot.ai/docs/api/chat>), and gateways to Anthropic's models pass on its two fields
/// (<https://docs.litellm.ai/docs/completion/prompt_caching>). An unreadable figure there counts as
/// missing: the tokens then count as not cached. Both figures are parts of the prompt, and bounded by it: a share is
/// never above one, and no token is of two kinds.
///
/// OpenAI counts reasoning among the completion; xAI beside it (<https://docs.x.ai/docs/guides/reasoning>), which the total
/// tells.
pub(super) fn read(json: &str) -> Option<Usage> {
    read_named(json, "prompt_tokens", "completion_tokens")
}

/// The usage in the reply of the Responses API, which has other names for the same figures
/// (<https://platform.openai.com/docs/api-reference/responses/object>).
pub(super) fn read_response(json: &str) -> Option<Usage> {
    read_named(json, "input_tokens", "output_tokens")
}

/// The figures as JSON, unless they are longer than figures are.
pub(super) fn figures(json: &str) -> Option<Value> {
    let json = Some(json).filter(|json| json.len() <= MAX_USAGE_BYTES)?;
    serde_json::from_str(json).ok()
}

fn read_named(json: &str, input: &str, output: &str) -> Option<Usage> {
    let usage = figures(json)?;
    let count = |name: &str| usage.get(name).and_then(tokens);
    let details = |name: &str| usage.get(format!("{name}_details"));
    let detail = |name: &str| details(input)?.get(name).and_then(tokens);
    let cached = || ["prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens"].into_iter().find_map(count);
    let written = || count("cache_creation_input_tokens");
    let (prompt_tokens, completion_tokens) = (count(input)?, count(output)?);
    let reasoning = details(output).and_then(|details| details.get("reasoning_tokens")).and_then(tokens).unwrap_or(0);
    let is_beside = count("total_tokens") == Some(prompt_tokens + completion_tokens + reasoning);
    let cached_tokens = detail("cached_tokens").or_else(cached).unwrap_or(0).min(prompt_tokens);
    let written = detail("cache_write_tokens").or_else(written).unwrap_or(0).min(prompt_tokens - cached_tokens);
    // OpenAI splits what is written by how long it is kept.
    let by_time = details(input).and_then(|details| details.get("cache_write_tokens_details"));
    let written_long = by_time.and_then(|split| split.get("ttl_12h")).and_then(tokens).unwrap_or(0);
    Some(Usage {
        prompt_tokens,
        cached_tokens,
        cache_write_tokens: written,
        cache_write_long_tokens: written_long.min(written),
        output_tokens: completion_tokens + if is_beside { reasoning } else { 0 },
        reasoning_tokens: if is_beside { reasoning } else { reasoning.min(completion_tokens) },
    })
}

pub(super) fn of_body(json: &str) -> Option<Usage> {
    let body: Value = serde_json::from_str(json).ok()?;
    read(&body.get("usage")?.to_string())
}

/// A number of tokens, also when written as `5.0`.
pub(super) fn tokens(figure: &Value) -> Option<u64> {
    let whole = figure.as_u64().or_else(|| {
        let number = figure.as_f64()?;
        // Formatted, a whole number has no fraction; a number below zero or above the bound is rejected.
        (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten()
    });
    whole.filter(|tokens| *tokens <= MAX_TOKENS)
}

#[cfg(test)]
mod tests;
