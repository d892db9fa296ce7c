//! A file that a verb writes for its user.

use std::io::Write as _;
use std::path::Path;

/// Writes a file as a whole or not at all.
pub fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A pipe or a device, such as /dev/stderr, cannot be replaced.
    if std::fs::metadata(file).is_ok_and(|about| !about.is_file()) {
        return std::fs::write(file, bytes);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = tempfile::Builder::new().permissions(permissions(file)).tempfile_in(folder)?;
    part.write_all(bytes)?;
    part.as_file().sync_all()?;
    part.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// Those of the file that is replaced, else the usual ones, of which the system takes away what the user's mask says.
fn permissions(file: &Path) -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).map_or_else(|_| std::fs::Permissions::from_mode(0o666), |about| about.permissions())
}
