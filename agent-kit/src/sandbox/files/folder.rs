use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use cap_std::fs::Dir;
use rondo_protocol::digest::{Digest, Hasher};
use rondo_protocol::read_set::ReadKind;

use super::rules::Identities;
use super::{Error, Kind, OpenFile, Stamp, Workspace, step};

const ENTRIES_MAX: usize = 50_000;

/// A folder, open for reading.
#[derive(Debug)]
pub struct Folder<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) dir: Dir,
    pub(super) real: PathBuf,
    pub(super) stamp: Stamp,
    pub(super) hidden: Arc<Identities>,
}

#[derive(Debug)]
pub struct Listing {
    /// Sorted by the bytes of their names, without inaccessible ones.
    pub entries: Vec<FolderEntry>,
    pub is_cut: bool,
}

#[derive(Debug)]
pub struct FolderEntry {
    pub name: OsString,
    pub stamp: Stamp,
    /// The target of a link, if readable.
    pub target: Option<PathBuf>,
}

impl Listing {
    /// The digest of names, kinds, file sizes and link targets.
    pub(super) fn digest(&self) -> Digest {
        let mut hasher = Hasher::default();
        for FolderEntry { name, stamp, target } in &self.entries {
            // The size of a folder is not defined.
            let size_bytes = if stamp.kind == Kind::File { stamp.mark.size_bytes } else { 0 };
            // Names and targets contain no NUL, so the encoding is unambiguous.
            hasher.update(name.as_bytes());
            hasher.update(&[0, stamp.kind as u8]);
            hasher.update(&size_bytes.to_le_bytes());
            hasher.update(target.as_ref().map_or(b"", |target| target.as_os_str().as_bytes()));
            hasher.update(&[0]);
        }
        hasher.finish()
    }
}

impl<'a> Folder<'a> {
    /// Its path for display.
    pub fn path(&self) -> String {
        self.workspace.shown(&self.real)
    }

    /// Its real path, for comparing names only: nothing is opened by it.
    pub fn real(&self) -> &Path {
        &self.real
    }

    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    pub fn path_of(&self, name: &OsStr) -> String {
        self.workspace.shown(&self.real.join(name))
    }

    pub fn list(&self) -> Result<Listing, Error> {
        let listing = self.list_until(None);
        match &listing {
            Ok(listing) if !listing.is_cut => {
                self.workspace.note(&self.real, ReadKind::Listing, Some(self.stamp.mark), Some(listing.digest()));
            }
            _ => self.workspace.unnoted(),
        }
        listing
    }

    /// Lists it without recording; cut at `until`.
    pub(super) fn list_until(&self, until: Option<Instant>) -> Result<Listing, Error> {
        let fault = |source| Error::System { path: self.path(), doing: "list", source };
        let mut listing = Listing { entries: Vec::new(), is_cut: false };
        for (looked_at, entry) in self.dir.entries().map_err(fault)?.enumerate() {
            if looked_at == ENTRIES_MAX || until.is_some_and(|until| Instant::now() >= until) {
                listing.is_cut = true;
                break;
            }
            let name = entry.map_err(fault)?.file_name();
            let path = self.real.join(&name);
            let rules = &self.workspace.rules;
            if rules.hides(&path) || !(rules.may_read(&path) || rules.leads_to_readable(&path)) {
                continue;
            }
            // A name removed meanwhile is left out.
            let Ok(stamp) = step::look(&self.dir, &name) else { continue };
            if !self.hidden.hold(&stamp) {
                let target = if stamp.kind == Kind::Link { self.dir.read_link_contents(&name).ok() } else { None };
                listing.entries.push(FolderEntry { name, stamp, target });
            }
        }
        listing.entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(listing)
    }

    /// Opens a subfolder. A link is not followed.
    pub fn folder(&self, name: &OsStr) -> Result<Folder<'a>, Error> {
        let folder = self.enter(name).inspect_err(|_| self.workspace.unnoted())?;
        self.workspace.note(&folder.real, ReadKind::Folder, Some(folder.stamp.mark), None);
        Ok(folder)
    }

    fn enter(&self, name: &OsStr) -> Result<Folder<'a>, Error> {
        let real = self.real.join(name);
        let path = self.workspace.shown(&real);
        let rules = &self.workspace.rules;
        if rules.hides(&real) {
            return Err(Error::Hidden(path));
        }
        if !(rules.may_read(&real) || rules.leads_to_readable(&real)) {
            return Err(Error::NotGranted { path, access: "read" });
        }
        let open = step::folder(&self.dir, name).and_then(|dir| Ok((step::stamp(&dir)?, dir)));
        let (stamp, dir) = open.map_err(|source| Error::System { path: path.clone(), doing: "open", source })?;
        if self.hidden.hold(&stamp) || rules.closes_repository(&dir) {
            return Err(Error::Hidden(path));
        }
        Ok(Folder { workspace: self.workspace, dir, real, stamp, hidden: Arc::clone(&self.hidden) })
    }

    /// Opens a file in it. A link is not followed.
    pub fn file(&self, name: &OsStr) -> Result<OpenFile, Error> {
        let real = self.real.join(name);
        let file = self.open(name, &real);
        if let Err(error) = &file {
            self.workspace.note(&real, ReadKind::Absent, None, error.reason());
        }
        file
    }

    fn open(&self, name: &OsStr, real: &Path) -> Result<OpenFile, Error> {
        let rules = &self.workspace.rules;
        if rules.hides(real) {
            return Err(Error::Hidden(self.workspace.shown(real)));
        }
        if !rules.may_read(real) {
            return Err(Error::NotGranted { path: self.workspace.shown(real), access: "read" });
        }
        self.workspace.opened(&self.dir, name, real, &self.hidden)
    }
}
