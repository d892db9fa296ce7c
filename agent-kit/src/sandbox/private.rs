//! A new folder for one program or server, removed with it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Makes an empty folder that only its owner can access.
pub fn make(temporary: &Path) -> io::Result<PathBuf> {
    let owner_only = Permissions::from_mode(0o700);
    let temporary = temporary.canonicalize()?;
    Ok(tempfile::Builder::new().prefix("rondo-").permissions(owner_only).tempdir_in(temporary)?.keep())
}

/// Removes it with its contents, as far as possible.
pub fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        open_up(folder);
        let _ = fs::remove_dir_all(folder);
    }
}

/// Restores the permissions of folders that a program changed. Links are not followed.
fn open_up(folder: &Path) {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        let entries = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        folders.extend(entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()));
    }
}
