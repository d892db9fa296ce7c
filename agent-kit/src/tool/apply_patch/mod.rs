mod hunk;
mod unified;

use std::fmt::Write;

use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{CHANGE_MIB, FileCall, Patience, named};
use super::near::nearest;
use super::text::{CHANGED_MAX_BYTES, Text, redacted};
use super::{Content, Error};
use crate::redact::Redactor;
use crate::sandbox::files::{self, Target, Workspace};
use hunk::Hunk;
use unified::FilePatch;

/// The maximum total size of the files of one patch, before and after it.
const PATCH_MAX_BYTES: usize = 16 << 20;
const SHOWN_MAX_BYTES: usize = 200;

/// What [`ApplyPatch`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyPatch {
    /// A unified diff: for each file `--- a/path`, `+++ b/path` and hunks that begin with `@@ -12,5 +12,6 @@`.
    /// `/dev/null` stands for the file that is created or removed.
    patch: String,
}

impl FileCall for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const DESCRIPTION: &'static str = "Applies a unified diff to one or more files: all of them are changed, or none. \
        Context and removed lines must stand in the files exactly; line numbers may be off. Files can be created and \
        removed, not renamed.";
    const ROOM_MIB: u32 = CHANGE_MIB;
    const ONLY_READS: bool = false;

    fn effect(&self, workspace: &Workspace) -> Effect {
        // A patch that cannot be parsed is refused before anything is written.
        let files = unified::read(&self.patch).unwrap_or_default();
        Effect::Writes(files.iter().map(|file| named(workspace, file.path())).collect())
    }

    fn run(self, workspace: &Workspace, redactor: Redactor, patience: &Patience) -> Result<Content, Error> {
        let files = unified::read(&self.patch).map_err(fault)?;
        let mut changes = Vec::with_capacity(files.len());
        let mut bytes = 0;
        for file in &files {
            let change = Change::plan(workspace, file, &redactor, patience)?;
            // Until the last file is written, the old and the new content of each file stay in memory.
            bytes += [&change.before, &change.after].into_iter().flatten().map(Vec::len).sum::<usize>();
            if bytes > PATCH_MAX_BYTES {
                let message = format!(
                    "the files of the patch, as they are and as they would be, have more than {} MiB together; make \
                     several of it",
                    PATCH_MAX_BYTES >> 20
                );
                return Err(fault(message));
            }
            if changes.iter().any(|known: &Change<'_>| known.target.path() == change.target.path()) {
                return Err(fault(format!("{} is in the patch under two names", change.target.path())));
            }
            changes.push(change);
        }
        // Removals come last: they are the one change that cannot be undone exactly.
        changes.sort_by_key(|change| change.after.is_none());
        patience.check()?;
        carry_out(&mut changes)?;
        let mut done = String::new();
        for change in &changes {
            let what = match (&change.before, &change.after) {
                (None, _) => "created",
                (_, None) => "removed",
                _ => "changed",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(done, "{what} {}", change.target.path());
        }
        Ok(done.into())
    }
}

fn fault(message: String) -> Error {
    Error::new(Code::PatchUnusable, message)
}

struct Change<'w> {
    target: Target<'w>,
    before: Option<Vec<u8>>,
    /// `None` = the file is removed.
    after: Option<Vec<u8>>,
}

impl<'w> Change<'w> {
    /// Computes the change without writing.
    fn plan(
        workspace: &'w Workspace,
        file: &FilePatch,
        redactor: &Redactor,
        patience: &Patience,
    ) -> Result<Self, Error> {
        let target = workspace.target(file.path())?;
        let path = target.path();
        let before = target.read(CHANGED_MAX_BYTES)?;
        let mut text = match (&file.old, &before) {
            (None, Some(_)) => return Err(fault(format!("the patch creates {path}, which is there already"))),
            (Some(_), None) => return Err(files::Error::Missing(path).into()),
            (_, before) => Text::read(&path, before.clone().unwrap_or_default())?,
        };
        for (index, hunk) in file.hunks.iter().enumerate() {
            patience.check()?;
            apply_hunk(&path, &mut text, index + 1, hunk, redactor)?;
        }
        let content = std::mem::take(&mut text.content);
        if file.new.is_none() && !content.is_empty() {
            return Err(fault(format!("the patch removes {path}, but leaves text in it; remove every line of it")));
        }
        let after = file.new.as_ref().map(|_| text.encode(&path, content)).transpose()?;
        Ok(Self { target, before, after })
    }

    /// Whether the change was made although an error was reported.
    fn is_carried_out(&self) -> bool {
        self.target.read(CHANGED_MAX_BYTES * 4).is_ok_and(|now| now == self.after)
    }
}

/// Gives a file this content, or removes it.
fn put(target: &mut Target<'_>, content: Option<&[u8]>) -> Result<(), files::Error> {
    match content {
        Some(content) => target.replace(content),
        None => target.remove(),
    }
}

fn carry_out(changes: &mut [Change<'_>]) -> Result<(), Error> {
    for index in 0..changes.len() {
        let made = changes.get_mut(index).map(|change| put(&mut change.target, change.after.as_deref()));
        let Some(Err(error)) = made else { continue };
        let done = changes.iter_mut().take(index + 1).enumerate();
        let mut written = Vec::new();
        for (at, change) in done.rev() {
            if (at < index || change.is_carried_out()) && put(&mut change.target, change.before.as_deref()).is_err() {
                written.push(change.target.path());
            }
        }
        let error = Error::from(error);
        if written.is_empty() {
            return Err(Error { message: format!("{}; no file was changed", error.message), ..error });
        }
        let written = written.join(", ");
        let message = format!("{}; these files were changed and could not be put back: {written}", error.message);
        return Err(Error { code: Code::PatchUnusable, message, ..error });
    }
    Ok(())
}

fn apply_hunk(path: &str, text: &mut Text, number: usize, hunk: &Hunk, redactor: &Redactor) -> Result<(), Error> {
    let unfit = |why: String| fault(format!("hunk {number} of {path} ({}) {why}", hunk.header()));
    let lines = hunk.lines_in(text).map_err(|why| unfit(format!("cannot be read: {why}")))?;
    let Some(at) = lines.place(&text.content, hunk.new_start) else {
        let content = &text.content;
        let stands = content.lines().nth(hunk.old_start.saturating_sub(1)).unwrap_or("the end of the file");
        let stands = redacted(redactor, stands.as_bytes(), SHOWN_MAX_BYTES);
        let near = nearest(content, &hunk.old_lines(), redactor);
        return Err(unfit(format!("does not fit: at line {} stands {stands:?}{near}", hunk.old_start)));
    };
    text.content.replace_range(at..at + lines.old.len(), &lines.new);
    Ok(())
}
