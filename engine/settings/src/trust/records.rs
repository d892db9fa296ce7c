//! Trust records: what a person agreed to, and the tools that each server offered at first use.
//!
//! They are in a file of the user, outside every project, so that no project can agree to itself and no tool can reach
//! them. Settings are identified by their folder and their asks; a workflow by its file and its definition, or, if the
//! person marked it as their own, by its asks. Consent does not cover a copy elsewhere.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rondo_agent_kit::mcp::Pin;
use rondo_core::durable_folder;
use rondo_protocol::Digest;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{Ask, lasting, private_file};

/// The format of the file. Format 1 had no settings; its agreements are asked for again.
const VERSION: u32 = 2;

const MAX_BYTES: u64 = 8 << 20;

/// The most definitions of one file that stay agreed to.
const MAX_AGREEMENTS: usize = 32;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    version: u32,
    /// By the absolute path of the settings' folder.
    pub settings: BTreeMap<String, Agreement>,
    /// By the absolute path of the workflow's file, oldest first: a thread continues with the definition that it
    /// started with.
    workflows: BTreeMap<String, Vec<Agreement>>,
    /// By server, with a key from [`server_key`]: its tools when they were last agreed to.
    pub servers: BTreeMap<String, BTreeMap<String, Pin>>,
    /// By the same key: the tools that no model is offered, a sentence each, as of then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    left_out: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// For settings and for a person's own workflow the digest of the asks, else the digest of the workflow's
    /// definition and policy.
    pub digest: Digest,
    pub own: bool,
    pub asks: Vec<Ask>,
    pub agreed_at_ms: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Consent<'a> {
    Unknown,
    Agreed(&'a Agreement),
    Changed(&'a Agreement),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the trust records {}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("the trust records {} cannot be read: {what}; move the file away and agree again", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error(
        "the trust records {} would be larger than {} MiB; revoke what is not used any more",
        path.display(),
        MAX_BYTES >> 20
    )]
    Full { path: PathBuf },
    #[error("the trust records {} are not believed: {what}", path.display())]
    Unsafe { path: PathBuf, what: &'static str },
    #[error(
        "there is no place for trust records: set XDG_DATA_HOME or HOME; `--trust` agrees for one run without them"
    )]
    NoPlace,
}

impl Default for Records {
    fn default() -> Self {
        let (settings, workflows) = (BTreeMap::new(), BTreeMap::new());
        Self { version: VERSION, settings, workflows, servers: BTreeMap::new(), left_out: BTreeMap::new() }
    }
}

impl Records {
    /// Reads the records; empty if there is no file.
    ///
    /// # Errors
    /// If the file exists and cannot be used. Nothing counts as agreed then.
    pub fn read(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::default()) };
        let fault = |source| Error::File { path: path.to_owned(), source };
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let Some(file) = private_file::open(path).map_err(fault)? else { return Ok(Self::default()) };
        believed(path, &file)?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(fault)?;
        let version = serde_json::from_str::<Version>(&text).map_err(|error| damaged(error.to_string()))?.version;
        match version {
            1 => Ok(Self::default()),
            VERSION => serde_json::from_str(&text).map_err(|error| damaged(error.to_string())),
            newer => Err(damaged(format!("it is of version {newer}"))),
        }
    }

    /// Changes the records under a lock, which makes other changes wait.
    pub fn update<T>(path: Option<&Path>, change: impl FnOnce(&mut Self) -> T) -> Result<T, Error> {
        let path = path.ok_or(Error::NoPlace)?;
        let fault = |source| Error::File { path: path.to_owned(), source };
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        durable_folder::make(folder).map_err(fault)?;
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let lock = options.create(true).open(path.with_extension("lock")).map_err(fault)?;
        lock.lock().map_err(fault)?;
        let mut records = Self::read(Some(path))?;
        let result = change(&mut records);
        let text = serde_json::to_vec_pretty(&records).map_err(|error| fault(error.into()))?;
        // They could not be read again, and every agreement would be lost.
        if u64::try_from(text.len()).unwrap_or(u64::MAX) >= MAX_BYTES {
            return Err(Error::Full { path: path.to_owned() });
        }
        private_file::new_in(folder, &text).map_err(fault)?.persist(path).map_err(|error| fault(error.error))?;
        durable_folder::sync(folder).map_err(fault)?;
        Ok(result)
    }

    /// Whether a person agreed to the settings in `folder`, by the digest of their asks.
    pub fn settings(&self, folder: &str, digest: Digest) -> Consent<'_> {
        match self.settings.get(folder) {
            None => Consent::Unknown,
            Some(agreed) if agreed.digest == digest => Consent::Agreed(agreed),
            Some(agreed) => Consent::Changed(agreed),
        }
    }

    /// Whether a person agreed to the workflow in `file`, by the digest of its definition and that of its asks. An
    /// agreement to a person's own workflow covers what the file holds now: `is_current` says whether that is this
    /// definition.
    pub fn workflow(&self, file: &str, definition: Digest, asks: Digest, is_current: bool) -> Consent<'_> {
        let agreed = self.workflows.get(file).map(Vec::as_slice).unwrap_or_default();
        let is_this = |agreed: &&Agreement| {
            if agreed.own {
                is_current && agreed.digest == asks
            } else {
                // The grants of the settings may have grown since.
                agreed.digest == definition && lasting(&agreed.asks).is_ok_and(|before| before == asks)
            }
        };
        match agreed.iter().rev().find(is_this) {
            Some(agreed) => Consent::Agreed(agreed),
            None => agreed.last().map_or(Consent::Unknown, Consent::Changed),
        }
    }

    pub fn agree_to_workflow(&mut self, file: String, agreement: Agreement) {
        let agreed = self.workflows.entry(file).or_default();
        agreed.retain(|old| old.digest != agreement.digest);
        agreed.push(agreement);
        let too_many = agreed.len().saturating_sub(MAX_AGREEMENTS);
        agreed.drain(..too_many);
    }

    pub fn revoke_workflow(&mut self, file: &str) -> bool {
        self.workflows.remove(file).is_some()
    }

    pub fn all_workflows(&self) -> impl Iterator<Item = (&str, &Agreement)> {
        self.workflows.iter().filter_map(|(file, agreed)| Some((file.as_str(), agreed.last()?)))
    }

    /// The tools of a pinned server that no model is offered, a sentence each.
    pub fn left_out(&self, server: &str) -> &[String] {
        self.left_out.get(server).map_or(&[], Vec::as_slice)
    }

    /// Pins the tools of a server, beside those that no model is offered.
    pub fn pin(&mut self, server: String, pins: BTreeMap<String, Pin>, left_out: Vec<String>) {
        self.left_out.remove(&server);
        if !left_out.is_empty() {
            self.left_out.insert(server.clone(), left_out);
        }
        self.servers.insert(server, pins);
    }
}

/// The part common to every version of the file.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Checks that no other user can have written the records.
fn believed(path: &Path, file: &File) -> Result<(), Error> {
    let about = file.metadata().map_err(|source| Error::File { path: path.to_owned(), source })?;
    let refused = |what| Err(Error::Unsafe { path: path.to_owned(), what });
    if !about.is_file() {
        return refused("this is not a plain file");
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        return refused("the file belongs to another user");
    }
    if about.mode() & 0o022 != 0 {
        return refused("others can write the file; close it with chmod 600");
    }
    // A user who can write to the folder can replace the file.
    let folder = path.parent().map(std::fs::metadata).transpose();
    let folder = folder.map_err(|source| Error::File { path: path.to_owned(), source })?;
    match folder {
        Some(folder) if folder.mode() & 0o022 != 0 => {
            refused("others can write the folder that it lies in; close that with chmod 700")
        }
        _ => Ok(()),
    }
}

/// The key of a server: its name, and a digest of its command or address, because another project may use the same
/// name for another server. It is a digest because an argument or an address may contain a key.
pub fn server_key(name: &str, command: &[String], url: Option<&str>) -> String {
    let place = url.map_or_else(|| format!("{command:?}"), str::to_owned);
    format!("{name} {}", Digest::sha256(place.as_bytes()))
}

#[cfg(test)]
mod tests;
