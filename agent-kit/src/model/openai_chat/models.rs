//! What OpenAI's models refuse, by the beginning of a model's id.
//!
//! Of 28 November 2026: <https://platform.openai.com/docs/guides/reasoning>,
//! <https://platform.openai.com/docs/guides/latest-model>. Models from `gpt-5.1` on take the parameters of sampling while
//! they do not reason, so they are not listed.

const SAMPLING: [&str; 4] = ["temperature", "top_p", "presence_penalty", "frequency_penalty"];

/// Models that always reason.
const REASONING: [&str; 7] = ["o1", "o3", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5-pro"];

/// The parameters with which a model refuses a request, unless they have its default.
pub(in crate::model) fn refused(model: &str) -> &'static [&'static str] {
    let id = model.rsplit('/').next().unwrap_or(model);
    // A version of a model has its date behind it.
    let is_its = |name: &str| id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("-20"));
    if REASONING.into_iter().any(is_its) { &SAMPLING } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_always_reason_refuse_what_is_about_sampling() {
        for model in ["o3", "o4-mini", "gpt-5", "gpt-5-2025-08-07", "openai/gpt-5-mini"] {
            assert_eq!(refused(model), SAMPLING, "{model}");
        }
        for model in ["gpt-4.1", "gpt-5.1", "gpt-5-chat-latest", "gpt-oss-120b", "o30", "claude-opus-5", "smollm2", ""]
        {
            assert!(refused(model).is_empty(), "{model}");
        }
    }
}
