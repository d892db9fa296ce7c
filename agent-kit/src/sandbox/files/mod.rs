//! Access to files beneath a folder.
//!
//! A [`Workspace`] is a folder and what the operator grants in it. Every path is walked from the handle of that folder
//! one name at a time. The system never follows a link: links are read here and walked in the same way, so that each
//! rule is checked on the real path, and replacing a name by a link between two steps makes the next step fail.
//!
//! Laws:
//! - Nothing outside the workspace and the granted folders is opened, listed, created or removed.
//! - A hidden path is inaccessible under every name: by path in any case, and by device and inode, so that a hard link
//!   or a second mount does not help. A hidden link is hidden itself and so is its target.
//! - Protected names ([`PROTECTED`](super::PROTECTED) by default) are protected at any depth below what is granted:
//!   `.git` and `.rondo` are hidden, with every folder that git accepts as a repository, and no folder can be turned
//!   into one; the others, such as `rondo.toml`, are read-only.
//! - Only regular files are opened. A FIFO, a device or a socket is refused before it is opened; if one replaces a file
//!   meanwhile, opening it does not block and nothing is read from it.
//! - The named file is the one written: no link is followed for writing, and a file is replaced as a whole or stays as
//!   it was. Its other hard links keep the old content, so that a hard link to a file elsewhere changes nothing there.
//! - Reads are limited by the caller, not by the reported size of a file.
//!
//! Two things cannot be detected: a hard link to a file *inside* a hidden folder, because making one requires access to
//! that folder; and a second mount of a folder that is protected by name alone.
//!
//! Everything returned has a [`Stamp`]: that of each opened file and each listed folder. A [`Watch`] records them, and
//! missing names, so that a cached result can be [checked](Workspace::validity) later. What a file system does not
//! report is not detected: a program that changes a file through a memory map changed before leaves its times as they
//! are.
//!
//! cap-std has no public way to open a name without following it, so that one step is rustix's `openat`; see `step.rs`.
//! This module knows nothing of tools or of file contents.

mod error;
mod file;
mod folder;
mod name;
mod passage;
mod read_entries;
mod rules;
mod stamp;
mod step;
mod target;
mod validity;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

pub use error::Error;
pub use file::OpenFile;
pub use folder::{Folder, FolderEntry, Listing};
pub use name::escaped;
pub use passage::Opened;
pub(crate) use read_entries::ReadEntries;
pub use stamp::{Kind, Stamp};
pub use target::Target;
pub use validity::{Reach, ReadSetValidity};
pub use watch::Watch;

use super::names::Names;
use super::objects::names_of;
use super::protected::protected;
use passage::Passage;
use rules::Rules;

/// What the operator grants, and what is inaccessible. Relative paths begin at the workspace's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Folders and files that may be read. Those outside the root are named by absolute path; missing ones are ignored
    /// when the workspace is opened.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Inaccessible with everything below, whether or not it exists yet; a link and its target.
    pub hidden: Vec<PathBuf>,
    /// Never written, with everything below, whether or not it exists yet.
    pub read_only: Vec<PathBuf>,
    /// Names and relative paths that are protected at any depth below what is granted; `*` matches any part of one
    /// name. Protected as [`PROTECTED`](super::PROTECTED) says, or else read-only.
    pub protected: Vec<String>,
}

impl Default for Access {
    /// Grants nothing and protects the default names.
    fn default() -> Self {
        let none = Vec::new;
        Self { read: none(), write: none(), hidden: none(), read_only: none(), protected: protected() }
    }
}

#[derive(Debug)]
pub struct Workspace {
    /// The workspace's own folder, then those that grants outside it name.
    roots: Arc<[Root]>,
    rules: Arc<Rules>,
    watch: Option<Watch>,
}

/// A folder at which walks begin.
#[derive(Debug)]
struct Root {
    dir: Dir,
    path: PathBuf,
    /// As the operator wrote it.
    given: PathBuf,
}

impl Root {
    fn open(given: &Path) -> Result<Self, Error> {
        let fault = |source| Error::System { path: escaped(given), doing: "open the folder", source };
        let path = given.canonicalize().map_err(fault)?;
        let dir = Dir::open_ambient_dir(&path, ambient_authority()).map_err(fault)?;
        // A handle from cap-std cannot be listed or synced, one opened from it can.
        let dir = step::reopened(&dir).map_err(fault)?;
        Ok(Self { dir, path, given: given.to_owned() })
    }
}

impl Workspace {
    pub fn open(root: &Path, access: Access) -> Result<Self, Error> {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let mut roots = vec![Root::open(&root)?];
        let Access { read, write, hidden, read_only, protected } = access;
        let mut granted_by = Vec::new();
        let mut granted = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            let given = paths.iter().map(|path| root.join(path));
            let real: Vec<_> = given.filter_map(|given| Some((given.canonicalize().ok()?, given))).collect();
            granted_by.extend(real.iter().cloned());
            real.into_iter().map(|(real, _)| real).collect()
        };
        let names = |path: &Path| names_of(&root.join(path));
        let mut rules = Rules {
            read: granted(read),
            write: granted(write),
            // The workspace's own `.git` is always hidden, also by its inode.
            hidden: hidden.iter().map(PathBuf::as_path).chain([Path::new(".git")]).flat_map(names).collect(),
            read_only: read_only.iter().map(PathBuf::as_path).flat_map(names).collect(),
            names: Names::new(&protected),
            roots: Vec::new(),
        };
        let home = roots.first().map(|root| root.path.clone()).unwrap_or_default();
        for (real, given) in granted_by {
            if real.starts_with(&home) {
                continue;
            }
            // A file is accessed through its folder, in which nothing else is granted.
            let folder = if real.is_dir() { Some(given.as_path()) } else { given.parent() };
            roots.extend(folder.map(Root::open).transpose()?);
        }
        // A granted repository elsewhere stays inaccessible.
        let repositories = roots.iter().filter(|root| rules.closes_repository(&root.dir));
        let repositories: Vec<PathBuf> = repositories.map(|root| root.path.clone()).collect();
        rules.hidden.extend(repositories);
        if rules.hides(&home) {
            return Err(Error::Hidden(escaped(&home)));
        }
        rules.roots = [&home].into_iter().chain(&rules.read).chain(&rules.write).cloned().collect();
        Ok(Self { roots: roots.into(), rules: Arc::new(rules), watch: None })
    }

    /// The real path of the folder.
    pub fn path(&self) -> &Path {
        self.roots.first().map_or(Path::new(""), |root| &root.path)
    }

    /// Normalizes a caller's path without resolving links: relative to the root, with `/` between its parts, `.` for
    /// the root itself; absolute if it is elsewhere.
    pub fn normalized(&self, path: &str) -> Result<String, Error> {
        let (root, below) = self.lexical(path)?;
        Ok(self.shown(&root.path.join(below)))
    }

    /// Opens a path for reading. Links are followed within what is granted.
    pub fn find(&self, path: &str) -> Result<Opened<'_>, Error> {
        let (root, below) = self.lexical(path).inspect_err(|_| self.unnoted())?;
        let asked = root.path.join(&below);
        let found = Passage::new(self, path, root, &below).walk();
        self.note_found(&asked, found.as_ref());
        found
    }

    pub fn file(&self, path: &str) -> Result<OpenFile, Error> {
        match self.find(path)? {
            Opened::File(file) => Ok(file),
            Opened::Folder(_) => {
                Err(Error::Kind { path: path.to_owned(), kind: Kind::Folder, wanted: "a file is needed" })
            }
        }
    }

    /// Prepares to write a file, without changing anything.
    pub fn target(&self, path: &str) -> Result<Target<'_>, Error> {
        // A write cannot be recorded as a read.
        self.unnoted();
        let (root, below) = self.lexical(path)?;
        Target::find(self, path, root, &below)
    }

    /// The same workspace without a record.
    fn unwatched(&self) -> Self {
        Self { roots: Arc::clone(&self.roots), rules: Arc::clone(&self.rules), watch: None }
    }

    /// A path for display: relative where possible, and printable.
    fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(self.path()) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => escaped(rest),
            Err(_) => escaped(path),
        }
    }

    /// The root at which a path begins, and the names below it.
    fn lexical(&self, path: &str) -> Result<(&Root, PathBuf), Error> {
        let whole = name::lexical(path)?;
        let found =
            if whole.is_absolute() { self.beneath(&whole) } else { self.roots.first().map(|root| (root, whole)) };
        found.ok_or_else(|| Error::Outside(path.to_owned()))
    }

    /// The nearest root above an absolute path, and what follows.
    fn beneath(&self, whole: &Path) -> Option<(&Root, PathBuf)> {
        let spelled = self.roots.iter().flat_map(|root| [(root, &root.path), (root, &root.given)]);
        let below = spelled.filter_map(|(root, at)| Some((root, whole.strip_prefix(at).ok()?.to_owned())));
        below.min_by_key(|(_, rest)| rest.components().count())
    }
}
