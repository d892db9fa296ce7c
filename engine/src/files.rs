//! Reads files that an argument or a thread names, with an error that a person can act on.

use std::io;
use std::path::Path;

use rondo_protocol::diagnostic::Code;
use rondo_settings::files::{self as of_settings, open_plain, read_all, read_bounded, read_named};
use rondo_workflows::shipped;

use crate::failure::Failure;

/// The argument that means standard input.
pub const STDIN: &str = "-";

/// A path in the form for records and other processes: absolute, with links resolved.
pub fn absolute(path: &Path, here: &Path) -> String {
    if let Some(shipped) = path.to_str().filter(|path| shipped::is_one(path)) {
        return shipped.to_owned();
    }
    let path = here.join(path);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}

/// Reads a text file that the command line names, or one of a shipped workflow.
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

/// Reads the bytes of a plain file that the command line names, or of standard input.
///
/// # Errors
/// [`Code::FileRefused`] with the reason.
pub fn read_bytes(path: &Path, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    let is_stdin = path == Path::new(STDIN);
    let read = if is_stdin {
        of_settings::read_bytes(&mut io::stdin().lock(), max_bytes)
    } else {
        open_plain(path).and_then(|mut file| of_settings::read_bytes(&mut file, max_bytes))
    };
    let named = if is_stdin { "standard input".into() } else { path.to_string_lossy() };
    read.map_err(|error| Failure::new(Code::FileRefused, format!("{named}: {error}")))
}

/// Reads what an argument of the command line names: a file, a pipe, or `-` for standard input.
///
/// # Errors
/// [`Code::FileRefused`] with the reason.
pub fn read_argument(path: &Path, max_bytes: usize) -> Result<String, Failure> {
    if let Some(text) = shipped::text(path) {
        return Ok(text.to_owned());
    }
    let is_stdin = path == Path::new(STDIN);
    let read = if is_stdin { read_all(&mut io::stdin().lock(), max_bytes) } else { read_named(path, max_bytes) };
    let named = if is_stdin { "standard input".into() } else { path.to_string_lossy() };
    read.map_err(|error| Failure::new(Code::FileRefused, format!("{named}: {error}")))
}
