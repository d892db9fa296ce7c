use cap_std::fs::{FileTypeExt, Metadata, MetadataExt};
use rondo_protocol::read_set::FileStamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Kind {
    #[strum(to_string = "a file")]
    File = 1,
    #[strum(to_string = "a folder")]
    Folder,
    #[strum(to_string = "a symbolic link")]
    Link,
    #[strum(to_string = "a named pipe")]
    Fifo,
    #[strum(to_string = "a socket")]
    Socket,
    #[strum(to_string = "a device")]
    Device,
    #[strum(to_string = "not a regular file")]
    Other,
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
