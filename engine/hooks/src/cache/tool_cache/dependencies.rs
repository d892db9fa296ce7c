//! What a result depends on as far as writes are concerned, and what a write may change.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rondo_agent_kit::sandbox::files::{Reach, Workspace};
use rondo_protocol::read_set::{ReadEntry, ReadKind, ReadSet};
use serde::{Deserialize, Serialize};

/// The names that a result stands on: as many as it takes for every write that touches one of all its read entries to touch
/// one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependencies {
    /// The workspace's folder, below which paths are relative.
    root: String,
    /// `None` = any write may touch it.
    names: Option<Vec<(String, ReadKind)>>,
}

impl Dependencies {
    /// That of what was seen in a workspace.
    pub fn of(seen: &ReadSet, root: &Path) -> Self {
        let Some(root) = root.to_str() else { return Self::any() };
        let read = seen.read_entries.iter();
        let read: Vec<(&Path, &String, ReadKind)> = read
            .map(|ReadEntry { path, kind, .. }| (Path::new(if path == "." { "" } else { path }), path, *kind))
            .collect();
        // Whatever touches a name below a listing, or below what is no folder, touches that too.
        let spanning: HashSet<&Path> =
            read.iter().filter(|(.., kind)| *kind != ReadKind::Folder).map(|(path, ..)| *path).collect();
        // Whatever touches a folder that was entered touches what was seen in it.
        let entered: HashSet<&Path> = read.iter().flat_map(|(path, ..)| path.ancestors().skip(1)).collect();
        let stands = |(path, _, kind): &(&Path, &String, ReadKind)| {
            let spanned = path.ancestors().skip(1).any(|above| spanning.contains(above));
            let is_implied = *kind == ReadKind::Folder && (entered.contains(path) || spanning.contains(path));
            !spanned && !is_implied
        };
        let names = read.iter().filter(|seen| stands(seen)).map(|(_, name, kind)| ((*name).clone(), *kind)).collect();
        Self { root: root.to_owned(), names: Some(names) }
    }

    /// The names with where they are, and whether something may come or go below them; `None` = any write may touch it.
    pub fn paths(&self) -> Option<impl Iterator<Item = (PathBuf, bool)> + '_> {
        let names = self.names.as_ref()?.iter();
        Some(names.map(|(name, kind)| (Path::new(&self.root).join(name), *kind != ReadKind::Folder)))
    }

    /// That of what any write may touch.
    pub fn any() -> Self {
        Self { root: String::new(), names: None }
    }
}

/// What a write may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteSet {
    /// The workspace's folder and what is reached from it; `None` = anything.
    reach: Option<(PathBuf, Reach)>,
}

impl WriteSet {
    /// A write without known bounds.
    pub fn anything() -> Self {
        Self { reach: None }
    }

    /// What a write to these paths may change. Looks at the file system.
    pub fn of(paths: &[String], files: &Workspace) -> Self {
        Self { reach: Some((files.path().to_owned(), files.reach(paths))) }
    }

    /// The paths that it may change, each with all below it; `None` = anything.
    pub fn paths(&self) -> Option<&[PathBuf]> {
        self.reach.as_ref()?.1.paths()
    }

    /// Whether it may change what a result depends on; in doubt it may.
    pub fn touches(&self, dependencies: &Dependencies) -> bool {
        let (Some((root, reach)), Some(names)) = (&self.reach, &dependencies.names) else { return true };
        let own = Path::new(&dependencies.root);
        let is_same = own == root;
        let path = |name: &str| {
            let path = if is_same { Some(name.to_owned()) } else { own.join(name).to_str().map(str::to_owned) };
            path.unwrap_or_else(|| name.to_owned())
        };
        let read_entry = |(name, kind): &(String, ReadKind)| ReadEntry {
            path: path(name),
            kind: *kind,
            mark: None,
            digest: None,
            read_bytes: 0,
        };
        reach.touches(&ReadSet { read_entries: names.iter().map(read_entry).collect() })
    }
}
