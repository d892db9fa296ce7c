//! From what a person calls a workflow to the checked definition.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rondo_protocol::diagnostic::{Code, nearest};
use rondo_protocol::workflow::{self, Checked};

use super::failure::{Failure, Faulty};
use super::files::{FolderFiles, read_text};

/// The names of a workflow's file in its folder, in order of preference.
const FILE_NAMES: [&str; 2] = ["workflow.yaml", "workflow.json"];

/// The folder whose folders are workflows that can be called by name.
const SHELF: &str = "workflows";

/// The most bytes of a workflow file; the reader's own budget is lower and has better words.
const MAX_FILE_BYTES: usize = 16 << 20;

/// How many names of a shelf are looked at for a hint.
const MAX_SHELF: usize = 1000;

/// A workflow as it was read from a file.
#[derive(Debug)]
pub struct Loaded {
    /// Where it is.
    pub path: PathBuf,
    /// What it means.
    pub checked: Checked,
    /// The texts that were read, by the names that diagnostics use.
    pub sources: BTreeMap<String, String>,
}

impl Loaded {
    /// The folder that it lies in.
    pub fn folder(&self) -> &Path {
        folder_of(&self.path)
    }
}

/// Finds the file of a workflow: a file, a folder that holds `workflow.yaml` or `workflow.json`, or a name below
/// `workflows/` in `here` or a folder above it.
///
/// # Errors
/// [`Code::WorkflowNotFound`] with the nearest name.
pub fn find(name: &str, here: &Path) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    let full = here.join(path);
    if full.is_dir() {
        if let Some(file) = file_in(path, here) {
            return Ok(file);
        }
    } else if std::fs::symlink_metadata(&full).is_ok() && !name.is_empty() {
        return Ok(path.to_path_buf());
    }
    let is_plain = !name.is_empty() && path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if is_plain {
        for folder in here.ancestors() {
            // Below the working folder the path stays short, as a person would write it.
            let shelf = if folder == here { PathBuf::from(SHELF) } else { folder.join(SHELF) };
            if let Some(file) = file_in(&shelf.join(name), here) {
                return Ok(file);
            }
        }
    }
    Err(not_found(name, here, full.is_dir()))
}

pub(super) fn file_in(folder: &Path, here: &Path) -> Option<PathBuf> {
    FILE_NAMES.iter().map(|file| folder.join(file)).find(|file| here.join(file).is_file())
}

fn not_found(name: &str, here: &Path, is_folder: bool) -> Failure {
    let shown: String = name.chars().take(200).collect();
    if is_folder {
        let message = format!("the folder {shown:?} holds neither workflow.yaml nor workflow.json");
        return Failure::new(Code::WorkflowNotFound, message);
    }
    let mut known: Vec<String> = here
        .ancestors()
        .filter_map(|folder| std::fs::read_dir(folder.join(SHELF)).ok())
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| file_in(&entry.path(), here).is_some())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .take(MAX_SHELF)
        .collect();
    known.sort();
    known.dedup();
    let failure = Failure::new(
        Code::WorkflowNotFound,
        format!("{shown:?} is neither a file, nor a folder with a workflow, nor a name below {SHELF}/"),
    );
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None if known.is_empty() => failure.with_hint("`rondo init` writes a workflow to start from"),
        None => failure.with_hint(format!("below {SHELF}/: {}", known.join(", "))),
    }
}

/// Finds, reads and checks a workflow.
///
/// # Errors
/// When it is not found or not read, or every fault of the file.
pub fn load(name: &str, here: &Path) -> Result<Loaded, Failure> {
    let path = find(name, here)?;
    let text = read_text(&path, MAX_FILE_BYTES)?;
    check(path, text)
}

/// Checks the text of a workflow file.
///
/// # Errors
/// Every fault of the file.
pub fn check(path: PathBuf, text: String) -> Result<Loaded, Failure> {
    let file = path.to_string_lossy().into_owned();
    let files = FolderFiles::new(folder_of(&path));
    let result = workflow::read(&file, &text, &files);
    // Diagnostics name an included file as the reader shows it: with the folder of the file that was given.
    let shown_folder = file.rfind('/').and_then(|slash| file.get(..=slash)).unwrap_or_default();
    let mut sources: BTreeMap<String, String> =
        files.into_read().into_iter().map(|(name, text)| (format!("{shown_folder}{name}"), text)).collect();
    sources.insert(file, text);
    match result {
        Ok(checked) => Ok(Loaded { path, checked, sources }),
        Err(faults) => Err(Faulty { faults, sources }.into()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in ["review-loop", "debate"] {
            std::fs::create_dir_all(root.path().join("workflows").join(name)).unwrap();
            std::fs::write(root.path().join("workflows").join(name).join("workflow.yaml"), "rondo: 1").unwrap();
        }
        std::fs::create_dir_all(root.path().join("deep/er")).unwrap();
        root
    }

    #[test]
    fn a_workflow_is_found_by_file_folder_and_name() {
        let root = shelf();
        let file = PathBuf::from("workflows/review-loop/workflow.yaml");
        for name in ["workflows/review-loop/workflow.yaml", "workflows/review-loop", "review-loop"] {
            assert_eq!(find(name, root.path()), Ok(file.clone()), "{name}");
        }
        assert_eq!(
            find("debate", &root.path().join("deep/er")),
            Ok(root.path().join("workflows/debate/workflow.yaml"))
        );
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest() {
        let root = shelf();
        let told = |name: &str| match find(name, root.path()) {
            Err(Failure::Fault(fault)) => format!("{}; {}", fault.message, fault.hint.unwrap_or_default()),
            other => format!("{other:?}"),
        };
        insta::assert_snapshot!(told("reveiw-loop"), @r#""reveiw-loop" is neither a file, nor a folder with a workflow, nor a name below workflows/; did you mean `review-loop`?"#);
        insta::assert_snapshot!(told("../nowhere/x"), @r#""../nowhere/x" is neither a file, nor a folder with a workflow, nor a name below workflows/; below workflows/: debate, review-loop"#);
        insta::assert_snapshot!(told("deep"), @r#"the folder "deep" holds neither workflow.yaml nor workflow.json; "#);
    }
}
