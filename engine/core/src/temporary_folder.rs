//! Temporary folders, private and removed when they are dropped.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

/// A temporary folder that only this user can read. It is removed when it is dropped.
pub fn temporary_folder(purpose: &str) -> io::Result<TempDir> {
    let mode = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(&format!("rondo-{purpose}-")).permissions(mode).tempdir()
}
