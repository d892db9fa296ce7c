//! Lists the files of the workflows that travel inside the binary: every text of a workflow but its tests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders of a workflow that stay behind.
const LEFT_BEHIND: [&str; 2] = ["tests", "fixture"];

/// What a workflow is made of.
const ENDINGS: [&str; 3] = ["yaml", "md", "json"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for folder in sorted(&root)? {
        if folder.join("workflow.yaml").is_file() {
            collect(&folder, &mut files)?;
        }
    }
    let mut source = "[".to_owned();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy();
        let _ = writeln!(source, "({name:?}, include_str!({:?})),", file.to_string_lossy());
    }
    source.push(']');
    println!("cargo::rerun-if-changed={}", root.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("files.rs"), source)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for path in sorted(folder)? {
        let is = |names: &[&str], part: Option<&std::ffi::OsStr>| {
            part.and_then(|part| part.to_str()).is_some_and(|part| names.contains(&part))
        };
        if path.is_dir() {
            if !is(&LEFT_BEHIND, path.file_name()) {
                collect(&path, files)?;
            }
        } else if is(&ENDINGS, path.extension()) {
            files.push(path);
        }
    }
    Ok(())
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
