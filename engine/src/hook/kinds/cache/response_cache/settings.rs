//! What an author may set, and what the run's flag says.

use rondo_protocol::call::CallKind;

use super::FLAG;
use crate::hook::Making;
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
    pub fn read(making: &Making<'_>) -> Result<Self, String> {
        Ok(Self {
            common: settings::Settings::read(making, &FLAG, MEMORY_BYTES)?,
            at: making.hook.at,
            ttl_ms: settings::number(&making.hook.settings, "ttl")?,
        })
    }
}
