//! What an author may set of any cache, and what the run's flag says of it. The reader of files has checked each setting
//! before; what it cannot have let through is told in words.

use std::collections::BTreeMap;

use rondo_core::hook::{BuildContext, Flag};
use rondo_protocol::Value;
use rondo_protocol::id::ThreadId;
use strum::IntoStaticStr;

use crate::cache::Limits;

/// The flag by which a run says whether calls are looked up and kept.
pub const FLAG: Flag = Flag {
    name: "cache",
    values: &["on", "off", "read", "refresh"],
    about: "Whether cached answers are used (on, read) and new ones cached (on, refresh)",
    reaching: Some("refresh"),
};

/// Ceilings where the author sets none.
const ENTRIES: u64 = 10_000;
const BYTES: u64 = 256 << 20;

/// Which threads may use an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Scope {
    /// The thread that asked for it.
    Thread,
    /// Any thread of a workflow of that name.
    Workflow,
    /// Any thread.
    Store,
}

impl Scope {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What an author and a run have set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub scope: Scope,
    /// The name of the run's workflow.
    workflow: String,
    pub limits: Limits,
    /// Whether calls are looked up.
    pub looks: bool,
    /// Whether anything new is kept.
    pub keeps: bool,
}

impl Settings {
    /// Reads what was set. `memory_bytes` is what is held in memory at most, whatever the ceilings on what is kept.
    pub fn read(build: &BuildContext<'_>, memory_bytes: u64) -> Result<Self, String> {
        let given = &build.hook.settings;
        let (looks, keeps) = match build.flags.get(FLAG.name).map(String::as_str) {
            Some("off") => (false, false),
            Some("read") => (true, false),
            Some("refresh") => (false, true),
            _ => (true, true),
        };
        let entries = number(given, "entries")?.unwrap_or(ENTRIES);
        let bytes = number(given, "bytes")?.unwrap_or(BYTES);
        let scopes = [Scope::Workflow, Scope::Thread, Scope::Store].map(|scope| (scope.name(), scope));
        Ok(Self {
            scope: word(given, "scope", scopes)?.unwrap_or(Scope::Workflow),
            workflow: build.roles.values().next().map(|view| view.workflow.clone()).unwrap_or_default(),
            limits: Limits { entries, bytes, memory_bytes: bytes.min(memory_bytes) },
            looks,
            keeps,
        })
    }

    /// The scope's part of a key: the thread's id, the workflow's name, or nothing.
    pub fn within<'a>(&'a self, thread: &'a ThreadId) -> &'a str {
        if self.scope == Scope::Thread { thread.as_str() } else { self.group() }
    }

    /// The group to which entries belong: the workflow's, or the one that is no workflow's.
    pub fn group(&self) -> &str {
        if self.scope == Scope::Store { "" } else { &self.workflow }
    }

    pub fn is_off(&self) -> bool {
        !self.looks && !self.keeps
    }
}

/// A number; `None` where none is set.
pub fn number(given: &BTreeMap<String, Value>, name: &str) -> Result<Option<u64>, String> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(number)) => u64::try_from(*number).map(Some).map_err(|_| format!("`{name}` is out of range")),
        Some(_) => Err(format!("`{name}` is not a number")),
    }
}

/// What one of these words means; `None` where none is set.
pub fn word<T: Copy, const N: usize>(
    given: &BTreeMap<String, Value>,
    name: &str,
    words: [(&str, T); N],
) -> Result<Option<T>, String> {
    let Some(value) = given.get(name) else { return Ok(None) };
    let found = words.iter().find(|(word, _)| value.as_str() == Some(word));
    found.map(|(_, meant)| Some(*meant)).ok_or_else(|| {
        let words = words.map(|(word, _)| word).join(", ");
        format!("`{name}` is one of {words}")
    })
}
