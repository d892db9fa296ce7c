//! Reads the usage figures of a provider.
//!
//! Law: figures never cost an answer. An unreadable figure is unknown, not a fault.

use rondo_protocol::object::Usage;
use serde_json::Value;

/// The longest object of figures that is read.
pub(in crate::model) const MAX_USAGE_BYTES: usize = 64 << 10;

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
pub(in crate::model) fn read_response(json: &str) -> Option<Usage> {
    read_named(json, "input_tokens", "output_tokens")
}

/// The figures as JSON, unless they are longer than figures are.
pub(in crate::model) fn figures(json: &str) -> Option<Value> {
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

pub(in crate::model) fn of_body(json: &str) -> Option<Usage> {
    let body: Value = serde_json::from_str(json).ok()?;
    read(&body.get("usage")?.to_string())
}

/// A number of tokens, also when written as `5.0`.
pub(in crate::model) fn tokens(figure: &Value) -> Option<u64> {
    let whole = figure.as_u64().or_else(|| {
        let number = figure.as_f64()?;
        // Formatted, a whole number has no fraction; a number below zero or above the bound is rejected.
        (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten()
    });
    whole.filter(|tokens| *tokens <= MAX_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(json: &str) -> Option<(u64, u64, u64, u64)> {
        let usage = read(json)?;
        Some((usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens))
    }

    #[test]
    fn what_a_provider_had_kept_is_read_in_each_of_its_words() {
        let of = |words: &str| figures(&format!(r#"{{"prompt_tokens":100,"completion_tokens":5{words}}}"#)).unwrap();
        assert_eq!(of(""), (100, 0, 0, 5));
        assert_eq!(of(r#","prompt_tokens_details":null,"prompt_cache_hit_tokens":null"#), (100, 0, 0, 5));
        assert_eq!(of(r#","prompt_tokens_details":{"cached_tokens":90,"cache_write_tokens":10}"#), (100, 90, 10, 5));
        assert_eq!(of(r#","cached_tokens":64"#), (100, 64, 0, 5));
        assert_eq!(of(r#","prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36"#), (100, 64, 0, 5));
        assert_eq!(of(r#","cache_read_input_tokens":70,"cache_creation_input_tokens":20"#), (100, 70, 20, 5));
        let both = r#","prompt_tokens_details":{"cached_tokens":90},"cache_creation_input_tokens":8"#;
        assert_eq!(of(both), (100, 90, 8, 5));
    }

    #[test]
    fn reasoning_beside_a_completion_counts_where_the_total_says_so() {
        let of = |total: u64| {
            let details = r#""completion_tokens_details":{"reasoning_tokens":40}"#;
            figures(&format!(r#"{{"prompt_tokens":100,"completion_tokens":50,"total_tokens":{total},{details}}}"#))
        };
        assert_eq!(of(190), Some((100, 0, 0, 90)));
        assert_eq!(of(150), Some((100, 0, 0, 50)));
    }

    #[test]
    fn parts_of_a_prompt_never_exceed_it() {
        let of = |details: &str| {
            let details = format!(r#""prompt_tokens_details":{{{details}}}"#);
            figures(&format!(r#"{{"prompt_tokens":100,"completion_tokens":5,{details}}}"#)).unwrap()
        };
        assert_eq!(of(r#""cached_tokens":900"#), (100, 100, 0, 5));
        assert_eq!(of(r#""cached_tokens":90,"cache_write_tokens":20"#), (100, 90, 10, 5));
    }

    #[test]
    fn a_figure_that_cannot_be_read_is_unknown() {
        for (figure, read) in [
            ("7", Some(7)),
            ("5.0", Some(5)),
            ("0.0", Some(0)),
            ("1e3", Some(1000)),
            ("-5", None),
            ("-5.0", None),
            ("5.5", None),
            ("null", None),
            ("1180591620717411303424", None),
            ("9007199254740993", None),
            ("1e300", None),
            ("\"7\"", None),
            ("[7]", None),
        ] {
            let prompt = figures(&format!(r#"{{"prompt_tokens":{figure},"completion_tokens":3}}"#));
            assert_eq!(prompt, read.map(|read| (read, 0, 0, 3)), "{figure}");
            let output = figures(&format!(r#"{{"prompt_tokens":3,"completion_tokens":{figure}}}"#));
            assert_eq!(output, read.map(|read| (3, 0, 0, read)), "{figure}");
            let details = format!(r#"{{"cached_tokens":{figure}}}"#);
            let cached = figures(&format!(
                r#"{{"prompt_tokens":2000,"completion_tokens":3,"prompt_tokens_details":{details}}}"#
            ));
            assert_eq!(cached, Some((2000, read.unwrap_or(0), 0, 3)), "{figure}");
        }
        for usage in ["{}", "[]", "7", "\"many\"", r#"{"completion_tokens":3}"#] {
            assert_eq!(figures(usage), None, "{usage}");
        }
        let odd = r#"{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":"none"}"#;
        assert_eq!(figures(odd), Some((9, 0, 0, 3)));
        let long = format!(r#"{{"prompt_tokens":9,"completion_tokens":3,"x":"{}"}}"#, "x".repeat(MAX_USAGE_BYTES));
        assert_eq!(figures(&long), None);
    }
}
