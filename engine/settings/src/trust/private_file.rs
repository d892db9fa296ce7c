//! Files of the user that others must not have made.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

/// Opens a file, but follows no link and waits for no writer of a pipe; `None` if there is none.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that only the user can read and write, whole before it gets its name: no process reads half of it.
pub(super) fn new_in(folder: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    Ok(new)
}
