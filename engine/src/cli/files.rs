//! Files that a command line names.

use std::path::Path;

use rondo_protocol::diagnostic::Code;

use super::failure::Failure;
pub use crate::files::FolderFiles;
use crate::files::read_bounded;

/// Reads a text file that the command line names.
///
/// # Errors
/// [`Code::FileRefused`] with the reason.
pub fn read_text(path: &Path, max_bytes: usize) -> Result<String, Failure> {
    read_bounded(path, max_bytes)
        .map_err(|error| Failure::new(Code::FileRefused, format!("{}: {error}", path.display())))
}

/// A path as it is told to other processes and recorded: absolute, links resolved.
pub fn absolute(path: &Path, here: &Path) -> String {
    let path = here.join(path);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}
