//! What an author may set, and what the run's flag says.

use rondo_protocol::call::CallKind;

use super::FLAG;
use crate::hook::BuildContext;
use crate::hook::kinds::cache::settings;

/// What is held in memory at most. Little: reading an answer from the store is nothing beside the call that it saves.
const MEMORY_BYTES: u64 = 8 << 20;

/// What an author and a run have set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What every cache is told.
    pub common: settings::Settings,
    /// At which calls.
    pub at: CallKind,
    /// How long an answer may be given again; `None` = for ever.
    pub ttl_ms: Option<u64>,
}

impl Settings {
    /// Reads what was set.
    pub fn read(build: &BuildContext<'_>) -> Result<Self, String> {
        Ok(Self {
            common: settings::Settings::read(build, &FLAG, MEMORY_BYTES)?,
            at: build.hook.at,
            ttl_ms: settings::number(&build.hook.settings, "ttl")?,
        })
    }
}
