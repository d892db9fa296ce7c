//! Unified diffs as models write them.
//!
//! The lengths in a hunk's header are recounted, because they are often wrong. Anything besides text changes (renames,
//! modes, binary content) is refused, because ignoring it would apply half a patch.

use std::str::Lines;

use super::super::text::cut;
use super::SHOWN_MAX_BYTES;
use super::hunk::Hunk;

const FILES_MAX: usize = 200;
const HUNKS_MAX: usize = 2_000;
const PATH_MAX_BYTES: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// The existing file; `None` = it is created.
    pub(super) old: Option<String>,
    /// The resulting file; `None` = it is removed.
    pub(super) new: Option<String>,
    pub(super) hunks: Vec<Hunk>,
}

impl FilePatch {
    pub(super) fn path(&self) -> &str {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or_default()
    }
}

pub(super) fn read(patch: &str) -> Result<Vec<FilePatch>, String> {
    let mut reader = Reader { rest: patch.lines(), at: 0, hunks: 0, header: None };
    let mut files: Vec<FilePatch> = Vec::new();
    while let Some(line) = reader.next() {
        if line.starts_with("--- ") && reader.peek().is_some_and(|next| next.starts_with("+++ ")) {
            let file = reader.file(line)?;
            if files.iter().any(|known| known.path() == file.path()) {
                return Err(format!("{} is in the patch twice; put its hunks under one header", file.path()));
            }
            files.push(file);
            if files.len() > FILES_MAX {
                return Err(format!("the patch has more than {FILES_MAX} files; make several of it"));
            }
        } else {
            reader.beside(line)?;
        }
    }
    reader.end_header()?;
    if files.is_empty() {
        return Err("it is not a unified diff: there is no line `--- a/path` followed by `+++ b/path`".to_owned());
    }
    Ok(files)
}

struct Reader<'p> {
    /// The remaining lines, and how many were read. They are not collected into a list: for a patch of short lines, the
    /// list would be many times as large as the patch.
    rest: Lines<'p>,
    at: usize,
    hunks: usize,
    /// A `diff --git` line with changes other than text that is not yet followed by `---`.
    header: Option<String>,
}

impl<'p> Reader<'p> {
    fn next(&mut self) -> Option<&'p str> {
        self.at += 1;
        self.rest.next()
    }

    fn peek(&self) -> Option<&'p str> {
        self.rest.clone().next()
    }

    /// Reads a line outside of hunks.
    fn beside(&mut self, line: &str) -> Result<(), String> {
        let refused = |what: &str| Err(format!("line {} asks for {what}; {MENDED}", self.at));
        match line {
            _ if line.starts_with("rename ") || line.starts_with("copy ") => refused("a rename or a copy"),
            _ if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") => {
                refused("a binary change")
            }
            _ if line.starts_with("old mode ") || line.starts_with("new mode ") => refused("a change of permissions"),
            _ if line.starts_with("*** ") => {
                Err(format!("line {} is not of a unified diff: {:?}", self.at, cut(line, SHOWN_MAX_BYTES)))
            }
            _ if line.starts_with("@@") => {
                Err(format!("line {} is a hunk without `--- a/path` and `+++ b/path` in front", self.at))
            }
            _ if line.starts_with("diff --git ") => self.end_header(),
            _ if line.starts_with("new file mode ") || line.starts_with("deleted file mode ") => {
                self.header = Some(format!("line {} creates or removes a file without any text", self.at));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end_header(&mut self) -> Result<(), String> {
        self.header.take().map_or(Ok(()), |header| Err(format!("{header}; {MENDED}")))
    }

    fn file(&mut self, old: &str) -> Result<FilePatch, String> {
        self.header = None;
        let number = self.at;
        let (old, new) = (path(old), path(self.next().unwrap_or_default()));
        if old.len().max(new.len()) > PATH_MAX_BYTES {
            return Err(format!("line {number} has a path longer than {PATH_MAX_BYTES} bytes"));
        }
        if [old, new].iter().any(|path| path.starts_with('"')) {
            return Err(format!("line {number} quotes its path; write it as it is"));
        }
        let (old, new) = match (old, new) {
            (NOTHING, NOTHING) => return Err(format!("line {number} names no file")),
            (NOTHING, new) => (None, Some(new.strip_prefix("b/").unwrap_or(new))),
            (old, NOTHING) => (Some(old.strip_prefix("a/").unwrap_or(old)), None),
            (old, new) => {
                let (old, new) = old.strip_prefix("a/").zip(new.strip_prefix("b/")).unwrap_or((old, new));
                (Some(old), Some(new))
            }
        };
        if let (Some(old), Some(new)) = (old, new)
            && old != new
        {
            return Err(format!("line {number} renames a file, which a patch cannot do here; {MENDED}"));
        }
        let mut file = FilePatch { old: old.map(str::to_owned), new: new.map(str::to_owned), hunks: Vec::new() };
        while self.peek().is_some_and(|line| line.starts_with("@@")) {
            file.hunks.push(self.hunk()?);
            self.hunks += 1;
            if self.hunks > HUNKS_MAX {
                return Err(format!("the patch has more than {HUNKS_MAX} hunks; make several of it"));
            }
        }
        if file.hunks.is_empty() {
            return Err(format!("{} has no hunk: a line that begins with `@@ -` must follow its header", file.path()));
        }
        Ok(file)
    }

    fn hunk(&mut self) -> Result<Hunk, String> {
        let header = self.next().unwrap_or_default();
        let [old, new] = ranges(header).ok_or_else(|| {
            format!(
                "line {} is not a hunk header like `@@ -12,5 +12,6 @@`: {:?}",
                self.at,
                cut(header, SHOWN_MAX_BYTES)
            )
        })?;
        let mut hunk = Hunk { old_start: old.0, new_start: new.0, body: String::new() };
        // The line counts that the header still announces.
        let (mut olds, mut news) = (old.1, new.1);
        while let Some(line) = self.peek() {
            let is_promised = olds > 0 || news > 0;
            let mark = match line.chars().next() {
                // An empty context line that lost its space.
                None if is_promised => ' ',
                // The signature separator of a mail.
                Some('-') if !is_promised && line == "-- " => break,
                // The next file, unless these are the last two announced lines.
                Some('-') if (olds, news) != (1, 1) && self.begins_file() => break,
                Some(mark @ (' ' | '+' | '-' | '\\')) => mark,
                Some(first) if first != '@' && is_promised && !line.starts_with("diff --git ") => {
                    let at = self.at + 1;
                    return Err(format!(
                        "line {at} begins with neither a space, `+` nor `-`: {:?}",
                        cut(line, SHOWN_MAX_BYTES)
                    ));
                }
                _ => break,
            };
            olds = olds.saturating_sub(usize::from(matches!(mark, ' ' | '-')));
            news = news.saturating_sub(usize::from(matches!(mark, ' ' | '+')));
            hunk.body.push_str(if line.is_empty() { " " } else { line });
            hunk.body.push('\n');
            self.next();
        }
        if olds > 0 || news > 0 {
            // Empty lines at the end of a patch are not lost context.
            while hunk.body.ends_with("\n \n") && self.peek().is_none() {
                hunk.body.truncate(hunk.body.len() - 2);
            }
        }
        Ok(hunk)
    }

    fn begins_file(&self) -> bool {
        let mut ahead = self.rest.clone();
        ["--- ", "+++ ", "@@"].iter().all(|mark| ahead.next().is_some_and(|line| line.starts_with(mark)))
    }
}

/// What to do instead of a refused change.
const MENDED: &str = "patches change text only: use write_file and edit_file, or leave this out";
/// The name of a missing file in a diff.
const NOTHING: &str = "/dev/null";

/// The path of a `---` or `+++` line, without the timestamp that may follow.
fn path(line: &str) -> &str {
    let path = line.get(4..).unwrap_or_default();
    path.split('\t').next().unwrap_or_default().trim_end()
}

/// Beginning and length, in the old and in the new file, of `@@ -12,5 +12,6 @@`.
fn ranges(header: &str) -> Option<[(usize, usize); 2]> {
    let inner = header.strip_prefix("@@ -")?;
    let (inner, _) = inner.split_once(" @@")?;
    let (old, new) = inner.split_once(" +")?;
    Some([range(old)?, range(new)?])
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (start, length) = text.split_once(',').unwrap_or((text, "1"));
    Some((start.trim().parse().ok()?, length.trim().parse().ok()?))
}

#[cfg(test)]
mod tests;
