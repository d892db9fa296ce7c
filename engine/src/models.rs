//! Which provider serves which logical model, and what its tokens cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::Model;
use rondo_protocol::object::Usage;
use serde::{Deserialize, Serialize};

/// The models of one run, by logical name.
#[derive(Clone, Default)]
pub struct Models(pub BTreeMap<String, ResolvedModel>);

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
}

/// Where a model is served. The credential is no part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedBy {
    /// The provider's name.
    pub provider: String,
    /// Its base address; of a script, the script's digest.
    pub address: String,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Of the prompt, new to the provider.
    pub input: f64,
    /// Of the prompt, kept by the provider from an earlier request.
    pub cached_input: f64,
    /// Of replies.
    pub output: f64,
}

impl Price {
    /// What `usage` costs, in US dollars.
    pub fn of(&self, usage: Usage) -> f64 {
        let fresh = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        let millions = |tokens: u64| u32::try_from(tokens).map_or(f64::from(u32::MAX), f64::from) / 1e6;
        millions(fresh) * self.input
            + millions(usage.cached_tokens) * self.cached_input
            + millions(usage.output_tokens) * self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_priced_apart() {
        let price = Price { input: 2.0, cached_input: 0.5, output: 8.0 };
        let usage = Usage { prompt_tokens: 1_000_000, cached_tokens: 400_000, output_tokens: 100_000 };
        assert!((price.of(usage) - (1.2 + 0.2 + 0.8)).abs() < 1e-9);
    }
}
