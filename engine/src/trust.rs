//! Trust records: which workflows a person has agreed to, and what tools each server offered when it was first used.
//!
//! They stand in a file of the user, outside every project, so that no project can agree to itself and no tool can
//! reach them. A workflow is known by the digest of its definition with all files that it includes: when that changes,
//! the agreement is void.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rondo_agent_kit::mcp::Pin;
use rondo_protocol::Digest;
use serde::{Deserialize, Serialize};

/// The most bytes of the file.
const MAX_BYTES: u64 = 8 << 20;

/// Definitions of one file that stay agreed to.
const MOST_AGREEMENTS: usize = 32;

/// Everything that was agreed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Book {
    /// Format version: 1.
    version: u32,
    /// By the absolute path of the workflow's file, oldest first: a thread goes on with the definition that it was begun
    /// with.
    workflows: BTreeMap<String, Vec<Agreement>>,
    /// By server, as [`server_key`] writes it: its tools when they were last agreed to.
    servers: BTreeMap<String, BTreeMap<String, Pin>>,
}

/// What a person agreed to for one workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// The workflow's name.
    pub name: String,
    /// The digest of its definition.
    pub workflow: Digest,
    /// The tools that it may use, as it names them.
    pub tools: BTreeSet<String>,
    /// When, in Unix milliseconds.
    pub agreed_at_ms: u64,
}

/// How a workflow stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing<'a> {
    /// Nobody was asked about it.
    Unknown,
    /// It is as it was when somebody agreed.
    Agreed(&'a Agreement),
    /// It has changed since.
    Changed(&'a Agreement),
}

/// Why the records cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("the trust records {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("the trust records {} cannot be read: {what}; move the file away and agree anew", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// There is no place for them.
    #[error("there is no place for trust records: set XDG_DATA_HOME or HOME")]
    NoPlace,
}

impl Default for Book {
    fn default() -> Self {
        Self { version: 1, workflows: BTreeMap::new(), servers: BTreeMap::new() }
    }
}

impl Book {
    /// Reads the records; none where there is no file.
    ///
    /// # Errors
    /// When the file is there and cannot be used: then nothing is taken for agreed.
    pub fn read(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::default()) };
        let fault = |source| Error::File { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(fault(error)),
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(fault)?;
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let book: Self = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if book.version != 1 {
            return Err(damaged(format!("it is of version {}", book.version)));
        }
        Ok(book)
    }

    /// Changes the records in one piece: whoever else does waits.
    ///
    /// # Errors
    /// As [`read`](Self::read), or when the file cannot be written; then it is as it was.
    pub fn update<T>(path: Option<&Path>, change: impl FnOnce(&mut Self) -> T) -> Result<T, Error> {
        let path = path.ok_or(Error::NoPlace)?;
        let fault = |source| Error::File { path: path.to_owned(), source };
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        std::fs::create_dir_all(folder).map_err(fault)?;
        let lock = File::create(path.with_extension("lock")).map_err(fault)?;
        lock.lock().map_err(fault)?;
        let mut book = Self::read(Some(path))?;
        let result = change(&mut book);
        let text = serde_json::to_vec_pretty(&book).map_err(|error| fault(error.into()))?;
        let new = path.with_extension("new");
        let mut file = File::create(&new).map_err(fault)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(fault)?;
        std::fs::rename(&new, path).map_err(fault)?;
        Ok(result)
    }

    /// How a workflow stands.
    pub fn standing(&self, file: &str, workflow: Digest) -> Standing<'_> {
        // The same definition is the same workflow wherever its file lies.
        if let Some(agreed) = self.workflows.values().flatten().find(|agreed| agreed.workflow == workflow) {
            return Standing::Agreed(agreed);
        }
        self.workflows.get(file).and_then(|agreed| agreed.last()).map_or(Standing::Unknown, Standing::Changed)
    }

    /// Records that a person agreed.
    pub fn agree(&mut self, file: String, agreement: Agreement) {
        let agreed = self.workflows.entry(file).or_default();
        agreed.retain(|old| old.workflow != agreement.workflow);
        agreed.push(agreement);
        let too_many = agreed.len().saturating_sub(MOST_AGREEMENTS);
        agreed.drain(..too_many);
    }

    /// Takes an agreement back: whether there was one.
    pub fn revoke(&mut self, file: &str, workflow: Digest) -> bool {
        let before: usize = self.workflows.values().map(Vec::len).sum();
        self.workflows.remove(file);
        for agreed in self.workflows.values_mut() {
            agreed.retain(|agreed| agreed.workflow != workflow);
        }
        self.workflows.retain(|_, agreed| !agreed.is_empty());
        self.workflows.values().map(Vec::len).sum::<usize>() < before
    }

    /// The tools of a server as they were agreed to; `None` = it is new.
    pub fn pins(&self, server: &str) -> Option<&BTreeMap<String, Pin>> {
        self.servers.get(server)
    }

    /// Pins the tools of a server.
    pub fn pin(&mut self, server: String, pins: BTreeMap<String, Pin>) {
        self.servers.insert(server, pins);
    }
}

/// The key of a server: its name, and a digest of what it is started by or where it is, because another project may call
/// another server by the same name. A digest, because an argument or an address may hold a key.
pub fn server_key(name: &str, command: &[String], url: Option<&str>) -> String {
    let place = url.map_or_else(|| format!("{command:?}"), str::to_owned);
    format!("{name} {}", Digest::sha256(place.as_bytes()))
}
