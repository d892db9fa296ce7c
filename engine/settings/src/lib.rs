//! The operator's settings: flags, environment, a project's `rondo.toml`, the user's `config.toml`, defaults, in this
//! order.
//!
//! The user's file is trusted. A project's file comes with its folder, which may be a stranger's: [`layers`] decides
//! which parts apply before somebody agrees, and what needs consent.
//!
//! [`Settings`] holds all values of a run, resolved once, each with its [`Origin`]. It is the only place that holds
//! the value of a key: `Debug` does not show it, and `rondo doctor` reports only whether it is set.
//!
//! This module knows nothing of terminals, and of workflows only the names of their models. FORMAT's last section
//! lists what a workflow may name and what belongs to the operator: commands, addresses, keys and paths are here.

mod file;
pub mod files;
pub mod keys;
pub mod layers;
mod list_prices;
pub mod program;
mod resolve;
pub mod trust;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use rondo_agent_kit::model::protocol::Protocol;
use rondo_agent_kit::model::{CacheRetention, PromptCache, ResponseFormat};
use rondo_agent_kit::tool::{EffectWord, InDoubt};
use rondo_protocol::Value;
use rondo_protocol::event::Durability;
use rondo_protocol::workflow::OnHookError;
use serde::Serialize;

use rondo_core::grant::Ceilings;
use rondo_core::local::FileRules;
use rondo_core::models;

pub use rondo_agent_kit::redact::Secret;

pub use file::{
    FILE_NAME, PROMPT_CACHE, PROMPT_CACHE_RETENTION, RESPONSE_FORMAT, Stated, StatedProvider, USER_FILE_NAME, read,
};
pub use list_prices::list_price;
pub(crate) use resolve::parse_duration_ms;
pub use resolve::{
    Files, Flags, Resolved, Unresolved, VariableFault, find_project, folder_of, home, resolve, user_file,
};

/// The provider of models for which none is named.
pub const DEFAULT_PROVIDER: &str = "openai";

/// The id of an unnamed model when no provider is asked.
pub const SCRIPTED_MODEL: &str = "scripted";

pub const SET: &str = "--set";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub from: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line, such as `--store`.
    Flag(String),
    Environment(String),
    /// A line of the user's `config.toml`, from 1.
    User(u32),
    /// A line of the project's `rondo.toml`, from 1.
    Project(u32),
    Default,
}

impl<T> Sourced<T> {
    pub(crate) fn by_default(value: T) -> Self {
        Self { value, from: Origin::Default }
    }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    User,
    Project,
    CommandLine,
}

impl Layer {
    pub fn line(self, line: u32) -> Origin {
        match self {
            Self::User => Origin::User(line),
            Self::Project => Origin::Project(line),
            Self::CommandLine => Origin::Flag(SET.to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The project's `rondo.toml`, if there is one, even if only parts of it apply.
    pub file: Option<PathBuf>,
    pub user_file: Option<PathBuf>,
    pub store: Sourced<PathBuf>,
    pub durability: Sourced<Durability>,
    /// Providers by name; [`DEFAULT_PROVIDER`] is always among them.
    pub providers: BTreeMap<String, Provider>,
    pub models: BTreeMap<String, Model>,
    /// The model for a logical name that neither the operator nor the workflow resolves.
    pub default_model: Option<Sourced<String>>,
    /// Limits in addition to a workflow's own.
    pub limits: Ceilings,
    pub files: FileRules,
    /// The folder that tools work in: that of `rondo.toml`, else the working folder.
    pub workspace: PathBuf,
    /// The environment variables passed to outside programs.
    pub environment: BTreeMap<String, String>,
    /// The file of trust records, which belongs to the user and not to the project; `None` if there is no place for
    /// one.
    pub trust: Option<PathBuf>,
    /// The file of the user's secret; `None` if there is no place for one.
    pub secret_file: Option<PathBuf>,
    /// The folder of what the program can do without.
    pub state_folder: Option<PathBuf>,
    pub grant: Grant,
    pub mcp: BTreeMap<String, Mcp>,
    pub tools: BTreeMap<String, Tool>,
    pub hooks: BTreeMap<String, HookProgram>,
    /// Hooks around every workflow, outermost first.
    pub imposed: Vec<Imposed>,
    pub provided: Provided,
    pub sandbox: SandboxSettings,
    /// Files and folders of the running workflow, which no tool may write.
    pub held: Vec<PathBuf>,
    /// The files that commands of the project name, by that name, each with its digest when somebody was asked.
    pub shown: BTreeMap<String, (PathBuf, String)>,
    /// Every known key, for the redactor.
    pub secrets: Vec<Secret>,
}

/// What the program that embeds rondo brings along: nobody has to agree to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provided {
    /// Rules of tools, as in `[grant] tools`: its own, and those that it grants.
    pub tools: Vec<String>,
    pub servers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// What it speaks: the operator's setting, else by its address or its name.
    pub protocol: Sourced<&'static dyn Protocol>,
    /// Its address, without a slash at the end.
    pub base_url: Sourced<String>,
    pub key_env: Sourced<String>,
    /// The program that prints its key, in place of a variable.
    pub key_command: Option<Sourced<Vec<String>>>,
    /// The key, if its variable is set.
    pub key: Option<Secret>,
    pub connect_timeout_ms: Sourced<u64>,
    pub idle_timeout_ms: Sourced<u64>,
    /// Milliseconds for a call with all its retries, if set.
    pub total_timeout_ms: Option<Sourced<u64>>,
    pub prompt_cache: Sourced<PromptCache>,
    pub prompt_cache_retention: Option<Sourced<CacheRetention>>,
    /// How it is asked to constrain the format of an answer: the operator's setting, else the default for its address.
    pub response_format: Sourced<ResponseFormat>,
    pub headers: BTreeMap<String, String>,
    /// Headers by the variables that hold their values.
    pub headers_env: BTreeMap<String, String>,
    /// The values of those whose variables are set, by the name of the header.
    pub header_keys: BTreeMap<String, String>,
    /// What stands behind `?` in the address of its requests.
    pub query: BTreeMap<String, String>,
}

impl Provider {
    pub fn is_usable(&self) -> bool {
        self.key.is_some() || self.key_command.is_some() || self.base_url.from != Origin::Default
    }
}

/// The variable with the token of `rondo serve`.
pub const TOKEN_VARIABLE: &str = "RONDO_TOKEN";

/// How the names of the files with a server's token begin, and the name of that secret.
pub const TOKEN_FILE: &str = "serve-token";

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    pub provider: Option<Sourced<String>>,
    /// The provider's id of the model.
    pub model: Option<Sourced<String>>,
    pub price: Option<Price>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    #[serde(flatten)]
    pub dollars: models::Price,
    pub source: Option<String>,
    pub date: Option<String>,
    /// Whether only a project says so, and nobody agreed to it. It tells costs of models that have no other price, and
    /// no limit on money relies on it.
    #[serde(skip)]
    pub is_claim: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Tools that roles may use: names, `server.*` or `*`; `None` allows those that only read below the workspace.
    pub tools: Option<Vec<String>>,
    /// Files and folders that tools may read; `None` means the workspace.
    pub read: Option<Vec<String>>,
    /// Files and folders that tools may write; `None` means the workspace.
    pub write: Option<Vec<String>>,
    pub hosts: Vec<String>,
    /// Calls that are never made, in the syntax of [`rondo_core::grant`].
    pub deny: Vec<String>,
    /// Calls that ask a person first.
    pub approve: Vec<String>,
    /// Whether outside programs run in a sandbox; `None` means on.
    pub sandbox: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mcp {
    pub line: u32,
    /// What a person is asked of it.
    pub asked: Value,
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The address of a server that rondo does not start.
    pub url: Option<String>,
    pub key_env: Option<String>,
    /// Headers of each request: name to the variable that holds the value.
    pub headers_env: BTreeMap<String, String>,
    /// Where the program starts; `None` means a private folder.
    pub cwd: Option<Cwd>,
    pub timeout_ms: Option<u64>,
    pub sandbox: Option<Sandbox>,
}

impl Mcp {
    /// The program to start with its arguments; empty for an address.
    pub fn words(&self) -> Vec<String> {
        self.command.iter().chain(&self.args).cloned().collect()
    }

    /// Its address or its command, for people: without keys.
    pub fn place(&self) -> String {
        self.url.as_deref().map_or_else(|| keys::masked_words(&self.words()).join(" "), keys::masked_address)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cwd {
    Workspace,
    /// In an empty private folder, removed afterwards.
    Private,
}

/// What a server or a hook program may reach from its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub hosts: Vec<String>,
}

/// Resource limits of programs, and paths that no tool may write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Path patterns that replace rondo's default list. Only the user's file may set them.
    pub protected: Option<Vec<String>>,
    /// Bytes of memory for all programs of a call.
    pub memory_bytes: Option<u64>,
    /// Processes per call.
    pub processes: Option<u64>,
    /// Bytes a call may write.
    pub disk_bytes: Option<u64>,
}

/// A hook that the operator adds to every workflow, in the form of an entry under `hooks`.
#[derive(Debug, Clone, PartialEq)]
pub struct Imposed {
    pub hook: rondo_protocol::workflow::HookUse,
    /// The keys of the table as JSON.
    pub stated: Value,
    pub from: Origin,
}

/// A tool that is an outside program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tool {
    pub line: u32,
    pub asked: Value,
    pub argv: Vec<String>,
    /// The JSON Schema of its arguments; without one it takes no arguments.
    pub schema: Option<ToolSchema>,
    pub effect: Option<EffectWord>,
    pub paths: Vec<String>,
    /// Where it starts; `None` means the workspace.
    pub cwd: Option<Cwd>,
    pub timeout_ms: Option<u64>,
    /// Bytes its answer may have.
    pub output_max_bytes: Option<u64>,
    /// What happens with a call that may have had its effect; `None` means that a person is asked.
    pub in_doubt: Option<InDoubt>,
}

impl Tool {
    pub fn schema_file(&self) -> Option<&String> {
        match &self.schema {
            Some(ToolSchema::File(file)) => Some(file),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSchema {
    /// In `rondo.toml`, as JSON text.
    Inline(String),
    /// In a file, beside the one that names it.
    File(String),
}

/// A hook that is an outside program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookProgram {
    pub line: u32,
    pub asked: Value,
    pub argv: Vec<String>,
    /// Where it starts; `None` means a private folder.
    pub cwd: Option<Cwd>,
    pub timeout_ms: Option<u64>,
    pub on_error: Option<OnHookError>,
    /// What its sandbox may reach besides what every program reaches.
    pub sandbox: Option<Sandbox>,
}
