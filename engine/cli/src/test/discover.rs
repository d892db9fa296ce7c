//! Resolves a path to workflows, and optionally to one scenario.

use std::path::{Path, PathBuf};

use rondo::author::scenario::FOLDER;
use rondo::protocol::diagnostic::Code;

use crate::{Failure, workflow};

const MAX_DEPTH: usize = 8;
const MAX_WORKFLOWS: usize = 1_000;
const MAX_FOLDERS: usize = 20_000;

#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub file: PathBuf,
    pub only: Option<String>,
}

pub fn targets(path: &str, here: &Path) -> Result<Vec<Target>, Failure> {
    let named = Path::new(path);
    if let Some(target) = scenario(named, here) {
        return Ok(vec![target]);
    }
    let files = match workflow::find(path, here) {
        Err(_) if here.join(named).is_dir() => below(named, here),
        found => vec![found?],
    };
    if files.is_empty() {
        let message = format!("{path}: neither the folder nor any below it holds workflow.yaml or workflow.json");
        return Err(Failure::new(Code::NoScenario, message).with_hint("name a workflow, or a folder with some"));
    }
    Ok(files.into_iter().map(|file| Target { file, only: None }).collect())
}

/// The scenario at `path`, with the workflow next to its folder.
fn scenario(path: &Path, here: &Path) -> Option<Target> {
    let ending = path.extension()?.to_str()?;
    if !matches!(ending, "yaml" | "yml" | "json") || !here.join(path).is_file() {
        return None;
    }
    // A relative path may omit its enclosing folders.
    let full = here.join(path).canonicalize().ok()?;
    let tests = full.parent().filter(|folder| folder.file_name().is_some_and(|name| name == FOLDER))?;
    let file = workflow::file_in(tests.parent()?, here)?;
    let file = file.strip_prefix(here).map(Path::to_path_buf).unwrap_or(file);
    Some(Target { file, only: Some(path.file_stem()?.to_str()?.to_owned()) })
}

/// The workflow files below a folder, sorted. Files within the folder of a workflow belong to it.
fn below(folder: &Path, here: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    look(folder, here, 0, &mut { MAX_FOLDERS }, &mut found);
    found
}

fn look(folder: &Path, here: &Path, depth: usize, folders_left: &mut usize, found: &mut Vec<PathBuf>) {
    if depth > MAX_DEPTH || *folders_left == 0 || found.len() == MAX_WORKFLOWS {
        return;
    }
    *folders_left -= 1;
    if let Some(file) = workflow::file_in(folder, here) {
        found.push(file);
        return;
    }
    let Ok(entries) = std::fs::read_dir(here.join(folder)) else { return };
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(is_folder)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && name != "target" && name != "node_modules")
        .collect();
    names.sort();
    for name in names {
        let inner = if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) };
        look(&inner, here, depth + 1, folders_left, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(root: &Path, name: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn a_path_means_a_workflow_a_scenario_or_all_below_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let here = root.path().canonicalize().unwrap();
        for name in [
            "flows/b/workflow.yaml",
            "flows/a/workflow.json",
            "flows/a/tests/one.yaml",
            "flows/a/tests/workspace/workflow.yaml",
            "flows/.hidden/workflow.yaml",
            "flows/target/workflow.yaml",
            "empty/file",
        ] {
            file(&here, name);
        }
        let target = |file: &str, only: Option<&str>| Target { file: file.into(), only: only.map(str::to_owned) };
        let both = [target("flows/a/workflow.json", None), target("flows/b/workflow.yaml", None)];
        assert_eq!(targets("flows", &here).unwrap(), both);
        assert_eq!(targets(".", &here).unwrap(), both);
        assert_eq!(targets("flows/b", &here).unwrap(), [target("flows/b/workflow.yaml", None)]);
        let one = target("flows/a/workflow.json", Some("one"));
        assert_eq!(targets("flows/a/tests/one.yaml", &here).unwrap(), [one]);
        assert!(targets("empty", &here).is_err());
        assert!(targets("none", &here).is_err());
    }
}
