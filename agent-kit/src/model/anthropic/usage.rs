//! Reads the usage figures (<https://platform.claude.com/docs/en/api/messages#response-usage>): each counts to date, and
//! one event may have what another has not.
//!
//! Law: figures never cost an answer. An unreadable figure is unknown, not a fault.

use rondo_protocol::object::Usage;

use crate::model::openai_chat::usage::{figures, tokens};

/// The last readable figure of each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Without what was read from the cache or written to it.
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    /// Of these, the tokens kept for an hour.
    cache_write_hour: Option<u64>,
    /// With thoughts.
    output: Option<u64>,
    thinking: Option<u64>,
}

impl Counts {
    pub(super) fn take(&mut self, json: &str) {
        let Some(usage) = figures(json) else { return };
        let written = usage.get("cache_creation").cloned().unwrap_or_default();
        let details = usage.get("output_tokens_details").cloned().unwrap_or_default();
        for (figure, holder, name) in [
            (&mut self.input, &usage, "input_tokens"),
            (&mut self.cache_read, &usage, "cache_read_input_tokens"),
            (&mut self.cache_write, &usage, "cache_creation_input_tokens"),
            (&mut self.cache_write_hour, &written, "ephemeral_1h_input_tokens"),
            (&mut self.output, &usage, "output_tokens"),
            (&mut self.thinking, &details, "thinking_tokens"),
        ] {
            *figure = holder.get(name).and_then(tokens).or(*figure);
        }
    }

    /// `None` unless the tokens read and written by the model are known.
    pub(super) fn usage(&self) -> Option<Usage> {
        let (input, output_tokens) = (self.input?, self.output?);
        let cached_tokens = self.cache_read.unwrap_or(0);
        let cache_write_tokens = self.cache_write.unwrap_or(0);
        Some(Usage {
            prompt_tokens: input.saturating_add(cached_tokens).saturating_add(cache_write_tokens),
            cached_tokens,
            cache_write_tokens,
            cache_write_long_tokens: self.cache_write_hour.unwrap_or(0).min(cache_write_tokens),
            output_tokens,
            reasoning_tokens: self.thinking.unwrap_or(0).min(output_tokens),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_several_events_are_one_usage() {
        let mut counts = Counts::default();
        assert_eq!(counts.usage(), None);
        counts.take(
            r#"{"input_tokens":5,"cache_read_input_tokens":90,"cache_creation_input_tokens":12,
                "cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":8},"output_tokens":1}"#,
        );
        counts.take(r#"{"output_tokens":40,"output_tokens_details":{"thinking_tokens":30},"input_tokens":null}"#);
        let usage = counts.usage().unwrap();
        assert_eq!((usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens), (107, 90, 12));
        assert_eq!((usage.cache_write_long_tokens, usage.output_tokens, usage.reasoning_tokens), (8, 40, 30));
    }

    #[test]
    fn a_figure_that_cannot_be_read_is_unknown() {
        for odd in ["7", "[]", "{}", "{", r#"{"input_tokens":-1,"output_tokens":2}"#, r#"{"input_tokens":"many"}"#] {
            let mut counts = Counts::default();
            counts.take(odd);
            assert_eq!(counts.usage(), None, "{odd}");
        }
        let mut counts = Counts::default();
        counts.take(r#"{"input_tokens":1,"output_tokens":2,"cache_creation":{"ephemeral_1h_input_tokens":900}}"#);
        assert_eq!(counts.usage().map(|usage| usage.cache_write_long_tokens), Some(0));
    }
}
