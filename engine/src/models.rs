//! Which provider serves which logical model, and what its tokens cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::Model;
use rondo_agent_kit::model::openai::ResponseFormat;
use rondo_protocol::digest::Digest;
use rondo_protocol::object::Usage;
use rondo_protocol::workflow::Workflow;
use serde::{Deserialize, Serialize};

/// The model of roles that name none.
const DEFAULT: &str = "default";

/// The models of one run, by logical name.
#[derive(Clone, Default)]
pub struct Models(pub BTreeMap<String, ResolvedModel>);

impl Models {
    /// Every logical model of `workflow`, and the one that roles have by default, answered by `provider`. Each has the
    /// id that the workflow gives it, else its own name.
    pub fn all_by(workflow: &Workflow, provider: &Arc<dyn Model>) -> Self {
        let named = workflow.models.iter().map(|(name, model)| (name.as_str(), model.model.clone()));
        let all: BTreeMap<&str, Option<String>> = std::iter::once((DEFAULT, None)).chain(named).collect();
        let resolved = |(name, id): (&str, Option<String>)| {
            let (id, provider) = (id.unwrap_or_else(|| name.to_owned()), Arc::clone(provider));
            (
                name.to_owned(),
                ResolvedModel {
                    id,
                    provider,
                    price: None,
                    served_by: ServedBy::default(),
                    response_format: ResponseFormat::default(),
                },
            )
        };
        Self(all.into_iter().map(resolved).collect())
    }
}

/// A logical model as it is served.
#[derive(Clone)]
pub struct ResolvedModel {
    /// The id that is sent to the provider.
    pub id: String,
    /// Who answers.
    pub provider: Arc<dyn Model>,
    /// What its tokens cost, if the operator said so.
    pub price: Option<Price>,
    /// Where it is served.
    pub served_by: ServedBy,
    /// How it is asked to hold an answer to its form.
    pub response_format: ResponseFormat,
}

impl ResolvedModel {
    /// Whether calls cost an unknown amount. A script and a recording cost nothing, or what was
    /// recorded; so does what answers within this process, which has no provider.
    pub fn is_unpriced(&self) -> bool {
        let provider = self.served_by.provider.as_str();
        self.price.is_none() && ![SCRIPT_PROVIDER, RECORDING_PROVIDER, ""].contains(&provider)
    }
}

/// The name of the provider that a script is.
pub const SCRIPT_PROVIDER: &str = "script";

/// The name of the provider that a recording is.
pub const RECORDING_PROVIDER: &str = "recording";

/// Where a model is served. The credential is no part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedBy {
    /// The provider's name.
    pub provider: String,
    /// Its base address; of a script or a recording, its digest.
    pub address: String,
}

impl ServedBy {
    /// A mark of both, in which nothing of the address can be read.
    pub fn mark(&self) -> String {
        let text = format!("{}\n{}", self.provider, self.address);
        Digest::sha256(text.as_bytes()).to_string().chars().take(16).collect()
    }
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Of the prompt, new to the provider.
    pub input: f64,
    /// Of the prompt, kept by the provider from an earlier request.
    pub cached_input: f64,
    /// Of the prompt, kept by the provider for later requests, where it says so.
    pub cache_write: f64,
    /// Of replies.
    pub output: f64,
}

impl Price {
    /// What `usage` costs, in US dollars.
    pub fn of(&self, usage: Usage) -> f64 {
        let fresh = usage.prompt_tokens.saturating_sub(usage.cached_tokens).saturating_sub(usage.cache_write_tokens);
        millions(fresh) * self.input
            + millions(usage.cached_tokens) * self.cached_input
            + millions(usage.cache_write_tokens) * self.cache_write
            + millions(usage.output_tokens) * self.output
    }

    /// What so many tokens of a prompt cost more when the provider serves them no longer, in US dollars.
    pub fn of_unserved(&self, tokens: u64) -> f64 {
        millions(tokens) * (self.input - self.cached_input).max(0.0)
    }
}

fn millions(tokens: u64) -> f64 {
    u32::try_from(tokens).map_or(f64::from(u32::MAX), f64::from) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price { input: 2.0, cached_input: 0.5, cache_write: 2.5, output: 8.0 };

    #[test]
    fn cached_tokens_are_priced_apart() {
        let usage =
            Usage { prompt_tokens: 1_000_000, cached_tokens: 400_000, output_tokens: 100_000, ..Usage::default() };
        assert!((PRICE.of(usage) - (1.2 + 0.2 + 0.8)).abs() < 1e-9);
    }

    #[test]
    fn what_a_provider_keeps_for_later_is_priced_apart() {
        let usage = Usage {
            prompt_tokens: 1_000_000,
            cached_tokens: 400_000,
            cache_write_tokens: 200_000,
            output_tokens: 100_000,
        };
        assert!((PRICE.of(usage) - (0.8 + 0.2 + 0.5 + 0.8)).abs() < 1e-9);
    }
}
