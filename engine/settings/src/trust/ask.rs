//! A single ask of a folder's settings or of a workflow.

use std::fmt;

use rondo_protocol::canonical;
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

/// The subject of an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A workflow's tool, with the roles that have it.
    Tool,
    /// A program that is a tool, with its command.
    Program,
    /// A server of tools, with its command or address.
    Server,
    /// A hook program, with its command.
    Hook,
    /// A hook around every workflow.
    Impose,
    /// A provider of models: address, key, how it is asked.
    Provider,
    /// The provider or the price of a model.
    Model,
    /// A host that tools may reach.
    Host,
    /// A file or folder that tools may read.
    Read,
    /// A file or folder that tools may write.
    Write,
    /// Granted tools.
    Grant,
    /// Denied calls.
    Deny,
    /// Calls that need approval.
    Approve,
    /// What a sandbox allows.
    Sandbox,
    /// The path of the store.
    Store,
    /// The durability of an acknowledged step.
    Durability,
    /// A file below the folder that a command names, with its digest.
    File,
    /// The limits of a workflow.
    Limits,
    /// A file or folder that belongs to another user and would be trusted.
    Owner,
    /// The past of a thread that came with somebody else's export.
    Import,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A single ask. No value holds a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The subject.
    pub kind: Kind,
    /// The name of a tool, a server, a host, or a path.
    pub name: String,
    /// The content: a text, or the keys of a table.
    pub value: Value,
}

impl Ask {
    /// An ask.
    pub fn new(kind: Kind, name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { kind, name: name.into(), value: value.into() }
    }

    /// The value, on one line for people.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| {
                    let text = value.as_str().map_or_else(|| value.to_text(), |text| Value::from(text).to_text());
                    format!("{key} = {text}")
                };
                members.iter().map(member).collect::<Vec<_>>().join(", ")
            }
            Value::Str(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_text(),
        }
    }
}

/// The digest of asks, in the order given.
///
/// # Errors
/// If a value has no canonical form.
pub fn digest(asks: &[Ask]) -> Result<Digest, canonical::Error> {
    let mut bytes = b"rondo/asks/v1\n".to_vec();
    bytes.extend(canonical::to_bytes(asks)?);
    Ok(Digest::sha256(&bytes))
}

/// The digest of the asks whose change needs consent again, even for a person's own workflow: all but limits.
///
/// # Errors
/// Like [`digest`].
pub fn lasting(asks: &[Ask]) -> Result<Digest, canonical::Error> {
    let lasting: Vec<Ask> = asks.iter().filter(|ask| ask.kind != Kind::Limits).cloned().collect();
    digest(&lasting)
}
