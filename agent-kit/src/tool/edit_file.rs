use std::borrow::Cow;

use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{CHANGE_MIB, FileCall, Patience, named};
use super::near::nearest;
use super::text::{CHANGED_MAX_BYTES, Text};
use super::{Content, Error};
use crate::redact::Redactor;
use crate::sandbox::files::{self, Workspace};

const PLACES_MAX: usize = 20;
/// The maximum size of the text that replacing all occurrences may insert.
const RESULT_MAX_BYTES: usize = 16 << 20;

/// What [`EditFile`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFile {
    /// The file, relative to the workspace's root.
    path: String,
    /// The text to replace, exactly as it stands in the file: with its indentation, without line numbers.
    old: String,
    /// What to put in its place. Empty removes the old text.
    new: String,
    /// Replace every place where `old` stands. Otherwise it must stand in exactly one.
    #[serde(default)]
    all: bool,
}

impl FileCall for EditFile {
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str = "Replaces a text in a file. `old` must be in the file exactly once, so give enough \
        of the lines around it; with `all` every place is replaced.";
    const ROOM_MIB: u32 = CHANGE_MIB;
    const ONLY_READS: bool = false;

    fn effect(&self, workspace: &Workspace) -> Effect {
        Effect::Writes(vec![named(workspace, &self.path)])
    }

    fn run(self, workspace: &Workspace, redactor: Redactor, patience: &Patience) -> Result<Content, Error> {
        let mut target = workspace.target(&self.path)?;
        let path = target.path();
        let bytes = target.read(CHANGED_MAX_BYTES)?;
        let text = Text::read(&path, bytes.ok_or_else(|| files::Error::Missing(path.clone()))?)?;
        let (content, lines) = edit(&path, &text, &self, &redactor)?;
        let content = text.encode(&path, content)?;
        patience.check()?;
        target.replace(&content)?;
        Ok(format!("edited {path} at {lines}\n").into())
    }
}

/// The content as it is then, and the changed lines, in words.
fn edit(path: &str, text: &Text, arguments: &EditFile, redactor: &Redactor) -> Result<(String, String), Error> {
    let fault = |message: String| Error::new(Code::EditUnclear, message);
    if arguments.old.is_empty() {
        return Err(fault("`old` is empty; give the text to replace, or use write_file for a new file".to_owned()));
    }
    if arguments.old == arguments.new {
        return Err(fault("`old` and `new` are the same, so there is nothing to change".to_owned()));
    }
    let content = text.content.as_str();
    let mut old = Cow::Borrowed(arguments.old.as_str());
    let mut new = Cow::Borrowed(arguments.new.as_str());
    if !content.contains(&*old) || !old.contains('\n') {
        old = text.in_its_newlines(&arguments.old);
        new = text.in_its_newlines(&arguments.new);
    }
    // Overlapping occurrences count: for `aa` in `aaa` it is unclear which one is meant.
    let places = beginnings(content, &old);
    let lines = lines_of(content, &places);
    match places.len() {
        0 => Err(fault(format!("`old` is not in {path:?}{}", nearest(content, &arguments.old, redactor)))),
        1 => Ok((content.replacen(&*old, &new, 1), lines)),
        _ if arguments.all => Ok((replaced(path, content, &old, &new)?, lines)),
        _ => Err(fault(format!(
            "`old` is more than once in {path:?}, at {lines}; give more of the lines around it, or set `all`"
        ))),
    }
}

/// Replaces every occurrence. Refuses a short text that becomes a long one in many places.
fn replaced(path: &str, content: &str, old: &str, new: &str) -> Result<String, Error> {
    let grown = content.matches(old).count().saturating_mul(new.len());
    if grown > RESULT_MAX_BYTES {
        let message = format!("{path:?} would grow beyond {} MiB", RESULT_MAX_BYTES >> 20);
        return Err(Error::new(Code::NotText, message));
    }
    Ok(content.replace(old, new))
}

/// The positions of `wanted`, including overlapping ones; one more than can be listed is enough.
fn beginnings(content: &str, wanted: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while places.len() <= PLACES_MAX
        && let Some(at) = content.get(from..).and_then(|rest| rest.find(wanted))
    {
        places.push(from + at);
        from += at + content.get(from + at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    }
    places
}

/// The line numbers of these positions, in words.
fn lines_of(content: &str, places: &[usize]) -> String {
    let line = |at: &usize| 1 + content.get(..*at).unwrap_or_default().matches('\n').count();
    let mut lines: Vec<usize> = places.iter().take(PLACES_MAX).map(line).collect();
    lines.dedup();
    let named = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let more = if places.len() > PLACES_MAX { " and more" } else { "" };
    format!("{} {named}{more}", if lines.len() == 1 { "line" } else { "lines" })
}
