//! Lists the files of the workflows that travel inside the binary: every text of a workflow, with its tests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Whether something in a workflow's folder is left there by a build, a run or a test.
fn is_left_over(name: &str, is_folder: bool) -> bool {
    if is_folder { name.starts_with('.') || name == "target" } else { name.ends_with(".snap.new") }
}

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
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_left_over(&name, path.is_dir()) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else {
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
