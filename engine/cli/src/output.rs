//! A verb's output on stdout: JSON Lines or text, with each line written and flushed as a whole.
//!
//! A closed stdout (`rondo show | head`) is not a fault: later output is dropped, and a verb may stop early when
//! [`Output::is_closed`]. Text for people never carries control characters of a model or a file.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use rondo::core::hook::SubcommandOutput;
use rondo::protocol::diagnostic::Code;
use rondo::tell::{printable, tell};
use serde::Serialize;

use super::Failure;

/// A line of `--json`: an object of the event and these members, in this order.
macro_rules! json_line {
    ($event:literal, $($member:ident $(: $value:expr)?),+ $(,)?) => {{
        #[expect(non_camel_case_types, reason = "the type of each member is a parameter with its name")]
        mod of {
            #[derive(serde::Serialize)]
            pub struct Line<$($member),+> {
                pub event: &'static str,
                $(pub $member: $member),+
            }
        }
        of::Line { event: $event, $($member $(: $value)?),+ }
    }};
}

pub(super) use json_line;

/// A line of `--json` with the members of another value.
#[derive(Debug, Serialize)]
pub struct EventOf<'a, T> {
    pub event: &'static str,
    #[serde(flatten)]
    pub of: &'a T,
}

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

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub fn line<T: Serialize>(&mut self, value: &T) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(value)
            .map_err(|error| Failure::new(Code::InternalFault, format!("a line has no JSON form: {error}")))?;
        bytes.push(b'\n');
        self.write(&bytes)
    }

    /// Writes a JSON line, or text for people.
    pub fn show<T: Serialize>(&mut self, line: &T, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_json { self.line(line) } else { self.text(&text()) }
    }

    /// Writes a JSON line, or text for people that is printable already, with its colours.
    pub fn show_styled<T: Serialize>(&mut self, line: &T, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_json { self.line(line) } else { self.write(text().as_bytes()) }
    }

    pub fn show_all<T: Serialize>(&mut self, lines: &[T], text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_json { lines.iter().try_for_each(|line| self.line(line)) } else { self.text(&text()) }
    }

    /// Writes text for people, unless JSON Lines are wanted.
    pub fn aside(&mut self, text: &str) -> Result<(), Failure> {
        if self.is_json { Ok(()) } else { self.text(text) }
    }

    /// The same on stderr.
    pub fn tell(&self, text: &str) {
        if !self.is_json {
            tell(text);
        }
    }

    /// Writes text for people; control characters that affect a terminal are replaced.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.write(printable(text).as_bytes())
    }

    pub fn said(&mut self, said: &SubcommandOutput) -> Result<(), Failure> {
        self.show_all(&said.lines, || said.text.clone())
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.is_closed {
            return Ok(());
        }
        let written = self.out.write_all(bytes).and_then(|()| self.out.flush());
        self.is_closed = written.is_err();
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new(Code::WriteFailed, format!("stdout: {error}")))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
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

    /// How many columns a line may have.
    pub fn columns(self) -> usize {
        if self.is_terminal { self.width } else { usize::MAX }
    }

    /// `text` with the parameters `code` of the terminal's "select graphic rendition", where colours are wanted.
    pub fn paint<'t>(self, code: &str, text: &'t str) -> Cow<'t, str> {
        if self.has_colour && !code.is_empty() && !text.is_empty() {
            return Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"));
        }
        Cow::Borrowed(text)
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
        assert_eq!(failure.exit(), crate::Exit::InputOutput);
    }
}
