//! The read set of a call: the files and folders it read, so that a cache can tell whether a stored result is still
//! valid.
//!
//! It contains names, not content, and is neither hashed nor shown.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Everything that a call read, each name once, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSet {
    /// Sorted by path and kind.
    pub read_entries: Vec<ReadEntry>,
}

/// One path that was read, and its state at that time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReadEntry {
    /// Relative to the workspace's root with `/` between its parts, `.` for the root; absolute outside of it.
    pub path: String,
    pub kind: ReadKind,
    /// The state of the file or folder; `None` if it did not exist.
    pub mark: Option<FileStamp>,
    /// A SHA-256: of a listing's entries; of the bytes read from a file so new that its times may hide a change; of the
    /// target of a link, which has a separate entry; of the reason why a path could not be opened. Otherwise `None`.
    pub digest: Option<Digest>,
    /// How many bytes from the file's beginning the digest covers.
    pub read_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadKind {
    /// A file was opened, and perhaps read.
    File,
    Folder,
    Listing,
    /// The name did not exist, or could not be opened as a file.
    Absent,
}

/// The metadata of a file or folder. Two equal stamps of one path mean that it has not changed, as far as the file
/// system can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileStamp {
    pub size_bytes: u64,
    /// When its content changed: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// When its content or its inode changed.
    pub changed: (i64, i64),
    pub device: u64,
    pub inode: u64,
}
