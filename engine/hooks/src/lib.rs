//! The kinds of hooks that are built in, one a file. Taking a kind out is taking its file and its lines here out; those
//! that keep answers go with the feature `caches`.

#[cfg(feature = "caches")]
pub mod cache;
mod command;
mod log;
mod rate_limit;
mod redact;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rondo_core::hook::{HookKind, Registry};

/// Every built-in kind.
pub fn registry() -> Registry {
    let kinds: Vec<Arc<dyn HookKind>> = vec![
        Arc::new(command::Command::default()),
        Arc::new(log::Log),
        Arc::new(rate_limit::RateLimit::default()),
        Arc::new(redact::Redact),
        #[cfg(feature = "caches")]
        Arc::new(cache::response_cache::ResponseCache::default()),
        #[cfg(feature = "caches")]
        Arc::new(cache::tool_cache::ToolCache::default()),
    ];
    Registry::new(kinds)
}
