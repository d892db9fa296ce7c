use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::rules::Identities;
use super::{Error, OpenFile, Stamp, Workspace, step};

/// The most entries of one folder that are looked at.
const ENTRIES_MAX: usize = 50_000;

/// A folder, open for reading.
#[derive(Debug)]
pub struct Folder<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) dir: Dir,
    /// Where it really is.
    pub(super) real: PathBuf,
    pub(super) stamp: Stamp,
    pub(super) hidden: Arc<Identities>,
}

/// What stands in a folder.
#[derive(Debug)]
pub struct Listing {
    /// Sorted by the bytes of their names, without what is out of reach.
    pub entries: Vec<Entry>,
    /// Whether there are more than were looked at.
    pub is_cut: bool,
}

/// One name in a folder.
#[derive(Debug)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// What stands there.
    pub stamp: Stamp,
}

impl<'a> Folder<'a> {
    /// Its path in the words of the workspace.
    pub fn path(&self) -> String {
        self.workspace.shown(&self.real)
    }

    /// Where it really is. This is for comparing names: nothing is opened by it.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// What it was when it was opened.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The path of one of its names, in the words of the workspace.
    pub fn path_of(&self, name: &OsStr) -> String {
        self.workspace.shown(&self.real.join(name))
    }

    /// Lists it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn list(&self) -> Result<Listing, Error> {
        let fault = |source| Error::System { path: self.path(), doing: "list", source };
        let mut listing = Listing { entries: Vec::new(), is_cut: false };
        for (looked_at, entry) in self.dir.entries().map_err(fault)?.enumerate() {
            if looked_at == ENTRIES_MAX {
                listing.is_cut = true;
                break;
            }
            let name = entry.map_err(fault)?.file_name();
            let path = self.real.join(&name);
            let rules = &self.workspace.rules;
            if rules.hides(&path) || !(rules.may_read(&path) || rules.leads_to_readable(&path)) {
                continue;
            }
            // A name that is gone again is not listed.
            let Ok(stamp) = step::look(&self.dir, &name) else { continue };
            if !self.hidden.hold(&stamp) {
                listing.entries.push(Entry { name, stamp });
            }
        }
        listing.entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(listing)
    }

    /// Opens a folder in it; a link is not followed.
    ///
    /// # Errors
    /// When it is not a folder, not granted or out of reach.
    pub fn folder(&self, name: &OsStr) -> Result<Folder<'a>, Error> {
        let real = self.real.join(name);
        let path = self.workspace.shown(&real);
        let rules = &self.workspace.rules;
        if rules.hides(&real) {
            return Err(Error::Hidden { path });
        }
        if !(rules.may_read(&real) || rules.leads_to_readable(&real)) {
            return Err(Error::NotGranted { path, access: "read" });
        }
        let open = step::folder(&self.dir, name).and_then(|dir| Ok((step::stamp(&dir)?, dir)));
        let (stamp, dir) = open.map_err(|source| Error::System { path: path.clone(), doing: "open", source })?;
        if self.hidden.hold(&stamp) {
            return Err(Error::Hidden { path });
        }
        Ok(Folder { workspace: self.workspace, dir, real, stamp, hidden: Arc::clone(&self.hidden) })
    }

    /// Opens a file in it; a link is not followed.
    ///
    /// # Errors
    /// When it is not a regular file, not granted or out of reach.
    pub fn file(&self, name: &OsStr) -> Result<OpenFile, Error> {
        let real = self.real.join(name);
        let path = self.workspace.shown(&real);
        let rules = &self.workspace.rules;
        if rules.hides(&real) {
            return Err(Error::Hidden { path });
        }
        if !rules.may_read(&real) {
            return Err(Error::NotGranted { path, access: "read" });
        }
        OpenFile::open(&self.dir, name, path, &self.hidden)
    }

    /// Where a link in it says that it leads.
    ///
    /// # Errors
    /// When it is not a link.
    pub fn link(&self, name: &OsStr) -> Result<PathBuf, Error> {
        let read = self.dir.read_link_contents(name);
        read.map_err(|source| Error::System { path: self.path_of(name), doing: "read the link", source })
    }
}
