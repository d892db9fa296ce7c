//! Finds protected names and repositories at any depth below the granted folders.
//!
//! A nested `.git` names hooks and filters that the user's own git runs later, and every run started in a folder reads
//! its `rondo.toml`. Both are searched for before a program starts, breadth first and within limits: a writable folder
//! beyond the limits is refused. A path that was found stays protected as long as it exists. Folders that are only read
//! are searched once.
//!
//! Not covered: names that are created in nested folders after a program started, also in empty folders and links of
//! these names. They are searched for when the program has ended, reported, and protected from then on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::super::names::Names;
use super::super::protected::Protection;
use super::super::repository::Shape;
use super::{is_empty, not_started};
use crate::error::Error;

/// The maximum depth of the search.
const DEPTH_MAX: usize = 128;
/// The maximum number of entries to look at in one granted folder.
const ENTRIES_MAX: usize = 1_000_000;
/// The maximum number of masked and held paths.
const FOUND_MAX: usize = 1_000;
/// The maximum size of a `.git` file and of a `commondir`.
const POINTER_MAX_BYTES: u64 = 8 << 10;

/// The granted folders of one program.
#[derive(Debug, Clone, Default)]
pub(super) struct Roots {
    /// Without links.
    pub workspace: PathBuf,
    /// The writable paths, without links.
    pub write: Vec<PathBuf>,
    /// The readable paths outside the workspace, without links.
    pub read: Vec<PathBuf>,
}

/// The protected paths below granted folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProtectedPaths {
    /// Inaccessible.
    pub closed: BTreeSet<PathBuf>,
    /// Read-only.
    pub read_only: BTreeSet<PathBuf>,
    /// Every protected name in the writable folders, by device and inode, including links and files.
    marks: BTreeMap<PathBuf, (u64, u64)>,
    /// A folder that was not searched completely.
    cut: Option<PathBuf>,
}

/// The protected paths found so far.
#[derive(Debug, Default)]
pub(super) struct Nested {
    names: Names,
    entries_max: usize,
    known: Mutex<ProtectedPaths>,
    /// The results of folders that are only read.
    read: Mutex<BTreeMap<PathBuf, ProtectedPaths>>,
}

impl Nested {
    pub fn new(protected: &[String]) -> Self {
        Self { names: Names::new(protected), entries_max: ENTRIES_MAX, ..Self::default() }
    }

    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Searches the folders again and returns every protected path.
    ///
    /// # Errors
    /// A writable folder exceeds the limits, or there are too many protected paths.
    pub fn look(&self, roots: &Roots) -> Result<ProtectedPaths, Error> {
        let mut found = ProtectedPaths::default();
        for root in &roots.write {
            let below = self.find(root, true, roots);
            if let Some(folder) = &below.cut {
                return Err(self.too_large(root, folder));
            }
            if below.closed.contains(root) {
                let message = format!(
                    "{} is itself a repository of git (it holds HEAD, objects and refs), whose hooks and settings no \
                     program may write; grant a folder beside it",
                    root.display()
                );
                return Err(not_started(message));
            }
            found.add(below);
        }
        let is_written = |path: &PathBuf| roots.write.iter().any(|root| path.starts_with(root));
        if !is_written(&roots.workspace) {
            // The rest beyond the limits cannot be written.
            found.add(self.find(&roots.workspace, false, roots));
        }
        for root in roots.read.iter().filter(|root| !is_written(root)) {
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            let below = read.entry(root.clone()).or_insert_with(|| self.find(root, false, roots));
            if let Some(folder) = &below.cut {
                return Err(self.too_large(root, folder));
            }
            found.add(below.clone());
        }
        found.cut = None;
        self.remembered(found, roots)
    }

    /// The protected paths created or replaced since `before`.
    pub fn made_since(&self, before: &ProtectedPaths, roots: &Roots) -> Vec<PathBuf> {
        let mut made = Vec::new();
        for root in &roots.write {
            let now = self.find(root, true, roots);
            made.extend(now.cut);
            let is_new = |(path, mark): &(PathBuf, (u64, u64))| before.marks.get(path) != Some(mark);
            made.extend(now.marks.into_iter().filter(is_new).map(|(path, _)| path));
        }
        made.sort();
        made.dedup();
        made
    }

    /// Adds the earlier results that still exist.
    fn remembered(&self, mut found: ProtectedPaths, roots: &Roots) -> Result<ProtectedPaths, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reached = |path: &&PathBuf| roots.all().any(|root| path.starts_with(root));
        known.closed.retain(|path| is_covered(path));
        known.read_only.retain(|path| is_covered(path));
        known.closed.extend(found.closed.iter().cloned());
        known.read_only.extend(found.read_only.iter().cloned());
        found.closed.extend(known.closed.iter().filter(is_reached).cloned());
        let writable = |path: &&PathBuf| roots.write.iter().any(|root| path.starts_with(root));
        found.read_only.extend(known.read_only.iter().filter(writable).cloned());
        drop(known);
        let count = found.closed.len().saturating_add(found.read_only.len());
        if count > FOUND_MAX {
            let message = format!(
                "the granted folders hold {count} protected names such as .git and .github, more than the {FOUND_MAX} that \
                 can be held; grant less, use a declared tool with the paths that it writes, or shorten the list of \
                 protected names"
            );
            return Err(not_started(message));
        }
        Ok(found)
    }

    fn too_large(&self, root: &Path, folder: &Path) -> Error {
        not_started(format!(
            "{} cannot be looked through for names that are out of reach (more than {} entries or {DEPTH_MAX} levels, \
             at {}); grant a smaller folder, or use a declared tool with the paths that it writes",
            root.display(),
            self.entries_max,
            folder.display()
        ))
    }

    /// Searches a folder breadth first. Links are not followed.
    fn find(&self, root: &Path, is_written: bool, roots: &Roots) -> ProtectedPaths {
        let mut found = ProtectedPaths::default();
        let mut folders = VecDeque::from([Folder { path: root.to_path_buf(), depth: 0, is_held: false }]);
        let mut entries_left = self.entries_max;
        while let Some(folder) = folders.pop_front() {
            let entries = match fs::read_dir(&folder.path) {
                Ok(entries) => entries,
                // A program of the same user could make it readable.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && folder.path != root => {
                    found.closed.insert(folder.path);
                    continue;
                }
                Err(_) => continue,
            };
            let (mut shape, mut below) = (Shape::default(), Vec::new());
            for entry in entries.filter_map(Result::ok) {
                if entries_left == 0 {
                    found.cut = Some(folder.path);
                    return found;
                }
                entries_left -= 1;
                let name = entry.file_name();
                shape.add(&name);
                let protection = self.names.of_entry(&folder.path, &name);
                if let Some(protection) = protection {
                    found.note(&folder, &name, protection, is_written, roots);
                }
                let is_entered = protection != Some(Protection::Closed) && !is_left_out(&entry.path());
                if is_entered && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let is_held = folder.is_held || protection.is_some();
                    below.push(Folder { path: entry.path(), depth: folder.depth + 1, is_held });
                }
            }
            // Repositories in read-only folders may be read, as toolchains do.
            if is_written && self.names.close_repositories() && shape.is_repository() {
                found.mark(&folder.path);
                found.closed.insert(folder.path);
                continue;
            }
            if folder.depth >= DEPTH_MAX && !below.is_empty() {
                found.cut = Some(folder.path);
                return found;
            }
            folders.extend(below);
        }
        found
    }
}

/// A folder to search.
struct Folder {
    path: PathBuf,
    depth: usize,
    /// Whether it is inside a read-only path.
    is_held: bool,
}

impl Roots {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.workspace].into_iter().chain(&self.write).chain(&self.read)
    }

    /// Whether a folder named by a `.git` file may be closed: it is below a granted folder and contains none.
    fn may_close(&self, path: &Path) -> bool {
        self.all().any(|root| path.starts_with(root)) && !self.all().any(|root| root.starts_with(path))
    }
}

impl ProtectedPaths {
    fn add(&mut self, other: Self) {
        self.closed.extend(other.closed);
        self.read_only.extend(other.read_only);
        self.marks.extend(other.marks);
    }

    fn note(&mut self, folder: &Folder, name: &OsStr, protection: Protection, is_written: bool, roots: &Roots) {
        let path = folder.path.join(name);
        if is_written {
            self.mark(&path);
        }
        match protection {
            Protection::Closed if is_covered(&path) => {
                self.closed.extend(pointed_to(&path).into_iter().filter(|path| roots.may_close(path)));
                self.closed.insert(path);
            }
            Protection::ReadOnly if is_written && !folder.is_held => {
                // Of a link, the target if it is writable.
                let real =
                    path.canonicalize().ok().filter(|real| roots.write.iter().any(|root| real.starts_with(root)));
                let is_inner = |real: &PathBuf| !roots.all().any(|root| root.starts_with(real));
                self.read_only.extend(real.filter(|real| is_covered(real) && is_inner(real)));
            }
            Protection::Closed | Protection::ReadOnly => {}
        }
    }

    fn mark(&mut self, path: &Path) {
        let is_there = |found: &Metadata| !(found.is_dir() && is_empty(path));
        if let Some(found) = fs::symlink_metadata(path).ok().filter(is_there) {
            self.marks.insert(path.to_path_buf(), (found.dev(), found.ino()));
        }
    }
}

/// The repository that a `.git` file names, and the one that its `commondir` names.
fn pointed_to(git: &Path) -> Vec<PathBuf> {
    let said = |file: &Path| {
        let mut text = String::new();
        let is_file = fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
        let read = is_file.then(|| fs::File::open(file).ok()?.take(POINTER_MAX_BYTES).read_to_string(&mut text).ok());
        read.flatten().map(|_| text)
    };
    let Some((folder, text)) = git.parent().zip(said(git)) else { return Vec::new() };
    let Some(target) = text.strip_prefix("gitdir:") else { return Vec::new() };
    let target = super::super::objects::real(&folder.join(target.trim()));
    let common = said(&target.join("commondir")).map(|text| super::super::objects::real(&target.join(text.trim())));
    [target].into_iter().chain(common).collect()
}

/// The kernel's file systems are not searched.
fn is_left_out(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|system| path == Path::new(system))
}

/// Whether it exists and can be masked. A folder that cannot be listed counts as not empty.
fn is_covered(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !(found.is_symlink() || found.is_dir() && is_empty(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::protected::protected;

    /// A folder with these files in it.
    fn folder(files: &[&str]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        for file in files {
            fs::create_dir_all(workspace.join(file).parent().unwrap()).unwrap();
            fs::write(workspace.join(file), "x").unwrap();
        }
        (folder, Roots { workspace: workspace.clone(), write: vec![workspace], read: Vec::new() })
    }

    fn paths(roots: &Roots, names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(|name| roots.workspace.join(name)).collect()
    }

    #[test]
    fn nested_repositories_and_settings_are_found_and_remembered() {
        let files = ["a/b/.git/objects", "c/.git", "a/rondo.toml", "a/b/.git/rondo.toml", "other.toml", "d/x"];
        let (_folder, roots) = folder(&files);
        fs::create_dir_all(roots.workspace.join("empty/.git")).unwrap();
        std::os::unix::fs::symlink("../c/.git", roots.workspace.join("d/.git")).unwrap();
        let nested = Nested::new(&protected());
        let found = nested.look(&roots).unwrap();
        assert_eq!(found.closed, paths(&roots, &["a/b/.git", "c/.git"]));
        assert_eq!(found.read_only, paths(&roots, &["a/rondo.toml"]));

        // What was found stays, also where it would not be found any more; what is gone goes.
        fs::remove_file(roots.workspace.join("a/rondo.toml")).unwrap();
        let nothing = Nested { names: Names::default(), ..nested };
        let found = nothing.look(&roots).unwrap();
        assert_eq!((found.closed, found.read_only), (paths(&roots, &["a/b/.git", "c/.git"]), BTreeSet::new()));
    }

    #[test]
    fn repositories_are_found_by_their_shape_and_by_who_points_to_them() {
        let (_folder, roots) = folder(&[
            "bare/HEAD",
            "bare/objects/x",
            "bare/refs/x",
            "bare/src/.envrc",
            "part/HEAD",
            "part/objects/x",
            "work/.git",
            "meta/one/commondir",
            "shared/x",
        ]);
        fs::write(roots.workspace.join("work/.git"), "gitdir: ../meta/one\n").unwrap();
        fs::write(roots.workspace.join("meta/one/commondir"), "../../shared\n").unwrap();
        let nested = Nested::new(&protected());
        assert_eq!(nested.look(&roots).unwrap().closed, paths(&roots, &["bare", "meta/one", "shared", "work/.git"]));
        // What is granted itself is not closed by what a file says.
        fs::write(roots.workspace.join("work/.git"), "gitdir: ..\n").unwrap();
        assert_eq!(Nested::new(&protected()).look(&roots).unwrap().closed, paths(&roots, &["bare", "work/.git"]));
        // Without the name, neither shapes nor pointers mean anything.
        assert_eq!(Nested::new(&[]).look(&roots).unwrap(), ProtectedPaths::default());
        let inside =
            Roots { workspace: roots.workspace.join("bare"), write: vec![roots.workspace.join("bare")], ..roots };
        assert!(nested.look(&inside).unwrap_err().message.contains("is itself a repository"));
    }

    #[test]
    fn a_folder_that_is_too_large_is_refused_only_where_it_is_written() {
        let (_folder, mut roots) = folder(&["a/b/1", "a/b/2", "a/b/3", "out/x"]);
        let nested = Nested { entries_max: 4, ..Nested::new(&protected()) };
        let refusal = nested.look(&roots).unwrap_err();
        assert!(refusal.message.contains("more than 4 entries"), "{refusal}");
        roots.write = vec![roots.workspace.join("out")];
        assert!(nested.look(&roots).is_ok());
        // What is granted beside the workspace has to be known, and is looked through once.
        let (_other, mut read) = folder(&["sub/.git/x"]);
        roots.read = vec![read.workspace.clone()];
        assert_eq!(nested.look(&roots).unwrap().closed, paths(&read, &["sub/.git"]));
        read.write.clear();
        for file in ["1", "2", "3", "4"] {
            fs::write(read.workspace.join(file), "").unwrap();
        }
        assert!(nested.look(&roots).is_ok());
        let again = Nested { entries_max: 4, ..Nested::new(&protected()) };
        assert!(again.look(&roots).unwrap_err().message.contains("cannot be looked through"));
    }

    #[test]
    fn what_was_made_or_replaced_is_told() {
        let (_folder, roots) = folder(&["a/.envrc", "b/.git/config"]);
        let nested = Nested::new(&protected());
        let before = nested.look(&roots).unwrap();
        assert_eq!(nested.made_since(&before, &roots), Vec::<PathBuf>::new());
        fs::rename(roots.workspace.join("a"), roots.workspace.join("old")).unwrap();
        for file in ["a/.envrc", "c/.git/config", "d/HEAD", "d/commondir"] {
            fs::create_dir_all(roots.workspace.join(file).parent().unwrap()).unwrap();
            fs::write(roots.workspace.join(file), "x").unwrap();
        }
        fs::create_dir(roots.workspace.join(".vscode")).unwrap();
        std::os::unix::fs::symlink("a", roots.workspace.join(".idea")).unwrap();
        let made = paths(&roots, &[".idea", "a/.envrc", "c/.git", "d", "old/.envrc"]);
        assert_eq!(BTreeSet::from_iter(nested.made_since(&before, &roots)), made);
    }
}
