//! What is in the private folder of a run: what the program has for `TMPDIR` and `HOME`, and what hidden files are
//! masked with.

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

/// What the program has of it.
pub(super) fn home(private: &Path) -> PathBuf {
    private.join("home")
}

/// Where masks are made; the program is not granted it.
pub(super) fn void(private: &Path) -> PathBuf {
    private.join("void")
}
