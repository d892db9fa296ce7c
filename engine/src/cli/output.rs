//! A verb's output on stdout: JSON Lines or text, with each line written and flushed as a whole.
//!
//! A closed stdout (`rondo show | head`) is not a fault: later output is dropped, and a verb may stop early when
//! [`Output::is_closed`]. Text for people never carries control characters of a model or a file.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use rondo_protocol::diagnostic::Code;
use rondo_protocol::text::plain;
use serde::Serialize;

use super::failure::Failure;
use crate::hook::SubcommandOutput;

/// The output of a verb.
pub struct Output {
    out: Box<dyn Write + Send>,
    is_json: bool,
    is_closed: bool,
}

impl Output {
    pub fn stdout(is_json: bool) -> Self {
        Self::to(Box::new(io::stdout()), is_json)
    }

    pub fn to(out: Box<dyn Write + Send>, is_json: bool) -> Self {
        Self { out, is_json, is_closed: false }
    }

    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether stdout is closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub fn line<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(value)
            .map_err(|error| Failure::new(Code::InternalFault, format!("a line has no JSON form: {error}")))?;
        bytes.push(b'\n');
        self.write(&bytes)
    }

    /// Writes a JSON line, or text for people.
    pub fn show<T: Serialize + ?Sized>(&mut self, line: &T, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_json { self.line(line) } else { self.text(&text()) }
    }

    /// Writes text for people; control characters that affect a terminal are replaced.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.write(printable(text).as_bytes())
    }

    /// Writes the output of a hook kind's verb.
    pub fn said(&mut self, said: &SubcommandOutput) -> Result<(), Failure> {
        if self.is_json { said.lines.iter().try_for_each(|line| self.line(line)) } else { self.text(&said.text) }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.is_closed {
            return Ok(());
        }
        match self.out.write_all(bytes).and_then(|()| self.out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => {
                self.is_closed = true;
                Err(Failure::new(Code::WriteFailed, format!("stdout: {error}")))
            }
        }
    }
}

/// Writes text for people to stderr. A closed stderr is not a fault.
pub fn tell(text: &str) {
    tell_styled(&printable(text));
}

/// Writes text with colours to stderr; parts from a file or a model are already printable.
pub fn tell_styled(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// `text` with a mark in place of each character that controls a terminal, changes the direction of writing or is
/// invisible: text of a model, a tool or a file must be readable as what it is.
pub fn printable(text: &str) -> Cow<'_, str> {
    let plain = plain(text);
    if plain == text {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut kept = plain.chars().peekable();
    for c in text.replace("\r\n", "\n").chars() {
        // `plain` keeps the order of characters; those that do not match were removed there.
        if kept.peek() == Some(&c) {
            kept.next();
            shown.push(c);
        } else if kept.peek() == Some(&'\n') && is_line_end(c) {
            kept.next();
            shown.push('\u{fffd}');
        } else {
            shown.push('\u{fffd}');
        }
    }
    Cow::Owned(shown)
}

/// Whether `c` ends a line without being a newline.
fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `text` on one line: a name or a value cannot start a new line.
pub fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The word that stands for a value in JSON.
pub fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A count with its noun: `1 step`, `2 steps`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// How text is formatted for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it is a terminal.
    pub is_terminal: bool,
    pub has_colour: bool,
    pub width: usize,
}

impl Style {
    pub const PLAIN: Self = Self { is_terminal: false, has_colour: false, width: 100 };

    pub fn stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    pub fn stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// Honours `NO_COLOR` (<https://no-color.org>) and `TERM=dumb`.
    fn of(is_terminal: bool) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let has_colour = is_terminal && !is_set("NO_COLOR") && !is_dumb;
        let is_terminal = is_terminal && !is_dumb;
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse::<usize>().ok());
        let size = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
        let width = size.filter(|width| *width > 0).or(columns).unwrap_or(100).clamp(40, 160);
        Self { is_terminal, has_colour, width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone(io::ErrorKind);

    impl Write for Gone {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_goes_away_is_no_fault() {
        let mut output = Output::to(Box::new(Gone(io::ErrorKind::BrokenPipe)), true);
        assert_eq!(output.line(&1), Ok(()));
        assert!(output.is_closed());
        assert_eq!(output.line(&2), Ok(()));
    }

    #[test]
    fn a_full_disk_is_a_fault() {
        let mut output = Output::to(Box::new(Gone(io::ErrorKind::StorageFull)), true);
        let failure = output.text("x").unwrap_err();
        assert_eq!(failure.exit(), super::super::exit::Exit::InputOutput);
    }

    #[test]
    fn what_a_model_says_does_not_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\r\nd\re\u{202e}"), "a\u{fffd}[2Jb\tc\nd\u{fffd}e\u{fffd}");
        assert_eq!(printable("z\u{200b}ero \u{e0041}\u{9b}1m ⚠\u{fe0f}"), "z\u{fffd}ero \u{fffd}\u{fffd}1m ⚠\u{fe0f}");
        assert_eq!(one_line("a\nrondo: b\tc\u{7}"), "a\\nrondo: b\\tc\u{fffd}");
        assert!(matches!(printable("plain\n"), Cow::Borrowed(_)));
    }
}
