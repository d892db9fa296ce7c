//! Trust records: what a person agreed to, and what tools each server offered when it was first used.
//!
//! They are kept in a file of the user, outside every project, so that no project can agree to itself and no tool can
//! reach them. Settings are known by their folder and what they ask for; a workflow by its file and its definition, or,
//! where a person said that it is their own, by what it asks for. A copy elsewhere was not agreed to.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rondo_agent_kit::mcp::Pin;
use rondo_protocol::Digest;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{Ask, lasting};

/// The format of the file. Records of format 1 knew no settings; what they agreed to is asked again.
const VERSION: u32 = 2;

/// The most bytes of the file.
const MAX_BYTES: u64 = 8 << 20;

/// Definitions of one file that stay agreed to.
const MAX_AGREEMENTS: usize = 32;

/// Everything that was agreed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    version: u32,
    /// By the absolute path of the folder that the settings lie in.
    settings: BTreeMap<String, Agreement>,
    /// By the absolute path of the workflow's file, oldest first: a thread goes on with the definition that it was begun
    /// with.
    workflows: BTreeMap<String, Vec<Agreement>>,
    /// By server, as [`server_key`] writes it: its tools when they were last agreed to.
    servers: BTreeMap<String, BTreeMap<String, Pin>>,
}

/// What a person agreed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Of settings and of a person's own workflow the digest of what it asks for, else that of the workflow's definition
    /// and policy.
    pub digest: Digest,
    /// Whether the workflow is the person's own.
    pub own: bool,
    /// What it asked for.
    pub asks: Vec<Ask>,
    /// When, in Unix milliseconds.
    pub agreed_at_ms: u64,
}

/// Whether a person agreed to something.
#[derive(Debug, Clone, PartialEq)]
pub enum Consent<'a> {
    /// It was never agreed to.
    Unknown,
    /// It is as it was when a person agreed.
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
    /// Others can write the file.
    #[error("the trust records {} are not believed: {what}", path.display())]
    Unsafe {
        /// Which.
        path: PathBuf,
        /// Why.
        what: &'static str,
    },
    /// There is no place for them.
    #[error(
        "there is no place for trust records: set XDG_DATA_HOME or HOME; `--trust` agrees for one run without them"
    )]
    NoPlace,
}

impl Default for Records {
    fn default() -> Self {
        Self { version: VERSION, settings: BTreeMap::new(), workflows: BTreeMap::new(), servers: BTreeMap::new() }
    }
}

impl Records {
    /// Reads the records; none where there is no file.
    ///
    /// # Errors
    /// When the file is there and cannot be used: then nothing is taken for agreed.
    pub fn read(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::default()) };
        let fault = |source| Error::File { path: path.to_owned(), source };
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(error) => return Err(fault(error)),
        };
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

    /// Changes the records under a lock: other changes wait.
    ///
    /// # Errors
    /// As [`read`](Self::read), or when the file cannot be written; then it is as it was.
    pub fn update<T>(path: Option<&Path>, change: impl FnOnce(&mut Self) -> T) -> Result<T, Error> {
        let path = path.ok_or(Error::NoPlace)?;
        let fault = |source| Error::File { path: path.to_owned(), source };
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fault)?;
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let lock = options.clone().create(true).open(path.with_extension("lock")).map_err(fault)?;
        lock.lock().map_err(fault)?;
        let mut book = Self::read(Some(path))?;
        let result = change(&mut book);
        let text = serde_json::to_vec_pretty(&book).map_err(|error| fault(error.into()))?;
        let new = path.with_extension("new");
        // Left by a process that was killed, perhaps with another mode.
        let _ = std::fs::remove_file(&new);
        let mut file = options.create_new(true).open(&new).map_err(fault)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(fault)?;
        std::fs::rename(&new, path).map_err(fault)?;
        Ok(result)
    }

    /// Whether a person agreed to the settings in `folder`, by the digest of what they ask for.
    pub fn settings(&self, folder: &str, digest: Digest) -> Consent<'_> {
        match self.settings.get(folder) {
            None => Consent::Unknown,
            Some(agreed) if agreed.digest == digest => Consent::Agreed(agreed),
            Some(agreed) => Consent::Changed(agreed),
        }
    }

    /// Whether a person agreed to the workflow in `file`, by the digest of its definition and that of what it asks for. An agreement to a
    /// person's own workflow is one to what the file holds now: `is_current` says whether that is this definition.
    pub fn workflow(&self, file: &str, definition: Digest, asks: Digest, is_current: bool) -> Consent<'_> {
        let agreed = self.workflows.get(file).map(Vec::as_slice).unwrap_or_default();
        let is_this = |agreed: &&Agreement| {
            if agreed.own {
                is_current && agreed.digest == asks
            } else {
                // What settings grant may have grown since.
                agreed.digest == definition && lasting(&agreed.asks).is_ok_and(|before| before == asks)
            }
        };
        match agreed.iter().rev().find(is_this) {
            Some(agreed) => Consent::Agreed(agreed),
            None => agreed.last().map_or(Consent::Unknown, Consent::Changed),
        }
    }

    /// Records that a person agreed to the settings in `folder`.
    pub fn agree_to_settings(&mut self, folder: String, agreement: Agreement) {
        self.settings.insert(folder, agreement);
    }

    /// Records that a person agreed to the workflow in `file`.
    pub fn agree_to_workflow(&mut self, file: String, agreement: Agreement) {
        let agreed = self.workflows.entry(file).or_default();
        agreed.retain(|old| old.digest != agreement.digest);
        agreed.push(agreement);
        let too_many = agreed.len().saturating_sub(MAX_AGREEMENTS);
        agreed.drain(..too_many);
    }

    /// Takes back what was agreed to of the settings in `folder`: whether there was something.
    pub fn revoke_settings(&mut self, folder: &str) -> bool {
        self.settings.remove(folder).is_some()
    }

    /// Takes back what was agreed to of the workflow in `file`: whether there was something.
    pub fn revoke_workflow(&mut self, file: &str) -> bool {
        self.workflows.remove(file).is_some()
    }

    /// Every folder whose settings were agreed to.
    pub fn all_settings(&self) -> impl Iterator<Item = (&str, &Agreement)> {
        self.settings.iter().map(|(folder, agreed)| (folder.as_str(), agreed))
    }

    /// Every workflow that was agreed to, with what was agreed to last.
    pub fn all_workflows(&self) -> impl Iterator<Item = (&str, &Agreement)> {
        self.workflows.iter().filter_map(|(file, agreed)| Some((file.as_str(), agreed.last()?)))
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

/// What every version of the file has.
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
    // Who can write the folder can put another file of the user in its place.
    let folder = path.parent().map(std::fs::metadata).transpose();
    let folder = folder.map_err(|source| Error::File { path: path.to_owned(), source })?;
    match folder {
        Some(folder) if folder.mode() & 0o022 != 0 => {
            refused("others can write the folder that it lies in; close that with chmod 700")
        }
        _ => Ok(()),
    }
}

/// The key of a server: its name, and a digest of what it is started by or where it is, because another project may call
/// another server by the same name. A digest, because an argument or an address may hold a key.
pub fn server_key(name: &str, command: &[String], url: Option<&str>) -> String {
    let place = url.map_or_else(|| format!("{command:?}"), str::to_owned);
    format!("{name} {}", Digest::sha256(place.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::Kind;
    use super::*;

    fn agreement(digest: &str, own: bool) -> Agreement {
        let asks = vec![Ask::new(Kind::Tool, "shell", "for a")];
        Agreement { digest: Digest::sha256(digest.as_bytes()), own, asks, agreed_at_ms: 1 }
    }

    #[test]
    fn what_was_agreed_to_holds_where_it_lies_and_until_it_changes() {
        let of = |text: &str| Digest::sha256(text.as_bytes());
        let mut book = Records::default();
        book.agree_to_settings("/a".into(), agreement("asks", false));
        assert!(matches!(book.settings("/a", of("asks")), Consent::Agreed(_)));
        assert!(matches!(book.settings("/a", of("more")), Consent::Changed(_)));
        assert_eq!(book.settings("/copy", of("asks")), Consent::Unknown);

        let asks = lasting(&agreement("first", false).asks).unwrap();
        book.agree_to_workflow("/w".into(), agreement("first", false));
        book.agree_to_workflow("/w".into(), agreement("second", false));
        for definition in ["first", "second"] {
            let standing = book.workflow("/w", of(definition), asks, false);
            assert!(matches!(standing, Consent::Agreed(_)), "{definition}");
        }
        assert!(matches!(book.workflow("/w", of("third"), asks, true), Consent::Changed(_)));
        assert!(matches!(book.workflow("/w", of("first"), of("more"), true), Consent::Changed(_)), "it asks for more");
        assert_eq!(book.workflow("/copy", of("first"), asks, true), Consent::Unknown);

        book.agree_to_workflow("/own".into(), agreement("asks", true));
        assert!(matches!(book.workflow("/own", of("any definition"), of("asks"), true), Consent::Agreed(_)));
        assert!(matches!(book.workflow("/own", of("another one"), of("asks"), false), Consent::Changed(_)));
        assert!(matches!(book.workflow("/own", of("asks"), of("more"), true), Consent::Changed(_)));
        assert!(book.revoke_workflow("/own") && !book.revoke_workflow("/own"));
    }

    #[test]
    fn records_that_others_can_write_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rondo/trust.json");
        Records::update(Some(&path), |book| book.agree_to_settings("/a".into(), agreement("asks", false))).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Records::read(Some(&path)).unwrap().all_settings().count(), 1);

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(Records::read(Some(&path)), Err(Error::Unsafe { .. })));
        let real = folder.path().join("real.json");
        std::fs::rename(&path, &real).unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        assert!(matches!(Records::read(Some(&path)), Err(Error::File { .. })));
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&real, "{\"version\":1,\"workflows\":{},\"servers\":{}}").unwrap();
        assert_eq!(
            Records::read(Some(&real)).unwrap(),
            Records::default(),
            "what was agreed to in format 1 is asked again"
        );
    }
}
