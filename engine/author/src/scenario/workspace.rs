//! A copy of a scenario's workspace, deleted after the run.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use tempfile::TempDir;

use rondo_core::temporary_folder::temporary_folder;

/// The most files and folders of a workspace.
const MAX_ENTRIES: usize = 10_000;
/// The most bytes of all its files.
const MAX_BYTES: u64 = 64 << 20;
const MAX_DEPTH: usize = 32;

/// A folder that tools may change freely.
#[derive(Debug)]
pub struct WorkspaceCopy {
    folder: TempDir,
    /// The digest of the copied paths and contents.
    pub digest: Digest,
}

impl WorkspaceCopy {
    /// Creates an empty folder, or one with everything in `path` below `folder`, which links may not lead out of.
    /// Links are copied unchanged: the sandbox of file tools resolves them.
    pub fn of(folder: &Path, path: Option<&str>) -> Result<Self, String> {
        let copy = temporary_folder("scenario").map_err(|error| format!("no temporary folder: {error}"))?;
        let mut copying = Copying { entries: 0, bytes: 0, seen: Vec::new() };
        if let Some(path) = path {
            let from = real(folder, path)?;
            copying.folder(&from, copy.path(), Path::new(""), 0)?;
        }
        Ok(Self { folder: copy, digest: Digest::of_bytes(Kind::Messages, &copying.seen) })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub fn real(folder: &Path, path: &str) -> Result<PathBuf, String> {
    let within = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let failed = |error: io::Error| format!("{path}: {error}");
    let root = folder.canonicalize().map_err(failed)?;
    let real = root.join(path).canonicalize().map_err(failed)?;
    if !within || !real.starts_with(&root) {
        return Err(format!("{path}: it lies outside the folder of the workflow"));
    }
    if real.is_dir() { Ok(real) } else { Err(format!("{path}: it is no folder")) }
}

struct Copying {
    entries: usize,
    bytes: u64,
    /// Path and digest of each file.
    seen: Vec<u8>,
}

impl Copying {
    fn folder(&mut self, from: &Path, to: &Path, shown: &Path, depth: usize) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", shown.display());
        if depth > MAX_DEPTH {
            return Err(format!("{}: folders are nested deeper than {MAX_DEPTH} levels", shown.display()));
        }
        let mut names = fs::read_dir(from)
            .map_err(failed)?
            .take(MAX_ENTRIES + 1)
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        names.sort();
        for name in names {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(format!("the workspace holds more than {MAX_ENTRIES} files"));
            }
            self.entry(&from.join(&name), &to.join(&name), &shown.join(&name), depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, from: &Path, to: &Path, shown: &Path, depth: usize) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", shown.display());
        let about = fs::symlink_metadata(from).map_err(failed)?;
        let kind = about.file_type();
        if kind.is_dir() {
            fs::create_dir(to).map_err(failed)?;
            return self.folder(from, to, shown, depth + 1);
        }
        if kind.is_symlink() {
            let target = fs::read_link(from).map_err(failed)?;
            self.note(shown, target.as_os_str().as_encoded_bytes());
            return std::os::unix::fs::symlink(target, to).map_err(failed);
        }
        if !kind.is_file() {
            return Err(format!("{}: it is neither a file nor a folder", shown.display()));
        }
        self.bytes = self.bytes.saturating_add(about.len());
        if self.bytes > MAX_BYTES {
            return Err(format!("the workspace holds more than {MAX_BYTES} bytes"));
        }
        let content = fs::read(from).map_err(failed)?;
        self.note(shown, &content);
        fs::write(to, &content).map_err(failed)?;
        // The owner of a copy may change it, even if the original is write-protected.
        let mode = about.permissions().mode() | 0o600;
        fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(failed)
    }

    fn note(&mut self, shown: &Path, content: &[u8]) {
        self.seen.extend(shown.as_os_str().as_encoded_bytes());
        self.seen.push(0);
        self.seen.extend(Digest::sha256(content).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_holds_everything_and_can_be_changed_without_its_original() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("w/src")).unwrap();
        fs::write(root.path().join("w/src/a"), "one").unwrap();
        std::os::unix::fs::symlink("src/a", root.path().join("w/link")).unwrap();
        let copy = WorkspaceCopy::of(root.path(), Some("w")).unwrap();
        assert_eq!(fs::read_to_string(copy.path().join("link")).unwrap(), "one");
        fs::write(copy.path().join("src/a"), "two").unwrap();
        assert_eq!(fs::read_to_string(root.path().join("w/src/a")).unwrap(), "one");
        let path = copy.path().to_path_buf();
        let digest = copy.digest;
        drop(copy);
        assert!(!path.exists());
        assert_eq!(WorkspaceCopy::of(root.path(), Some("w")).unwrap().digest, digest);
        fs::write(root.path().join("w/src/a"), "two").unwrap();
        assert_ne!(WorkspaceCopy::of(root.path(), Some("w")).unwrap().digest, digest);
    }

    #[test]
    fn what_lies_outside_is_no_workspace() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::create_dir_all(inner.join("file_is_here")).unwrap();
        fs::write(inner.join("file"), "").unwrap();
        std::os::unix::fs::symlink("/", inner.join("out")).unwrap();
        for bad in ["out", "..", "/", "none", "file"] {
            assert!(WorkspaceCopy::of(&inner, Some(bad)).is_err(), "{bad}");
        }
    }
}
