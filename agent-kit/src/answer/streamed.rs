//! The words of an answer while it is written: its body and the texts of its fields, without what wraps them.
//!
//! A [`StreamedAnswer`] sees each character once, keeps no text but one line of a front matter, and never refuses: a
//! contract is for the whole answer. What it gives does not depend on how the answer was cut into parts. The format is
//! known by the first character, because a stream belongs to a role whose contract its reader may not have.
//!
//! [`StreamedAnswer::only`] gives one part of an answer exactly, for a reader that adds to a text and takes nothing back.

use rondo_protocol::workflow::AnswerFormat;

/// The longest line of a front matter that is shown whole.
const MAX_LINE_BYTES: usize = 4096;

/// The deepest nesting whose keys are told from values.
const MAX_DEPTH: u32 = 64;

/// The field that chooses the edge and is no text.
const STATUS: &str = "status";

const BODY: &str = "body";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    Body,
    Field(String),
}

#[derive(Debug, Default)]
pub struct StreamedAnswer {
    state: State,
    /// The part that is read, if not all of them are.
    only: Option<Only>,
    /// Whether words of a field or of the body were given, so that the next begin a line.
    has_shown: bool,
}

#[derive(Debug)]
struct Only {
    part: AnswerPart,
    format: AnswerFormat,
}

impl Only {
    fn is_text_at(&self, key: &str) -> bool {
        match &self.part {
            AnswerPart::Body => key == BODY,
            AnswerPart::Field(name) => key == name,
        }
    }

    /// The state at the first character that is no blank.
    fn first(&self, c: char) -> State {
        match (self.format, c) {
            (AnswerFormat::Json, '{') => State::Json(Json::opened()),
            (AnswerFormat::Frontmatter, '-') if self.part == AnswerPart::Body => State::FirstLine(c.to_string()),
            _ => State::Silent,
        }
    }
}

#[derive(Debug, Default)]
enum State {
    /// Nothing but blanks so far.
    #[default]
    Begin,
    /// In a line that may open a code fence or a front matter.
    FirstLine(String),
    /// In a front matter, in this line.
    FrontMatter(String),
    /// After a front matter, or in an answer without one. Blank lines at its beginning are not shown.
    Body {
        has_begun: bool,
    },
    /// After the front matter of an answer of which only the body is read.
    OnlyBody(Begun),
    Json(Json),
    /// Nothing of the answer is known before it is whole: it has a fence around it, or another format.
    Silent,
}

/// How far the blank line between a front matter and a body was read.
#[derive(Debug, Clone, Copy)]
enum Begun {
    No,
    /// A carriage return, which belongs to the body unless a line feed follows.
    Return,
    Yes,
}

impl StreamedAnswer {
    /// A reader of one part of an answer in `format`, without a difference to what the whole answer gives, as long as
    /// the answer keeps its contract. It gives nothing where the part cannot be told from the rest: a field of a front
    /// matter is YAML.
    pub fn only(part: AnswerPart, format: AnswerFormat) -> Self {
        Self { only: Some(Only { part, format }), ..Self::default() }
    }

    /// The words in the next part of the answer.
    pub fn push(&mut self, part: &str) -> String {
        let mut shown = String::new();
        for c in part.chars() {
            self.character(c, &mut shown);
        }
        shown
    }

    fn character(&mut self, c: char, shown: &mut String) {
        let only = self.only.as_ref();
        match &mut self.state {
            State::Silent => {}
            State::Begin if c.is_whitespace() => {}
            State::Begin if only.is_some() => self.state = only.map_or(State::Silent, |only| only.first(c)),
            State::Begin if c == '{' => self.state = State::Json(Json::opened()),
            State::Begin if matches!(c, '-' | '`' | '~') => self.state = State::FirstLine(c.to_string()),
            State::Begin => {
                self.state = State::Body { has_begun: true };
                shown.push(c);
            }
            State::FirstLine(line) => {
                line.push(c);
                let mark = line.chars().next().unwrap_or(c);
                let is_fence = mark != '-' && line.starts_with(&String::from(mark).repeat(3));
                let may_be_wrapping = if mark == '-' {
                    "---".starts_with(line.trim_end()) && (line.trim_end().len() == 3 || !c.is_whitespace())
                } else {
                    is_fence || line.chars().all(|of| of == mark)
                };
                if only.is_some() && (is_fence || !may_be_wrapping) {
                    self.state = State::Silent;
                } else if !may_be_wrapping || line.len() > MAX_LINE_BYTES {
                    shown.push_str(line);
                    self.state = State::Body { has_begun: true };
                } else if c == '\n' {
                    self.state = if is_fence { State::Begin } else { State::FrontMatter(String::new()) };
                }
            }
            State::FrontMatter(line) if c == '\n' => {
                let words = if only.is_some() { "" } else { field_words(line) };
                if line.trim_end() == "---" {
                    let is_all = only.is_none();
                    self.state = if is_all { State::Body { has_begun: false } } else { State::OnlyBody(Begun::No) };
                    return;
                }
                if !words.is_empty() {
                    separate(&mut self.has_shown, shown);
                    shown.push_str(words);
                }
                line.clear();
            }
            State::FrontMatter(line) => {
                if line.len() < MAX_LINE_BYTES {
                    line.push(c);
                }
            }
            State::OnlyBody(begun) => {
                let before = std::mem::replace(begun, Begun::Yes);
                match (before, c) {
                    (Begun::No, '\r') => *begun = Begun::Return,
                    (Begun::No | Begun::Return, '\n') => {}
                    (Begun::Return, c) => shown.extend(['\r', c]),
                    (_, c) => shown.push(c),
                }
            }
            State::Body { has_begun: false } if matches!(c, '\n' | '\r') => {}
            State::Body { has_begun } => {
                if !std::mem::replace(has_begun, true) {
                    separate(&mut self.has_shown, shown);
                }
                shown.push(c);
            }
            State::Json(json) => json.character(c, only, &mut self.has_shown, shown),
        }
    }
}

/// Begins a new line if there is one already.
fn separate(has_shown: &mut bool, shown: &mut String) {
    if *has_shown {
        shown.push('\n');
    }
    *has_shown = true;
}

/// The text in a line of a front matter, without its key, its mark of a list and its quotes.
fn field_words(line: &str) -> &str {
    let text = line.trim();
    let is_key = |key: &str| key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '"' | '\''));
    let value = match text.split_once(':') {
        Some((STATUS, _)) if !line.starts_with([' ', '\t']) => "",
        Some((key, value)) if is_key(key) && (value.is_empty() || value.starts_with(' ')) => value.trim(),
        _ => text.strip_prefix("- ").unwrap_or(text),
    };
    match value {
        "-" | "|" | "|-" | "|+" | ">" | ">-" | ">+" | "[]" => "",
        _ => ['"', '\''].iter().find_map(|mark| value.strip_prefix(*mark)?.strip_suffix(*mark)).unwrap_or(value),
    }
}

/// Reads an object, of which the opening brace was read.
#[derive(Debug)]
struct Json {
    depth: u32,
    /// A bit for each container: whether it is an object.
    objects: u64,
    is_key_next: bool,
    /// The last key of the outermost object.
    key: String,
    text: Option<Text>,
}

#[derive(Debug)]
struct Text {
    is_key: bool,
    is_shown: bool,
    has_begun: bool,
    /// What has arrived of an escape that is not whole.
    escape: String,
    /// The first half of a surrogate pair, or 0.
    high: u16,
}

impl Json {
    fn opened() -> Self {
        Self { depth: 1, objects: 1, is_key_next: true, key: String::new(), text: None }
    }

    fn character(&mut self, c: char, only: Option<&Only>, has_shown: &mut bool, shown: &mut String) {
        if let Some(text) = &mut self.text {
            if c == '"' && text.escape.is_empty() {
                self.text = None;
                return;
            }
            match text.read(c) {
                Some(c) if text.is_key && self.depth == 1 && self.key.len() < MAX_LINE_BYTES => self.key.push(c),
                Some(_) if text.is_key => {}
                Some('\r' | '\u{8}' | '\u{c}') if only.is_none() => {}
                Some(c) if text.is_shown => {
                    if !std::mem::replace(&mut text.has_begun, true) {
                        separate(has_shown, shown);
                    }
                    shown.push(c);
                }
                _ => {}
            }
            return;
        }
        match c {
            // What follows the object belongs to no text.
            _ if self.depth == 0 => {}
            '{' | '[' => {
                self.depth += 1;
                let bit = 1_u64.checked_shl(self.depth - 1).unwrap_or(0);
                self.objects = if c == '{' { self.objects | bit } else { self.objects & !bit };
                self.is_key_next = c == '{';
            }
            '}' | ']' => {
                self.depth -= 1;
                self.is_key_next = false;
            }
            ',' => {
                self.is_key_next = self.objects >> self.depth.saturating_sub(1).min(MAX_DEPTH - 1) & 1 == 1;
            }
            ':' => self.is_key_next = false,
            '"' => {
                let is_key = self.is_key_next;
                if is_key && self.depth == 1 {
                    self.key.clear();
                }
                let is_shown = match only {
                    Some(only) => self.depth == 1 && only.is_text_at(&self.key),
                    None => self.depth <= MAX_DEPTH && !(self.depth == 1 && self.key == STATUS),
                };
                self.text = Some(Text { is_key, is_shown, has_begun: false, escape: String::new(), high: 0 });
            }
            _ => {}
        }
    }
}

impl Text {
    /// The character that is whole with this one.
    fn read(&mut self, c: char) -> Option<char> {
        if self.escape.is_empty() && c != '\\' {
            return Some(c);
        }
        self.escape.push(c);
        match self.escape.as_bytes() {
            [_] | [_, b'u', ..] if self.escape.len() < "\\u0000".len() => return None,
            _ => {}
        }
        let escape = std::mem::take(&mut self.escape);
        let Some(digits) = escape.strip_prefix("\\u") else {
            return Some(match c {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                other => other,
            });
        };
        let unit = u16::from_str_radix(digits, 16).unwrap_or(0);
        let high = std::mem::replace(&mut self.high, if (0xd800..0xdc00).contains(&unit) { unit } else { 0 });
        let last = char::decode_utf16([high, unit]).last();
        (self.high == 0).then(|| last.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests;
