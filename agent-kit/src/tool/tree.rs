//! A folder with all below it, in order, as its ignore files let it be seen.
//!
//! The `ignore` crate's own walker opens paths by name, which the wall cannot allow; here every folder is entered through
//! the wall, and the crate only says what rules mean.

use std::io::Read;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use rondo_protocol::diagnostic::Code;

use super::Error;
use super::files::Patience;
use super::text::Marks;
use crate::wall::files::{Entry, Folder, Found, Kind, Workspace};

/// How deep a walk goes at most. Each level holds a handle.
const DEPTH_MAX: usize = 64;
/// The most names that one walk looks at.
const NAMES_MAX: usize = 200_000;
/// The most of an ignore file that is read.
const RULES_MAX_BYTES: u64 = 256 << 10;
/// The longest glob.
const GLOB_MAX_BYTES: usize = 1024;

/// A walk.
pub(super) struct Tree<'w> {
    workspace: &'w Workspace,
    patience: &'w Patience,
    glob: Override,
    /// The rules of the folders that were entered, the outermost first.
    rules: Vec<Rules>,
    depth_max: usize,
    names: usize,
    /// Why the walk has not seen everything.
    pub(super) marks: Marks,
}

/// What the ignore files of one folder say.
struct Rules {
    /// `.ignore`, which goes before any `.gitignore`.
    ignore: Gitignore,
    gitignore: Gitignore,
}

/// What is done with each entry; `false` ends the walk.
pub(super) type Visit<'v> = dyn FnMut(&Folder<'_>, &Entry) -> Result<bool, Error> + 'v;

impl<'w> Tree<'w> {
    pub(super) fn new(
        workspace: &'w Workspace,
        folder: &Folder<'_>,
        glob: Option<&str>,
        depth: Option<u32>,
        patience: &'w Patience,
    ) -> Result<Self, Error> {
        let depth_max = depth.map_or(DEPTH_MAX, |depth| usize::try_from(depth).unwrap_or(DEPTH_MAX).min(DEPTH_MAX));
        let glob = compiled(folder.real(), glob)?;
        let mut tree =
            Self { workspace, patience, glob, rules: Vec::new(), depth_max, names: 0, marks: Marks::default() };
        tree.inherit(folder.real());
        Ok(tree)
    }

    /// Walks a folder. A folder's entry comes before what is in it.
    pub(super) fn walk(&mut self, folder: &Folder<'_>, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.walk_at(folder, 1, visit).map(drop)
    }

    fn walk_at(&mut self, folder: &Folder<'_>, depth: usize, visit: &mut Visit<'_>) -> Result<bool, Error> {
        let listing = folder.list()?;
        if listing.is_cut {
            self.marks.push(format!("{} holds more names than are looked at", folder.path()));
        }
        self.rules.push(Rules::of(folder));
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
        Ok(goes_on)
    }

    fn visit(
        &mut self,
        folder: &Folder<'_>,
        entry: &Entry,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> Result<bool, Error> {
        let path = folder.real().join(&entry.name);
        let is_folder = entry.stamp.kind == Kind::Folder;
        let chosen = self.glob.matched(&path, is_folder);
        if chosen.is_ignore() || self.is_left_out(&path, entry, is_folder) {
            return Ok(true);
        }
        // Folders are walked whether a glob wants them or not, and named only when it does.
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
            // One folder that cannot be entered, or is none any more, does not hide the others.
            Err(error) => {
                self.marks.push(error.to_string());
                Ok(true)
            }
        }
    }

    /// Whether ignore files leave a path out, or its name, which begins with a dot, while no ignore file wants it.
    fn is_left_out(&self, path: &Path, entry: &Entry, is_folder: bool) -> bool {
        let nearest = |said: fn(&Rules) -> &Gitignore| {
            let said = self.rules.iter().rev().map(|rules| said(rules).matched(path, is_folder));
            said.map(|said| said.map(|_| ())).find(|said| !said.is_none())
        };
        match nearest(|rules| &rules.ignore).or_else(|| nearest(|rules| &rules.gitignore)).unwrap_or(Match::None) {
            Match::Ignore(()) => true,
            Match::Whitelist(()) => false,
            Match::None => entry.name.as_encoded_bytes().starts_with(b"."),
        }
    }

    /// Takes over the rules of the folders above.
    fn inherit(&mut self, real: &Path) {
        let Ok(below) = real.strip_prefix(self.workspace.path()) else { return };
        let Ok(Found::Folder(mut folder)) = self.workspace.find(".") else { return };
        for name in below {
            self.rules.push(Rules::of(&folder));
            match folder.folder(name) {
                Ok(next) => folder = next,
                Err(_) => return,
            }
        }
    }
}

impl Rules {
    fn of(folder: &Folder<'_>) -> Self {
        let read = |name: &str| {
            let mut rules = GitignoreBuilder::new(folder.real());
            let mut bytes = Vec::new();
            // A folder without such a file, or with one that is out of reach, has no rules.
            if let Ok(file) = folder.file(name.as_ref())
                && file.take(RULES_MAX_BYTES).read_to_end(&mut bytes).is_ok()
            {
                for line in String::from_utf8_lossy(&bytes).lines() {
                    // A line that is no rule is passed over, as git does.
                    let _ = rules.add_line(None, line);
                }
            }
            rules.build().unwrap_or_else(|_| Gitignore::empty())
        };
        Self { ignore: read(".ignore"), gitignore: read(".gitignore") }
    }
}

/// Compiles a glob that is relative to `folder`.
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
