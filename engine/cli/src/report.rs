//! Shows faults: with the lines concerned on a terminal, one line each elsewhere, as JSON Lines with `--json`.

use std::fmt;

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use rondo::core::env::{Env as _, SystemEnv};
use rondo::protocol::diagnostic::{Code, Diagnostic, Severity};
use rondo::protocol::event::Location;
use rondo::protocol::hint::Hint;
use rondo::protocol::text::{is_invisible, is_steering};
use rondo::tell::{printable, tell_styled};
use serde::Serialize;

use super::failure::{Failure, Fault, Faulty};
use super::named_command::hinted;
use super::output::{Output, Style};

/// Shows the failure of a verb: events of kind `error` with `--json`, else text on stderr.
pub fn failure(failure: &Failure, output: &mut Output) {
    if !output.is_json() {
        tell_styled(&text(failure, Style::stderr()));
        return;
    }
    let lines = match failure {
        Failure::Diagnostics(faulty) => faulty.faults.iter().map(error_line).collect(),
        Failure::Fault(fault) => {
            let message = with_hint(&fault.message, fault.hint.as_ref().map(hinted).as_deref());
            vec![ErrorLine { hint_parts: fault.hint.clone(), ..ErrorLine::new(fault.code, message, None) }]
        }
    };
    for line in lines {
        // If stdout fails while a failure is reported there, only the exit code remains to report it.
        let _ = output.line(&line);
    }
}

pub fn text(failure: &Failure, style: Style) -> String {
    match failure {
        Failure::Diagnostics(faulty) => diagnostics(faulty, style),
        Failure::Fault(fault) => plain_fault(fault),
    }
}

fn plain_fault(fault: &Fault) -> String {
    // The message may quote a model or a tool; only its first line starts at the margin.
    let mut text = format!("rondo: {}: {}\n", fault.code, printable(&fault.message).replace('\n', "\n    "));
    if let Some(hint) = &fault.hint {
        for line in hinted(hint).lines() {
            text.push_str("  ");
            text.push_str(&printable(line));
            text.push('\n');
        }
    }
    text
}

pub fn diagnostics(faulty: &Faulty, style: Style) -> String {
    faulty.faults.iter().map(|fault| diagnostic(fault, faulty, style)).collect()
}

fn diagnostic(fault: &Diagnostic, faulty: &Faulty, style: Style) -> String {
    // A message may quote a file; only its first line starts at the margin.
    let plain = || format!("{}\n", printable(&fault.to_string()).replace('\n', "\n    "));
    let Some(source) = faulty.sources.get(&fault.file).filter(|_| style.is_terminal) else { return plain() };
    let theme = if style.has_colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let shown = Shown { fault, source: NamedSource::new(printable(&fault.file), steady(source)) };
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_width(style.width).with_links(false);
    handler.render_report(&mut text, &shown).map_or_else(|_| plain(), |()| text)
}

/// A source with control and invisible characters replaced; offsets stay the same.
fn steady(source: &str) -> String {
    let mut steady = String::with_capacity(source.len());
    for c in source.chars() {
        if is_steering(c) || is_invisible(c) {
            steady.extend(std::iter::repeat_n('?', c.len_utf8()));
        } else {
            steady.push(c);
        }
    }
    steady
}

#[derive(Debug)]
struct Shown<'a> {
    fault: &'a Diagnostic,
    source: NamedSource<String>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.fault.message))
    }
}

impl std::error::Error for Shown<'_> {}

impl miette::Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.fault.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.fault.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.fault.hint.as_ref().map(|hint| Box::new(printable(hint)) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.fault.span;
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(None, (span.offset, span.length)))))
    }
}

/// An `error` event without a thread.
#[derive(Debug, Serialize)]
pub struct ErrorLine {
    event: &'static str,
    thread: Option<String>,
    parent: Option<String>,
    id: Option<String>,
    durability: Option<String>,
    at_ms: u64,
    code: Code,
    message: String,
    /// Only the stop of a thread has one; the message of a command's failure holds its own.
    hint: Option<String>,
    hint_parts: Option<Hint>,
    #[serde(rename = "where")]
    place: Option<Location>,
}

impl ErrorLine {
    fn new(code: Code, message: String, place: Option<Location>) -> Self {
        let at_ms = SystemEnv::default().now_ms();
        Self {
            event: "error",
            thread: None,
            parent: None,
            id: None,
            durability: None,
            at_ms,
            code,
            message,
            hint: None,
            hint_parts: None,
            place,
        }
    }
}

fn error_line(fault: &Diagnostic) -> ErrorLine {
    let place = Location::File { file: fault.file.clone(), line: fault.line, column: fault.column };
    ErrorLine::new(fault.code, with_hint(&fault.message, fault.hint.as_deref()), Some(place))
}

fn with_hint(message: &str, hint: Option<&str>) -> String {
    hint.map_or_else(|| message.to_owned(), |hint| format!("{message} (hint: {hint})"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rondo::protocol::diagnostic::Span;

    use super::*;

    const TEXT: &str = "roles:\n  writer:\n    promt: x\n";

    fn faulty() -> Faulty {
        let fault = Diagnostic::at(Code::SettingsKey, "workflow.yaml", TEXT, Span::new(21, 5), "unknown key `promt`")
            .with_hint("did you mean `prompt`?");
        Faulty { faults: vec![fault], sources: BTreeMap::from([("workflow.yaml".to_owned(), TEXT.to_owned())]) }
    }

    #[test]
    fn a_terminal_shows_the_lines() {
        let style = Style { is_terminal: true, has_colour: false, width: 80 };
        insta::assert_snapshot!(diagnostics(&faulty(), style));
    }

    #[test]
    fn elsewhere_a_fault_is_one_line() {
        insta::assert_snapshot!(diagnostics(&faulty(), Style::PLAIN), @"workflow.yaml:3:5: RN0802: unknown key `promt` (hint: did you mean `prompt`?)");
    }

    #[test]
    fn a_fault_without_a_place_tells_what_to_do_below() {
        let fault =
            Failure::new(Code::ThreadUnknown, "no thread begins with 01k9").with_hint("`rondo threads` lists them");
        insta::assert_snapshot!(text(&fault, Style::PLAIN), @r"
        rondo: RN1401: no thread begins with 01k9
          `rondo threads` lists them
        ");
    }
}
