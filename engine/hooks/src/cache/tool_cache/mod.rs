//! `tool_cache`: answers a tool call from an equal one that was made before, in any thread that its scope covers.
//! Transparent, unless it names an MCP server's tool.
//!
//! Both legs stand here: which calls ([`eligibility`]), what is looked up ([`key`]), what is kept ([`entry`]), what a write
//! does to it ([`dependencies`], [`write_log`]), and when ([`hook`]). The runtime knows nothing of it. Laws:
//!
//! - What a tool declares decides: `pure` results stand on their arguments, `reads` results also on all that the tool
//!   saw, and are given again only while all of that stands as it did. A read that cannot tell what it saw is not kept,
//!   nor is anything that writes or of which nobody knows what it does.
//! - By naming a tool of an MCP server the author declares that it depends on its arguments alone.
//! - A tool on the fixed list ([`deny_list`]) is never answered, nor one that is not granted or that a person is asked
//!   about, nor a call that failed.
//! - Before a write starts, every read that it may touch is dropped, and none that it overlaps is kept: of all nodes,
//!   runs and threads of the process. A write of a role that no node stands before, or of another process, goes
//!   unnoticed; then it is what was seen that has changed.
//! - A time to live begins when a result is obtained, and being used never moves it.
//! - Of several nodes before one call that would look the same key up the outermost does.
//! - A cache that is full, slow, damaged or gone makes calls miss; it never fails one.

mod deny_list;
mod dependencies;
mod dependents;
mod eligibility;
mod entry;
mod explain;
mod hook;
mod key;
mod settings;
mod verify;
mod visit_metrics;
mod write_log;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rondo_core::hook::{BuildContext, Flag, Hook, HookKind, Subcommand};
use rondo_protocol::call::CallKind;

use self::hook::{Shared, ToolCacheHook};
use self::key::About;
use self::settings::Settings;
use crate::cache;

/// The name in files.
pub(super) const NAME: &str = "tool_cache";

/// The kind. It holds what is kept in memory and the record of writes, so that all runs of a process share them.
#[derive(Default)]
pub struct ToolCache {
    shared: Arc<Shared>,
}

impl HookKind for ToolCache {
    fn name(&self) -> &'static str {
        NAME
    }

    fn injected_at(&self) -> Option<CallKind> {
        Some(CallKind::Tool)
    }

    fn flags(&self) -> Vec<Flag> {
        vec![cache::settings::FLAG]
    }

    fn subcommands(&self) -> Vec<Subcommand> {
        vec![cache::subcommand::<About, _>(&self.shared.caches)]
    }

    fn build(&self, build: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        let settings = Settings::read(build)?;
        Ok(Arc::new(ToolCacheHook::new(&self.shared, settings, build)))
    }
}
