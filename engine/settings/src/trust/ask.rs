//! A single ask of a folder's settings or of a workflow.

use std::fmt;

use rondo_protocol::canonical;
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A workflow's tool, with the roles that have it.
    Tool,
    /// A program that is a tool, with its command.
    Program,
    Server,
    Hook,
    /// A hook around every workflow.
    Impose,
    Provider,
    /// The provider or the price of a model.
    Model,
    Host,
    Read,
    Write,
    Grant,
    Deny,
    Approve,
    /// What a sandbox allows.
    Sandbox,
    Store,
    Durability,
    /// A file below the folder that a command names, with its digest.
    File,
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
    pub kind: Kind,
    /// The name of a tool, a server, a host, or a path.
    pub name: String,
    /// The content: a text, or the keys of a table.
    pub value: Value,
}

impl Ask {
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

pub fn digest(asks: &[Ask]) -> Result<Digest, canonical::Error> {
    let mut bytes = b"rondo/asks/v1\n".to_vec();
    bytes.extend(canonical::to_bytes(asks)?);
    Ok(Digest::sha256(&bytes))
}

/// The digest of the asks whose change needs consent again, even for a person's own workflow: all but limits.
pub fn lasting(asks: &[Ask]) -> Result<Digest, canonical::Error> {
    let lasting: Vec<Ask> = asks.iter().filter(|ask| ask.kind != Kind::Limits).cloned().collect();
    digest(&lasting)
}
