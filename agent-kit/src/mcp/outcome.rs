//! Converts a server's answer to text.

use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents};
use serde_json::Value;

use crate::bound;
use crate::redact::Redactor;
use crate::tool::STORED_MAX_BYTES;

/// The text of a tool result. Content that is not text is replaced by its type and size.
pub fn of_call(result: CallToolResult, redactor: &Redactor) -> String {
    let mut lines = Lines::new(redactor);
    let is_it = |text: &str| serde_json::from_str::<Value>(text).ok() == result.structured_content;
    // Servers repeat a structured result as a text, as the specification asks.
    let is_repeated = result.content.iter().any(|block| matches!(block, ContentBlock::Text(text) if is_it(&text.text)));
    for block in result.content {
        match block {
            ContentBlock::Text(text) => lines.add(&text.text),
            ContentBlock::Image(image) => lines.leave_out(&image.mime_type, &image.data),
            ContentBlock::Audio(audio) => lines.leave_out(&audio.mime_type, &audio.data),
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
    lines.finish()
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

pub fn of_resource(result: &ReadResourceResult, redactor: &Redactor) -> String {
    let mut lines = Lines::new(redactor);
    for contents in &result.contents {
        lines.add_resource(contents);
    }
    lines.finish()
}

/// Collects texts line by line up to the storage limit, and redacts them before they are cut.
pub struct Lines<'r> {
    redactor: &'r Redactor,
    text: String,
    /// The size of all texts, kept or not.
    bytes: usize,
}

impl<'r> Lines<'r> {
    pub fn new(redactor: &'r Redactor) -> Self {
        Self { redactor, text: String::new(), bytes: 0 }
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
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                self.leave_out(mime_type.as_deref().unwrap_or("application/octet-stream"), blob);
            }
            _ => self.add("[content of a kind that is not known, left out]"),
        }
    }

    /// Adds the type and size of content that is not text; `data` is base64.
    fn leave_out(&mut self, mime_type: &str, data: &str) {
        let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
        let bytes = (data.len() / 4 * 3).saturating_sub(padding);
        let kind = self.redactor.text(mime_type);
        self.add(&format!("[{}, {}, left out]", bound::line(&kind, 100), bound::bytes(bytes as u64)));
    }

    /// Returns the text, with a mark if it was cut.
    pub fn finish(self) -> String {
        bound::cut_of(self.text, self.bytes, STORED_MAX_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(json: &str) -> String {
        of_call(serde_json::from_str(json).unwrap(), &Redactor::default())
    }

    #[test]
    fn texts_are_joined_and_other_content_is_named() {
        let json = r#"{"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="},
            {"type": "audio", "mimeType": "audio/wav", "data": "aGVs"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "two"}},
            {"type": "resource", "resource": {"uri": "a:c", "mimeType": "application/zip", "blob": "aGVsbA=="}},
            {"type": "resource_link", "uri": "a:d", "name": "d"}
        ], "structuredContent": {"b": 1}}"#;
        let lines = [
            "one",
            "[image/png, 5 bytes, left out]",
            "[audio/wav, 3 bytes, left out]",
            "two",
            "[application/zip, 4 bytes, left out]",
            "[resource a:d d]",
            r#"{"b":1}"#,
        ];
        assert_eq!(text_of(json), lines.join("\n"));
        let repeated =
            r#"{"content": [{"type": "text", "text": "one\n2"}], "structuredContent": {"a": "one\n", "b": 2}}"#;
        assert_eq!(text_of(repeated), "one\n2");
        assert_eq!(text_of(r#"{"content": [], "structuredContent": {"b": 1, "a": [2]}}"#), r#"{"a":[2],"b":1}"#);
    }

    #[test]
    fn a_long_answer_is_cut_with_a_mark() {
        let redactor = Redactor::default();
        let mut lines = Lines::new(&redactor);
        for _ in 0..3 {
            lines.add(&"é".repeat(STORED_MAX_BYTES / 4));
        }
        let text = lines.finish();
        assert!(text.len() <= STORED_MAX_BYTES && text.ends_with("é\n[cut here: 1,572,866 bytes in all]"));
    }

    #[test]
    fn no_half_of_a_key_stands_where_an_answer_is_cut() {
        const KEY: &str = "sk-0123456789";
        let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
        for before in STORED_MAX_BYTES - 60..STORED_MAX_BYTES {
            let mut lines = Lines::new(&redactor);
            lines.add(&format!("{}{KEY}{}", "x".repeat(before), "x".repeat(200)));
            assert!(!lines.finish().contains("sk-"));
        }
        let link =
            format!(r#"{{"content": [{{"type": "resource_link", "uri": "{}{KEY}", "name": "d"}}]}}"#, "x".repeat(490));
        let text = of_call(serde_json::from_str(&link).unwrap(), &redactor);
        assert!(!text.contains("sk-"), "{text}");
    }
}
