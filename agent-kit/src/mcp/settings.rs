//! What the operator says of a server.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use rondo_protocol::diagnostic::Code;

use crate::redact::{Redactor, Secret};
use crate::sandbox::process::{Processes, WorkingDir};
use crate::tool::Error;

/// The longest name of a server: with a tool behind it, it should still fit a provider's name.
const MAX_NAME_BYTES: usize = 32;

/// A server, and how long it is waited for.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// What its tools are spaced by: `docs` in `docs.search`.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// How long it may take until its tools are known.
    pub start_timeout: Duration,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// The longest message of a server.
    pub max_line_bytes: usize,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Transport {
    /// A program that speaks on its standard input and output.
    Stdio {
        /// The program: a path, or a name that is looked for in `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside those that every server sees (`PATH HOME LANG LC_ALL TERM TMPDIR USER`, and what closes
        /// Python's import path). Their values are shown in no error.
        env: Vec<Secret>,
        /// The folder that it starts in. With a sandbox it lies below the workspace of that.
        working_dir: WorkingDir,
        /// The sandbox that it runs behind: it reads and writes what the settings of that name in `read` and `write`,
        /// nothing of the workspace beside it, and has no network but the hosts that were given to them. `HOME` is then a private folder. Without one it is
        /// a program of the user as any other.
        sandbox: Option<Processes>,
        /// A binary whose `main` begins with [`entered`](super::entered): it starts the program and ends it when this
        /// process is gone, however that ended. Without one only the program's closed input tells it.
        launcher: Option<PathBuf>,
    },
    /// An address that speaks streamable HTTP. It is the operator's, so it may be anywhere.
    Http {
        /// The address.
        url: String,
        /// What is sent as bearer token.
        bearer: Option<Secret>,
        /// Headers of every request, by name.
        headers: Vec<(String, Secret)>,
    },
}

impl ServerSettings {
    /// A server with the usual limits.
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(2),
            max_line_bytes: 4 << 20,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let name = &self.name;
        let fault =
            |why: &str| Err(Error::new(Code::McpSettings, format!("the MCP server {name:?} cannot be used: {why}")));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_name) {
            return fault("its name must be 1 to 32 letters, digits, `_` or `-`");
        }
        match &self.transport {
            Transport::Stdio { command, .. } if command.is_empty() => fault("its command is empty"),
            Transport::Stdio { .. } => Ok(()),
            Transport::Http { url, bearer, headers } => {
                let Ok(url) = Url::parse(url) else { return fault("its `url` is no URL") };
                let has_credentials = !url.username().is_empty() || url.password().is_some();
                let is_header = |name: &str| HeaderName::from_bytes(name.as_bytes()).is_ok();
                let is_bearer = |key: &Secret| HeaderValue::from_str(&key.value).is_ok();
                if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
                    fault("its `url` is not an http or https address")
                } else if has_credentials {
                    fault("its `url` holds a user name or a password; give the key by `key_env`")
                } else if !headers.iter().all(|(name, value)| is_header(name) && is_bearer(value)) {
                    fault("`headers_env` names no header, or its value holds characters that cannot be sent")
                } else if !bearer.iter().all(is_bearer) {
                    fault("its key holds characters that cannot be sent, such as a line end")
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Keeps what the operator gave it out of errors.
    pub(super) fn redactor(&self) -> Redactor {
        let secrets: Vec<&Secret> = match &self.transport {
            Transport::Stdio { env, .. } => env.iter().collect(),
            Transport::Http { bearer, headers, .. } => {
                bearer.iter().chain(headers.iter().map(|(_, value)| value)).collect()
            }
        };
        Redactor::new(secrets.into_iter().map(|secret| (secret.name.clone(), secret.value.clone())))
    }
}
