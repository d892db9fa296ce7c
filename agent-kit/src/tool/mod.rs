//! Tools: what a role can do besides answering.
//!
//! A [`Tool`] has a name, arguments and an effect, and runs. Each tool has its own file; those that are part of rondo
//! are [`BuiltIn`]s, whose schema comes from a Rust type. Tools access everything through a sandbox
//! ([`crate::sandbox`]).
//!
//! This module knows nothing of models, hooks, journals or grants: callers check who may call a tool before they run
//! it.

mod apply_patch;
mod argument_preview;
mod builtin;
mod edit_file;
mod files;
mod http_get;
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
use rondo_protocol::file::File;
use serde::{Deserialize, Serialize};

pub use crate::cut::cut;
pub use argument_preview::argument_preview;
pub use builtin::{BuiltIn, Typed, schema_of, spec};
pub use files::file_tools;
pub use http_get::{HttpGet, HttpGetArguments};
pub use program::{EffectWord, InvalidProgram, Program, ProgramSettings};
pub use shell::{Shell, ShellArguments};
pub use toolbox::{Clash, Lacking, Offer, ToolSet, Toolbox, means, unchecked, wire_name};

pub use crate::bound::STORED_MAX_BYTES;
pub use crate::error::Error;

use crate::bound;
use crate::redact::Redactor;
use crate::sandbox::files::Watch;

pub trait Tool: Send + Sync {
    fn spec(&self) -> &Spec;

    /// The effect of a call with these arguments, which match the schema. Paths are relative to the workspace, with `/`
    /// between their parts.
    fn effect(&self, arguments: &Value) -> Effect;

    /// The effect of its calls in general, with the paths that its declaration names, in which `{NAME}` is an argument.
    /// Without paths it reaches what is granted.
    fn declared_effect(&self) -> Effect {
        Effect::External
    }

    /// What to do on resume when it is unknown whether a call took effect.
    fn in_doubt(&self) -> InDoubt {
        InDoubt::Ask
    }

    /// Runs the tool. Arguments match the schema. The text of the result is at most [`STORED_MAX_BYTES`] long; a tool that
    /// reads something endless stops there with a mark.
    ///
    /// A tool that reads files [begins](Watch::begin) the invocation's watch and accesses them through a workspace that
    /// is [watched](crate::sandbox::files::Workspace::watched) by it. A tool that does not leaves the watch alone, and
    /// the read set of its result is then unknown.
    ///
    /// A tool redacts whatever it cuts, a result or an error message, before it cuts: half a key cannot be recognized.
    ///
    /// # Errors
    /// The error that the caller is shown instead of a result.
    ///
    /// # Cancel safety
    /// Dropping the future ends everything that it started: processes are dead, connections closed, and files are
    /// either unchanged or completely written.
    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The name in workflows: `read_file`, or `server.tool` for a tool of a server.
    pub name: String,
    /// What it does, for a model to read.
    pub description: String,
    /// The JSON Schema of its arguments, as text exactly as sent.
    pub parameters: String,
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    Program,
    Mcp {
        /// The server's name in the operator's settings.
        server: String,
    },
}

/// What a tool returns: a text and files.
///
/// The text names each file, because a model that takes no files reads only the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub text: String,
    pub files: Vec<File>,
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self { text, files: Vec::new() }
    }
}

impl From<File> for Content {
    fn from(file: File) -> Self {
        Self { text: file_line(&file), files: vec![file] }
    }
}

/// The line that stands for a file in a text.
pub(crate) fn file_line(file: &File) -> String {
    format!("[{} ({}), {}]", file.name, file.media_type, bound::bytes(file.bytes.len() as u64))
}

/// The context of a tool call besides its arguments.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The same for every execution of this call, so that the other side can recognize a repetition.
    pub idempotency_key: String,
    pub watch: Watch,
    /// Removes keys from text that the tool cuts. The caller redacts everything else.
    pub redactor: Redactor,
    /// The role that makes the call, for grants that differ between roles.
    pub caller: Option<String>,
}

impl Invocation {
    pub fn new(idempotency_key: impl Into<String>) -> Self {
        let (watch, redactor) = (Watch::default(), Redactor::default());
        Self { idempotency_key: idempotency_key.into(), watch, redactor, caller: None }
    }
}

/// What to do on resume when a call may have taken effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InDoubt {
    /// Repeat it with the same idempotency key.
    Retry,
    /// Stop the run and let a person decide.
    #[default]
    Ask,
    /// Tell the caller that it is unknown.
    Skip,
}
