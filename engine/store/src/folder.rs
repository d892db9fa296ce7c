//! The folder of a store: what it may contain, its owner, and who made the store.
//!
//! A store may come with a stranger's folder. A link in it could redirect this process's writes, and a file of another
//! user could change during use, so both are refused before anything in it is opened. The file `owner` holds the
//! store's random id and a tag of it made with the user's secret; tags are made and checked elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use rondo_core::durable_folder;
use rustix::fs::OFlags;

use super::Error;
use super::recovery::DAMAGED;

pub(super) const OWNER: &str = "owner";
/// The same while it is written.
const NEW_OWNER: &str = "owner.new";
/// Keeps the store out of a project's version control.
const IGNORE: &str = ".gitignore";
/// What a folder may contain before a store is made in it.
const BEFORE: [&str; 3] = ["lock", IGNORE, NEW_OWNER];
/// The only entry that is not a regular file.
const SOCKET: &str = "socket";
/// Tables are immutable, so a copy of a database may share them.
pub(super) const TABLE: &str = "sst";

/// The depth of folders in a store: the store, and a database or a copy of one.
const MAX_DEPTH: usize = 1;
/// The most files that are checked.
const MAX_FILES: usize = 1_000_000;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A store's id and the tag of the user who made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Random, from when the store was made.
    pub id: [u8; 16],
    /// The tag of [`message`](Self::message), made with a secret.
    pub tag: [u8; 32],
}

impl Owner {
    /// The bytes that the tag of a store with this id covers.
    pub fn message(id: &[u8; 16]) -> Vec<u8> {
        [b"rondo/store/v1\n".as_slice(), id].concat()
    }

    fn to_text(self) -> String {
        format!("{}\n{}\n", HEXLOWER.encode(&self.id), HEXLOWER.encode(&self.tag))
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().map_while(|line| HEXLOWER.decode(line.as_bytes()).ok());
        Some(Self { id: lines.next()?.try_into().ok()?, tag: lines.next()?.try_into().ok()? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderState {
    Nothing,
    /// A store; `None` if it is not signed, or its signature cannot be read.
    Store(Option<Owner>),
}

/// Examines the folder of a store without changing it.
///
/// # Errors
/// [`Error::Unsafe`] for a link, a file of another user, or an entry that is not a regular file, anywhere in it;
/// [`Error::Io`].
pub fn look(folder: &Path) -> Result<FolderState, Error> {
    let about = unless(ErrorKind::NotFound, fs::symlink_metadata(folder)).map_err(io(folder))?;
    let Some(about) = about else { return Ok(FolderState::Nothing) };
    is_own(folder, &about)?;
    if !about.is_dir() {
        return Err(Error::Io { path: folder.display().to_string(), what: "is not a folder".to_owned() });
    }
    let mut names = BTreeMap::new();
    visit(folder, &mut |path, about, depth| {
        if depth == 0 {
            names.insert(path.file_name().unwrap_or_default().to_owned(), about.is_dir());
        }
        Ok(())
    })?;
    if names.keys().all(|name| BEFORE.iter().any(|before| name == before)) {
        return Ok(FolderState::Nothing);
    }
    Ok(FolderState::Store(owner(folder)?))
}

/// Creates the folder of a store with access for its owner only, or restricts an existing one.
pub(super) fn make(folder: &Path) -> Result<(), Error> {
    if look(folder)? == FolderState::Nothing {
        durable_folder::make(folder).map_err(io(folder))?;
        let ignore = folder.join(IGNORE);
        let made = new_file(&ignore).and_then(|mut file| file.write_all(b"*\n"));
        unless(ErrorKind::AlreadyExists, made).map_err(io(&ignore))?;
    }
    close(folder)
}

/// Puts the names in a folder on the device.
pub(super) fn sync(folder: &Path) -> Result<(), Error> {
    durable_folder::sync(folder).map_err(io(folder))
}

/// Removes other users' access to the folder and everything in it.
pub(super) fn close(folder: &Path) -> Result<(), Error> {
    let mend = |path: &Path, about: &Metadata, mode: u32| {
        if about.mode() & 0o7777 == mode {
            return Ok(());
        }
        // The database may delete its files meanwhile.
        let mended = unless(ErrorKind::NotFound, fs::set_permissions(path, Permissions::from_mode(mode)));
        mended.map(drop).map_err(io(path))
    };
    let about = fs::symlink_metadata(folder).map_err(io(folder))?;
    is_own(folder, &about)?;
    mend(folder, &about, FOLDER_MODE)?;
    visit(folder, &mut |path, about, _| match about {
        about if about.is_dir() => mend(path, about, FOLDER_MODE),
        // A table may be hard-linked elsewhere, and that mode is not this store's to change.
        about if about.nlink() > 1 => Ok(()),
        about => mend(path, about, FILE_MODE),
    })
}

/// Writes the owner of the store, replacing an earlier one.
pub fn sign(folder: &Path, owner: Owner) -> Result<(), Error> {
    let (path, new) = (folder.join(OWNER), folder.join(NEW_OWNER));
    let _ = fs::remove_file(&new);
    let mut file = new_file(&new).map_err(io(&path))?;
    file.write_all(owner.to_text().as_bytes()).and_then(|()| file.sync_all()).map_err(io(&path))?;
    fs::rename(&new, &path).map_err(io(&path))?;
    sync(folder)
}

/// Gives the store in `to` the owner of the store in `from`, if it has one.
pub(super) fn sign_as(from: &Path, to: &Path) -> Result<(), Error> {
    match look(from)? {
        FolderState::Store(Some(owner)) => sign(to, owner),
        FolderState::Store(None) | FolderState::Nothing => Ok(()),
    }
}

/// Removes the owner file. Returns whether there was one.
pub fn unsign(folder: &Path) -> Result<bool, Error> {
    let path = folder.join(OWNER);
    Ok(unless(ErrorKind::NotFound, fs::remove_file(&path)).map_err(io(&path))?.is_some())
}

/// What was done; `None` if that failed for this reason.
fn unless<V>(kind: ErrorKind, done: std::io::Result<V>) -> std::io::Result<Option<V>> {
    match done {
        Err(error) if error.kind() == kind => Ok(None),
        done => done.map(Some),
    }
}

/// Opens a file of a store for reading, without following a link.
pub(super) fn open(path: &Path) -> std::io::Result<fs::File> {
    opened(path, OpenOptions::new().read(true))
}

/// An error of the system at a path.
pub(super) fn io(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::io(path, &error)
}

/// Opens a file of a store without following a link.
pub(super) fn opened(path: &Path, options: &mut OpenOptions) -> std::io::Result<fs::File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    options.custom_flags(flags).mode(FILE_MODE).open(path)
}

pub(super) fn files(database: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(database).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(io(database))?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    Ok(files)
}

fn new_file(path: &Path) -> std::io::Result<fs::File> {
    opened(path, OpenOptions::new().write(true).create_new(true))
}

fn owner(folder: &Path) -> Result<Option<Owner>, Error> {
    let path = folder.join(OWNER);
    let mut text = String::new();
    match open(&path).and_then(|file| file.take(1024).read_to_string(&mut text)) {
        Ok(_) => Ok(Owner::read(&text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
        Err(error) => Err(Error::io(&path, &error)),
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskUsage {
    pub bytes: u64,
    /// Those in the folders of damaged databases that recoveries left, in bytes.
    pub damaged_bytes: u64,
}

/// What a file takes on the device.
pub(super) fn device_bytes(about: &Metadata) -> u64 {
    // The unit in which the system counts blocks, whatever those of the file system are.
    about.blocks().saturating_mul(512)
}

/// What the store in `folder` takes on the device. A file with two names counts once.
pub fn disk_usage(folder: &Path) -> Result<DiskUsage, Error> {
    let (mut usage, mut linked) = (DiskUsage::default(), BTreeSet::new());
    visit(folder, &mut |path, about, _| {
        if about.nlink() == 1 || about.is_dir() || linked.insert(about.ino()) {
            let bytes = device_bytes(about);
            let within = path.strip_prefix(folder).ok().and_then(|within| within.components().next());
            let is_damaged = within.is_some_and(|name| name.as_os_str().to_string_lossy().starts_with(DAMAGED));
            usage.bytes += bytes;
            usage.damaged_bytes += if is_damaged { bytes } else { 0 };
        }
        Ok(())
    })?;
    Ok(usage)
}

type Visit<'v> = dyn FnMut(&Path, &Metadata, usize) -> Result<(), Error> + 'v;

/// Visits everything in the folder of a store, and checks its owner and type.
fn visit(folder: &Path, visit: &mut Visit<'_>) -> Result<(), Error> {
    let mut left = MAX_FILES;
    inner(folder, 0, &mut left, visit)
}

fn inner(folder: &Path, depth: usize, left: &mut usize, visit: &mut Visit<'_>) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound && depth > 0 => return Ok(()),
        entries => entries.map_err(io(folder))?,
    };
    for entry in entries {
        let path = entry.map_err(io(folder))?.path();
        // The holder of the store may delete files meanwhile.
        let about = unless(ErrorKind::NotFound, fs::symlink_metadata(&path)).map_err(io(&path))?;
        let Some(about) = about else { continue };
        *left = left.checked_sub(1).ok_or_else(|| refused(folder, "holds too many files"))?;
        is_own(&path, &about)?;
        let kind = about.file_type();
        let is_socket = kind.is_socket() && depth == 0 && path.file_name().is_some_and(|name| name == SOCKET);
        if !(kind.is_file() || is_socket || kind.is_dir() && depth < MAX_DEPTH) {
            return Err(refused(&path, "is not a plain file"));
        }
        let is_table = path.extension().is_some_and(|extension| extension == TABLE);
        if kind.is_file() && about.nlink() > 1 && !is_table {
            return Err(refused(&path, "has a second name elsewhere, where it would be changed as well"));
        }
        visit(&path, &about, depth)?;
        if kind.is_dir() {
            inner(&path, depth + 1, left, visit)?;
        }
    }
    Ok(())
}

fn is_own(path: &Path, about: &Metadata) -> Result<(), Error> {
    if about.is_symlink() {
        return Err(refused(path, "is a link"));
    }
    if about.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(refused(path, &format!("belongs to user {}", about.uid())))
}

fn refused(path: &Path, what: &str) -> Error {
    Error::Unsafe { path: path.display().to_string(), what: what.to_owned() }
}

#[cfg(test)]
mod tests;
