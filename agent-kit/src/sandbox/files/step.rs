//! Opens one name in a folder, never through a link.
//!
//! cap-std follows links that stay beneath a handle and has no public way to prevent it. Hidden folders are beneath the
//! root, so each step opens one name with `O_NOFOLLOW`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Stamp;

/// Prevents blocking and acquiring a controlling terminal.
const HARMLESS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn open(parent: &Dir, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
    if name.is_empty() || name == ".." || name.as_bytes().contains(&b'/') {
        return Err(Errno::INVAL.into());
    }
    Ok(File::from(rustix::fs::openat(parent, name, flags | HARMLESS, mode)?))
}

pub(super) fn folder(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
    Ok(Dir::from_std_file(open(parent, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?))
}

/// Opens a folder again, for listing.
pub(super) fn reopened(dir: &Dir) -> io::Result<Dir> {
    folder(dir, OsStr::new("."))
}

/// Opens a name for reading, whatever it is; the caller checks the kind before reading.
pub(super) fn for_reading(parent: &Dir, name: &OsStr) -> io::Result<File> {
    open(parent, name, OFlags::RDONLY, Mode::empty())
}

pub(super) fn created(parent: &Dir, name: &OsStr, mode: Mode) -> io::Result<File> {
    open(parent, name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
}

/// The stamp of a name, without opening it.
pub(super) fn look(parent: &Dir, name: &OsStr) -> io::Result<Stamp> {
    Ok(Stamp::of(&parent.symlink_metadata(name)?))
}

pub(super) fn stamp(dir: &Dir) -> io::Result<Stamp> {
    Ok(Stamp::of(&dir.dir_metadata()?))
}

/// Whether opening failed because it is no folder: systems report links differently.
pub(super) fn is_not_a_folder(error: &io::Error) -> bool {
    [Errno::LOOP, Errno::NOTDIR, Errno::MLINK].iter().any(|known| error.raw_os_error() == Some(known.raw_os_error()))
}
