//! What is out of reach by its name, wherever in the workspace it stands: repositories and operators' settings.
//!
//! Whoever writes a nested `.git` names hooks and filters that the user's own git runs later, and a nested `rondo.toml`
//! is believed by whoever starts there. What is looked through is bounded, the outermost folders first. What was found
//! once stays out of reach as long as it exists, so that no program buries it under entries.
//!
//! Not covered: what is created after a program was started, what lies beyond the bounds, links of these names, and
//! empty folders, which are no repository.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::not_started;
use crate::tool::Error;

/// The names that are out of reach.
const NAMES: [&str; 2] = [".git", "rondo.toml"];
/// How deep it is looked.
const DEPTH_MAX: usize = 24;
/// How many entries are looked at.
const ENTRIES_MAX: usize = 100_000;
/// How many paths are masked.
const FOUND_MAX: usize = 1_000;

/// What was found in a workspace so far.
#[derive(Debug, Default)]
pub(super) struct Nested(Mutex<BTreeSet<PathBuf>>);

impl Nested {
    /// Looks again, and tells all that is there.
    ///
    /// # Errors
    /// More than can be masked.
    pub fn look(&self, workspace: &Path) -> Result<Vec<PathBuf>, Error> {
        let found = workspace.canonicalize().map(|workspace| find(&workspace)).unwrap_or_default();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|path| is_covered(path));
        known.extend(found);
        if known.len() > FOUND_MAX {
            let message = format!(
                "the workspace has more than {FOUND_MAX} nested .git and rondo.toml, which cannot all be kept out of \
                 reach; give a smaller workspace"
            );
            return Err(not_started(message));
        }
        Ok(known.iter().cloned().collect())
    }
}

/// Looks through a folder, level by level. Links are not followed.
fn find(workspace: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = VecDeque::from([(workspace.to_path_buf(), 0)]);
    let mut entries_left = ENTRIES_MAX;
    while let Some((folder, depth)) = folders.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            if entries_left == 0 {
                return found;
            }
            entries_left -= 1;
            if has_a_name(&entry) {
                let path = entry.path();
                if is_covered(&path) {
                    found.insert(path);
                }
            } else if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back((entry.path(), depth + 1));
            }
        }
    }
    found
}

fn has_a_name(entry: &DirEntry) -> bool {
    NAMES.iter().any(|name| entry.file_name() == *name)
}

/// Whether it is there and can be masked. A folder that cannot be listed counts as a full one.
fn is_covered(path: &Path) -> bool {
    let is_empty_folder = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    fs::symlink_metadata(path).is_ok_and(|found| !(found.is_symlink() || found.is_dir() && is_empty_folder()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_repositories_and_settings_are_found_and_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        for inner in ["a/b/.git/objects", "empty/.git", "c", "d"] {
            fs::create_dir_all(workspace.join(inner)).unwrap();
        }
        for file in ["c/.git", "a/rondo.toml", "a/b/.git/rondo.toml", "other.toml"] {
            fs::write(workspace.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink("../c/.git", workspace.join("d/.git")).unwrap();
        let nested = Nested::default();
        let expected: Vec<PathBuf> = ["a/b/.git", "a/rondo.toml", "c/.git"].map(|path| workspace.join(path)).into();
        assert_eq!(nested.look(&workspace).unwrap(), expected);

        // What was found stays, also where it would not be found any more; what is gone goes.
        fs::remove_file(workspace.join("a/rondo.toml")).unwrap();
        assert_eq!(nested.look(&workspace.join("d")).unwrap(), [expected[0].clone(), expected[2].clone()]);
    }
}
