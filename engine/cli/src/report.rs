//! Shows faults: with the lines concerned on a terminal, one line each elsewhere, as JSON Lines with `--json`.

use std::iter::repeat_n;

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource};
use rondo::failure::Fault;
use rondo::protocol::diagnostic::{Code, Diagnostic, Severity};
use rondo::protocol::event::Location;
use rondo::protocol::hint::Hint;
use rondo::protocol::text::{is_invisible, is_steering};
use rondo::tell::{printable, tell_styled};

use super::named_command::hinted;
use super::{EventOf, Failure, Faulty, Output, Style, json_line, now_ms};

/// Shows the failure of a verb: events of kind `error` with `--json`, else text on stderr.
pub fn failure(failure: &Failure, output: &mut Output) {
    if !output.is_json() {
        tell_styled(&text(failure, Style::stderr()));
        return;
    }
    match failure {
        Failure::Diagnostics(faulty) => {
            for Diagnostic { code, file, line, column, message, hint, .. } in &faulty.faults {
                let place = Location::File { file: file.clone(), line: *line, column: *column };
                error(*code, with_hint(message, hint.as_deref()), None, Some(place), output);
            }
        }
        Failure::Fault(Fault { code, message, hint, .. }) => {
            let message = with_hint(message, hint.as_ref().map(hinted).as_deref());
            error(*code, message, hint.as_ref(), None, output);
        }
    }
}

/// Writes an `error` event without a thread. If stdout fails while a failure is reported there, only the exit code remains
/// to report it.
fn error(code: Code, message: String, hint_parts: Option<&Hint>, place: Option<Location>, output: &mut Output) {
    let _ = output.line(&json_line!(
        "error",
        thread: (),
        parent: (),
        id: (),
        durability: (),
        at_ms: now_ms(),
        code,
        message,
        // Only the stop of a thread has one; the message of a command's failure holds its own.
        hint: (),
        hint_parts,
        r#where: place,
    ));
}

pub fn text(failure: &Failure, style: Style) -> String {
    match failure {
        Failure::Diagnostics(faulty) => diagnostics(faulty, style),
        Failure::Fault(fault) => plain_fault(fault),
    }
}

fn plain_fault(fault: &Fault) -> String {
    // The message may quote a model or a tool; only its first line starts at the margin.
    let message = printable(&fault.message).replace('\n', "\n    ");
    let hint = fault.hint.as_ref().map(hinted).unwrap_or_default();
    let indented = |line: &str| format!("  {}\n", printable(line));
    format!("rondo: {}: {message}\n{}", fault.code, hint.lines().map(indented).collect::<String>())
}

pub fn findings(faulty: &Faulty, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return faulty.faults.iter().try_for_each(|of| output.line(&EventOf { event: "diagnostic", of }));
    }
    output.write(diagnostics(faulty, Style::stdout()).as_bytes())
}

pub fn diagnostics(faulty: &Faulty, style: Style) -> String {
    faulty.faults.iter().map(|fault| diagnostic(fault, faulty, style)).collect()
}

fn diagnostic(fault: &Diagnostic, faulty: &Faulty, style: Style) -> String {
    // A message may quote a file; only its first line starts at the margin.
    let plain = || format!("{}\n", printable(&fault.to_string()).replace('\n', "\n    "));
    let Some(source) = faulty.sources.get(&fault.file).filter(|_| style.is_terminal) else { return plain() };
    let severity = match fault.severity {
        Severity::Error => miette::Severity::Error,
        Severity::Warning => miette::Severity::Warning,
    };
    let span = (fault.span.offset, fault.span.length);
    let shown = MietteDiagnostic::new(printable(&fault.message)).with_code(fault.code.as_str()).with_severity(severity);
    let shown = shown.with_label(LabeledSpan::new_with_span(None, span));
    let shown = fault.hint.iter().fold(shown, |shown, hint| shown.with_help(printable(hint)));
    let shown = miette::Report::new(shown).with_source_code(NamedSource::new(printable(&fault.file), steady(source)));
    let theme = if style.has_colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(style.width).with_links(false);
    let mut text = String::new();
    handler.render_report(&mut text, shown.as_ref()).map_or_else(|_| plain(), |()| text)
}

/// A source with control and invisible characters replaced; offsets stay the same.
fn steady(source: &str) -> String {
    let steady = |c| if is_steering(c) || is_invisible(c) { repeat_n('?', c.len_utf8()) } else { repeat_n(c, 1) };
    source.chars().flat_map(steady).collect()
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
}
