//! Paths as callers write them, and as they are shown.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::Error;

/// The longest path, as Linux has it (`PATH_MAX`).
const PATH_MAX_BYTES: usize = 4096;
/// The longest name, as most file systems have it (`NAME_MAX`).
const NAME_MAX_BYTES: usize = 255;
/// How much of a path that cannot be used is shown.
const SHOWN_MAX_CHARS: usize = 120;

/// A path without `.` and `..`, absolute or below the workspace's root. `a/..` is taken as nothing even where `a` is a
/// link or does not exist, because that is what who writes it means, and because the path then says what it touches
/// before it is walked.
pub(super) fn lexical(path: &str) -> Result<PathBuf, Error> {
    let fault = |why| Error::Path { path: path.chars().take(SHOWN_MAX_CHARS).collect(), why };
    if path.is_empty() {
        return Err(fault("is an empty path; `.` is the workspace's root"));
    }
    if path.contains('\0') {
        return Err(fault("holds a NUL byte, which no path can"));
    }
    if path.len() > PATH_MAX_BYTES {
        return Err(fault("is longer than 4096 bytes, which no path can be"));
    }
    let mut parts = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) if name.len() > NAME_MAX_BYTES => {
                return Err(fault("holds a name longer than 255 bytes, which no file can have"));
            }
            Component::Normal(_) | Component::RootDir => parts.push(component),
            // Above the system's root is nothing.
            Component::ParentDir if !parts.pop() && !parts.is_absolute() => {
                return Err(Error::Outside(path.to_owned()));
            }
            Component::ParentDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(parts)
}

/// A path that can be shown on one line: bytes that are not UTF-8 and control characters are escaped as `\xff` and
/// `\u{a}`.
pub fn escaped(path: impl AsRef<OsStr>) -> String {
    let mut shown = String::new();
    for chunk in path.as_ref().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}
