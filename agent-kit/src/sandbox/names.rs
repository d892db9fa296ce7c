//! Matches paths against patterns of protected names.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::protected::{Kept, PROTECTED, Protection};

/// No disguise of a listed name is longer.
const NAME_MAX_BYTES: usize = 128;

#[derive(Debug, Clone)]
pub(crate) struct Names(Vec<Pattern>);

#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    parts: Vec<String>,
    /// Its protection: from the table, else read-only.
    pub(crate) protection: Protection,
    pub(crate) kept: Kept,
}

impl Names {
    /// Parses an operator's patterns. One without a name is ignored.
    pub(crate) fn new(patterns: &[String]) -> Self {
        let pattern = |text: &String| {
            let parts: Vec<String> =
                text.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_lowercase).collect();
            let row = PROTECTED.iter().find(|row| row.pattern.eq_ignore_ascii_case(&parts.join("/")));
            let (protection, kept) =
                row.map_or((Protection::ReadOnly, Kept::InFolders), |row| (row.protection, row.kept));
            (!parts.is_empty()).then_some(Pattern { parts, protection, kept })
        };
        Self(patterns.iter().filter_map(pattern).collect())
    }

    /// The protection of a path by the name of one of its parts. Read-only names count after the first `granted` parts
    /// only: granting such a folder by name overrides them.
    pub(crate) fn protection(&self, path: &Path, granted: usize) -> Option<Protection> {
        let parts: Vec<&OsStr> = path.iter().collect();
        let mut found = None;
        for end in 1..=parts.len() {
            let Some(until) = parts.get(..end) else { break };
            for pattern in self.0.iter().filter(|pattern| pattern.ends(until)) {
                match pattern.protection {
                    Protection::Closed => return Some(Protection::Closed),
                    Protection::ReadOnly if end > granted => found = Some(Protection::ReadOnly),
                    Protection::ReadOnly => {}
                }
            }
        }
        found
    }

    pub(crate) fn closes(&self, path: &Path) -> bool {
        let closed = || self.0.iter().filter(|pattern| pattern.protection == Protection::Closed);
        // Nearly no name is one.
        let may_end = |name: &OsStr| closed().any(|pattern| pattern.last_is(name));
        path.iter().any(may_end) && self.protection(path, usize::MAX) == Some(Protection::Closed)
    }

    pub(crate) fn found_in(&self, folder: &Path) -> Vec<(PathBuf, Protection)> {
        let names = entries(folder);
        let within = |folder: &Path, names: &[OsString], part: &str| -> Vec<PathBuf> {
            names.iter().filter(|name| is_meant(part, name)).map(|name| folder.join(name)).collect()
        };
        let mut all = Vec::new();
        for pattern in &self.0 {
            let Some((first, rest)) = pattern.parts.split_first() else { continue };
            let mut found = within(folder, &names, first);
            for part in rest {
                found = found.iter().flat_map(|folder| within(folder, &entries(folder), part)).collect();
            }
            all.extend(found.into_iter().map(|path| (path, pattern.protection)));
        }
        all
    }

    /// Whether folders that look like a repository are closed.
    pub(crate) fn close_repositories(&self) -> bool {
        self.0.iter().any(|pattern| pattern.parts == [".git"])
    }

    /// The patterns without `*`, each as a relative path.
    pub(crate) fn plain(&self) -> impl Iterator<Item = (String, &Pattern)> {
        let plain = self.0.iter().filter(|pattern| !pattern.parts.iter().any(|part| part.contains('*')));
        plain.map(|pattern| (pattern.parts.join("/"), pattern))
    }
}

impl Pattern {
    fn last_is(&self, name: &OsStr) -> bool {
        self.parts.last().is_some_and(|part| is_meant(part, name))
    }

    fn ends(&self, parts: &[&OsStr]) -> bool {
        let Some(from) = parts.len().checked_sub(self.parts.len()) else { return false };
        let ending = parts.get(from..).unwrap_or_default();
        self.parts.iter().zip(ending).rev().all(|(part, name)| is_meant(part, name))
    }
}

fn entries(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.file_name()).collect()
}

/// Whether a name matches on any file system: some ignore case, HFS+ also ignores invisible characters, and NTFS has a
/// short name for `.git` (CVE-2014-9390).
fn is_meant(part: &str, name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    if part == ".git" && bytes.eq_ignore_ascii_case(b"git~1") {
        return true;
    }
    if bytes.is_ascii() || bytes.len() > NAME_MAX_BYTES {
        return glob(part.as_bytes(), bytes);
    }
    let visible = |c: &char| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    name.to_str().is_some_and(|name| {
        let shown: String = name.chars().filter(visible).collect();
        glob(part.as_bytes(), shown.to_lowercase().as_bytes())
    })
}

/// Whether `name` matches `pattern`, ignoring case, in which `*` matches any bytes. Backtracking to the last one is enough: it can match
/// whatever an earlier one could match in addition.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // The bytes after the last wildcard, and how far it extends.
    let mut last = None;
    while let Some(byte) = name.get(read) {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                last = Some((at, read));
            }
            Some(wanted) if wanted.eq_ignore_ascii_case(byte) => (at, read) = (at + 1, read + 1),
            _ => {
                let Some((behind, reach)) = last else { return false };
                (at, read) = (behind, reach + 1);
                last = Some((behind, read));
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
