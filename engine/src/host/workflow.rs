//! Resolves a workflow's name to the checked definition.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use rondo_protocol::diagnostic::{Code, did_you_mean};
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::workflow::{self, Checked};
use rondo_settings::files::FolderFiles;
use rondo_settings::folder_of;
use rondo_workflows::shipped;

use super::known_keys::refuse_keys;
use crate::failure::{Failure, Faulty};
use crate::files::read_text;

/// The names of a workflow's file in its folder, in order of preference.
const FILE_NAMES: [&str; 2] = ["workflow.yaml", "workflow.json"];

/// The folder whose subfolders are workflows, which can be named directly.
pub const FOLDER: &str = "workflows";

/// The folder of scenarios next to a workflow.
const TESTS: &str = "tests";

/// The most bytes of a workflow file; the reader's own limit is lower and has better messages.
const MAX_FILE_BYTES: usize = 16 << 20;

/// How many names are considered for a hint.
const MAX_NAMES: usize = 1000;

#[derive(Debug)]
pub struct Loaded {
    pub path: PathBuf,
    pub checked: Checked,
    /// The texts read, by their names in diagnostics.
    pub sources: BTreeMap<String, String>,
}

impl Loaded {
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// Its files and folders, as absolute paths: its file and what that includes, the script that answers for it, its
    /// tests. Empty for a shipped workflow.
    pub fn files(&self, script: Option<&str>, here: &Path) -> Vec<PathBuf> {
        if self.path.to_str().is_some_and(shipped::is_one) {
            return Vec::new();
        }
        let tests = self.folder().join(TESTS);
        let named = self.sources.keys().map(PathBuf::from).chain(script.map(PathBuf::from)).chain([tests]);
        named.map(|file| here.join(file)).filter(|file| file.exists()).collect()
    }
}

/// Finds the file of a workflow: a file, a folder that holds `workflow.yaml` or `workflow.json`, the name of a folder below
/// `workflows/` in `here` or that its workflow gives itself, or the name of a shipped one. Folders above `here` are not
/// searched.
pub fn find(name: &str, here: &Path) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    let full = here.join(path);
    if let Some(shipped) = name.strip_prefix(shipped::SCHEME) {
        // A file of this name is reached by `./rondo:NAME`.
        return shipped::file(shipped).map(PathBuf::from).ok_or_else(|| not_found(name, here, false));
    }
    if full.is_dir() {
        if let Some(file) = file_in(path, here) {
            return Ok(file);
        }
    } else if std::fs::symlink_metadata(&full).is_ok() && !name.is_empty() {
        return Ok(path.to_path_buf());
    }
    let is_plain = !name.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)));
    let named = is_plain.then(|| file_in(&Path::new(FOLDER).join(name), here)).flatten();
    let by_own_name = || below(here).find(|found| is_plain && found.name == name).map(|found| found.file);
    let shipped = || shipped::file(name).map(PathBuf::from);
    named.or_else(by_own_name).or_else(shipped).ok_or_else(|| not_found(name, here, full.is_dir()))
}

pub fn file_in(folder: &Path, here: &Path) -> Option<PathBuf> {
    FILE_NAMES.iter().map(|file| folder.join(file)).find(|file| here.join(file).is_file())
}

fn not_found(name: &str, here: &Path, is_folder: bool) -> Failure {
    let shown: String = name.chars().take(200).collect();
    if is_folder {
        let message = format!("the folder {shown:?} holds neither workflow.yaml nor workflow.json");
        return Failure::new(Code::WorkflowNotFound, message);
    }
    let known: Vec<String> = all(here).into_iter().map(|found| found.name).collect();
    let what = format!("nor a name below {FOLDER}/ or of a workflow that ships with rondo");
    let message = format!("{shown:?} is neither a file, nor a folder with a workflow, {what}");
    let listed = || {
        let hint = Hint::from(format!("known here: {}; ", known.join(", ")));
        hint.operation(Operation::new(Verb::Init)).words(" writes one to start from")
    };
    let hint = did_you_mean(name, known.iter().map(String::as_str)).map_or_else(listed, Hint::from);
    Failure::new(Code::WorkflowNotFound, message).with_hint(hint)
}

/// The names of the workflows below `workflows/` in `here`.
fn names_in(here: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(here.join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(move |entry| file_in(&entry.path(), here).is_some());
    folders.filter_map(|entry| entry.file_name().into_string().ok()).take(MAX_NAMES)
}

/// The workflows below `workflows/` in `here`, by the names that they give themselves: threads are listed by these. One
/// with faults, or with a name that another has, goes by that of its folder.
fn below(here: &Path) -> impl Iterator<Item = Named> {
    let mut taken = BTreeSet::new();
    names_in(here).filter_map(move |folder| {
        let file = file_in(&Path::new(FOLDER).join(&folder), here)?;
        let own = read(here.join(&file)).ok().map(|loaded| loaded.checked.workflow.name);
        let name = own.filter(|name| !taken.contains(name)).unwrap_or(folder);
        taken.insert(name.clone());
        Some(Named { name, file })
    })
}

/// A workflow with a name by which others than its author may start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub file: PathBuf,
}

/// The workflows that can be started by name from `here`, each name once: the one in the folder itself, by the name
/// that it gives itself, those below `workflows/`, and those that ship with rondo.
pub fn all(here: &Path) -> Vec<Named> {
    let own = file_in(Path::new(""), here).and_then(|file| {
        let name = read(file.clone()).ok()?.checked.workflow.name;
        Some(Named { name, file })
    });
    let shipped = shipped::names().filter_map(|name| {
        let file = PathBuf::from(shipped::file(name)?);
        Some(Named { name: name.to_owned(), file })
    });
    let mut all: Vec<Named> = own.into_iter().chain(below(here)).chain(shipped).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup_by(|later, first| later.name == first.name);
    all
}

/// The workflow of this folder, and those below `workflows/`, with faults or without.
pub fn own(here: &Path) -> Vec<String> {
    let is_here = file_in(Path::new(""), here).is_some();
    is_here.then(|| ".".to_owned()).into_iter().chain(names_in(here)).collect()
}

/// The workflow with a name, its own or that of its folder; no path is one.
pub fn named(name: &str, here: &Path) -> Result<Named, Failure> {
    let all = all(here);
    let folder = file_in(&Path::new(FOLDER).join(name), here).filter(|_| !name.contains(['/', '.']));
    let found = all.iter().find(|found| found.name == name);
    let found = found.or_else(|| all.iter().find(|found| Some(&found.file) == folder.as_ref()));
    found.cloned().ok_or_else(|| not_found(name, here, false))
}

pub fn load(name: &str, here: &Path) -> Result<Loaded, Failure> {
    read(find(name, here)?)
}

pub fn read(path: PathBuf) -> Result<Loaded, Failure> {
    let text = read_text(&path, MAX_FILE_BYTES)?;
    check(path, text)
}

pub fn check(path: PathBuf, text: String) -> Result<Loaded, Failure> {
    let file = path.to_string_lossy().into_owned();
    let files = FolderFiles::new(folder_of(&path));
    let result = workflow::read(&file, &text, &files);
    // Diagnostics name an included file as the reader shows it: with the folder of the given file.
    let shown_folder = file.rfind('/').and_then(|slash| file.get(..=slash)).unwrap_or_default();
    let mut sources: BTreeMap<String, String> =
        files.into_read().into_iter().map(|(name, text)| (format!("{shown_folder}{name}"), text)).collect();
    sources.insert(file, text);
    refuse_keys(&sources)?;
    match result {
        Ok(checked) => Ok(Loaded { path, checked, sources }),
        Err(faults) => Err(Faulty { faults, sources }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in ["review-loop", "own"] {
            std::fs::create_dir_all(root.path().join("workflows").join(name)).unwrap();
            std::fs::write(root.path().join("workflows").join(name).join("workflow.yaml"), "rondo: 1").unwrap();
        }
        std::fs::create_dir_all(root.path().join("deep/er")).unwrap();
        root
    }

    #[test]
    fn a_workflow_is_found_by_file_folder_and_name() {
        let root = folder();
        let file = PathBuf::from("workflows/review-loop/workflow.yaml");
        for name in ["workflows/review-loop/workflow.yaml", "workflows/review-loop", "review-loop"] {
            assert_eq!(find(name, root.path()), Ok(file.clone()), "{name}");
        }
        assert_eq!(find("debate", root.path()), Ok(PathBuf::from("rondo:debate/workflow.yaml")), "it ships with rondo");
        assert_eq!(find("rondo:review-loop", root.path()), Ok(PathBuf::from("rondo:review-loop/workflow.yaml")));
        assert!(find("own", &root.path().join("deep/er")).is_err(), "nothing above the working folder is looked into");
        std::fs::create_dir(root.path().join("rondo:own")).unwrap();
        std::fs::write(root.path().join("rondo:own/workflow.yaml"), "rondo: 1").unwrap();
        assert!(find("rondo:own", root.path()).is_err(), "a folder on disk is none of those that ship with rondo");
        assert_eq!(find("./rondo:own", root.path()), Ok(PathBuf::from("./rondo:own/workflow.yaml")));
    }

    #[test]
    fn a_workflow_goes_by_the_name_that_it_gives_itself_and_is_found_by_that_of_its_folder_too() {
        let root = folder();
        let file = root.path().join("workflows/own/workflow.yaml");
        let text = "rondo: 1\nname: triage\nroles: { a: { system: s } }\ngraph: { start: { to: a }, a: { done: { to: end } } }\n";
        std::fs::write(file, text).unwrap();
        let file = PathBuf::from("workflows/own/workflow.yaml");
        for name in ["own", "triage"] {
            assert_eq!(find(name, root.path()), Ok(file.clone()), "{name}");
            let named = named(name, root.path()).unwrap();
            assert_eq!((named.name.as_str(), named.file), ("triage", file.clone()), "{name}");
        }
        assert!(all(root.path()).iter().all(|found| found.name != "own"));
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest() {
        let root = folder();
        let told = |name: &str| match find(name, root.path()) {
            Err(Failure::Fault(fault)) => format!("{}; {}", fault.message, fault.hint.unwrap_or_default()),
            other => format!("{other:?}"),
        };
        assert!(told("reveiw-loop").contains("did you mean `review-loop`?"), "{}", told("reveiw-loop"));
        let far = told("../nowhere/x");
        assert!(far.contains("known here: approve-release, debate, ") && far.contains("own"), "{far}");
        insta::assert_snapshot!(told("deep"), @r#"the folder "deep" holds neither workflow.yaml nor workflow.json; "#);
    }
}
