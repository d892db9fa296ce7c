//! Which paths may be read and written.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::super::names::Names;
use super::super::objects::starts_with_any_case;
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
        self.hidden.contains(&(stamp.mark.device, stamp.mark.inode))
    }

    /// Whether this is a read-only file under another name.
    pub(super) fn hold_from_writing(&self, stamp: &Stamp) -> bool {
        self.read_only.contains(&(stamp.mark.device, stamp.mark.inode))
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
        self.names.close_repositories() && is_repository(|part| step::look(dir, part.as_ref()).is_ok())
    }

    /// Whether a new name would make a folder a repository of git.
    pub(super) fn closes_making(&self, dir: &Dir, name: &OsStr) -> bool {
        let holds = |part: &str| name.eq_ignore_ascii_case(part) || step::look(dir, part.as_ref()).is_ok();
        self.makes_part(name) && is_repository(holds)
    }

    /// Whether a new name can make a folder a repository of git.
    pub(super) fn makes_part(&self, name: &OsStr) -> bool {
        self.names.close_repositories() && REPOSITORY.iter().any(|part| name.eq_ignore_ascii_case(part))
    }

    pub(super) fn identities(&self) -> Identities {
        let known = |paths: &[PathBuf]| {
            let known = paths.iter().filter_map(|path| path.metadata().ok());
            known.map(|metadata| (metadata.dev(), metadata.ino())).collect()
        };
        Identities { hidden: known(&self.hidden), read_only: known(&self.read_only) }
    }
}

/// What makes a folder a repository.
const REPOSITORY: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Whether git accepts a folder that holds these names as a repository, whatever its own name: `HEAD`, `objects` and
/// `refs`, or `HEAD` and a `commondir` that names their place. Git reads hooks, filters and settings from it as from a
/// `.git` (<https://git-scm.com/docs/gitrepository-layout>).
fn is_repository(holds: impl Fn(&str) -> bool) -> bool {
    holds("HEAD") && (holds("objects") && holds("refs") || holds("commondir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_told_by_what_it_holds() {
        let of = |names: &[&str]| is_repository(|part| names.iter().any(|name| part.eq_ignore_ascii_case(name)));
        assert!(
            of(&["HEAD", "objects", "refs"]) && of(&["refs", "x", "objects", "head"]) && of(&["HEAD", "commondir"])
        );
        assert!(!of(&["objects", "refs"]) && !of(&["HEAD", "objects"]) && !of(&["commondir"]) && !of(&["HEAD"]));
    }
}
