//! One thing that a folder's settings or a workflow ask for.

use rondo_protocol::canonical;
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

/// What an [`Ask`] is about.
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
    /// Who serves a model, or what it costs.
    Model,
    /// A host that tools may reach.
    Host,
    /// A file or folder that tools may read.
    Read,
    /// A file or folder that tools may write.
    Write,
    /// Tools that are granted.
    Grant,
    /// Calls that are refused.
    Deny,
    /// Calls of which a person is asked.
    Approve,
    /// What a sandbox lets through.
    Sandbox,
    /// Where the store is.
    Store,
    /// How far an acknowledged step is safe.
    Durability,
    /// A file below the folder that a command names, with its digest.
    File,
    /// How much a workflow may use.
    Limits,
    /// A file or folder that belongs to another user, whose word would count.
    Owner,
}

impl Kind {
    /// Its name, as it is shown and written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Program => "program",
            Self::Server => "server",
            Self::Hook => "hook",
            Self::Impose => "impose",
            Self::Provider => "provider",
            Self::Model => "model",
            Self::Host => "host",
            Self::Read => "read",
            Self::Write => "write",
            Self::Grant => "grant",
            Self::Deny => "deny",
            Self::Approve => "approve",
            Self::Sandbox => "sandbox",
            Self::Store => "store",
            Self::Durability => "durability",
            Self::File => "file",
            Self::Limits => "limits",
            Self::Owner => "owner",
        }
    }
}

/// One thing that is asked for. No value holds a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// What it is about.
    pub kind: Kind,
    /// Which one: the name of a tool, a server, a host, a path.
    pub name: String,
    /// What is asked: a text, or the keys of a table.
    pub value: Value,
}

impl Ask {
    /// Something that is asked for.
    pub fn new(kind: Kind, name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { kind, name: name.into(), value: value.into() }
    }

    /// What is asked, on one line for people.
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

/// The digest of what is asked for, in the order given.
///
/// # Errors
/// When a value has no canonical form.
pub fn digest(asks: &[Ask]) -> Result<Digest, canonical::Error> {
    let mut bytes = b"rondo/asks/v1\n".to_vec();
    bytes.extend(canonical::to_bytes(asks)?);
    Ok(Digest::sha256(&bytes))
}

/// The digest of what asks again when it changes, also of a person's own workflow: everything but limits.
///
/// # Errors
/// As [`digest`].
pub fn lasting(asks: &[Ask]) -> Result<Digest, canonical::Error> {
    let lasting: Vec<Ask> = asks.iter().filter(|ask| ask.kind != Kind::Limits).cloned().collect();
    digest(&lasting)
}
