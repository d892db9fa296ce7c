//! Writes files.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cap_std::fs::Dir;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::rules::Identities;
use super::{Error, Kind, OpenFile, Root, Stamp, Workspace, step};

/// How many temporary names to try. A random collision is practically impossible.
const NAMES_TRIED: usize = 8;
/// The mode of a new file, before the umask.
const MODE_NEW: Mode = Mode::from_bits_retain(0o666);
/// The mode of a replacement until it gets the permissions of the old file.
const MODE_PRIVATE: Mode = Mode::from_bits_retain(0o600);
/// The permissions to keep, without set-user-id etc., which were given to the old content.
const MODE_KEPT: u32 = 0o777;

/// Held while creating a name that can complete a git repository.
static PARTS: Mutex<()> = Mutex::new(());

/// A file to write, and its current state.
#[derive(Debug)]
pub struct Target<'a> {
    workspace: &'a Workspace,
    /// The deepest existing parent.
    parent: Dir,
    /// The missing parents, created with the file.
    missing: Vec<OsString>,
    /// The created folders, with their parents.
    made: Vec<(Dir, OsString)>,
    name: OsString,
    real: PathBuf,
    hidden: Identities,
    existing: Option<Stamp>,
}

impl<'a> Target<'a> {
    pub(super) fn find(workspace: &'a Workspace, named: &str, root: &'a Root, below: &Path) -> Result<Self, Error> {
        let rules = &workspace.rules;
        let hidden = rules.identities();
        let real = root.path.join(below);
        if rules.hides(&real) {
            return Err(Error::Hidden(named.to_owned()));
        }
        if rules.is_read_only(&real) {
            return Err(Error::ReadOnly(named.to_owned()));
        }
        if !rules.may_write(&real) {
            return Err(Error::NotGranted { path: named.to_owned(), access: "written" });
        }
        let Some((folders, name)) = below.parent().zip(below.file_name()) else {
            return Err(Error::Kind { path: named.to_owned(), kind: Kind::Folder, wanted: "name a file in it" });
        };
        if named.ends_with('/') {
            let path = named.to_owned();
            return Err(Error::Path { path, why: "ends with a slash, which names a folder; name a file" });
        }
        let mut target = Self {
            workspace,
            parent: step::reopened(&root.dir).map_err(|source| system(named, "open the root of", source))?,
            missing: Vec::new(),
            made: Vec::new(),
            name: name.to_owned(),
            real,
            hidden,
            existing: None,
        };
        let mut at = root.path.clone();
        for folder in folders {
            at.push(folder);
            target.enter(folder, &at)?;
        }
        target.existing = if target.missing.is_empty() { target.look()? } else { None };
        target.refuse_making(target.missing.first().unwrap_or(&target.name))?;
        Ok(target)
    }

    /// Enters a parent folder, or records that it must be created.
    fn enter(&mut self, folder: &OsStr, at: &Path) -> Result<(), Error> {
        if !self.missing.is_empty() {
            self.missing.push(folder.to_owned());
            return Ok(());
        }
        match step::folder(&self.parent, folder) {
            Ok(dir) => {
                self.parent = dir;
                self.refuse_hidden_parent()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.missing.push(folder.to_owned());
                Ok(())
            }
            Err(error) if step::is_not_a_folder(&error) => {
                let path = self.workspace.shown(at);
                let kind = step::look(&self.parent, folder).map_or(Kind::Other, |stamp| stamp.kind);
                Err(match kind {
                    Kind::Link => Error::Link(path),
                    kind => Error::Kind { path, kind, wanted: "nothing can lie below it" },
                })
            }
            Err(source) => Err(system(&self.workspace.shown(at), "open", source)),
        }
    }

    fn refuse_hidden_parent(&self) -> Result<(), Error> {
        let stamp = step::stamp(&self.parent).map_err(self.fault("reach"))?;
        if self.hidden.hold(&stamp) || self.workspace.rules.closes_repository(&self.parent) {
            return Err(Error::Hidden(self.path()));
        }
        if self.hidden.hold_from_writing(&stamp) { Err(Error::ReadOnly(self.path())) } else { Ok(()) }
    }

    /// Refuses a new name that would turn its folder into a repository.
    fn refuse_making(&self, name: &OsStr) -> Result<(), Error> {
        if self.existing.is_none() && self.workspace.rules.closes_making(&self.parent, name) {
            return Err(Error::Hidden(self.path()));
        }
        Ok(())
    }

    fn look(&self) -> Result<Option<Stamp>, Error> {
        let stamp = match step::look(&self.parent, &self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            looked => looked.map_err(self.fault("look at"))?,
        };
        match stamp.kind {
            _ if self.hidden.hold(&stamp) => Err(Error::Hidden(self.path())),
            _ if self.hidden.hold_from_writing(&stamp) => Err(Error::ReadOnly(self.path())),
            Kind::File => Ok(Some(stamp)),
            Kind::Link => Err(Error::Link(self.path())),
            kind => Err(Error::Kind { path: self.path(), kind, wanted: "only regular files can be written" }),
        }
    }

    pub fn is_new(&self) -> bool {
        self.existing.is_none()
    }

    pub fn path(&self) -> String {
        self.workspace.shown(&self.real)
    }

    /// Reads the existing file, unless it is not what was seen any more; `None` if there is none.
    pub fn read(&self, max_bytes: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(existing) = &self.existing else { return Ok(None) };
        if !self.workspace.rules.may_read(&self.real) {
            return Err(Error::NotGranted { path: self.path(), access: "read" });
        }
        let mut file = OpenFile::open(&self.parent, &self.name, self.path(), &self.hidden)?;
        if file.stamp() != existing {
            return Err(Error::Changed(self.path()));
        }
        file.read_whole(max_bytes).map(Some)
    }

    /// Replaces the file atomically: `content` is written to a temporary file beside it, synced and renamed. Permissions
    /// are kept, and so is the owner where the system allows it.
    ///
    /// # Errors
    /// When something else stands there than was seen, or the system refuses; then it is as it was, and nothing is left
    /// beside it. Only that the folder cannot be synced is told when the file is in its place already.
    ///
    /// # Durability
    /// The file and its folder have been synced.
    pub fn replace(&mut self, content: &[u8]) -> Result<(), Error> {
        let is_part = |name: &OsString| self.workspace.rules.makes_part(name);
        // Two concurrent writers check one after the other.
        let _one = self.missing.iter().chain([&self.name]).any(is_part).then(|| {
            // A panic leaves no partial file.
            PARTS.lock().unwrap_or_else(PoisonError::into_inner)
        });
        let (temporary, mut file) = match self.make_parents().and_then(|()| self.temporary()) {
            Ok(made) => made,
            Err(error) => {
                self.unmake_parents();
                return Err(error);
            }
        };
        let written = self.fill(&mut file, content).and_then(|()| {
            self.refuse_changed()?;
            self.refuse_making(&self.name)?;
            self.parent.rename(&temporary, &self.parent, &self.name).map_err(self.fault("put in its place"))
        });
        if let Err(error) = written {
            // A file that cannot be removed has a name that no program looks for.
            let _ = self.parent.remove_file(&temporary);
            self.unmake_parents();
            return Err(error);
        }
        self.settle()
    }

    /// Removes the file, unless something else stands there than was seen.
    pub fn remove(&mut self) -> Result<(), Error> {
        self.refuse_changed()?;
        self.parent.remove_file(&self.name).map_err(self.fault("remove"))?;
        self.settle()?;
        self.unmake_parents();
        Ok(())
    }

    fn make_parents(&mut self) -> Result<(), Error> {
        for folder in std::mem::take(&mut self.missing) {
            self.refuse_making(&folder)?;
            match self.parent.create_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(self.fault("make the folder of")(error));
                }
                _ => {}
            }
            let made = step::folder(&self.parent, &folder).map_err(self.fault("enter the folder of"))?;
            self.sync_parent()?;
            self.made.push((std::mem::replace(&mut self.parent, made), folder));
            self.refuse_hidden_parent()?;
        }
        Ok(())
    }

    /// Removes the folders created in vain, unless they are in use.
    fn unmake_parents(&mut self) {
        while let Some((parent, folder)) = self.made.pop() {
            if parent.remove_dir(&folder).is_err() {
                return;
            }
            self.parent = parent;
            self.missing.insert(0, folder);
        }
    }

    /// A new file beside it that no other process can have prepared: its name is random, and an existing one is not
    /// used.
    fn temporary(&self) -> Result<(OsString, File), Error> {
        let mode = if self.existing.is_some() { MODE_PRIVATE } else { MODE_NEW };
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..NAMES_TRIED {
            // Keyed randomly by the system, once per process, and never repeated.
            let random = || RandomState::new().build_hasher().finish();
            let name = OsString::from(format!(".rondo-{:016x}{:016x}.tmp", random(), random()));
            match step::created(&self.parent, &name, mode) {
                Ok(file) => return Ok((name, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(source) => return Err(self.fault("write beside")(source)),
            }
        }
        Err(self.fault("write beside")(last))
    }

    fn fill(&self, file: &mut File, content: &[u8]) -> Result<(), Error> {
        let fault = self.fault("write");
        file.write_all(content).map_err(&fault)?;
        if let Some(existing) = &self.existing {
            let (user, group) = existing.owner;
            // Only a privileged process may change owners. Otherwise the file belongs to the writer, as with any
            // editor.
            let _ = std::os::unix::fs::fchown(&*file, Some(user), Some(group));
            file.set_permissions(Permissions::from_mode(existing.mode & MODE_KEPT)).map_err(&fault)?;
        }
        file.sync_all().map_err(fault)
    }

    fn fault(&self, doing: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::System { path: self.path(), doing, source }
    }

    fn refuse_changed(&self) -> Result<(), Error> {
        if self.look()? == self.existing { Ok(()) } else { Err(Error::Changed(self.path())) }
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.existing = self.look()?;
        self.sync_parent()
    }

    fn sync_parent(&self) -> Result<(), Error> {
        match rustix::fs::fsync(&self.parent) {
            // Some file systems cannot sync a folder.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(self.fault("sync the folder of")(error.into())),
        }
    }
}

fn system(path: &str, doing: &'static str, source: io::Error) -> Error {
    Error::System { path: path.to_owned(), doing, source }
}
