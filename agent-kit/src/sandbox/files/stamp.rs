use std::fmt;

use cap_std::fs::{FileTypeExt, Metadata, MetadataExt};
use rondo_protocol::read_set::FileStamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File = 1,
    Folder,
    Link,
    Fifo,
    Socket,
    Device,
    Other,
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
    /// The part that is compared later.
    pub mark: FileStamp,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let kind = match metadata.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_symlink() => Kind::Link,
            kind if kind.is_fifo() => Kind::Fifo,
            kind if kind.is_socket() => Kind::Socket,
            kind if kind.is_char_device() || kind.is_block_device() => Kind::Device,
            _ => Kind::Other,
        };
        let mark = FileStamp {
            size_bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        Self { kind, mark, mode: metadata.mode(), owner: (metadata.uid(), metadata.gid()) }
    }
}
