//! What the operator has set: flags, environment, a project's `rondo.toml`, the user's `config.toml`, defaults, in this
//! order.
//!
//! The user's file is believed. A project's file comes with the folder that it lies in, and that folder may be a
//! stranger's: [`layers`] says what of it counts before somebody agreed to it, and what has to be asked.
//!
//! [`Settings`] is what a run needs of all that, resolved once, each value with its [`Origin`]. A key's value is here and
//! nowhere else: `Debug` does not show it, and `rondo doctor` says only whether it is set.
//!
//! This module knows nothing of workflows beyond the names of their models, and nothing of terminals. What a workflow
//! may name and what belongs to the operator is FORMAT's last section: commands, addresses, keys and paths stand here.

mod file;
pub mod keys;
pub mod layers;
mod list_prices;
pub(crate) mod program;
mod resolve;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use rondo_agent_kit::model::openai::{KeepFor, KeepPrefix, ResponseFormat};
use rondo_protocol::event::Durability;
use serde::Serialize;

use crate::grant::Ceilings;

pub use file::{FILE_NAME, KEEP_FOR, KEEP_PREFIX, RESPONSE_FORMAT, Stated, StatedProvider, USER_FILE_NAME, read};
pub use list_prices::list_price;
pub(crate) use resolve::parse_duration_ms;
pub use resolve::{
    Files, Flags, Resolved, Unresolved, VariableFault, find_project, folder_of, home, resolve, user_file,
};

/// The provider that is asked when nothing names another.
pub const DEFAULT_PROVIDER: &str = "openai";

/// The id of a model that nothing names, where no provider is asked.
pub const SCRIPTED_MODEL: &str = "scripted";

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value in force.
    pub value: T,
    /// Who set it.
    pub from: Origin,
}

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line, such as `--store`.
    Flag(String),
    /// A variable of the environment.
    Environment(String),
    /// A line of the user's `config.toml`, from 1.
    User(u32),
    /// A line of the project's `rondo.toml`, from 1.
    Project(u32),
    /// Nobody.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(variable) => write!(f, "${variable}"),
            Self::User(line) => write!(f, "{USER_FILE_NAME}:{line}"),
            Self::Project(line) => write!(f, "{FILE_NAME}:{line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The user's `config.toml`.
    User,
    /// The `rondo.toml` of a project.
    Project,
}

impl Layer {
    /// A line of its file, from 1.
    pub fn line(self, line: u32) -> Origin {
        match self {
            Self::User => Origin::User(line),
            Self::Project => Origin::Project(line),
        }
    }
}

/// What is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The project's `rondo.toml`, if there is one, whether or not all of it is in force.
    pub file: Option<PathBuf>,
    /// The user's `config.toml`, if there is one.
    pub user_file: Option<PathBuf>,
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
    /// The file of the user's secret; `None` = there is no place for one.
    pub secret_file: Option<PathBuf>,
    /// What workflows are granted.
    pub grant: Grant,
    /// Servers of tools.
    pub mcp: BTreeMap<String, Mcp>,
    /// Tools that are outside programs.
    pub tools: BTreeMap<String, Tool>,
    /// Hooks that are outside programs.
    pub hooks: BTreeMap<String, HookProgram>,
    /// Hooks around every workflow, outermost first.
    pub imposed: Vec<Imposed>,
    /// What programs may use, and which paths no tool writes.
    pub sandbox: SandboxSettings,
    /// Files and folders of the running workflow, which no tool writes.
    pub held: Vec<PathBuf>,
    /// Every key that is known, for the redactor.
    pub secrets: Vec<Secret>,
}

/// A value that must not be seen, with the name that is shown in its place.
#[derive(Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its address, without a slash at the end.
    pub base_url: Sourced<String>,
    /// The variable that holds its key.
    pub key_env: Sourced<String>,
    /// The program that prints its key, in place of a variable.
    pub key_command: Option<Sourced<Vec<String>>>,
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
    /// How it is asked to hold an answer to its form: as the operator says, else as its address does.
    pub response_format: Sourced<ResponseFormat>,
}

impl Provider {
    /// Whether it can be asked at all: it has a key, or somebody gave an address that may need none.
    pub fn is_usable(&self) -> bool {
        self.key.is_some() || self.key_command.is_some() || self.base_url.from != Origin::Default
    }
}

/// What the operator says of a logical model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// The provider that serves it.
    pub provider: Option<Sourced<String>>,
    /// The provider's id of the model.
    pub model: Option<Sourced<String>>,
    /// What it costs.
    pub price: Option<Price>,
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Tools that roles may use: names, `server.*` or `*`; `None` = those that only read below the workspace.
    pub tools: Option<Vec<String>>,
    /// Files and folders that tools may read; `None` = the workspace.
    pub read: Option<Vec<String>>,
    /// Files and folders that tools may write; `None` = the workspace.
    pub write: Option<Vec<String>>,
    /// Hosts that tools may reach.
    pub hosts: Vec<String>,
    /// Calls that are never made, as [`crate::grant`] reads them.
    pub deny: Vec<String>,
    /// Calls that ask a person first.
    pub approve: Vec<String>,
    /// Whether outside programs run in a sandbox; `None` = on.
    pub sandbox: Option<bool>,
}

/// A server of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mcp {
    /// The line of its first key, from 1.
    pub line: u32,
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
    /// Headers of each request, by name: the variable that holds the value.
    pub headers_env: BTreeMap<String, String>,
    /// Where the program starts; `None` = in a private folder.
    pub cwd: Option<Cwd>,
    /// Milliseconds that a call may take.
    pub timeout_ms: Option<u64>,
    /// The sandbox around it; `None` = none.
    pub sandbox: Option<Sandbox>,
}

/// Where an outside program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cwd {
    /// In the workspace.
    Workspace,
    /// In an empty folder of its own that is gone afterwards.
    Private,
}

/// What a server or a hook program may reach from within its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and folders that it may read.
    pub read: Vec<String>,
    /// Files and folders that it may write.
    pub write: Vec<String>,
    /// Hosts that it may reach.
    pub hosts: Vec<String>,
}

/// What programs may use in all, and which paths no tool writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Path patterns, in place of the list that ships with rondo. Only the user's count.
    pub protected: Option<Vec<String>>,
    /// Bytes of memory of all programs of a call.
    pub memory_bytes: Option<u64>,
    /// Processes of a call.
    pub processes: Option<u64>,
    /// Bytes that a call may write.
    pub disk_bytes: Option<u64>,
}

/// A hook that the operator puts around every workflow: what a workflow file writes under `hooks`.
#[derive(Debug, Clone, PartialEq)]
pub struct Imposed {
    /// As it was read.
    pub hook: rondo_protocol::workflow::HookUse,
    /// The keys of the table as JSON.
    pub stated: rondo_protocol::Value,
    /// Who set it.
    pub from: Origin,
}

/// A tool that is an outside program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tool {
    /// The line of its first key, from 1.
    pub line: u32,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The JSON Schema of its arguments; without one it takes none.
    pub schema: Option<ToolSchema>,
    /// `pure`, `reads`, `writes` or `external`.
    pub effect: Option<String>,
    /// What it reads or writes.
    pub paths: Vec<String>,
    /// Where it starts; `None` = in the workspace.
    pub cwd: Option<Cwd>,
    /// Milliseconds that it may take.
    pub timeout_ms: Option<u64>,
    /// Bytes that it may answer.
    pub output_max_bytes: Option<u64>,
    /// `retry`, `ask` or `skip`.
    pub in_doubt: Option<String>,
}

/// Where the schema of a tool's arguments stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSchema {
    /// In `rondo.toml`, as JSON text.
    Inline(String),
    /// In a file, beside the one that names it.
    File(String),
}

/// A hook that is an outside program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookProgram {
    /// The line of its first key, from 1.
    pub line: u32,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it starts; `None` = in a private folder.
    pub cwd: Option<Cwd>,
    /// Milliseconds that it may take.
    pub timeout_ms: Option<u64>,
    /// `bypass` or `fail`.
    pub on_error: Option<String>,
    /// What its sandbox lets it reach beside what every program reaches.
    pub sandbox: Option<Sandbox>,
}
