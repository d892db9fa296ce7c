//! A tool call as a person reads it: at a run's terminal, in `answer` and `show`, in the API and on the page.
//!
//! Laws:
//! - Escapes of JSON are decoded: what is read is what the tool gets.
//! - No character steers a terminal, turns the direction of writing or is invisible: each is named, `[U+202E]`.
//! - The text is short enough for one screen. What is left out of it is counted where it would stand.
//! - No line of the arguments looks like the name of another argument, or like a line of rondo's own.

use std::fmt::Write as _;

use rondo_protocol::call::{Effect, ToolCall};
use rondo_protocol::text::{is_invisible, is_steering};
use rondo_protocol::{Value, canonical};
use schemars::JsonSchema;
use serde::Serialize;

/// How many lines are shown: this many from the beginning, and a quarter as many from the end.
const SHOWN_LINES: usize = 40;

/// How many characters of a line are shown: this many from its beginning, and a quarter as many from its end.
const SHOWN_CHARACTERS: usize = 2_000;

/// How many equal characters in sequence are shown before they are counted.
const MAX_RUN: usize = 8;

/// A tool call as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShownCall {
    /// The tool's name.
    pub tool: String,
    /// Its arguments, one or more lines for each; empty if there are none.
    pub arguments: String,
    /// The word that a person must type to allow the call, so that nobody allows a dangerous one by habit; `None` if
    /// yes or no is enough.
    pub word: Option<String>,
}

impl ShownCall {
    /// The call as it is shown.
    pub fn new(call: &ToolCall) -> Self {
        Self::of(&call.name, &call.arguments, call.effect == Effect::External)
    }

    /// The call whose approval a form asks for; `None` if it asks for none. A call without an effect counts as dangerous.
    pub fn of_form(form: &Value) -> Option<Self> {
        let text_of = |key: &str| form.get("approval")?.get(key)?.as_str();
        let is_dangerous = !["pure", "reads", "writes"].contains(&text_of("effect").unwrap_or_default());
        form.get("approval")?;
        Some(Self::of(text_of("tool").unwrap_or_default(), text_of("arguments").unwrap_or_default(), is_dangerous))
    }

    fn of(tool: &str, arguments: &str, is_dangerous: bool) -> Self {
        let read: Option<Value> = canonical::from_slice(arguments.as_bytes()).ok();
        let tool = line(tool);
        let word = is_dangerous.then(|| program(read.as_ref()).unwrap_or(&tool).to_owned());
        Self { arguments: shown_arguments(arguments, read.as_ref()), word, tool }
    }

    /// `May TOOL be called with ...?`
    pub fn question(&self) -> String {
        if self.arguments.is_empty() {
            return format!("May {} be called without arguments?", self.tool);
        }
        format!("May {} be called with\n{}\n?", self.tool, self.arguments)
    }
}

/// The arguments of a call as a person reads them.
pub fn arguments(text: &str) -> String {
    shown_arguments(text, canonical::from_slice(text.as_bytes()).ok().as_ref())
}

fn shown_arguments(text: &str, read: Option<&Value>) -> String {
    let Some(Value::Object(members)) = read else { return cut(&lines(text.trim_end())) };
    let mut shown = Vec::new();
    for (name, value) in members {
        let text = value.as_str().map_or_else(|| value.to_text(), str::to_owned);
        let mut of_value = lines(&text).into_iter();
        shown.push(format!("{} = {}", line(name), of_value.next().unwrap_or_default()));
        shown.extend(of_value.map(|line| format!("  | {line}")));
        // JSON in a text: a program that reads it decodes its escapes.
        let nested: Option<Value> = canonical::from_slice(text.as_bytes()).ok().filter(|_| text.contains('\\'));
        if let Some(Value::Object(_) | Value::List(_)) = nested {
            shown.push(format!("  | [read as JSON: {}]", line(&nested.unwrap_or_default().to_text())));
        }
    }
    cut(&shown)
}

/// The first word of a command, if it can be typed as it is shown.
fn program(arguments: Option<&Value>) -> Option<&str> {
    let of = |name: &str| arguments?.get(name);
    let program = match of("argv") {
        Some(Value::List(argv)) => argv.first().and_then(Value::as_str),
        _ => of("script").and_then(Value::as_str).and_then(|script| script.split_whitespace().next()),
    };
    program.filter(|word| !word.is_empty() && word.len() <= 40 && word.chars().all(|c| c.is_ascii_graphic()))
}

/// The lines of a text, each readable; empty ones in sequence are one line with their number.
fn lines(text: &str) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    let mut empty = 0;
    for text in text.split('\n') {
        if text.trim().is_empty() && !shown.is_empty() {
            empty += 1;
            continue;
        }
        match std::mem::take(&mut empty) {
            0 => {}
            1 => shown.push(String::new()),
            many => shown.push(format!("[{many} EMPTY LINES]")),
        }
        shown.push(line(text));
    }
    shown
}

/// A text on one line, with the name of each character that is not seen; equal ones in sequence are counted.
fn line(text: &str) -> String {
    let mut shown = String::new();
    let mut chars = text.chars().map(|c| if c.is_whitespace() && !is_hidden(c) { ' ' } else { c }).peekable();
    while let Some(c) = chars.next() {
        if c != ' ' && !is_hidden(c) {
            shown.push(c);
            continue;
        }
        let mut count = 1_usize;
        while chars.next_if_eq(&c).is_some() {
            count += 1;
        }
        let _ = match (c, count) {
            (' ', ..=MAX_RUN) => write!(shown, "{:count$}", ""),
            (' ', _) => write!(shown, " [{count} BLANKS] "),
            (_, 1) => write!(shown, "[U+{:04X}]", u32::from(c)),
            (_, _) => write!(shown, "[{count} x U+{:04X}]", u32::from(c)),
        };
    }
    let count = shown.chars().count();
    let (first, last) = (SHOWN_CHARACTERS, SHOWN_CHARACTERS / 4);
    if count <= first + last {
        return shown;
    }
    let beginning: String = shown.chars().take(first).collect();
    let end: String = shown.chars().skip(count - last).collect();
    format!("{beginning} [{} CHARACTERS ARE NOT SHOWN HERE] {end}", count - first - last)
}

/// Whether a person would not see the character, or it would change how others are seen.
fn is_hidden(c: char) -> bool {
    is_steering(c) || is_invisible(c) || c == '\n'
}

/// The lines as one text, without those in the middle if there are many.
fn cut(lines: &[String]) -> String {
    let (first, last) = (SHOWN_LINES, SHOWN_LINES / 4);
    let Some(hidden) = lines.len().checked_sub(first + last).filter(|hidden| *hidden > 0) else {
        return lines.join("\n");
    };
    let (beginning, end) = (lines.get(..first).unwrap_or_default(), lines.get(first + hidden..).unwrap_or_default());
    format!("{}\n[{hidden} LINES ARE NOT SHOWN HERE]\n{}", beginning.join("\n"), end.join("\n"))
}

#[cfg(test)]
mod tests;
