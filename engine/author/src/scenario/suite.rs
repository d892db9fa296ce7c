//! The scenarios next to a workflow file and their accepted snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_settings::files::{FolderFiles, read_bounded};
use rondo_settings::folder_of;

use super::report::ScenarioResult;

pub const FOLDER: &str = "tests";
/// The folder of snapshots in the folder of scenarios.
pub const SNAPSHOTS: &str = "snapshots";
pub const ACCEPTED: &str = ".snap";
/// The suffix of a snapshot that is not reviewed yet.
const NEW: &str = ".new";

const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];
const MAX_SCENARIOS: usize = 10_000;
const MAX_FILES: usize = 200_000;
const MAX_SNAPSHOT_BYTES: usize = 64 << 20;
/// The most bytes of one scenario; the reader's own limit is lower and has better messages.
const MAX_SCENARIO_BYTES: usize = 4 << 20;

/// The scenarios of a workflow and their accepted snapshots, as read.
#[derive(Debug)]
pub struct Suite {
    /// The files that scenarios name, by path relative to the workflow's folder.
    pub(super) files: FolderFiles,
    pub(super) folder: PathBuf,
    pub(super) scenarios: Vec<ScenarioFile>,
    /// By file name; the error for one that cannot be read.
    pub(super) snapshots: BTreeMap<String, Result<String, String>>,
    /// The names of the snapshots that are not reviewed yet, without their suffix.
    pub pending: BTreeSet<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ScenarioFile {
    pub name: String,
    pub file: String,
    /// Relative to the workflow's folder.
    pub path: String,
    pub text: Result<String, Diagnostic>,
}

#[derive(Clone, Default)]
pub struct Options<'a> {
    /// Only scenarios whose name contains this word.
    pub filter: Option<String>,
    pub only: Option<String>,
    /// How many scenarios run at the same time; `None` means the number of processors.
    pub workers: Option<usize>,
    /// Called after each scenario, in no particular order.
    pub progress: Option<&'a (dyn Fn(&ScenarioResult) + Sync)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{folder}: {what}")]
pub struct Unreadable {
    pub folder: String,
    pub what: String,
}

impl Suite {
    /// Reads the scenarios and snapshots next to the workflow file `file`. A workflow may have none.
    ///
    /// # Errors
    /// If a folder exists and cannot be listed. A file that cannot be read is a fault in the report.
    pub fn read(file: &Path) -> Result<Self, Unreadable> {
        let folder = folder_of(file);
        let tests = folder.join(FOLDER);
        let mut scenarios = Vec::new();
        for name in names(&tests)?.into_iter().filter(|name| ending(name).is_some()).take(MAX_SCENARIOS) {
            let path = tests.join(&name);
            let file = shown(&path);
            let at_start = |code, message: String| Diagnostic::at(code, &file, "", Span::default(), message);
            let text = read_bounded(&path, MAX_SCENARIO_BYTES)
                .map_err(|error| at_start(Code::FileUnreadable, format!("the scenario cannot be read: {error}")));
            let called = ending(&name).and_then(|end| name.strip_suffix(end)).unwrap_or(&name);
            let text = if !Self::takes_name(called) {
                let message = format!("`{}` is not a name for a scenario", called.escape_debug());
                Err(at_start(Code::ScenarioName, message)
                    .with_hint("use letters, digits, `-`, `_` and `.`, but not `__`"))
            } else if scenarios.iter().any(|other: &ScenarioFile| other.name == called) {
                Err(at_start(Code::ScenarioName, format!("there is another scenario `{called}`")))
            } else {
                text
            };
            let path = format!("{FOLDER}/{name}");
            scenarios.push(ScenarioFile { name: called.to_owned(), file, path, text });
        }
        let folder_of_snapshots = tests.join(SNAPSHOTS);
        let (mut snapshots, mut pending) = (BTreeMap::new(), BTreeSet::new());
        for name in names(&folder_of_snapshots)? {
            if let Some(name) = name.strip_suffix(NEW).filter(|name| name.ends_with(ACCEPTED)) {
                pending.insert(name.to_owned());
            } else if name.ends_with(ACCEPTED) {
                let text = read_bounded(&folder_of_snapshots.join(&name), MAX_SNAPSHOT_BYTES);
                snapshots.insert(name, text.map_err(|error| error.to_string()));
            }
        }
        let files = FolderFiles::new(folder);
        Ok(Self { files, folder: folder.to_path_buf(), scenarios, snapshots, pending })
    }

    /// Whether a scenario may have this name: whether it gives each of its snapshots a unique file name.
    pub fn takes_name(name: &str) -> bool {
        const LONGEST: usize = 100;
        name.len() <= LONGEST
            && !name.contains("__")
            && !name.ends_with('_')
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    }

    pub fn len(&self) -> usize {
        self.scenarios.len()
    }

    pub fn is_empty(&self) -> bool {
        self.scenarios.is_empty()
    }

    pub fn snapshots_folder(&self) -> PathBuf {
        self.folder.join(FOLDER).join(SNAPSHOTS)
    }

    pub(super) fn shown_snapshot(&self, name: &str) -> String {
        shown(&self.snapshots_folder().join(name))
    }

    /// The displayed name of the workflow's folder, empty or with a `/` at its end.
    pub(super) fn shown_folder(&self) -> String {
        let folder = shown(&self.folder);
        if folder.is_empty() { folder } else { format!("{folder}/") }
    }
}

/// A path as a person would write it.
fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).to_string_lossy().into_owned()
}

/// The names in a folder, sorted; empty if there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>, Unreadable> {
    let refused = |path: &Path, what: String| Unreadable { folder: path.display().to_string(), what };
    let unreadable = |error: std::io::Error| refused(folder, error.to_string());
    let linked = |path: &Path, what: &str| {
        refused(path, format!("it is a link, which is not followed: put the {what} itself there"))
    };
    // Output must stay within the workflow's folder, wherever that came from.
    if std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
        return Err(linked(folder, "folder"));
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries.take(MAX_FILES) {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if (ending(&name).is_some() || name.contains(ACCEPTED)) && entry.file_type().is_ok_and(|kind| kind.is_symlink())
        {
            return Err(linked(&entry.path(), "file"));
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

fn ending(name: &str) -> Option<&'static str> {
    ENDINGS.into_iter().find(|end| name.len() > end.len() && name.ends_with(end) && !name.starts_with('.'))
}
