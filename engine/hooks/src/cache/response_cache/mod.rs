//! `response_cache`: answers a model call, or a whole turn, from an equal one that was answered before, in any thread
//! that its scope covers. Transparent.
//!
//! Both directions are here: what is looked up ([`key`]), what is kept ([`entry`]), and when ([`hook`]). The runtime
//! knows nothing of it. Laws:
//!
//! - Two requests that differ in anything that is sent, in where they are sent, or in how often the thread has asked
//!   them before have two keys.
//! - What was refused, cut, withheld, empty or failed is never kept; only a first attempt is answered.
//! - A turn is kept only if each of its tool calls merely looked, and is given again only while everything that they
//!   saw still stands.
//! - An answer given again costs nothing and says what it had cost.
//! - A cache that is full, slow, damaged or gone makes calls miss; it never fails or delays them by more than 250 ms.

mod entry;
mod explain;
mod hook;
mod key;
mod occurrence;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rondo_core::hook::{BuildContext, Flag, Hook, HookKind, Subcommand};
use rondo_protocol::call::CallKind;

use self::entry::Answer;
use self::hook::ResponseCacheHook;
use self::key::About;
use self::occurrence::Counters;
use crate::cache::{self, CacheSet};

/// The name in files.
pub(super) const NAME: &str = "response_cache";

/// The kind. It holds what is kept in memory, so that all runs of a process share it.
#[derive(Default)]
pub struct ResponseCache {
    caches: Arc<CacheSet<Answer>>,
    counters: Arc<Counters>,
}

impl HookKind for ResponseCache {
    fn name(&self) -> &'static str {
        NAME
    }

    fn injected_at(&self) -> Option<CallKind> {
        Some(CallKind::Model)
    }

    fn flags(&self) -> Vec<Flag> {
        vec![cache::settings::FLAG]
    }

    fn subcommands(&self) -> Vec<Subcommand> {
        vec![cache::subcommand::<About, _>(&self.caches)]
    }

    fn build(&self, build: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        Ok(Arc::new(ResponseCacheHook::new(&self.caches, &self.counters, build)?))
    }
}
