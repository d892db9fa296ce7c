//! What a result is looked up by: everything on which it depends, part by part, and the digest of that.

use rondo_agent_kit::bound::beginning;
use rondo_agent_kit::tool::Origin;
use rondo_core::hook::ToolView;
use rondo_protocol::{Digest, canonical};
use serde::{Deserialize, Serialize};

use super::dependencies::Dependencies;
use crate::cache::{ABOUT_MAX_BYTES, Key, Scope};

/// The version of keys: another one for another meaning of any part.
const VERSION: u32 = 2;
/// What keys begin with.
const DOMAIN: &[u8] = b"rondo/tool/v1\n";
/// The longest excerpt of arguments in an entry, in bytes.
const EXCERPT_MAX_BYTES: usize = 300;
/// The first byte of the description of a result that depends on its arguments alone, and of any other.
const ALONE: u8 = b'a';
const LOOKED: u8 = b'l';

#[cfg(test)]
thread_local! {
    /// How many of them were read.
    pub static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The parts of a key that are the same for all calls of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fixed {
    pub version: u32,
    /// `thread`, `workflow` or `store`.
    pub scope: String,
    pub tool: String,
    /// Whose it is: `built-in`, `program` or `server`.
    pub origin: String,
    /// The server's name, if it is one's.
    pub server: String,
    /// The digest of its schema and of what runs behind it.
    pub definition: Digest,
    /// Where tools work.
    pub root: String,
}

impl Fixed {
    pub fn of(tool: &ToolView, scope: Scope, root: String) -> Self {
        let (origin, server) = match &tool.origin {
            Origin::BuiltIn => ("built-in", ""),
            Origin::Program => ("program", ""),
            Origin::Mcp { server } => ("server", server.as_str()),
        };
        Self {
            version: VERSION,
            scope: scope.name().to_owned(),
            tool: tool.name.clone(),
            origin: origin.to_owned(),
            server: server.to_owned(),
            definition: tool.definition,
            root,
        }
    }

    pub fn digest(&self) -> Result<Digest, canonical::Error> {
        canonical::to_bytes(self).map(|bytes| Digest::sha256(&bytes))
    }
}

/// The key of a call. `arguments` are canonical, so that they hold no line break, and no effect's name does: the last
/// two breaks divide the parts, whatever the first of them holds.
pub fn key(fixed: &Digest, within: &str, effect: &str, arguments: &str) -> Key {
    let parts = [DOMAIN, fixed.as_bytes(), within.as_bytes(), b"\n", effect.as_bytes(), b"\n", arguments.as_bytes()];
    Digest::sha256(&parts.concat())
}

/// The description in an entry: the parts of its key, its source and its dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub fixed: Fixed,
    /// The thread's id, the workflow's name, or nothing.
    pub within: String,
    /// `pure`, `reads` or `external`.
    pub effect: String,
    /// The beginning of its arguments.
    pub excerpt: String,
    /// SHA-256 of its arguments.
    pub arguments: Digest,
    pub thread: String,
    pub role: String,
    pub visit: u64,
    /// What it depends on besides its arguments.
    pub dependencies: Option<Dependencies>,
}

impl About {
    /// The beginning of arguments, and the digest of them.
    pub fn arguments(arguments: &str) -> (String, Digest) {
        (beginning(arguments, EXCERPT_MAX_BYTES).to_owned(), Digest::sha256(arguments.as_bytes()))
    }

    /// Its bytes, which fit in an entry: what does not is left out. Without its names any write touches it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sort = if self.dependencies.is_some() { LOOKED } else { ALONE };
        let fitting = |about: &Self| {
            let bytes = [vec![sort], canonical::to_bytes(about).ok()?].concat();
            (bytes.len() <= ABOUT_MAX_BYTES).then_some(bytes)
        };
        let without =
            || fitting(&Self { dependencies: self.dependencies.as_ref().map(|_| Dependencies::any()), ..self.clone() });
        fitting(self).or_else(without).unwrap_or_else(|| vec![sort])
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        #[cfg(test)]
        READ.set(READ.get() + 1);
        canonical::from_slice(bytes.get(1..)?).ok()
    }

    /// What the entry depends on besides its arguments.
    pub fn dependencies(bytes: &[u8]) -> Option<Dependencies> {
        match bytes.first() {
            Some(&ALONE) => None,
            _ => Some(Self::from_bytes(bytes).and_then(|about| about.dependencies).unwrap_or_else(Dependencies::any)),
        }
    }
}
