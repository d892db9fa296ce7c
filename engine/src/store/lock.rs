//! Who holds a store: an advisory lock on a file in its folder (`flock(2)`), which the system lifts when its holder
//! ends in whatever way. The file also names the holder, for messages only.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use super::{Error, folder};

/// The lock's file in the folder of a store.
const FILE: &str = "lock";

/// Whether a writer has ever begun a store in `folder`.
pub(super) fn is_there(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Whoever asks whether a store is held takes the lock for an instant; an opener that meets one tries again.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// A held lock. Dropping it gives the store free.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the lock of the store in the folder `store`.
    ///
    /// # Errors
    /// [`Error::Busy`] with the holder, [`Error::Io`].
    pub(super) fn take(store: &Path) -> Result<Self, Error> {
        let path = store.join(FILE);
        let io = |error| Error::io(&path, &error);
        let mut options = OpenOptions::new();
        let mut file =
            folder::opened(&path, options.read(true).write(true).create(true).truncate(false)).map_err(io)?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { pid: named(&mut file) }),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self { _file: file })
    }
}

/// The process that holds the store in the folder `store`, or `None` when nobody does. 0 where the holder is unknown.
///
/// # Errors
/// [`Error::Io`].
pub fn holder(store: &Path) -> Result<Option<u32>, Error> {
    let path = store.join(FILE);
    let mut file = match folder::opened(&path, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(&path, &error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(named(&mut file))),
        Err(TryLockError::Error(error)) => Err(Error::io(&path, &error)),
    }
}

/// The process that the file names.
fn named(file: &mut File) -> u32 {
    let mut text = String::new();
    let read = file.take(16).read_to_string(&mut text);
    read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_folder_names_its_holder_and_is_free_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(holder(folder.path()), Ok(None));
        let held = FolderLock::take(folder.path()).unwrap();
        let pid = std::process::id();
        assert_eq!(FolderLock::take(folder.path()).map(|_| ()), Err(Error::Busy { pid }));
        assert_eq!(holder(folder.path()), Ok(Some(pid)));
        drop(held);
        assert_eq!(holder(folder.path()), Ok(None));
        FolderLock::take(folder.path()).unwrap();
    }
}
