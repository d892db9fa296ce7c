//! Files that a command line names.

use std::path::Path;

use rondo_protocol::diagnostic::Code;

use super::failure::Failure;
use crate::files::read_bounded;
pub use crate::files::{FolderFiles, folder_of};
use crate::shipped;

/// Reads a text file that the command line names, or one of a workflow that ships with rondo.
///
/// # Errors
/// [`Code::FileRefused`] with the reason.
pub fn read_text(path: &Path, max_bytes: usize) -> Result<String, Failure> {
    if let Some(text) = shipped::text(path) {
        return Ok(text.to_owned());
    }
    read_bounded(path, max_bytes)
        .map_err(|error| Failure::new(Code::FileRefused, format!("{}: {error}", path.display())))
}

/// A path as it is told to other processes and recorded: absolute, links resolved.
pub fn absolute(path: &Path, here: &Path) -> String {
    if let Some(shipped) = path.to_str().filter(|path| shipped::is_one(path)) {
        return shipped.to_owned();
    }
    let path = here.join(path);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}
