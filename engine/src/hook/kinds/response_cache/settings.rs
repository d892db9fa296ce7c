//! What an author may set, and what the run's flag says.

use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::call::CallKind;
use rondo_protocol::workflow::{HookUse, OnHookError};

use super::{FLAG, NAME};
use crate::hook::shelf::Limits;
use crate::hook::{Making, RoleView};

/// Ceilings where the author sets none.
const ENTRIES: u64 = 10_000;
const BYTES: u64 = 256 << 20;
/// What is held in memory at most, whatever the ceilings on what is kept.
const MEMORY_BYTES: u64 = 8 << 20;

/// Whose answers are given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of the same thread.
    Thread,
    /// Those of any thread of a workflow of that name.
    Workflow,
    /// Those of any thread.
    Store,
}

impl Scope {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Workflow => "workflow",
            Self::Store => "store",
        }
    }

    fn read(word: Option<&Value>) -> Result<Self, String> {
        match word.map(Value::as_str) {
            None | Some(Some("workflow")) => Ok(Self::Workflow),
            Some(Some("thread")) => Ok(Self::Thread),
            Some(Some("store")) => Ok(Self::Store),
            Some(_) => Err("`scope` is one of thread, workflow, store".to_owned()),
        }
    }
}

/// What an author and a run have set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// At which calls.
    pub at: CallKind,
    /// Whose answers are given again.
    pub scope: Scope,
    /// How long an answer may be given again; `None` = for ever.
    pub ttl_ms: Option<u64>,
    /// Ceilings.
    pub limits: Limits,
    /// Whether answers are given again.
    pub serves: bool,
    /// Whether answers are kept.
    pub keeps: bool,
}

impl Settings {
    /// Reads what was set.
    pub fn read(making: &Making<'_>) -> Result<Self, String> {
        let settings = &making.hook.settings;
        let (serves, keeps) = match making.flags.get(FLAG.name).map(String::as_str) {
            Some("off") => (false, false),
            Some("read") => (true, false),
            Some("refresh") => (false, true),
            _ => (true, true),
        };
        let entries = number(settings, "entries")?.unwrap_or(ENTRIES);
        let bytes = number(settings, "bytes")?.unwrap_or(BYTES);
        Ok(Self {
            at: making.hook.at,
            scope: Scope::read(settings.get("scope"))?,
            ttl_ms: number(settings, "ttl")?,
            limits: Limits { entries, bytes, memory_bytes: bytes.min(MEMORY_BYTES) },
            serves,
            keeps,
        })
    }
}

fn number(settings: &BTreeMap<String, Value>, name: &str) -> Result<Option<u64>, String> {
    match settings.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(number)) => u64::try_from(*number).map(Some).map_err(|_| format!("`{name}` is out of range")),
        Some(_) => Err(format!("`{name}` is not a number")),
    }
}

/// The node that a role asks for under `with`.
pub fn of_role(role: &RoleView) -> Option<HookUse> {
    let Value::Object(settings) = role.with.get(NAME)? else { return None };
    Some(HookUse {
        at: CallKind::Model,
        on_error: OnHookError::Bypass,
        roles: Some(vec![role.role.clone()]),
        settings: settings.clone(),
        kind: NAME.to_owned(),
    })
}
