//! System texts: a text, a file, or a list of both; never a template.

use super::Reader;
use super::path_node::{PathNode, braced_name};
use crate::diagnostic::Code;
use crate::source::Kind;
use crate::workflow::format::{PROMPT_FILE, SYSTEM_KEYS};

impl Reader<'_> {
    /// Reads the system text. The pieces of a list are separated by a blank line.
    pub(super) fn system(&mut self, part: &PathNode<'_>) -> Option<String> {
        if !matches!(part.node.kind, Kind::List(_)) {
            return self.system_piece(part);
        }
        let mut pieces: Vec<String> = self.items(part)?.iter().filter_map(|piece| self.system_piece(piece)).collect();
        if let Some((_, before)) = pieces.split_last_mut() {
            for piece in before {
                piece.truncate(piece.trim_end_matches(['\n', '\r']).len());
            }
        }
        Some(pieces.join("\n\n"))
    }

    fn system_piece(&mut self, part: &PathNode<'_>) -> Option<String> {
        match &part.node.kind {
            Kind::Str(_) => {
                let text = self.template(part)?;
                self.no_braces(part, &text);
                Some(text)
            }
            Kind::Map(_) => {
                let fields = self.fields(part, &SYSTEM_KEYS)?;
                let raw = self.get(&fields, "raw").unwrap_or(false);
                let (part, text) = match (fields.get("file"), fields.get("text")) {
                    (Some(file), None) => (part, self.included_text(part, file)?),
                    (None, Some(text)) => (text, self.template(text)?),
                    _ => {
                        let fault = part.key_fault(Code::MissingKey, "one of `file` and `text` is wanted");
                        return self.refuse(part, fault);
                    }
                };
                if !raw {
                    self.no_braces(part, &text);
                }
                Some(text)
            }
            _ => self.wrong_type(part, "a text, `{file: PATH}` or a list of them", None),
        }
    }

    /// Refuses `{{` in a text that is sent unchanged.
    fn no_braces(&mut self, part: &PathNode<'_>, text: &str) {
        let Some(at) = text.find("{{") else { return };
        self.places.mark_incomplete(&part.path);
        let message = "a system text is not a template: `{{` would be sent literally";
        let hint = "put what changes into an edge's prompt, or write `{text: ..., raw: true}`";
        let fault = self.places.fault(Code::TemplateInSystem, &part.path, Some(at..at + 2), message);
        self.keep(fault.with_hint(hint));
    }

    /// Reads a prompt: a template, or `{file: PATH}`.
    pub(super) fn prompt(&mut self, part: &PathNode<'_>) -> Option<String> {
        if !matches!(part.node.kind, Kind::Map(_)) {
            return self.template(part);
        }
        if braced_name(part).is_some_and(|name| name != "file") {
            return self.wrong_type(part, "a text or `{file: PATH}`", None);
        }
        let fields = self.fields(part, PROMPT_FILE.keys())?;
        self.included_text(part, fields.get("file")?)
    }
}
