//! The user's secret, and the tags that identify a store as the user's own.
//!
//! The tag of a store is HMAC-SHA256 (RFC 2104) of its id with the secret. A stranger who prepares a store cannot make
//! one. Losing the secret only makes every store a stranger's, which a person can agree to.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hmac::digest::Key;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rustix::fs::OFlags;
use rustix::io::Errno;
use sha2::Sha256;
use tempfile::NamedTempFile;

use crate::durable_folder;

/// Bytes of a secret, and of a tag.
const BYTES: usize = 32;
/// The block size of SHA-256.
const BLOCK_BYTES: usize = 64;

/// The user's secret.
#[derive(Clone, Default)]
pub struct Secret([u8; BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or made.
    #[error("the user's secret {}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not acceptable.
    #[error("the user's secret {}: {what}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// The reason.
        what: String,
    },
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

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// A new secret.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(bytes))
    }

    /// Reads the secret in `path`; `None` if there is none yet.
    ///
    /// # Errors
    /// If it cannot be read, is a link, belongs to another user, is readable by others, or has another length.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let refused = |what: &str| Error::Refused { path: path.to_owned(), what: what.to_owned() };
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
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
        Ok(Some(Self(bytes)))
    }

    /// Reads the secret in `path`, or creates one there. Concurrent processes get the same one.
    ///
    /// # Errors
    /// Like [`read`](Self::read), and if it cannot be stored.
    pub fn read_or_draw(path: &Path) -> Result<Self, Error> {
        if let Some(secret) = Self::read(path)? {
            return Ok(secret);
        }
        let failed = |source| Error::File { path: path.to_owned(), source };
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        durable_folder::make(folder).map_err(failed)?;
        let new_secret = Self::random().map_err(failed)?;
        // Written whole under another name, so that no process reads half of it; the first one stays.
        let mut new = NamedTempFile::new_in(folder).map_err(failed)?;
        new.write_all(&new_secret.0).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
        match new.persist_noclobber(path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error.error)),
            _ => {}
        }
        // A store that is signed with it must not outlive it.
        durable_folder::sync(folder).map_err(failed)?;
        Self::read(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }

    /// The HMAC-SHA256 tag of a message.
    pub fn tag(&self, message: &[u8]) -> [u8; BYTES] {
        self.tag_of(&[message])
    }

    /// The tag of the concatenated parts.
    pub fn tag_of(&self, parts: &[&[u8]]) -> [u8; BYTES] {
        let mut mac = self.mac(&[]);
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Whether `tag` is that of `message`, in constant time.
    pub fn verifies(&self, message: &[u8], tag: &[u8]) -> bool {
        self.mac(message).verify_slice(tag).is_ok()
    }

    fn mac(&self, message: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new(&Key::<Hmac<Sha256>>::from(self.block()));
        mac.update(message);
        mac
    }

    /// The secret padded to the block's length, which is the same key to HMAC.
    fn block(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        for (to, from) in block.iter_mut().zip(self.0) {
            *to = from;
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_tag_is_that_of_the_standard() {
        // RFC 4231, test case 2, with its key padded by zeros to 32 bytes, which HMAC does anyway.
        let mut key = [0; BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let secret = Secret::new(key);
        let message = b"what do ya want for nothing?";
        let tag = rondo_protocol::Digest(secret.tag(message)).to_string();
        assert_eq!(tag, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert!(secret.verifies(message, &secret.tag(message)));
        assert!(!secret.verifies(b"something else", &secret.tag(message)));
        assert!(!secret.verifies(message, &[]));
    }

    #[test]
    fn a_secret_is_drawn_once_and_kept_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rondo/secret");
        assert!(Secret::read(&path).unwrap().is_none());
        let drawn = Secret::read_or_draw(&path).unwrap();
        assert_eq!(drawn.tag(b"x"), Secret::read_or_draw(&path).unwrap().tag(b"x"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Secret::read(&path).unwrap_err().to_string().contains("others can read it"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(Secret::read(&path).is_err());
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
