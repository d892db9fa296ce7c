//! Walks a folder with everything below it, in order, filtered by its ignore files.
//!
//! Every folder is opened through the sandbox, and memory is bounded: at most the names of the open folders and the
//! rules of their ignore files are kept.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use rondo_protocol::diagnostic::Code;

use super::Error;
use super::files::Patience;
use super::text::Marks;
use crate::sandbox::files::{self, Folder, FolderEntry, Kind, Listing, Opened, Workspace};

/// The maximum depth of a walk. Each level holds a handle.
const DEPTH_MAX: usize = 64;
const NAMES_MAX: usize = 200_000;
/// The maximum memory for the names of the open folders.
const HELD_MAX_BYTES: usize = 16 << 20;
/// The maximum total size of the open folders' ignore files. They are compiled to automata that are much larger.
const RULES_MAX_BYTES: usize = 32 << 10;
const GLOB_MAX_BYTES: usize = 1024;

pub(super) struct Tree<'w> {
    workspace: &'w Workspace,
    patience: &'w Patience,
    glob: Override,
    /// The rules of the entered folders, the outermost first.
    rules: Vec<Rules>,
    depth_max: usize,
    names: usize,
    /// The memory of the open folders' names.
    held_bytes: usize,
    /// Why the walk is incomplete.
    pub(super) marks: Marks,
}

/// The ignore files of one folder.
struct Rules {
    /// `.ignore`, which takes precedence over any `.gitignore`.
    ignore: Gitignore,
    gitignore: Gitignore,
    size_bytes: usize,
}

/// Called for each entry; `false` ends the walk.
pub(super) type OnEntry<'v> = dyn FnMut(&Folder<'_>, &FolderEntry) -> Result<bool, Error> + 'v;

impl<'w> Tree<'w> {
    pub(super) fn new(
        workspace: &'w Workspace,
        folder: &Folder<'_>,
        glob: Option<&str>,
        depth: Option<u32>,
        patience: &'w Patience,
    ) -> Result<Self, Error> {
        let depth_max = depth.map_or(DEPTH_MAX, |depth| usize::try_from(depth).unwrap_or(DEPTH_MAX).min(DEPTH_MAX));
        let (glob, rules, marks) = (compiled(folder.real(), glob)?, Vec::new(), Marks::default());
        let mut tree = Self { workspace, patience, glob, rules, depth_max, names: 0, held_bytes: 0, marks };
        tree.inherit(folder.real());
        Ok(tree)
    }

    /// Walks a folder. A folder's entry comes before its contents.
    pub(super) fn walk(&mut self, folder: &Folder<'_>, visit: &mut OnEntry<'_>) -> Result<(), Error> {
        self.walk_at(folder, 1, visit).map(drop)
    }

    fn walk_at(&mut self, folder: &Folder<'_>, depth: usize, visit: &mut OnEntry<'_>) -> Result<bool, Error> {
        let listing = folder.list()?;
        if listing.is_cut {
            self.marks.push(format!("{} holds more names than are looked at", folder.path()));
        }
        let held_bytes = held_bytes(&listing);
        if self.held_bytes + held_bytes > HELD_MAX_BYTES {
            self.marks.push(format!("did not go into {}: there are too many names in it and above it", folder.path()));
            return Ok(true);
        }
        self.held_bytes += held_bytes;
        self.enter(folder);
        let mut goes_on = true;
        for entry in &listing.entries {
            self.patience.check()?;
            self.names += 1;
            if self.names > NAMES_MAX {
                self.marks.push(format!("stopped after {NAMES_MAX} names; give a path or a smaller depth"));
                goes_on = false;
                break;
            }
            goes_on = self.visit(folder, entry, depth, visit)?;
            if !goes_on {
                break;
            }
        }
        self.rules.pop();
        self.held_bytes -= held_bytes;
        Ok(goes_on)
    }

    fn visit(
        &mut self,
        folder: &Folder<'_>,
        entry: &FolderEntry,
        depth: usize,
        visit: &mut OnEntry<'_>,
    ) -> Result<bool, Error> {
        let path = folder.real().join(&entry.name);
        let is_folder = entry.stamp.kind == Kind::Folder;
        let chosen = self.glob.matched(&path, is_folder);
        if chosen.is_ignore() || self.is_left_out(&path, is_folder) {
            return Ok(true);
        }
        // Folders are always walked, and reported only if the glob matches.
        if (!is_folder || chosen.is_whitelist() || self.glob.num_whitelists() == 0) && !visit(folder, entry)? {
            return Ok(false);
        }
        if !is_folder || depth >= self.depth_max {
            if is_folder && depth == DEPTH_MAX {
                self.marks.push(format!("did not go below {}", folder.path_of(&entry.name)));
            }
            return Ok(true);
        }
        match folder.folder(&entry.name) {
            Ok(below) => self.walk_at(&below, depth + 1, visit),
            // A folder that cannot be opened, or no longer is a folder, does not hide the others.
            Err(error) => {
                self.marks.push(error.to_string());
                Ok(true)
            }
        }
    }

    /// Whether a path is excluded: by ignore files, or because its name begins with a dot and no ignore file includes
    /// it.
    fn is_left_out(&self, path: &Path, is_folder: bool) -> bool {
        let nearest = |file: fn(&Rules) -> &Gitignore| {
            let matches = self.rules.iter().rev().map(|rules| file(rules).matched(path, is_folder));
            matches.map(|found| found.map(|_| ())).find(|found| !found.is_none()).unwrap_or(ignore::Match::None)
        };
        match nearest(|rules| &rules.ignore).or(nearest(|rules| &rules.gitignore)) {
            ignore::Match::None => path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")),
            found => found.is_ignore(),
        }
    }

    /// Adds the rules of the folders above.
    fn inherit(&mut self, real: &Path) {
        let Ok(below) = real.strip_prefix(self.workspace.path()) else { return };
        let Ok(Opened::Folder(mut folder)) = self.workspace.find(".") else { return };
        for name in below {
            self.enter(&folder);
            match folder.folder(name) {
                Ok(next) => folder = next,
                Err(_) => return,
            }
        }
    }

    /// Adds the rules of a folder: none if it has no ignore files, or only inaccessible ones.
    fn enter(&mut self, folder: &Folder<'_>) {
        let used_bytes = self.rules.iter().map(|rules| rules.size_bytes).sum();
        let mut bytes_left = RULES_MAX_BYTES.saturating_sub(used_bytes);
        let all = bytes_left;
        let ignore = self.read_rules(folder, ".ignore", &mut bytes_left);
        let gitignore = self.read_rules(folder, ".gitignore", &mut bytes_left);
        self.rules.push(Rules { ignore, gitignore, size_bytes: all - bytes_left });
    }

    /// Reads an ignore file, unless it exceeds the rest of the shared budget. Skips invalid lines, as git does.
    fn read_rules(&mut self, folder: &Folder<'_>, name: &str, bytes_left: &mut usize) -> Gitignore {
        let rules = match folder.file(name.as_ref()).and_then(|mut file| file.read_whole(*bytes_left as u64)) {
            Ok(bytes) => {
                *bytes_left -= bytes.len();
                let mut rules = GitignoreBuilder::new(folder.real());
                for line in String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').lines() {
                    let _ = rules.add_line(None, line);
                }
                rules.build().ok()
            }
            Err(files::Error::TooLarge { .. }) => None,
            Err(_) => return Gitignore::empty(),
        };
        rules.unwrap_or_else(|| {
            self.marks.push(format!(
                "{} was not applied: ignore files may have {} KiB, with those of the folders above",
                folder.path_of(name.as_ref()),
                RULES_MAX_BYTES >> 10
            ));
            Gitignore::empty()
        })
    }
}

fn held_bytes(listing: &Listing) -> usize {
    let of = |entry: &FolderEntry| {
        let target = entry.target.as_ref().map_or(0, |target| target.as_os_str().len());
        size_of::<FolderEntry>() + entry.name.len() + target
    };
    listing.entries.iter().map(of).sum()
}

fn compiled(folder: &Path, glob: Option<&str>) -> Result<Override, Error> {
    let Some(glob) = glob else { return Ok(Override::empty()) };
    let fault = |message: String| Error::new(Code::PatternUnusable, message);
    if glob.len() > GLOB_MAX_BYTES {
        return Err(fault(format!("the glob is longer than {GLOB_MAX_BYTES} bytes")));
    }
    if glob.split('/').any(|part| part == "..") || Path::new(glob.trim_start_matches('!')).starts_with("/") {
        let message = format!("the glob {glob:?} leads out of the folder; it is matched against paths below `path`");
        return Err(fault(message));
    }
    let mut builder = OverrideBuilder::new(folder);
    builder
        .add(glob)
        .and_then(|builder| builder.build())
        .map_err(|error| fault(format!("the glob is not valid: {error}")))
}
