//! The private folder of a run: `TMPDIR` and `HOME` of the program, and the masks of hidden files.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::sandbox::private::Private;

pub(super) fn make(temporary: &Path) -> io::Result<Private> {
    let private = Private::make(temporary)?;
    for folder in [home(private.path()), void(private.path())] {
        if let Err(error) = DirBuilder::new().mode(0o700).create(folder) {
            private.remove();
            return Err(error);
        }
    }
    Ok(private)
}

pub(super) fn home(private: &Path) -> PathBuf {
    private.join("home")
}

/// The part for masks; the program cannot access it.
pub(super) fn void(private: &Path) -> PathBuf {
    private.join("void")
}
