//! Maps logical models to providers and prices.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::Model;
use rondo_agent_kit::model::ResponseFormat;
use rondo_protocol::digest::Digest;
use rondo_protocol::object::Usage;
use serde::{Deserialize, Serialize};

/// The models of one run, by logical name.
#[derive(Clone, Default)]
pub struct Models(pub BTreeMap<String, ResolvedModel>);

/// A resolved logical model.
#[derive(Clone)]
pub struct ResolvedModel {
    /// The id that is sent to the provider.
    pub id: String,
    /// The provider.
    pub provider: Arc<dyn Model>,
    /// Its token prices, if the operator set them.
    pub price: Option<Price>,
    /// Whether only a project says what they are, so that no limit on money relies on them.
    pub is_price_claimed: bool,
    /// The endpoint.
    pub served_by: ServedBy,
    /// How it is asked to constrain the format of an answer.
    pub response_format: ResponseFormat,
}

impl ResolvedModel {
    /// Whether calls cost an amount that is not known for sure. A script costs nothing and a recording what was recorded;
    /// an in-process model without a provider costs nothing.
    pub(crate) fn is_unpriced(&self) -> bool {
        let provider = self.served_by.provider.as_str();
        (self.price.is_none() || self.is_price_claimed)
            && ![SCRIPT_PROVIDER, RECORDING_PROVIDER, ""].contains(&provider)
    }
}

/// The provider name of scripts.
pub const SCRIPT_PROVIDER: &str = "script";

/// The provider name of recordings.
pub const RECORDING_PROVIDER: &str = "recording";

/// Where a model is served, without the credential.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedBy {
    /// The provider's name.
    pub provider: String,
    /// Its base address; the digest of a script or a recording.
    pub address: String,
}

impl ServedBy {
    /// A digest of both that does not reveal the address.
    pub fn mark(&self) -> String {
        let text = format!("{}\n{}", self.provider, self.address);
        Digest::sha256(text.as_bytes()).to_string().chars().take(16).collect()
    }
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Prompt tokens that are not cached.
    pub input: f64,
    /// Prompt tokens read from the provider's cache.
    pub cached_input: f64,
    /// Prompt tokens written to the provider's cache, if it reports them.
    pub cache_write: f64,
    /// Of these, those that are kept for the longer of the provider's times.
    pub cache_write_long: f64,
    /// Reply tokens.
    pub output: f64,
    /// What requests with long prompts cost more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPrompt>,
}

/// The price of a request whose prompt is longer than a number of tokens, in multiples of the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LongPrompt {
    /// The tokens of the longest prompt with the usual price.
    pub above: u64,
    /// For all prompt tokens, cached or not.
    pub input_times: f64,
    /// For all reply tokens.
    pub output_times: f64,
}

impl Price {
    /// The cost of the usage of one request in US dollars. Each token has one price: of the prompt, what was cached, then what was
    /// written to the cache, then the rest, also where a recording states parts that exceed the whole.
    pub fn of(&self, usage: Usage) -> f64 {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_write_tokens.min(usage.prompt_tokens - cached);
        let fresh = usage.prompt_tokens - cached - written;
        let long = usage.cache_write_long_tokens.min(written);
        let (input_times, output_times) = match self.long_prompt {
            Some(priced) if usage.prompt_tokens > priced.above => (priced.input_times, priced.output_times),
            _ => (1.0, 1.0),
        };
        let input = millions(fresh) * self.input
            + millions(cached) * self.cached_input
            + millions(written - long) * self.cache_write
            + millions(long) * self.cache_write_long;
        input * input_times + millions(usage.output_tokens) * self.output * output_times
    }

    /// The most that a prompt token and a reply token may cost, in US dollars per million.
    pub fn highest(&self) -> (f64, f64) {
        let times = self.long_prompt.map_or((1.0, 1.0), |priced| (priced.input_times, priced.output_times));
        let input = self.input.max(self.cache_write).max(self.cache_write_long);
        (input * times.0.max(1.0), self.output * times.1.max(1.0))
    }

    /// The extra cost in US dollars of prompt tokens that the provider no longer serves from its cache.
    pub fn of_unserved(&self, tokens: u64) -> f64 {
        millions(tokens) * (self.input - self.cached_input).max(0.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a provider's count is at most 2^40, which an f64 holds exactly")]
fn millions(tokens: u64) -> f64 {
    tokens as f64 / 1e6
}

#[cfg(test)]
mod tests;
