//! The minimum prefix length for which providers cache. Shorter prefixes are silently not cached.

/// The minimum prefix length of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minimum {
    pub tokens: u64,
    /// The provider; `None` = unknown.
    pub provider: Option<&'static str>,
}

/// The published minimums, by the beginning of a model's id; the first match applies. The lookup ignores a vendor
/// prefix and replaces `.` with `-`.
///
/// Of 26 November 2026:
/// - OpenAI <https://developers.openai.com/api/docs/guides/prompt-caching>
/// - Anthropic <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>, and for what it leaves to its
///   release notes <https://docs.litellm.ai/docs/completion/prompt_caching>
/// - Google <https://ai.google.dev/gemini-api/docs/caching>
const MINIMA: [(&str, u64, &str); 21] = [
    ("gpt-", 1_024, "OpenAI"),
    ("chatgpt-", 1_024, "OpenAI"),
    ("o1", 1_024, "OpenAI"),
    ("o3", 1_024, "OpenAI"),
    ("o4", 1_024, "OpenAI"),
    ("claude-opus-5", 512, "Anthropic"),
    ("claude-sonnet-5-5", 512, "Anthropic"),
    ("claude-haiku-5-5", 512, "Anthropic"),
    ("claude-fable-5", 512, "Anthropic"),
    ("claude-mythos-5", 512, "Anthropic"),
    ("claude-opus-4-7", 2_048, "Anthropic"),
    ("claude-opus-4-6", 4_096, "Anthropic"),
    ("claude-opus-4-5", 4_096, "Anthropic"),
    ("claude-haiku-4-5", 4_096, "Anthropic"),
    ("claude-haiku-3", 2_048, "Anthropic"),
    ("claude-3-haiku", 2_048, "Anthropic"),
    ("claude-3-5-haiku", 2_048, "Anthropic"),
    ("claude-", 1_024, "Anthropic"),
    ("gemini-2-5", 2_048, "Google"),
    ("gemini-3", 4_096, "Google"),
    ("gemini-", 4_096, "Google"),
];

/// The assumption for an unknown model: that of OpenAI and of most of Anthropic's models.
const ASSUMED: Minimum = Minimum { tokens: 1_024, provider: None };

impl Minimum {
    pub fn of(model: &str) -> Self {
        let id = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase().replace('.', "-");
        let known = MINIMA.iter().find(|(beginning, _, _)| id.starts_with(beginning));
        known.map_or(ASSUMED, |(_, tokens, provider)| Self { tokens: *tokens, provider: Some(provider) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimum_is_found_however_an_id_is_written() {
        let of = |model| Minimum::of(model).tokens;
        assert_eq!(of("gpt-4.1-mini"), 1_024);
        assert_eq!(of("openai/gpt-5.6"), 1_024);
        assert_eq!(of("claude-haiku-4-5-20251001"), 4_096);
        assert_eq!(of("anthropic/claude-haiku-4.5"), 4_096);
        assert_eq!(of("~anthropic/claude-opus-5"), 512);
        assert_eq!(of("anthropic/claude-sonnet-5"), 1_024);
        assert_eq!(of("google/gemini-2.5-pro"), 2_048);
        assert_eq!(of("gemini-3.5-flash"), 4_096);
        for unknown in ["smollm2-135m", "", "my-gpt-", "/"] {
            assert_eq!(Minimum::of(unknown), ASSUMED, "{unknown}");
        }
    }

    #[test]
    fn no_row_of_the_table_hides_a_later_one() {
        for (at, (beginning, _, _)) in MINIMA.iter().enumerate() {
            let hidden = MINIMA[at + 1..].iter().find(|(later, _, _)| later.starts_with(beginning));
            assert_eq!(hidden, None, "behind {beginning}");
        }
    }
}
