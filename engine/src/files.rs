//! Reads files that an argument or a thread names, with an error that a person can act on.

use std::io;
use std::path::Path;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::read::FileError;
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
pub fn read_text(path: &Path, max_bytes: usize) -> Result<String, Failure> {
    if let Some(text) = shipped::text(path) {
        return Ok(text.to_owned());
    }
    read_bounded(path, max_bytes)
        .map_err(|error| Failure::new(Code::FileRefused, format!("{}: {error}", path.display())))
}

/// Reads the bytes of a plain file that the command line names, or of standard input.
pub fn read_bytes(path: &Path, max_bytes: usize) -> Result<Vec<u8>, Failure> {
    read_or_stdin(
        path,
        |stdin| of_settings::read_bytes(stdin, max_bytes),
        |path| of_settings::read_bytes(&mut open_plain(path)?, max_bytes),
    )
}

/// Reads what an argument of the command line names: a file, a pipe, or `-` for standard input.
pub fn read_argument(path: &Path, max_bytes: usize) -> Result<String, Failure> {
    if let Some(text) = shipped::text(path) {
        return Ok(text.to_owned());
    }
    read_or_stdin(path, |stdin| read_all(stdin, max_bytes), |path| read_named(path, max_bytes))
}

fn read_or_stdin<T>(
    path: &Path,
    of_stdin: impl FnOnce(&mut io::StdinLock<'_>) -> Result<T, FileError>,
    of_file: impl FnOnce(&Path) -> Result<T, FileError>,
) -> Result<T, Failure> {
    let (read, named) = if path == Path::new(STDIN) {
        (of_stdin(&mut io::stdin().lock()), "standard input".into())
    } else {
        (of_file(path), path.to_string_lossy())
    };
    read.map_err(|error| Failure::new(Code::FileRefused, format!("{named}: {error}")))
}
