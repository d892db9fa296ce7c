//! Files that a workflow includes: prompts, system texts and child workflows.

use std::collections::BTreeMap;

use super::Reader;
use super::path_node::PathNode;
use crate::diagnostic::Code;
use crate::source::{Source, excerpt};

const MAX_FILE_BYTES: usize = crate::source::MAX_BYTES;
/// The maximum bytes of all included files together, including what their anchors repeat.
pub const MAX_INCLUDED_BYTES: usize = 8 << 20;
pub const MAX_CHILD_DEPTH: usize = 8;
pub const MAX_CHILDREN: usize = 256;
const MAX_PATH_BYTES: usize = 1024;

/// Access to a workflow's files.
///
/// Paths are relative to the folder of the workflow file, have `/` between their parts, and neither begin with `/` nor
/// contain `.` or `..`. The implementation ensures that no link leads out of the folder.
pub trait Files {
    /// Returns the text of the file at `path`, of at most `max_bytes`.
    fn read(&self, path: &str, max_bytes: usize) -> Result<String, FileError>;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("there is no such file")]
    NotFound,
    #[error("it lies outside the folder of the workflow")]
    Outside,
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
    /// It is not UTF-8 from this byte on, in this line, counted from 1.
    #[error("line {line} holds the byte 0x{byte:02x}, which is not UTF-8; {mend}")]
    NotText { line: usize, byte: u8, mend: &'static str },
    #[error("{0}")]
    Refused(String),
}

impl FileError {
    /// The text of a file, or what is not UTF-8 in it.
    pub fn text_of(bytes: Vec<u8>) -> Result<String, Self> {
        String::from_utf8(bytes).map_err(|error| {
            let bytes = error.as_bytes();
            let (valid, rest) = bytes.split_at(error.utf8_error().valid_up_to());
            let line = valid.split(|byte| *byte == b'\n').count();
            let byte = rest.first().copied().unwrap_or_default();
            let has_mark = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
            let mend = if has_mark || bytes.contains(&0) {
                "`iconv -f UTF-16` converts the file"
            } else if valid.is_ascii() && byte < 0xfe {
                "`iconv -f WINDOWS-1252` converts the file"
            } else {
                // It is UTF-8 up to there, or the byte stands in no text.
                "mend that line"
            };
            Self::NotText { line, byte, mend }
        })
    }
}

impl Files for BTreeMap<String, String> {
    fn read(&self, path: &str, max_bytes: usize) -> Result<String, FileError> {
        match self.get(path) {
            Some(text) if text.len() > max_bytes => Err(FileError::TooLarge(max_bytes)),
            Some(text) => Ok(text.clone()),
            None => Err(FileError::NotFound),
        }
    }
}

/// The state shared by all files of one workflow: the budget for included files, and the open children.
pub(super) struct Family {
    bytes_left: usize,
    pub children_left: usize,
    /// The paths of the files being read, outermost first.
    pub open: Vec<String>,
}

impl Family {
    pub fn new(path: &str) -> Self {
        Self { bytes_left: MAX_INCLUDED_BYTES, children_left: MAX_CHILDREN, open: vec![path.to_owned()] }
    }

    /// Subtracts `bytes` from the budget; returns whether they were left.
    pub fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }
}

pub(super) struct Included {
    /// Its path for [`Files`].
    pub path: String,
    pub shown: String,
    pub text: String,
}

impl Reader<'_> {
    pub(super) fn included(&mut self, part: &PathNode<'_>) -> Option<Included> {
        let written = self.text(part)?;
        let Some(relative) = plain_path(&written) else {
            let message = format!("`{}` is not a path within the folder of the workflow", excerpt(&written));
            let hint = "write a relative path with `/` between its parts and without `..`";
            return self.refuse(part, part.fault(Code::FileOutside, message).with_hint(hint));
        };
        let path = format!("{}{relative}", self.folder);
        let text = match self.files.read(&path, MAX_FILE_BYTES) {
            Ok(text) if text.len() <= MAX_FILE_BYTES => text,
            refused => {
                let error = refused.err().unwrap_or(FileError::TooLarge(MAX_FILE_BYTES));
                let code = match error {
                    FileError::Outside => Code::FileOutside,
                    FileError::TooLarge(_) => Code::TooLarge,
                    _ => Code::FileUnreadable,
                };
                let hint = "the path counts from the folder of the file that names it";
                let hint = (code == Code::FileUnreadable).then(|| hint.to_owned());
                let message = format!("`{}` cannot be read: {error}", excerpt(&written));
                return self.refuse(part, part.fault(code, message).with_hint_if(hint));
            }
        };
        if !self.family.take(text.len()) {
            let message = format!("the included files have more than {MAX_INCLUDED_BYTES} bytes in all");
            return self.refuse(part, part.fault(Code::TooLarge, message));
        }
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Some(Included { path, shown: format!("{}{relative}", self.shown_folder), text })
    }

    /// The text of the file named by `{file: PATH}` at `part`.
    pub(super) fn included_text(&mut self, part: &PathNode<'_>, file: &PathNode<'_>) -> Option<String> {
        let Some(Included { shown, text, .. }) = self.included(file) else {
            self.places.mark_incomplete(&part.path);
            return None;
        };
        self.places.put_file(&part.path, Source::new(shown, text.as_str()));
        Some(text)
    }
}

/// `path` without `.` parts, if it is relative and stays within its folder.
fn plain_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
    let is_plain = path.len() <= MAX_PATH_BYTES
        && !path.contains(|c: char| c == '\\' || c == ':' || c.is_control())
        && !parts.is_empty()
        && parts.iter().all(|part| !part.is_empty() && *part != "..");
    is_plain.then(|| parts.join("/"))
}
