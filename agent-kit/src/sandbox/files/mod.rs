//! Files beneath a folder.
//!
//! A [`Workspace`] is a folder and what the operator grants in it. Every path that a caller names is walked from the
//! handle of that folder one name at a time. The system never follows a link: links are read here and walked in the same
//! way, so that each rule is asked of the path that a name really leads to, and swapping a name for a link between two
//! steps makes the next step fail.
//!
//! Laws:
//! - Nothing outside the workspace and the granted folders is opened, listed, created or removed.
//! - What is hidden is out of reach under every name: by path whatever its case, and by device and inode, so that a hard
//!   link and a second mount are known. A hidden path that is a link is hidden itself and where it leads.
//! - Protected names ([`PROTECTED`](super::PROTECTED) unless the operator says otherwise) are held at any depth below
//!   what is granted: `.git` and `.rondo` are hidden, with every folder that git would take for a repository, and no
//!   folder is made one; the others, such as `rondo.toml`, are not written.
//! - Only regular files are opened. A FIFO, a device or a socket is refused before it is opened; if one takes a file's
//!   place in between, opening it does not wait and nothing is read from it.
//! - What is written is what was named: no link is followed for writing, and a file is replaced as a whole or stays as
//!   it was. Its other hard links keep the old text, so that a link made to a file elsewhere changes nothing there.
//! - What is read is bounded by the caller, not by the size that a file claims.
//!
//! Two things cannot be told: a hard link to a file *inside* a hidden folder, because whoever can make one has reached
//! into that folder by other means; and a second mount of a folder that is protected by its name alone.
//!
//! Whatever a caller gets to see has a [`Stamp`]: that of each file opened and each folder listed. A [`Watch`] notes
//! them, and names that are not there, so that whoever keeps a result can ask later whether all of it
//! [validity](Workspace::still) stands as it did. What a file system does not tell is not known: a program that changes a
//! file through a page that it has mapped and changed before leaves the file's times as they are.
//!
//! Opening a name without following it is not in cap-std's public interface, so that one step is rustix's `openat`; see
//! `step.rs`. This module knows nothing of tools, and of no file's content.

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
pub use folder::{Entry, Folder, Listing};
pub use name::escaped;
pub use passage::Opened;
pub(crate) use read_entries::ReadEntries;
pub use stamp::{Kind, Stamp};
pub use target::{Target, Written};
pub use validity::{Reach, ReadSetValidity};
pub use watch::Watch;

use super::names::Names;
use super::objects::names_of;
use super::protected::protected;
use name::Lexical;
use passage::Passage;
use rules::Rules;

/// What the operator grants, and what stays out of reach. Relative paths begin at the workspace's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Folders and files that may be read. What lies outside the root is named by its absolute path; what does not exist
    /// when the workspace is opened grants nothing.
    pub read: Vec<PathBuf>,
    /// Folders and files that may be written.
    pub write: Vec<PathBuf>,
    /// Out of reach with everything below, whether it exists yet or not. Of a link both it and what it leads to.
    pub hidden: Vec<PathBuf>,
    /// Read as far as granted, and never written, with everything below, whether it exists yet or not.
    pub read_only: Vec<PathBuf>,
    /// Names and relative paths that are protected at any depth below what is granted; `*` is any part of one name.
    /// What [`PROTECTED`](super::PROTECTED) lists is held as it says there, any other is not written.
    pub protected: Vec<String>,
}

impl Default for Access {
    /// Nothing is granted, and the shipped names are protected.
    fn default() -> Self {
        let none = Vec::new;
        Self { read: none(), write: none(), hidden: none(), read_only: none(), protected: protected() }
    }
}

/// A folder, and what may be done in it.
#[derive(Debug)]
pub struct Workspace {
    /// The workspace's own folder first, then those that grants lead to elsewhere.
    roots: Arc<[Root]>,
    rules: Arc<Rules>,
    /// Who notes what is looked at.
    watch: Option<Watch>,
}

/// A folder that a walk begins at.
#[derive(Debug)]
struct Root {
    dir: Dir,
    /// Where it really is.
    path: PathBuf,
    /// How the operator wrote it.
    given: PathBuf,
}

impl Root {
    fn open(given: &Path) -> Result<Self, Error> {
        let fault = |source| Error::System { path: escaped(given), doing: "open the folder", source };
        let path = given.canonicalize().map_err(fault)?;
        let dir = Dir::open_ambient_dir(&path, ambient_authority()).map_err(fault)?;
        // The handle that cap-std gives cannot be listed or synced, one opened from it can.
        let dir = step::reopened(&dir).map_err(fault)?;
        Ok(Self { dir, path, given: given.to_owned() })
    }
}

impl Workspace {
    /// Opens a folder.
    ///
    /// # Errors
    /// When there is no such folder, or when it is itself out of reach.
    pub fn open(root: &Path, access: Access) -> Result<Self, Error> {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let mut roots = vec![Root::open(&root)?];
        let Access { read, write, hidden, read_only, protected } = access;
        let mut elsewhere = Vec::new();
        let mut granted = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            let real = paths.iter().filter_map(|path| root.join(path).canonicalize().ok().map(|real| (path, real)));
            real.map(|(path, real)| {
                elsewhere.push((root.join(path), real.clone()));
                real
            })
            .collect()
        };
        let names = |path: &Path| names_of(&root.join(path));
        let mut rules = Rules {
            read: granted(read),
            write: granted(write),
            // The workspace's own `.git` is hidden whatever names are, and is known by its inode too.
            hidden: hidden.iter().map(PathBuf::as_path).chain([Path::new(".git")]).flat_map(names).collect(),
            read_only: read_only.iter().map(PathBuf::as_path).flat_map(names).collect(),
            names: Names::new(&protected),
            roots: Vec::new(),
        };
        let home = roots.first().map(|root| root.path.clone()).unwrap_or_default();
        for (given, real) in elsewhere {
            if real.starts_with(&home) {
                continue;
            }
            // A file is reached through its folder, in which nothing else is granted.
            let folder = if real.is_dir() { Some(given.as_path()) } else { given.parent() };
            roots.extend(folder.map(Root::open).transpose()?);
        }
        // One that is granted elsewhere grants nothing when it is out of reach: no path leads into it.
        let repositories = roots.iter().filter(|root| rules.closes_repository(&root.dir));
        let repositories: Vec<PathBuf> = repositories.map(|root| root.path.clone()).collect();
        rules.hidden.extend(repositories);
        if rules.hides(&home) {
            return Err(Error::Hidden(escaped(&home)));
        }
        rules.roots = [&home].into_iter().chain(&rules.read).chain(&rules.write).cloned().collect();
        Ok(Self { roots: roots.into(), rules: Arc::new(rules), watch: None })
    }

    /// The folder, where it really is.
    pub fn path(&self) -> &Path {
        self.roots.first().map_or(Path::new(""), |root| &root.path)
    }

    /// What a caller's path means before any link is looked at: relative to the root, with `/` between its parts, `.`
    /// for the root itself; absolute when it lies elsewhere.
    ///
    /// # Errors
    /// When it cannot be a path here: empty, too long, with a NUL byte, or leading out.
    pub fn normalized(&self, path: &str) -> Result<String, Error> {
        let (root, parts) = self.lexical(path)?;
        Ok(self.shown(&root.path.join(parts.iter().collect::<PathBuf>())))
    }

    /// Opens what a path leads to for reading: links are followed as long as they stay within what is granted.
    ///
    /// # Errors
    /// When it is not there, not granted, out of reach, or neither a file nor a folder.
    pub fn find(&self, path: &str) -> Result<Opened<'_>, Error> {
        let (root, parts) = self.lexical(path).inspect_err(|_| self.unnoted())?;
        let asked = root.path.join(parts.iter().collect::<PathBuf>());
        let found = Passage::new(self, path, root).walk(parts);
        self.note_found(&asked, found.as_ref());
        found
    }

    /// Opens a file for reading, as [`Workspace::find`].
    ///
    /// # Errors
    /// As [`Workspace::find`], and when it is a folder.
    pub fn file(&self, path: &str) -> Result<OpenFile, Error> {
        match self.find(path)? {
            Opened::File(file) => Ok(file),
            Opened::Folder(_) => {
                Err(Error::Kind { path: path.to_owned(), kind: Kind::Folder, wanted: "a file is needed" })
            }
        }
    }

    /// Looks at where a file is to be written. Nothing is changed yet.
    ///
    /// # Errors
    /// When it may not be written, when a part of its path is a link, or when something else than a regular file stands
    /// there.
    pub fn target(&self, path: &str) -> Result<Target<'_>, Error> {
        // A write is more than a look.
        self.unnoted();
        let (root, parts) = self.lexical(path)?;
        Target::find(self, path, root, &parts)
    }

    /// The same workspace, with nothing noted.
    fn unwatched(&self) -> Self {
        Self { roots: Arc::clone(&self.roots), rules: Arc::clone(&self.rules), watch: None }
    }

    /// A path in the words of the workspace: relative where it can be, and printable.
    fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(self.path()) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => escaped(rest),
            Err(_) => escaped(path),
        }
    }

    /// The root that a path begins at, and the names below it.
    fn lexical(&self, path: &str) -> Result<(&Root, Vec<std::ffi::OsString>), Error> {
        let outside = || Error::Outside(path.to_owned());
        match Lexical::read(path)? {
            Lexical::Relative(parts) => Ok((self.roots.first().ok_or_else(outside)?, parts)),
            Lexical::Absolute(whole) => {
                let (root, rest) = self.beneath(&whole).ok_or_else(outside)?;
                Ok((root, name::parts(&rest)))
            }
        }
    }

    /// The nearest root above an absolute path, and what follows.
    fn beneath(&self, whole: &Path) -> Option<(&Root, PathBuf)> {
        let spelled = self.roots.iter().flat_map(|root| [(root, &root.path), (root, &root.given)]);
        let below = spelled.filter_map(|(root, at)| Some((root, whole.strip_prefix(at).ok()?.to_owned())));
        below.min_by_key(|(_, rest)| rest.components().count())
    }
}
