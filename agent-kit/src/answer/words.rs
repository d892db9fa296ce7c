//! The texts of layout 1 for answers: the contract and the repair. `engine/docs/layout-1.md` contains them word for
//! word.

use std::ops::Range;

use rondo_protocol::workflow::AnswerFormat;

use super::field::{DeclaredField, TEXTS};
use super::{Contract, ContractFault, quote};

const MAX_EXCERPT_CHARS: usize = 120;

const FRONTMATTER: &str = "\
# Form of the answer

An answer begins with a front matter in YAML between two lines `---`. After it stands the body, in Markdown. Write \
nothing before the front matter and no code fence around the answer. Put your own values where angle brackets stand.";

const JSON: &str = "\
# Form of the answer

An answer is one JSON object and nothing else: no text around it and no code fence. Put your own values where angle \
brackets stand; `body` is the text of your answer, in Markdown.";

/// The end of the form of each status.
const FRONTMATTER_END: &str = "<the body>";
const JSON_END: &str = "\"body\": <a text>}";

impl Contract {
    /// The instructions after the role's own system text, in layout 1. The same bytes for every call.
    pub fn text(&self) -> String {
        let mut text = match self.format {
            AnswerFormat::Frontmatter => FRONTMATTER.to_owned(),
            AnswerFormat::Json => JSON.to_owned(),
        };
        if self.output.len() > 1 {
            text.push_str(" Choose one status and give exactly its fields.");
        }
        for (status, fields) in &self.output {
            if self.output.len() > 1 {
                text.extend(["\n\nThe form of `", status.as_str(), "`:"]);
            }
            text.push_str("\n\n");
            match self.format {
                AnswerFormat::Frontmatter => frontmatter_form(&mut text, status.as_str(), fields),
                AnswerFormat::Json => json_form(&mut text, status.as_str(), fields),
            }
        }
        text
    }
}

/// The range of the contract in a system text, if the text ends with one.
pub fn contract_within(system: &str) -> Option<Range<usize>> {
    let begun = [(FRONTMATTER, FRONTMATTER_END), (JSON, JSON_END)];
    let ranges = begun.iter().filter_map(|(words, end)| {
        let start = system.rfind(words)?;
        Some(start..system.rfind(end).filter(|at| *at > start)? + end.len())
    });
    ranges.max_by_key(|range| range.start)
}

fn frontmatter_form(text: &mut String, status: &str, fields: &[DeclaredField]) {
    text.push_str("---\nstatus: ");
    text.push_str(status);
    text.push('\n');
    for field in fields {
        text.push_str(field.name.as_str());
        if field.type_words() == TEXTS {
            text.extend([":\n  - ", &field.place("a text"), "\n  - <and so on>\n"]);
        } else {
            text.extend([": ", &field.placeholder(), "\n"]);
        }
    }
    text.push_str("---\n\n");
    text.push_str(FRONTMATTER_END);
}

fn json_form(text: &mut String, status: &str, fields: &[DeclaredField]) {
    text.push_str("{\"status\": ");
    quote::quoted(text, status);
    for field in fields {
        let value = field.placeholder();
        text.extend([", \"", field.name.as_str(), "\": ", &value]);
    }
    text.push_str(", ");
    text.push_str(JSON_END);
}

/// The text with which an answer that breaks the contract is sent back.
pub fn repair_text(fault: &ContractFault) -> String {
    let mut text = "Your answer does not have the form that was asked for:\n\n".to_owned();
    for line in fault.words.lines() {
        text.extend(["- ", line, "\n"]);
    }
    text.push_str("\nWrite the whole answer again in that form, without a word about this message.");
    text
}

/// Names such as `a`, `b` or `c`, with that word in front of the last.
pub(super) fn join<'a>(names: impl Iterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((end, before)) if !before.is_empty() => format!("{}{last}{end}", before.join(", ")),
        _ => names.concat(),
    }
}

/// The beginning of a text on one line, with a mark if it is cut.
pub(super) fn excerpt(text: &str) -> String {
    let mut shown: String =
        text.chars().take(MAX_EXCERPT_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
