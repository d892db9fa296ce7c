//! Folders whose names survive a loss of power: a new name in a folder is on the device only once that folder is synced.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Creates `folder`, and those above it that are missing, for the user only.
///
/// # Durability
/// The folder is on the device when this returns.
pub fn make(folder: &Path) -> io::Result<()> {
    let missing = folder.ancestors().take_while(|ancestor| !ancestor.exists());
    let missing: Vec<&Path> = missing.filter(|ancestor| !ancestor.as_os_str().is_empty()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    missing.into_iter().filter_map(Path::parent).try_for_each(sync)
}

/// Puts the names in `folder` on the device.
pub fn sync(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}
