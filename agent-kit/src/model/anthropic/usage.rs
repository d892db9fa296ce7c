//! Reads the usage figures (<https://platform.claude.com/docs/en/api/messages#response-usage>): each counts to date, and
//! one event may have what another has not.

use std::collections::BTreeMap;

use rondo_protocol::object::Usage;

use crate::model::usage::{figures, tokens};

/// The last readable figure of each name.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub(super) fn take(&mut self, json: &str) {
        let Some(usage) = figures(json) else { return };
        for (holder, name) in [
            (Some(&usage), "input_tokens"),
            (Some(&usage), "cache_read_input_tokens"),
            (Some(&usage), "cache_creation_input_tokens"),
            (usage.get("cache_creation"), "ephemeral_1h_input_tokens"),
            (Some(&usage), "output_tokens"),
            (usage.get("output_tokens_details"), "thinking_tokens"),
        ] {
            self.0.extend(holder.and_then(|holder| holder.get(name)).and_then(tokens).map(|count| (name, count)));
        }
    }

    /// `None` unless the tokens read and written by the model are known. Those that it read are given without what was
    /// read from the cache or written to it, and those that it wrote with its thoughts.
    pub(super) fn usage(&self) -> Option<Usage> {
        let count = |name| self.0.get(name).copied();
        let (input, output_tokens) = (count("input_tokens")?, count("output_tokens")?);
        let cached_tokens = count("cache_read_input_tokens").unwrap_or(0);
        let cache_write_tokens = count("cache_creation_input_tokens").unwrap_or(0);
        Some(Usage {
            prompt_tokens: input.saturating_add(cached_tokens).saturating_add(cache_write_tokens),
            cached_tokens,
            cache_write_tokens,
            cache_write_long_tokens: count("ephemeral_1h_input_tokens").unwrap_or(0).min(cache_write_tokens),
            output_tokens,
            reasoning_tokens: count("thinking_tokens").unwrap_or(0).min(output_tokens),
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
