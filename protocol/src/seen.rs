//! What a call saw of the file system: enough for whoever keeps its result to tell later whether it would be the same.
//!
//! It says what was looked at, not what was in it. Nothing here is hashed or shown.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// Everything that a call looked at, each name once, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// By path and kind.
    pub sights: Vec<Sight>,
}

/// One name that was looked at, and how it stood.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sight {
    /// Below the workspace's root with `/` between its parts, `.` for the root; absolute when it lies elsewhere.
    pub path: String,
    /// How it was looked at.
    pub kind: SightKind,
    /// What stood there; `None` = nothing.
    pub mark: Option<Mark>,
    /// Of a listing, the SHA-256 of its entries; of a file that was so young that its times may not tell a change, of
    /// the bytes that were read; of a name from which links led elsewhere, of the path that they led to, which is a
    /// sight of its own; of a name that could not be opened, of the reason. Otherwise there is none.
    pub digest: Option<Digest>,
    /// How many bytes from the file's beginning the digest is of.
    pub read_bytes: u64,
}

/// How a name was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SightKind {
    /// A file was opened, and perhaps read.
    File,
    /// A folder was entered.
    Folder,
    /// A folder was listed.
    Listing,
    /// There was nothing of that name, or nothing that can be opened as a file.
    Absent,
}

/// What a file system says of what stands under a name. Two equal marks of one path mean that it has not changed, as
/// far as a file system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    /// Bytes.
    pub size_bytes: u64,
    /// When its content changed: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// When its content or its inode changed.
    pub changed: (i64, i64),
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}
