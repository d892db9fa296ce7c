//! Converts a server's answer to text and files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents};
use rondo_protocol::file::{File, media_type_of};
use serde_json::Value;

use crate::bound;
use crate::redact::Redactor;
use crate::tool::{Content, STORED_MAX_BYTES, file_line};

/// The text and the files of a tool result. A line of the text stands for each file, with its type and size. Of a failed
/// call only the text is kept, because not every provider takes more.
pub fn of_call(result: CallToolResult, redactor: &Redactor) -> Content {
    let mut lines = Lines { takes_files: result.is_error != Some(true), ..Lines::new(redactor) };
    let is_it = |text: &str| serde_json::from_str::<Value>(text).ok() == result.structured_content;
    // Servers repeat a structured result as a text, as the specification asks.
    let is_repeated = result.content.iter().any(|block| matches!(block, ContentBlock::Text(text) if is_it(&text.text)));
    for block in result.content {
        match block {
            ContentBlock::Text(text) => lines.add(&text.text),
            ContentBlock::Image(image) => lines.add_file(&image.mime_type, &image.data, None),
            ContentBlock::Audio(audio) => lines.add_file(&audio.mime_type, &audio.data, None),
            ContentBlock::Resource(embedded) => lines.add_resource(&embedded.resource),
            ContentBlock::ResourceLink(link) => {
                let told = [Some(link.uri), Some(link.name), link.description].into_iter().flatten();
                let told: Vec<String> = told.map(|text| bound::line(&redactor.text(&text), 500)).collect();
                lines.add(&format!("[resource {}]", told.join(" ")));
            }
            _ => lines.add("[content of a kind that is not known, left out]"),
        }
    }
    if let Some(structured) = result.structured_content.filter(|_| !is_repeated) {
        let written = structured.to_string();
        if written.len() > MAX_TOLD_BYTES || !is_told(&structured, &lines.text) {
            lines.add(&written);
        }
    }
    lines.into_content()
}

/// The largest structured result of which it is looked at whether the text tells it in other words.
const MAX_TOLD_BYTES: usize = 16 << 10;

fn is_told(value: &Value, text: &str) -> bool {
    let is_word = |word: &str| {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
        text.match_indices(word).any(|(at, _)| {
            let (before, after) = (text.get(..at), text.get(at + word.len()..));
            !before.unwrap_or_default().ends_with(is_part) && !after.unwrap_or_default().starts_with(is_part)
        })
    };
    match value {
        Value::Array(items) => items.iter().all(|item| is_told(item, text)),
        Value::Object(members) => members.values().all(|member| is_told(member, text)),
        Value::String(words) => text.contains(words.trim()) || text.contains(value.to_string().trim_matches('"')),
        Value::Number(_) | Value::Bool(_) => is_word(&value.to_string()),
        Value::Null => true,
    }
}

pub fn of_resource(result: &ReadResourceResult, redactor: &Redactor) -> Content {
    let mut lines = Lines { takes_files: true, ..Lines::new(redactor) };
    for contents in &result.contents {
        lines.add_resource(contents);
    }
    lines.into_content()
}

/// Whether a model may be shown content of that type. Anything else is only named.
fn is_shown(media_type: &str) -> bool {
    ["image/", "audio/", "video/"].iter().any(|kind| media_type.starts_with(kind)) || media_type == "application/pdf"
}

/// Collects texts line by line up to the storage limit, and redacts them before they are cut.
pub struct Lines<'r> {
    redactor: &'r Redactor,
    text: String,
    /// The size of all texts, kept or not.
    bytes: usize,
    files: Vec<File>,
    takes_files: bool,
}

impl<'r> Lines<'r> {
    pub fn new(redactor: &'r Redactor) -> Self {
        Self { redactor, text: String::new(), bytes: 0, files: Vec::new(), takes_files: false }
    }

    pub fn add(&mut self, text: &str) {
        let text = self.redactor.text(text);
        if self.bytes > 0 && self.text.len() < STORED_MAX_BYTES {
            self.text.push('\n');
        }
        self.bytes += text.len() + usize::from(self.bytes > 0);
        let room = STORED_MAX_BYTES.saturating_add(1).saturating_sub(self.text.len());
        self.text.push_str(bound::beginning(&text, room));
    }

    fn add_resource(&mut self, contents: &ResourceContents) {
        match contents {
            ResourceContents::TextResourceContents { text, .. } => self.add(text),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                self.add_file(mime_type.as_deref().unwrap_or("application/octet-stream"), blob, Some(uri));
            }
            _ => self.add("[content of a kind that is not known, left out]"),
        }
    }

    /// Adds content that is not text, named after the address that it has; `data` is base64.
    fn add_file(&mut self, mime_type: &str, data: &str, uri: Option<&str>) {
        if self.takes_files
            && let Some(file) = self.file(mime_type, data, uri)
        {
            self.add(&file_line(&file));
            self.files.push(file);
            return;
        }
        let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
        let bytes = (data.len() / 4 * 3).saturating_sub(padding);
        let kind = self.redactor.text(mime_type);
        self.add(&format!("[{}, {}, left out]", bound::line(&kind, 100), bound::bytes(bytes as u64)));
    }

    /// The file, if it can be shown. Its contents tell its type better than a server does: providers refuse a picture that
    /// is not of the type it is said to be.
    fn file(&self, mime_type: &str, data: &str, uri: Option<&str>) -> Option<File> {
        let bytes = BASE64_STANDARD.decode(data.trim()).ok()?;
        let stated = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let media_type = Some(media_type_of("", &bytes)).filter(|told| is_shown(told)).map_or(stated, str::to_owned);
        if bytes.is_empty() || !is_shown(&media_type) {
            return None;
        }
        let named = uri.and_then(|uri| uri.rsplit('/').next()).map(|name| self.redactor.text(name).into_owned());
        let file = |name| File { bytes: bytes.as_slice().into(), media_type: media_type.clone(), name }.checked().ok();
        named.and_then(file).or_else(|| file(self.generic_name(&media_type)))
    }

    /// A name such as `image-1.png`.
    fn generic_name(&self, media_type: &str) -> String {
        let (kind, subtype) = media_type.split_once('/').unwrap_or(("file", media_type));
        let kind = if kind == "application" { "file" } else { kind };
        let ending = subtype.split('+').next().unwrap_or(subtype);
        format!("{kind}-{}.{ending}", self.files.len() + 1)
    }

    /// Returns the text, with a mark if it was cut.
    pub fn finish(self) -> String {
        bound::cut_of(self.text, self.bytes, STORED_MAX_BYTES)
    }

    fn into_content(mut self) -> Content {
        let files = std::mem::take(&mut self.files);
        Content { text: self.finish(), files }
    }
}

#[cfg(test)]
mod tests;
