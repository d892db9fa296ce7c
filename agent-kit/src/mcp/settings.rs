//! The operator's settings of a server.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use rondo_protocol::diagnostic::Code;

use crate::pinned::Pinned;
use crate::redact::{Redactor, Secret};
use crate::sandbox::process::{Processes, WorkingDir};
use crate::tool::Error;

/// The maximum length of a server's name: together with a tool's name, it should fit a provider's limit.
const MAX_NAME_BYTES: usize = 32;

#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The prefix of its tools: `docs` in `docs.search`.
    pub name: String,
    pub transport: Transport,
    /// The maximum time until its tools are known.
    pub start_timeout: Duration,
    pub call_timeout: Duration,
    /// The maximum length of a message.
    pub max_line_bytes: usize,
}

#[derive(Debug, Clone)]
pub enum Transport {
    /// A program that uses its standard input and output.
    Stdio(ServerProgram),
    /// An address that speaks streamable HTTP. The operator chose it, so it may be anywhere.
    Http {
        url: String,
        bearer: Option<Secret>,
        /// Headers of every request, by name.
        headers: Vec<(String, Secret)>,
    },
}

/// How a server that uses its standard input and output is started.
#[derive(Debug, Clone)]
pub struct ServerProgram {
    /// The program: a path, or a name to look up in `PATH`.
    pub command: String,
    pub args: Vec<String>,
    /// Variables besides those that every server gets (`PATH HOME LANG LC_ALL TERM TMPDIR USER`, and one that
    /// closes Python's import path). Their values appear in no error.
    pub env: Vec<Secret>,
    /// Its working folder. With a sandbox it lies below the workspace of the sandbox.
    pub working_dir: WorkingDir,
    /// The sandbox that it runs in: it can access only the `read` and `write` paths of its settings, nothing else
    /// of the workspace, and only the network hosts in those settings. `HOME` is then a private folder. Without a
    /// sandbox it is an ordinary program of the user.
    pub sandbox: Option<Processes>,
    /// A binary whose `main` begins with [`entered`](super::entered): it starts the program and ends it when this
    /// process is gone, however that ended. Without it, the program only sees its input closed.
    pub launcher: Option<PathBuf>,
    /// The files that its words name, as somebody agreed to them: compared directly before it starts.
    pub pinned: Pinned,
}

impl ServerSettings {
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(2),
            // Room for a picture in base64.
            max_line_bytes: 16 << 20,
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
            Transport::Stdio(program) if program.command.is_empty() => fault("its command is empty"),
            Transport::Stdio(_) => Ok(()),
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

    pub(super) fn redactor(&self) -> Redactor {
        let secrets: Vec<&Secret> = match &self.transport {
            Transport::Stdio(program) => program.env.iter().collect(),
            Transport::Http { bearer, headers, .. } => {
                bearer.iter().chain(headers.iter().map(|(_, value)| value)).collect()
            }
        };
        Redactor::new(secrets.into_iter().map(|secret| (secret.name.clone(), secret.value.clone())))
    }
}
