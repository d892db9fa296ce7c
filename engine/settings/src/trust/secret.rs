//! The file of the user's secret, whose tags identify a store as the user's own.
//!
//! The tag of a store is that of its id. A stranger who prepares a store cannot make one. Losing the secret only makes
//! every store a stranger's, which a person can agree to.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rondo_core::durable_folder;
use rondo_core::secret::{BYTES, Secret};
use rustix::io::Errno;

use super::private_file;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the user's secret {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the user's secret {}: {what}", path.display())]
    Refused { path: PathBuf, what: String },
}

impl Error {
    /// Whether the device failed, or room or descriptors ran out, so that the same path may do later.
    pub fn may_pass(&self) -> bool {
        use io::ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
        match self {
            // The kind of a link that is not followed has no stable name; others may be wrapped, and have only a kind.
            Self::File { source, .. } => {
                Errno::from_io_error(source) != Some(Errno::LOOP)
                    && !matches!(
                        source.kind(),
                        AlreadyExists | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem
                    )
            }
            Self::Refused { .. } => false,
        }
    }
}

/// A new secret, which is kept nowhere.
pub fn random() -> io::Result<Secret> {
    random_bytes().map(Secret::new)
}

fn random_bytes() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Reads the secret in `path`; `None` if there is none yet.
///
/// # Errors
/// If it cannot be read, is a link, belongs to another user, is readable by others, or has another length.
pub fn read(path: &Path) -> Result<Option<Secret>, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let refused = |what: &str| Error::Refused { path: path.to_owned(), what: what.to_owned() };
    let Some(mut file) = private_file::open(path).map_err(failed)? else { return Ok(None) };
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(refused("it is not a plain file"));
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to another user"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(refused("others can read it; delete it, or close it with chmod 600"));
    }
    let mut bytes = [0; BYTES];
    file.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => refused("it is shorter than 32 bytes"),
        _ => failed(error),
    })?;
    Ok(Some(Secret::new(bytes)))
}

/// Reads the secret in `path`, or creates one there. Concurrent processes get the same one.
pub fn read_or_draw(path: &Path) -> Result<Secret, Error> {
    if let Some(secret) = read(path)? {
        return Ok(secret);
    }
    let failed = |source| Error::File { path: path.to_owned(), source };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    durable_folder::make(folder).map_err(failed)?;
    let bytes = random_bytes().map_err(failed)?;
    // The first one stays.
    match private_file::new_in(folder, &bytes).map_err(failed)?.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error.error)),
        _ => {}
    }
    // A store that is signed with it must not outlive it.
    durable_folder::sync(folder).map_err(failed)?;
    read(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_drawn_once_and_kept_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rondo/secret");
        assert!(read(&path).unwrap().is_none());
        let drawn = read_or_draw(&path).unwrap();
        assert_eq!(drawn.tag(b"x"), read_or_draw(&path).unwrap().tag(b"x"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("others can read it"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(read(&path).is_err());
    }

    #[test]
    fn a_failing_device_is_told_from_a_path_that_takes_no_secret() {
        let may_pass = |error: Errno| Error::File { path: PathBuf::from("secret"), source: error.into() }.may_pass();
        let passing = [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE];
        assert_eq!(passing.map(may_pass), [true; 5]);
        let lasting = [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::NOTDIR, Errno::EXIST, Errno::LOOP];
        assert_eq!(lasting.map(may_pass), [false; 6]);
    }
}
