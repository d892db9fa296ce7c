//! Tools: what a role can do besides speaking.
//!
//! A [`Tool`] says what it is called, what it takes and what it does to the world, and does it. One tool is one file;
//! those that are part of rondo are [`BuiltIn`]s, whose schema comes from a Rust type. Whatever a tool touches it
//! reaches through a sandbox ([`crate::sandbox`]), never by itself.
//!
//! This module knows nothing of models, hooks, journals or grants: who may call what is decided before a tool is run.

mod apply_patch;
mod arguments;
mod builtin;
mod edit_file;
mod files;
mod http_get;
mod ignore_file;
mod list_files;
mod near;
mod program;
mod read_file;
mod search_files;
mod shell;
mod text;
mod toolbox;
mod tree;
mod write_file;

use futures_util::future::BoxFuture;
use rondo_protocol::Value;
use rondo_protocol::call::Effect;

pub use crate::cut::cut;
pub use arguments::Arguments;
pub use builtin::{BuiltIn, Typed, spec};
pub use files::file_tools;
pub use http_get::{HttpGet, HttpGetArguments};
pub use program::{EffectWord, InvalidProgram, Program, ProgramSettings};
pub use shell::{Shell, ShellArguments};
pub use toolbox::{Clash, Lacking, Offer, ToolSet, Toolbox, means, wire_name};

pub use crate::bound::STORED_MAX_BYTES;
pub use crate::error::Error;
use crate::redact::Redactor;
use crate::sandbox::files::Watch;

/// What a role can call.
pub trait Tool: Send + Sync {
    /// What it is.
    fn spec(&self) -> &Spec;

    /// What a call with these arguments, which keep the schema, does to the world. Paths are relative to the
    /// workspace, with `/` between their parts.
    fn effect(&self, arguments: &Value) -> Effect;

    /// What happens on resume when nobody knows whether a call has had its effect.
    fn in_doubt(&self) -> InDoubt {
        InDoubt::Ask
    }

    /// Does it. Arguments keep the schema. The result is at most [`STORED_MAX_BYTES`] long; a tool that reads from
    /// something endless stops there with a mark.
    ///
    /// A tool that reads files [begins](Watch::begin) the invocation's watch and reaches them through a workspace that
    /// is [watched](crate::sandbox::files::Workspace::watched) by it. One that does not leaves the watch alone, and then
    /// nobody can tell what its result stands on.
    ///
    /// Whatever a tool cuts, a result or the words of an error, it redacts before it cuts: half a key is found by nobody.
    ///
    /// # Errors
    /// What the caller is shown instead of a result.
    ///
    /// # Cancel safety
    /// Dropping the future ends whatever it started: processes are dead, connections closed, and files are either as
    /// they were or wholly written.
    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<String, Error>>;
}

/// What a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The name in workflows: `read_file`, or `server.tool` for a tool of a server.
    pub name: String,
    /// What it does, for a model to read.
    pub description: String,
    /// The JSON Schema of its arguments, as text exactly as sent.
    pub parameters: String,
    /// Whose it is.
    pub origin: Origin,
}

/// Whose a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Part of rondo.
    BuiltIn,
    /// A program that the operator declared.
    Program,
    /// Offered by an MCP server.
    Mcp {
        /// The server's name in the operator's settings.
        server: String,
    },
}

/// What a tool is told of its call besides the arguments.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The same for every execution of this use, so that the other side can tell a repetition.
    pub idempotency_key: String,
    /// Notes which files the tool looks at.
    pub watch: Watch,
    /// Takes keys out of what the tool cuts. The caller redacts everything else.
    pub redactor: Redactor,
    /// On whose behalf it is made, where the operator grants to some what is not granted to others.
    pub caller: Option<String>,
}

impl Invocation {
    /// An invocation of which nothing is noted yet.
    pub fn new(idempotency_key: impl Into<String>) -> Self {
        let (watch, redactor) = (Watch::default(), Redactor::default());
        Self { idempotency_key: idempotency_key.into(), watch, redactor, caller: None }
    }

    /// The same invocation on behalf of a caller.
    #[must_use]
    pub fn by(self, caller: &str) -> Self {
        Self { caller: Some(caller.to_owned()), ..self }
    }

    /// The same invocation of a tool that redacts what it cuts.
    #[must_use]
    pub fn redacted_by(self, redactor: &Redactor) -> Self {
        Self { redactor: redactor.clone(), ..self }
    }
}

/// What happens on resume when a call may have had its effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InDoubt {
    /// It is made again, with the same idempotency key.
    Retry,
    /// The run stops and a person decides.
    #[default]
    Ask,
    /// The caller is told that nobody knows.
    Skip,
}
