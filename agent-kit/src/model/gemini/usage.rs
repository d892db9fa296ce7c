//! Reads `usageMetadata` (<https://ai.google.dev/api/generate-content#UsageMetadata>).

use rondo_protocol::object::Usage;
use serde_json::Value;

use crate::model::usage::{figures, tokens};

/// The usage so far; `None` unless it gives the tokens of the prompt, and no figure of the others is unreadable.
///
/// A figure of zero is left out of the answer. The cached tokens are a part of the prompt, and bounded by it; an
/// unreadable figure of them counts as none.
pub(super) fn read(json: &str) -> Option<Usage> {
    let usage = figures(json)?;
    let count = |name: &str| match usage.get(name) {
        None | Some(Value::Null) => Some(0),
        Some(figure) => tokens(figure),
    };
    usage.get("promptTokenCount").filter(|prompt| !prompt.is_null())?;
    let prompt_tokens = count("promptTokenCount")? + count("toolUsePromptTokenCount")?;
    let reasoning_tokens = count("thoughtsTokenCount")?;
    Some(Usage {
        prompt_tokens,
        cached_tokens: count("cachedContentTokenCount").unwrap_or(0).min(prompt_tokens),
        output_tokens: count("candidatesTokenCount")? + reasoning_tokens,
        reasoning_tokens,
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::usage::MAX_USAGE_BYTES;

    #[test]
    fn figures_are_read_as_far_as_they_are_given() {
        let of = |json: &str| {
            let usage = read(json)?;
            Some((usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens))
        };
        for (json, wanted) in [
            (r#"{"promptTokenCount":9}"#, Some((9, 0, 0, 0))),
            (r#"{"promptTokenCount":9,"candidatesTokenCount":2,"thoughtsTokenCount":40}"#, Some((9, 0, 0, 42))),
            (r#"{"promptTokenCount":9,"thoughtsTokenCount":5.0,"totalTokenCount":14}"#, Some((9, 0, 0, 5))),
            (
                r#"{"promptTokenCount":9,"toolUsePromptTokenCount":3,"cachedContentTokenCount":11}"#,
                Some((12, 11, 0, 0)),
            ),
            (r#"{"promptTokenCount":9,"cachedContentTokenCount":90}"#, Some((9, 9, 0, 0))),
            (r#"{"promptTokenCount":9,"cachedContentTokenCount":"many"}"#, Some((9, 0, 0, 0))),
            (r#"{"promptTokenCount":9,"candidatesTokenCount":null}"#, Some((9, 0, 0, 0))),
            (r#"{"promptTokenCount":9,"candidatesTokenCount":-1}"#, None),
            (r#"{"promptTokenCount":9,"thoughtsTokenCount":"2"}"#, None),
            (r#"{"promptTokenCount":9,"toolUsePromptTokenCount":[]}"#, None),
            (r#"{"promptTokenCount":1180591620717411303424}"#, None),
            (r#"{"promptTokenCount":null,"candidatesTokenCount":2}"#, None),
            (r#"{"candidatesTokenCount":2}"#, None),
            ("{}", None),
            ("[]", None),
            ("7", None),
        ] {
            assert_eq!(of(json), wanted, "{json}");
        }
        assert_eq!(of(&format!(r#"{{"promptTokenCount":9,"x":"{}"}}"#, "x".repeat(MAX_USAGE_BYTES))), None);
    }
}
