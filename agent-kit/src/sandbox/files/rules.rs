//! Which paths may be read and written.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::super::names::Names;
use super::super::objects::starts_with_any_case;
use super::super::repository::{Shape, is_part};
use super::{Stamp, step};

/// The granted and the hidden paths: absolute, and without links except for hidden links.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) read_only: Vec<PathBuf>,
    pub(super) names: Names,
    /// The workspace, and what is granted.
    pub(super) roots: Vec<PathBuf>,
}

/// The hidden and read-only files by device and inode. Taken for each walk, because their owner may create or replace
/// them at any time.
#[derive(Debug)]
pub(super) struct Identities {
    hidden: Vec<(u64, u64)>,
    read_only: Vec<(u64, u64)>,
}

impl Identities {
    /// Whether this is a hidden file under another name.
    pub(super) fn hold(&self, stamp: &Stamp) -> bool {
        self.hidden.contains(&(stamp.device, stamp.inode))
    }

    /// Whether this is a read-only file under another name.
    pub(super) fn hold_from_writing(&self, stamp: &Stamp) -> bool {
        self.read_only.contains(&(stamp.device, stamp.inode))
    }
}

impl Rules {
    pub(super) fn may_read(&self, path: &Path) -> bool {
        self.read.iter().any(|granted| path.starts_with(granted))
    }

    pub(super) fn may_write(&self, path: &Path) -> bool {
        self.write.iter().any(|granted| path.starts_with(granted))
    }

    /// Whether something below it may be read, so that a listing shows it.
    pub(super) fn leads_to_readable(&self, path: &Path) -> bool {
        self.read.iter().any(|granted| granted.starts_with(path))
    }

    /// Whether it is inaccessible by name.
    pub(super) fn hides(&self, path: &Path) -> bool {
        self.names.closes(path) || self.hidden.iter().any(|hidden| starts_with_any_case(path, hidden))
    }

    pub(super) fn is_read_only(&self, path: &Path) -> bool {
        let above = self.roots.iter().filter(|root| path.starts_with(root));
        let granted = above.map(|root| root.iter().count()).min().unwrap_or(0);
        self.names.protection(path, granted).is_some()
            || self.read_only.iter().any(|held| starts_with_any_case(path, held))
    }

    /// Whether a folder is a repository of git under another name.
    pub(super) fn closes_repository(&self, dir: &Dir) -> bool {
        self.names.close_repositories() && shape(dir).is_repository()
    }

    /// Whether a new name would make a folder a repository of git.
    pub(super) fn closes_making(&self, dir: &Dir, name: &OsStr) -> bool {
        if !self.makes_part(name) {
            return false;
        }
        let mut shape = shape(dir);
        shape.add(name);
        shape.is_repository()
    }

    /// Whether a new name can make a folder a repository of git.
    pub(super) fn makes_part(&self, name: &OsStr) -> bool {
        self.names.close_repositories() && is_part(name)
    }

    /// The current hidden and read-only files.
    pub(super) fn identities(&self) -> Identities {
        let known = |paths: &[PathBuf]| {
            let known = paths.iter().filter_map(|path| path.metadata().ok());
            known.map(|metadata| (metadata.dev(), metadata.ino())).collect()
        };
        Identities { hidden: known(&self.hidden), read_only: known(&self.read_only) }
    }
}

fn shape(dir: &Dir) -> Shape {
    Shape::of(|name| step::look(dir, name).is_ok())
}
