//! The lock of a store: an advisory lock on its folder itself (`flock(2)`), which the system releases when its holder
//! ends for any reason, and which survives the deletion of files in the folder. The file `lock` names the holder, for
//! messages only.
//!
//! Who drives a thread holds a lock of its own, a byte of that file, whichever process holds the store.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rondo_protocol::id::ThreadId;

use super::{Error, folder, keys};

pub(super) const FILE: &str = "lock";

/// [`holder`] takes the lock briefly; an opener that collides with it tries again.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// A held lock. Dropping it releases the store.
#[derive(Debug)]
pub(super) struct FolderLock {
    folder: File,
    path: PathBuf,
}

impl FolderLock {
    /// Takes the lock of the store in the folder `store`.
    ///
    /// # Errors
    /// [`Error::Busy`] with the holder, [`Error::Io`].
    pub(super) fn take(store: &Path) -> Result<Self, Error> {
        let folder = folder::open(store).map_err(folder::io(store))?;
        for attempt in 1.. {
            match folder.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { pid: named(store) }),
                Err(TryLockError::Error(error)) => return Err(Error::io(store, &error)),
            }
        }
        let lock = Self { folder, path: store.to_owned() };
        lock.check_place()?;
        let path = store.join(FILE);
        let mut options = OpenOptions::new();
        folder::opened(&path, options.write(true).create(true).truncate(true))
            .and_then(|mut file| writeln!(file, "{}", std::process::id()))
            .map_err(folder::io(&path))?;
        Ok(lock)
    }

    /// Whether the path still leads to the locked folder.
    ///
    /// # Errors
    /// [`Error::Io`], also if another folder has replaced it.
    pub(super) fn check_place(&self) -> Result<(), Error> {
        let there = std::fs::symlink_metadata(&self.path).map_err(folder::io(&self.path))?;
        let held = self.folder.metadata().map_err(folder::io(&self.path))?;
        if (there.dev(), there.ino()) == (held.dev(), held.ino()) {
            return Ok(());
        }
        Err(Error::Io { path: self.path.display().to_string(), what: "was replaced while it was opened".to_owned() })
    }
}

/// Locks of single threads, which the system releases when their process ends: bytes of the file `lock`, as locks of its
/// open description (`fcntl(2)`). Elsewhere than on Linux they are always free.
#[derive(Debug)]
pub struct ThreadLocks(Option<File>);

impl ThreadLocks {
    /// The locks of the store in a folder. If its file cannot be opened, they are always free.
    pub fn of(store: &Path) -> Self {
        Self(folder::opened(&store.join(FILE), OpenOptions::new().read(true).write(true)).ok())
    }

    /// Takes the lock of a thread. Returns `false` if another process has it.
    pub fn take(&self, thread: &ThreadId) -> bool {
        self.set(thread, true)
    }

    pub fn release(&self, thread: &ThreadId) {
        self.set(thread, false);
    }

    #[cfg(target_os = "linux")]
    fn set(&self, thread: &ThreadId, is_held: bool) -> bool {
        use nix::errno::Errno;
        use nix::fcntl::{FcntlArg, fcntl};

        let Some(file) = &self.0 else { return true };
        let random = keys::thread_bytes(thread).last_chunk().copied().unwrap_or_default();
        let range = libc::flock {
            l_type: i16::try_from(if is_held { libc::F_WRLCK } else { libc::F_UNLCK }).unwrap_or_default(),
            l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
            // The random part of its id.
            l_start: i64::from_be_bytes(random) & (i64::MAX >> 1),
            l_len: 1,
            l_pid: 0,
        };
        !matches!(fcntl(file, FcntlArg::F_OFD_SETLK(&range)), Err(Errno::EAGAIN | Errno::EACCES))
    }

    #[cfg(not(target_os = "linux"))]
    fn set(&self, _thread: &ThreadId, _is_held: bool) -> bool {
        true
    }
}

/// The process that holds the store in the folder `store`, if any; 0 if the holder is unknown.
pub fn holder(store: &Path) -> Result<Option<u32>, Error> {
    let folder = match folder::open(store) {
        Ok(folder) => folder,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(store, &error)),
    };
    match folder.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(named(store))),
        Err(TryLockError::Error(error)) => Err(Error::io(store, &error)),
    }
}

/// The process named in the file.
fn named(store: &Path) -> u32 {
    let mut text = String::new();
    let read = folder::open(&store.join(FILE)).and_then(|file| file.take(16).read_to_string(&mut text));
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
        // Anybody with write access may delete files in it.
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        assert_eq!(FolderLock::take(folder.path()).map(|_| ()), Err(Error::Busy { pid: 0 }));
        drop(held);
        assert_eq!(holder(folder.path()), Ok(None));
        FolderLock::take(folder.path()).unwrap();
    }

    #[test]
    fn a_thread_is_locked_by_one_until_it_is_released_or_its_holder_ends() {
        let folder = tempfile::tempdir().unwrap();
        let held = FolderLock::take(folder.path()).unwrap();
        let [one, other] = [ThreadLocks::of(folder.path()), ThreadLocks::of(folder.path())];
        let [first, second] = [1, 2].map(|number| ThreadId::from_parts(7, number));
        assert!(one.take(&first) && one.take(&first) && other.take(&second));
        assert!(!other.take(&first) && !one.take(&second));
        drop(held);
        let _next = FolderLock::take(folder.path()).unwrap();
        assert!(!other.take(&first), "the holder of the store makes no difference");
        one.release(&first);
        assert!(other.take(&first));
        drop(other);
        assert!(one.take(&first) && one.take(&second));
    }

    #[test]
    fn a_lock_tells_that_its_folder_was_replaced() {
        let around = tempfile::tempdir().unwrap();
        let store = around.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let held = FolderLock::take(&store).unwrap();
        assert_eq!(held.check_place(), Ok(()));
        std::fs::rename(&store, around.path().join("aside")).unwrap();
        assert!(held.check_place().is_err());
        std::fs::create_dir(&store).unwrap();
        assert!(held.check_place().is_err());
    }
}
