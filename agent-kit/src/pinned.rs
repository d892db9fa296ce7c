//! Files that must be what somebody was shown when a program that names them starts.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

const MAX_FOLDER_FILES: usize = 2_000;

/// Beyond it a file counts as its beginning and its size.
const MAX_FILE_BYTES: u64 = 256 << 20;

const READ_BYTES: usize = 64 << 10;

/// The files of one program, each with its [digest](digest).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned(Arc<[(PathBuf, String)]>);

impl FromIterator<(PathBuf, String)> for Pinned {
    fn from_iter<T: IntoIterator<Item = (PathBuf, String)>>(files: T) -> Self {
        Self(files.into_iter().collect())
    }
}

impl Pinned {
    /// Compares every file with its digest.
    ///
    /// # Errors
    /// [`Code::NotTrusted`] with the first file that is another one now.
    pub fn check(&self) -> Result<(), Error> {
        let Some((path, _)) = self.0.iter().find(|(path, pinned)| digest(path) != *pinned) else { return Ok(()) };
        let message = format!("{} has changed since its program was agreed to, so it is not started", path.display());
        Err(Error::new(Code::NotTrusted, message))
    }
}

/// The digest of a file, or of all files below a folder, in words; or why there is none.
pub fn digest(path: &Path) -> String {
    if path.is_dir() { of_folder(path) } else { of_file(path) }
}

fn of_folder(folder: &Path) -> String {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().filter_map(Result::ok) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => files.push(entry.path()),
            }
            if files.len() + folders.len() > MAX_FOLDER_FILES {
                return format!("a folder of more than {MAX_FOLDER_FILES} files, which is not covered");
            }
        }
    }
    files.sort();
    let mut hasher = Sha256::new();
    for file in &files {
        hasher.update(format!("{}\n{}\n", file.display(), of_file(file)));
    }
    format!("{} files, sha256 {}", files.len(), Digest(hasher.finalize().into()))
}

/// A pipe or a device is not read.
fn of_file(path: &Path) -> String {
    let digest = || {
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("it is not a plain file"));
        }
        let (mut hasher, mut buffer, mut left) = (Sha256::new(), vec![0; READ_BYTES], MAX_FILE_BYTES);
        loop {
            let read = file.read(&mut buffer)?;
            hasher.update(buffer.get(..read).unwrap_or_default());
            left = left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
            if read == 0 {
                return Ok(format!("sha256 {}", Digest(hasher.finalize().into())));
            }
            if left == 0 {
                let begins = Digest(hasher.finalize().into());
                return Ok(format!("{} bytes, of which the first {MAX_FILE_BYTES} have sha256 {begins}", about.len()));
            }
        }
    };
    digest().unwrap_or_else(|error| format!("unreadable: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_another_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let [script, data] = ["run.sh", "data"].map(|name| folder.path().join(name));
        std::fs::write(&script, "echo").unwrap();
        std::fs::create_dir(&data).unwrap();
        let pinned: Pinned = [&script, &data].into_iter().map(|path| (path.clone(), digest(path))).collect();
        assert_eq!(pinned.check(), Ok(()));
        std::fs::write(data.join("more"), "x").unwrap();
        assert!(pinned.check().unwrap_err().message.starts_with(data.to_str().unwrap()));
        std::fs::remove_file(data.join("more")).unwrap();
        std::fs::write(&script, "rm").unwrap();
        let error = pinned.check().unwrap_err();
        assert!(error.code == Code::NotTrusted && error.message.contains("run.sh has changed"), "{error}");
        std::fs::remove_file(&script).unwrap();
        assert!(pinned.check().is_err());
    }
}
