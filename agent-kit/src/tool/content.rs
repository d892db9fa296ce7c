use rondo_protocol::file::File;

use crate::bound;

/// What a tool returns: a text and files.
///
/// The text names each file, because a model that takes no files reads only the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub text: String,
    pub files: Vec<File>,
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self { text, files: Vec::new() }
    }
}

impl From<File> for Content {
    fn from(file: File) -> Self {
        Self { text: file_line(&file), files: vec![file] }
    }
}

/// The line that stands for a file in a text.
pub(crate) fn file_line(file: &File) -> String {
    format!("[{} ({}), {}]", file.name, file.media_type, bound::bytes(file.bytes.len() as u64))
}
