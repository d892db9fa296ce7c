//! Files that a verb writes for its user.

use std::io::{self, Write as _};
use std::path::Path;

use rondo::protocol::diagnostic::Code;
use rondo::settings::folder_of;

use super::{Exit, Failure};

pub fn failed(file: &Path) -> impl Fn(io::Error) -> Failure + Copy + '_ {
    move |error| Failure::new(Code::WriteFailed, format!("{}: {error}", file.display()))
}

/// Nothing is written, because of what stands there.
pub fn refused(why: impl Into<String>) -> Failure {
    Failure::new(Code::WriteFailed, why).with_exit(Exit::Invalid)
}

/// Writes a file as a whole or not at all.
pub fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = failed(file);
    // A pipe or a device, such as /dev/stderr, cannot be replaced.
    if std::fs::metadata(file).is_ok_and(|about| !about.is_file()) {
        return std::fs::write(file, bytes).map_err(failed);
    }
    let mut part =
        tempfile::Builder::new().permissions(permissions(file)).tempfile_in(folder_of(file)).map_err(failed)?;
    part.write_all(bytes).and_then(|()| part.as_file().sync_all()).map_err(failed)?;
    part.persist(file).map(drop).map_err(|error| failed(error.error))
}

/// Those of the file that is replaced, else the usual ones, of which the system takes away what the user's mask says.
fn permissions(file: &Path) -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).map_or_else(|_| std::fs::Permissions::from_mode(0o666), |about| about.permissions())
}
