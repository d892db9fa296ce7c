//! What the operator has set: flags, environment, `rondo.toml`, defaults, in this order.
//!
//! [`Settings`] is what a run needs of all that, resolved once, each value with its [`Origin`], and serializable, so
//! that it can be handed to the process that holds the store. A key's value stands here and nowhere else: `Debug` does
//! not show it, and `rondo doctor` says only whether it is set.
//!
//! This module knows nothing of workflows beyond the names of their models, and nothing of terminals. What a workflow
//! may name and what belongs to the operator is FORMAT's last section: commands, addresses, keys and paths stand here.

mod duration;
mod file;
mod resolve;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rondo_agent_kit::model::openai::{KeepFor, KeepPrefix};
use rondo_protocol::event::Durability;
use serde::{Deserialize, Serialize};

use crate::moderator::limits::Ceilings;

pub use duration::parse_duration_ms;
pub use file::{FILE_NAME, KEEP_FOR, KEEP_PREFIX, Stated, read};
pub use resolve::{Fault, Flags, Resolved, Unresolved, find_file, resolve};

/// The provider that is asked when nothing names another.
pub const DEFAULT_PROVIDER: &str = "openai";

/// The id of a model that nothing names, where no provider is asked.
pub const SCRIPTED_MODEL: &str = "scripted";

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    /// The value in force.
    pub value: T,
    /// Who set it.
    pub from: Origin,
}

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A flag of the command line, such as `--store`.
    Flag(String),
    /// A variable of the environment.
    Environment(String),
    /// A line of `rondo.toml`, from 1.
    File(u32),
    /// Nobody.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(variable) => write!(f, "${variable}"),
            Self::File(line) => write!(f, "{FILE_NAME}:{line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// What is in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The `rondo.toml` that was read, if there is one.
    pub file: Option<PathBuf>,
    /// The folder of the store.
    pub store: Sourced<PathBuf>,
    /// How far an acknowledged step is safe.
    pub durability: Sourced<Durability>,
    /// Providers by name; [`DEFAULT_PROVIDER`] is always among them.
    pub providers: BTreeMap<String, Provider>,
    /// What the operator says of logical models, by name.
    pub models: BTreeMap<String, Model>,
    /// The model for a logical name that neither the operator nor the workflow gives one.
    pub default_model: Option<Sourced<String>>,
    /// Limits that hold besides a workflow's own.
    pub limits: Ceilings,
    /// The folder that tools work in: that of `rondo.toml`, else the working folder.
    pub workspace: PathBuf,
    /// The variables of the environment that outside programs are given.
    pub environment: BTreeMap<String, String>,
    /// The file of trust records, which belongs to the user and not to the project; `None` = there is no place for one.
    pub trust: Option<PathBuf>,
    /// What workflows are granted.
    pub grant: Grant,
    /// Servers of tools.
    pub mcp: BTreeMap<String, Mcp>,
    /// Tools that are outside programs.
    pub tools: BTreeMap<String, Tool>,
    /// Hooks that are outside programs.
    pub hooks: BTreeMap<String, HookProgram>,
    /// Every key that is known, for the redactor.
    pub secrets: Vec<Secret>,
}

/// A value that must not be seen, with the name that is shown in its place.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// The variable it was read from.
    pub name: String,
    /// The value.
    pub value: String,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[redacted:{}]", self.name)
    }
}

/// Where models are asked: a server that speaks the OpenAI chat completions protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Its address, without a slash at the end.
    pub base_url: Sourced<String>,
    /// The variable that holds its key.
    pub key_env: Sourced<String>,
    /// The key, if that variable is set.
    pub key: Option<Secret>,
    /// Milliseconds until a connection must stand.
    pub connect_timeout_ms: Sourced<u64>,
    /// Milliseconds that a reply may be silent.
    pub idle_timeout_ms: Sourced<u64>,
    /// Milliseconds for a call with all its retries, where somebody set them.
    pub total_timeout_ms: Option<Sourced<u64>>,
    /// How it is asked to keep the prefix of a request.
    pub keep_prefix: Sourced<KeepPrefix>,
    /// For how long, where the operator says so.
    pub keep_for: Option<Sourced<KeepFor>>,
}

impl Provider {
    /// Whether it can be asked at all: it has a key, or somebody gave an address that may need none.
    pub fn is_usable(&self) -> bool {
        self.key.is_some() || self.base_url.from != Origin::Default
    }
}

/// What the operator says of a logical model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The provider that serves it.
    pub provider: Option<Sourced<String>>,
    /// The provider's id of the model.
    pub model: Option<Sourced<String>>,
    /// What it costs.
    pub price: Option<Price>,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Of the prompt.
    pub input: f64,
    /// Of the prompt, kept by the provider from an earlier request.
    pub cached_input: f64,
    /// Of the prompt, kept by the provider for later requests.
    pub cache_write: f64,
    /// Of the reply.
    pub output: f64,
    /// Where the figures are from.
    pub source: Option<String>,
    /// Of which day they are.
    pub date: Option<String>,
}

/// What workflows are granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Tools that roles may use: names, `server.*` or `*`; `None` = those that only read below the workspace.
    pub tools: Option<Vec<String>>,
    /// Files and folders that tools may read; `None` = the workspace.
    pub read: Option<Vec<String>>,
    /// Files and folders that tools may write; `None` = the workspace.
    pub write: Option<Vec<String>>,
    /// Hosts that tools may reach.
    pub hosts: Vec<String>,
    /// Tools that ask a person first.
    pub approve: Vec<String>,
    /// Whether outside programs run in a sandbox; `None` = on.
    pub sandbox: Option<bool>,
}

/// A server of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mcp {
    /// The program that is started.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that it is given.
    pub env: BTreeMap<String, String>,
    /// The address, of a server that is not started here.
    pub url: Option<String>,
    /// The variable that holds its key.
    pub key_env: Option<String>,
    /// Milliseconds that a call may take.
    pub timeout_ms: Option<u64>,
}

/// A tool that is an outside program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The JSON Schema of its arguments; without one it takes none.
    pub schema: Option<ToolSchema>,
    /// `pure`, `reads`, `writes` or `external`.
    pub effect: Option<String>,
    /// What it reads or writes.
    pub paths: Vec<String>,
    /// Milliseconds that it may take.
    pub timeout_ms: Option<u64>,
    /// Bytes that it may answer.
    pub output_max_bytes: Option<u64>,
    /// `retry`, `ask` or `skip`.
    pub in_doubt: Option<String>,
}

/// Where the schema of a tool's arguments stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolSchema {
    /// In `rondo.toml`, as JSON text.
    Inline(String),
    /// In a file, relative to the folder of `rondo.toml`.
    File(String),
}

/// A hook that is an outside program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookProgram {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Milliseconds that it may take.
    pub timeout_ms: Option<u64>,
    /// `bypass` or `fail`.
    pub on_error: Option<String>,
}

/// The folder that paths in a `rondo.toml` are relative to.
pub(crate) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}
