//! What a file or folder was when it was looked at.

use std::fmt;

use cap_std::fs::{FileTypeExt, Metadata, MetadataExt};
use rondo_protocol::read_set::FileStamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link,
    Fifo,
    Socket,
    /// A block or character device.
    Device,
    /// Anything else.
    Other,
}

impl Kind {
    /// Its code in the digest of a listing.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Folder => 2,
            Self::Link => 3,
            Self::Fifo => 4,
            Self::Socket => 5,
            Self::Device => 6,
            Self::Other => 7,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Other => "not a regular file",
        })
    }
}

/// What a file or folder was when it was looked at. Two equal stamps of one path mean that it has not changed, as far as
/// a file system tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub kind: Kind,
    pub size_bytes: u64,
    /// When its content changed: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// When its content or its inode changed.
    pub changed: (i64, i64),
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let kind = metadata.file_type();
        let kind = if kind.is_file() {
            Kind::File
        } else if kind.is_dir() {
            Kind::Folder
        } else if kind.is_symlink() {
            Kind::Link
        } else if kind.is_fifo() {
            Kind::Fifo
        } else if kind.is_socket() {
            Kind::Socket
        } else if kind.is_char_device() || kind.is_block_device() {
            Kind::Device
        } else {
            Kind::Other
        };
        Self {
            kind,
            size_bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
        }
    }

    /// The part that is compared later.
    pub(super) fn mark(&self) -> FileStamp {
        let Self { size_bytes, modified, changed, device, inode, .. } = *self;
        FileStamp { size_bytes, modified, changed, device, inode }
    }
}
