//! Which paths may be read and written.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Stamp;

/// The operator's settings, which nobody else writes.
const SETTINGS: &[u8] = b"rondo.toml";

/// What is granted and what is hidden. Paths are absolute and hold no links.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
}

/// What is hidden, by device and inode, at one moment. It is taken anew for each walk, because a hidden file may be
/// created or replaced by its owner at any time.
#[derive(Debug)]
pub(super) struct Identities(Vec<(u64, u64)>);

impl Identities {
    /// Whether this is something hidden under another name.
    pub(super) fn hold(&self, stamp: &Stamp) -> bool {
        self.0.contains(&(stamp.device, stamp.inode))
    }
}

impl Rules {
    /// Whether it may be read.
    pub(super) fn may_read(&self, path: &Path) -> bool {
        self.read.iter().any(|granted| path.starts_with(granted))
    }

    /// Whether it may be written.
    pub(super) fn may_write(&self, path: &Path) -> bool {
        self.write.iter().any(|granted| path.starts_with(granted))
    }

    /// Whether something below it may be read, so that a listing shows it.
    pub(super) fn leads_to_readable(&self, path: &Path) -> bool {
        self.read.iter().any(|granted| granted.starts_with(path))
    }

    /// Whether its name is out of reach.
    pub(super) fn hides(&self, path: &Path) -> bool {
        path.iter().any(is_git) || self.hidden.iter().any(|hidden| starts_with_any_case(path, hidden))
    }

    /// Whether its name is out of reach for writing.
    pub(super) fn hides_from_writing(&self, path: &Path) -> bool {
        self.hides(path) || path.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(SETTINGS))
    }

    /// What is hidden now.
    pub(super) fn identities(&self) -> Identities {
        let known = self.hidden.iter().filter_map(|path| path.metadata().ok());
        Identities(known.map(|metadata| (metadata.dev(), metadata.ino())).collect())
    }
}

/// Whether a name is `.git` on any file system: some ignore case, HFS+ also ignores invisible characters, and NTFS has a
/// short name for it (CVE-2014-9390).
fn is_git(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    if bytes.eq_ignore_ascii_case(b".git") || bytes.eq_ignore_ascii_case(b"git~1") {
        return true;
    }
    let visible = |c: &char| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    // Only a short name can be one in disguise.
    bytes.len() <= 64
        && !bytes.is_ascii()
        && name
            .to_str()
            .is_some_and(|name| name.chars().filter(visible).collect::<String>().eq_ignore_ascii_case(".git"))
}

/// As [`Path::starts_with`] without regard to case: what is hidden may not exist yet, so that its inode is unknown.
fn starts_with_any_case(path: &Path, prefix: &Path) -> bool {
    let mut names = path.iter();
    prefix.iter().all(|wanted| names.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted)))
}

/// Where a path really is, also when its end does not exist yet.
pub(super) fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}
