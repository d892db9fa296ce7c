//! Records what is read.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::fs::Dir;
use rondo_protocol::digest::{Digest, Hasher};
use rondo_protocol::read_set::{FileStamp, ReadEntry, ReadKind, ReadSet};

use super::read_entries::ReadEntries;
use super::rules::Identities;
use super::{Error, OpenFile, Opened, Workspace, escaped};

/// The maximum number of names to record for one call. With more, repeating the call is cheaper than checking.
const READS_MAX: usize = 10_000;
/// Within this age a file's times do not reveal every change: file systems have a resolution of up to two seconds.
const YOUNG_SECONDS: i64 = 2;

/// Records everything that one call reads through a [watched](Workspace::watched) workspace. Clones share one record.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    phase: WatchState,
    /// Files that may still be read.
    open: usize,
    read_entries: ReadEntries,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum WatchState {
    #[default]
    Idle,
    Noting,
    Over,
}

impl Watch {
    /// Starts recording: from here on the caller reads files only through a watched workspace.
    pub fn begin(&self) {
        let mut state = self.state();
        if state.phase == WatchState::Idle {
            state.phase = WatchState::Noting;
        }
    }

    /// Gives up: something was read that cannot be recorded, or the result depends on something else, such as the time
    /// left.
    pub fn give_up(&self) {
        self.state().give_up();
    }

    /// Takes everything that was read; `None` = unknown: not begun, given up, already taken, a file is still open, or a
    /// name was seen in two states.
    pub fn take(&self) -> Option<ReadSet> {
        let mut state = self.state();
        let State { phase, open, read_entries } = &mut *state;
        let read_entries = std::mem::take(read_entries);
        let was_noting = std::mem::replace(phase, WatchState::Over) == WatchState::Noting;
        (was_noting && *open == 0).then(|| read_entries.into_seen())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves the record consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn give_up(&mut self) {
        self.phase = WatchState::Over;
        self.read_entries = ReadEntries::default();
    }

    fn note(&mut self, read_entry: ReadEntry) {
        if self.phase == WatchState::Noting
            && (!self.read_entries.add(read_entry) || self.read_entries.len() > READS_MAX)
        {
            self.give_up();
        }
    }
}

impl Workspace {
    /// The same workspace, recording everything that is read through it.
    #[must_use]
    pub fn watched(&self, watch: &Watch) -> Self {
        Self { watch: Some(watch.clone()), ..self.unwatched() }
    }

    /// Records the state of a name. A path that is not displayed unchanged cannot be found again.
    pub(super) fn note(&self, real: &Path, kind: ReadKind, mark: Option<FileStamp>, digest: Option<Digest>) {
        let Some(watch) = &self.watch else { return };
        match self.plain(real) {
            Some(path) => watch.state().note(ReadEntry { path, kind, mark, digest, read_bytes: 0 }),
            None => watch.give_up(),
        }
    }

    pub(super) fn unnoted(&self) {
        if let Some(watch) = &self.watch {
            watch.give_up();
        }
    }

    /// Records the result of a walk. `asked` is the path before links were resolved.
    pub(super) fn note_found(&self, asked: &Path, found: Result<&Opened<'_>, &Error>) {
        if self.watch.is_none() {
            return;
        }
        let (kind, stamp, led_to) = match found {
            Ok(Opened::Folder(folder)) => {
                self.note(folder.real(), ReadKind::Folder, Some(folder.stamp().mark), None);
                (ReadKind::Folder, folder.stamp(), folder.path())
            }
            // Recorded when it was opened.
            Ok(Opened::File(file)) => (ReadKind::File, file.stamp(), file.path().to_owned()),
            Err(Error::Missing(_)) => return self.note(asked, ReadKind::Absent, None, None),
            Err(_) => return self.unnoted(),
        };
        if self.plain(asked).as_ref() != Some(&led_to) {
            self.note(asked, kind, Some(stamp.mark), Some(Digest::sha256(led_to.as_bytes())));
        }
    }

    /// Opens a file and records what is read of it.
    pub(super) fn opened(
        &self,
        parent: &Dir,
        name: &OsStr,
        real: &Path,
        hidden: &Identities,
    ) -> Result<OpenFile, Error> {
        // Taken before the file's times, so that it never seems older than it is.
        let watched = self.watch.as_ref().map(|watch| (watch, SystemTime::now()));
        let mut file = OpenFile::open(parent, name, self.shown(real), hidden)?;
        if let Some((watch, now)) = watched {
            let mark = file.stamp().mark;
            self.note(real, ReadKind::File, Some(mark), None);
            file.reading = Some(TrackedRead::begin(watch, file.path().to_owned(), mark, now));
        }
        Ok(file)
    }

    /// A path for display, if that is its exact name.
    pub(super) fn plain(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(self.path()).unwrap_or(path);
        (below.to_str()? == escaped(below)).then(|| self.shown(path))
    }
}

#[derive(Debug)]
pub(super) struct TrackedRead {
    watch: Watch,
    path: String,
    mark: FileStamp,
    /// Of the data read; `None` = the file's mark reveals every change.
    hasher: Option<Hasher>,
    read_bytes: u64,
    has_ended: bool,
}

impl TrackedRead {
    fn begin(watch: &Watch, path: String, mark: FileStamp, now: SystemTime) -> Self {
        let mut state = watch.state();
        state.open = state.open.saturating_add(1);
        drop(state);
        let hasher = is_young(&mark, now).then(Hasher::default);
        Self { watch: watch.clone(), path, mark, hasher, read_bytes: 0, has_ended: false }
    }

    pub(super) fn took(&mut self, read: &io::Result<usize>, buffer: &[u8]) {
        match read {
            Ok(0) => self.has_ended |= !buffer.is_empty(),
            Ok(length) => {
                self.read_bytes = self.read_bytes.saturating_add(*length as u64);
                if let Some(hasher) = &mut self.hasher {
                    hasher.update(buffer.get(..*length).unwrap_or(buffer));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A disk failure is no state of the file.
            Err(_) => self.watch.give_up(),
        }
    }
}

impl Drop for TrackedRead {
    fn drop(&mut self) {
        let mut state = self.watch.state();
        state.open = state.open.saturating_sub(1);
        // It changed while being read, or is generated by the kernel: the mark reveals nothing.
        let size_bytes = self.mark.size_bytes;
        if self.read_bytes > size_bytes || (self.has_ended && self.read_bytes < size_bytes) {
            return state.give_up();
        }
        let Some(hasher) = self.hasher.take() else { return };
        if self.read_bytes > 0 {
            let (path, mark, digest) = (std::mem::take(&mut self.path), Some(self.mark), Some(hasher.finish()));
            state.note(ReadEntry { path, kind: ReadKind::File, mark, digest, read_bytes: self.read_bytes });
        }
    }
}

/// Whether a file was changed so shortly before `now`, or after it, that its mark may not tell the next change.
fn is_young(mark: &FileStamp, now: SystemTime) -> bool {
    let Ok(since) = now.duration_since(UNIX_EPOCH) else { return true };
    let Ok(seconds) = i64::try_from(since.as_secs()) else { return true };
    let limit = (seconds.saturating_sub(YOUNG_SECONDS), i64::from(since.subsec_nanos()));
    mark.modified > limit || mark.changed > limit
}

#[cfg(test)]
mod tests;
