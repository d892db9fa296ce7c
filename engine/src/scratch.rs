//! Temporary private folders, removed when dropped.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How many names are tried, where others of the same process id left theirs behind.
const MAX_TRIES: u32 = 64;

/// A folder below the system's temporary folder that only this user can read.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one whose name contains `purpose`.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub fn make(purpose: &str) -> io::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let mut tries = 0;
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("rondo-{purpose}-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be deleted stays in the system's folder for such files, which is emptied by others.
        let _ = fs::remove_dir_all(&self.path);
    }
}
