//! Reads files that settings, a workflow, a scenario or a command line names, without blocking and up to a size limit.
//!
//! A workflow is not trusted: files it names must be in its own folder, after resolving links. Pipes and devices are
//! refused before anything is read from them, unless the command line names them as an argument.

use std::collections::BTreeMap;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rondo_protocol::workflow::read::{FileError, Files};
use rondo_workflows::shipped;
use rustix::fs::OFlags;

/// How long the writer of a pipe is waited for.
const WRITER: Duration = Duration::from_secs(5);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Reads a file, a pipe or a device. For the writer of a pipe it waits a while.
pub fn read_named(path: &Path, max_bytes: usize) -> Result<String, FileError> {
    let (file, kind) = open_at_once(path)?;
    let (mut first, begun) = ([0], Instant::now());
    let read = loop {
        match (&file).read(&mut first) {
            // A pipe without a writer is at its end.
            Ok(0) if kind.is_fifo() && begun.elapsed() < WRITER => std::thread::sleep(LOOK),
            Ok(0) if kind.is_fifo() => {
                return Err(FileError::Refused("it is a pipe, and nobody writes to it".to_owned()));
            }
            Ok(read) => break read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(refused(&error)),
        }
    };
    rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(|error| refused(&error.into()))?;
    read_all(&mut first.get(..read).unwrap_or_default().chain(file), max_bytes)
}

pub fn open_plain(path: &Path) -> Result<File, FileError> {
    let (file, kind) = open_at_once(path)?;
    if kind.is_file() {
        Ok(file)
    } else {
        Err(FileError::Refused("it is a pipe or a device, not a plain file".to_owned()))
    }
}

/// Opens what is no folder, without waiting for the writer of a pipe. Reading does not wait either.
fn open_at_once(path: &Path) -> Result<(File, FileType), FileError> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let opened = opened.and_then(|file| file.metadata().map(|about| (file, about.file_type())));
    let (file, kind) = opened.map_err(|error| refused(&error))?;
    if kind.is_dir() { Err(is_a_folder()) } else { Ok((file, kind)) }
}

/// Reads a regular text file of at most `max_bytes`.
pub fn read_bounded(path: &Path, max_bytes: usize) -> Result<String, FileError> {
    let mut file = open_plain(path)?;
    read_all(&mut file, max_bytes)
}

pub fn read_all(from: &mut impl Read, max_bytes: usize) -> Result<String, FileError> {
    FileError::text_of(read_bytes(from, max_bytes)?)
}

/// Reads what need not be text.
pub fn read_bytes(from: &mut impl Read, max_bytes: usize) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let length = from.take(limit).read_to_end(&mut bytes).map_err(|error| refused(&error))?;
    if length > max_bytes {
        return Err(FileError::TooLarge(max_bytes));
    }
    Ok(bytes)
}

fn is_a_folder() -> FileError {
    FileError::Refused("it is a folder, not a file".to_owned())
}

fn refused(error: &io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::NotFound,
        io::ErrorKind::PermissionDenied => FileError::Refused("it may not be read".to_owned()),
        _ => FileError::Refused(error.to_string()),
    }
}

/// The files in a workflow's folder, which may be a shipped one.
#[derive(Debug)]
pub struct FolderFiles {
    folder: PathBuf,
    /// The texts read, by requested name, for reports.
    read: Mutex<BTreeMap<String, String>>,
}

impl FolderFiles {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), read: Mutex::default() }
    }

    pub fn into_read(self) -> BTreeMap<String, String> {
        self.read.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_within(&self, path: &str, max_bytes: usize) -> Result<String, FileError> {
        let named = Path::new(path);
        // The reader of workflows already refuses such paths; other callers may not.
        if !named.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(FileError::Outside);
        }
        if let Some(text) = shipped::text(&self.folder.join(named)) {
            return Ok(text.to_owned());
        }
        let folder = self.folder.canonicalize().map_err(|error| refused(&error))?;
        let real = folder.join(named).canonicalize().map_err(|error| refused(&error))?;
        if !real.starts_with(&folder) {
            return Err(FileError::Outside);
        }
        read_bounded(&real, max_bytes)
    }
}

impl Files for FolderFiles {
    fn read(&self, path: &str, max_bytes: usize) -> Result<String, FileError> {
        let text = self.read_within(path, max_bytes)?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), text.clone());
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
