//! The reserve: space that a store keeps for itself, so that on a full disk what is in flight can still be written, and
//! threads can still be deleted.
//!
//! Laws. The reserve is given up before a write that might not fit, never after one that failed. While it is given up,
//! [`has_room`](Reserve::has_room) is `false`, and nobody begins what costs money. It is made again when there is room.
//! A disk that is small from the beginning gets none. That the reserve cannot be made or given up is no error.

use std::fs::{self, File, Metadata, OpenOptions};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::folder;

/// The file. It has room and no contents; while the reserve is given up, it has no room either.
const FILE: &str = "reserve";
/// Its size: most replies and what RocksDB writes with them, many times.
const RESERVE_BYTES: u64 = 4 << 20;
/// How much more than the reserve must be free when it is made for the first time.
const MUCH: u64 = 15;
/// How much more than the reserve must be free when it is made again.
const ENOUGH: u64 = 1;
/// A write needs at most this often its size, in the log and then in tables.
const COPIES: u64 = 2;
/// What must be free beside a write: RocksDB extends its files ahead.
const SLACK_BYTES: u64 = 512 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Kept,
    GivenUp,
    Absent,
}

#[derive(Debug)]
pub(super) struct Reserve {
    folder: PathBuf,
    state: Mutex<State>,
}

impl Reserve {
    /// The reserve of the store in `folder` as an earlier process left it. It is given up if an opening has no room.
    pub(super) fn found(folder: &Path) -> Self {
        let reserve = Self { folder: folder.to_owned(), state: Mutex::new(State::Absent) };
        if let Ok(found) = fs::metadata(reserve.path()) {
            *reserve.state.lock() = if is_kept(&found) { State::Kept } else { State::GivenUp };
        }
        reserve.make_room(0);
        reserve
    }

    pub(super) fn make(&self) {
        let mut state = self.state.lock();
        *state = match *state {
            State::Kept => State::Kept,
            State::GivenUp => self.made(ENOUGH, State::GivenUp),
            State::Absent => self.made(MUCH, State::Absent),
        };
    }

    /// Gives the reserve up if `size_bytes` might not fit otherwise.
    pub(super) fn make_room(&self, size_bytes: u64) {
        let mut state = self.state.lock();
        let needed = size_bytes.saturating_mul(COPIES).saturating_add(SLACK_BYTES);
        if *state == State::GivenUp {
            *state = self.made(ENOUGH, State::GivenUp);
        }
        if *state == State::Kept && !has_free(&self.folder, needed) {
            // A new file without room, so that the next opening knows. If that fails, the reserve is gone in any case.
            let _ = fs::remove_file(self.path()).and_then(|()| self.file());
            *state = State::GivenUp;
        }
    }

    /// Whether more than what is in flight may be written.
    pub(super) fn has_room(&self) -> bool {
        if *self.state.lock() == State::GivenUp {
            self.make();
        }
        *self.state.lock() != State::GivenUp
    }

    /// Makes the reserve if that many times its size is free beside it, and says what it is then: `otherwise` without room.
    fn made(&self, times: u64, otherwise: State) -> State {
        if !has_free_beside_reserve(&self.folder, times) {
            return otherwise;
        }
        let made = self.file().and_then(|file| Ok(fallocate(file, FallocateFlags::KEEP_SIZE, 0, RESERVE_BYTES)?));
        if made.is_err() {
            // Such as on a file system that cannot do it.
            let _ = fs::remove_file(self.path());
            return State::Absent;
        }
        State::Kept
    }

    fn file(&self) -> std::io::Result<File> {
        folder::opened(&self.path(), OpenOptions::new().write(true).create(true))
    }

    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

/// Whether the store in `folder` has room, as far as a process sees that does not hold it.
pub(crate) fn has_room_beside(folder: &Path) -> bool {
    let is_given_up = fs::metadata(folder.join(FILE)).is_ok_and(|found| !is_kept(&found));
    !is_given_up || has_free_beside_reserve(folder, ENOUGH)
}

/// Whether the reserve could be made, with so many times its size free beside it.
fn has_free_beside_reserve(folder: &Path, times: u64) -> bool {
    has_free(folder, RESERVE_BYTES.saturating_mul(times.saturating_add(1)))
}

fn is_kept(found: &Metadata) -> bool {
    folder::device_bytes(found) >= RESERVE_BYTES
}

/// Whether a user may still write that much to the disk of the store, or the system does not say.
fn has_free(folder: &Path, size_bytes: u64) -> bool {
    statvfs(folder).ok().is_none_or(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= size_bytes)
}
