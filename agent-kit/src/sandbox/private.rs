//! A folder that nobody else had before, for one program or server, removed with it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const ATTEMPTS: u32 = 100;

/// An empty folder that its owner alone can reach.
#[derive(Debug)]
pub struct Private(PathBuf);

impl Private {
    /// Makes one in `temporary`.
    ///
    /// # Errors
    /// When nothing can be made there.
    pub fn make(temporary: &Path) -> io::Result<Self> {
        let temporary = temporary.canonicalize()?;
        let process = std::process::id();
        for attempt in 0..ATTEMPTS {
            let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
            let path = temporary.join(format!("rondo-{process}-{nanos}-{attempt}"));
            // A folder that exists already may have been planted and is never used.
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(path)),
            }
        }
        Err(io::Error::other("no private folder can be made"))
    }

    /// One that another process has made and does not remove.
    pub fn adopt(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it with all that is in it, as far as that can be.
    pub fn remove(self) {
        if fs::remove_dir_all(&self.0).is_err() {
            open_up(&self.0);
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Gives back the rights on folders that a program took away. Links are not followed.
fn open_up(folder: &Path) {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        folders.extend(entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()));
    }
}
