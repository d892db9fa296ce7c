//! Makes the picture of a run: types the commands that it is given into a terminal, and writes what the screen shows
//! then as an SVG to stdout.
//!
//! `cargo run -p rondo-tests --example picture -- 'rondo run review-loop --offline --raw title' \
//! 'rondo prefix last' > engine/docs/run.svg`
//!
//! It looks for `rondo` where it is built, and shows it its own folder for settings and threads.

#![expect(clippy::expect_used, reason = "a picture that cannot be made needs no more than a word on why")]

use std::fmt::Write as _;
use std::path::Path;

use rondo_tests::terminal::Terminal;
use vt100::{Cell, Color, Screen};

/// The size of the terminal. Rows below the last one in use are not drawn.
const ROWS: u16 = 60;
const COLUMNS: u16 = 96;

/// The size of a cell and the space around all of them, in pixels.
const CELL: (f64, u16) = (8.4, 19);
const MARGIN: u16 = 16;
const TITLE: u16 = 26;

/// The colours of a terminal that is dark in light and dark surroundings, so that one picture does for both.
const STYLE: &str = "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d4d8de}\
.b{font-weight:700}.d{fill:#8b949e}.c1{fill:#ff7b72}.c2{fill:#7ee787}.c3{fill:#e3b341}.c4{fill:#79c0ff}\
.c5{fill:#d2a8ff}.c6{fill:#76e3ea}";

fn main() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().to_str().expect("its name is text");
    let own = std::env::current_exe().expect("a path of its own");
    // The example stands in a folder beside the binary.
    let built = own.parent().and_then(Path::parent).expect("a folder above").to_str().expect("its name is text");
    let path = format!("{built}:/usr/bin:/bin");
    let variables = [("HOME", folder), ("PATH", path.as_str()), ("LC_ALL", "C.UTF-8")];
    let terminal = Terminal::start(place.path(), &variables, (ROWS, COLUMNS));
    for command in std::env::args().skip(1) {
        terminal.types(&command);
        // The shell shows what it reads, so that the prompt that follows is the next one.
        terminal.until(|screen| screen.contents().contains(command.trim()));
        terminal.types("\n");
        terminal.prompted();
    }
    print!("{}", svg(&terminal.screen()));
}

fn svg(screen: &Screen) -> String {
    let rows: Vec<String> = screen.rows(0, COLUMNS).collect();
    let last = rows.iter().rposition(|row| !row.trim().is_empty()).unwrap_or_default();
    let (width, height) = CELL;
    let count = u16::try_from(last).unwrap_or(ROWS) + 1;
    let whole = (f64::from(COLUMNS) * width + f64::from(2 * MARGIN), TITLE + count * height + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0} {1}\" width=\"{0:.0}\" height=\"{1}\" role=\"img\">\n\
         <title>A run of rondo in a terminal</title>\n<style>{STYLE}</style>\n\
         <rect x=\".5\" y=\".5\" width=\"{2:.0}\" height=\"{3}\" rx=\"8\" fill=\"#161b22\" stroke=\"#484f58\"/>\n\
         <circle cx=\"20\" cy=\"18\" r=\"5.5\" fill=\"#ff5f57\"/><circle cx=\"38\" cy=\"18\" r=\"5.5\" fill=\"#febc2e\"/>\
         <circle cx=\"56\" cy=\"18\" r=\"5.5\" fill=\"#28c840\"/>\n",
        whole.0,
        whole.1,
        whole.0 - 1.0,
        whole.1 - 1
    );
    for row in 0..count {
        let y = TITLE + MARGIN + row * height + height - 5;
        for span in spans(screen, row) {
            // The length keeps the columns in place, whichever font the reader has.
            let (x, length) = (f64::from(MARGIN) + f64::from(span.column) * width, f64::from(span.columns) * width);
            let class = if span.class.is_empty() { String::new() } else { format!(" class=\"{}\"", span.class) };
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y}\" textLength=\"{length:.1}\"{class}>{}</text>",
                escaped(&span.text)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Neighbouring cells that look alike.
struct Span {
    column: u16,
    columns: u16,
    class: String,
    text: String,
}

/// The spans of a row, without the blanks around them.
fn spans(screen: &Screen, row: u16) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for column in 0..COLUMNS {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else { continue };
        let (text, class) = (if cell.has_contents() { cell.contents() } else { " " }, class(cell));
        let columns = if cell.is_wide() { 2 } else { 1 };
        match spans.last_mut().filter(|span| span.class == class) {
            Some(span) => {
                span.text.push_str(text);
                span.columns += columns;
            }
            None => spans.push(Span { column, columns, class, text: text.to_owned() }),
        }
    }
    for span in &mut spans {
        let ends = span.text.trim_end_matches(' ').len();
        span.columns -= u16::try_from(span.text.len() - ends).unwrap_or(0);
        span.text.truncate(ends);
        let begins = span.text.len() - span.text.trim_start_matches(' ').len();
        let blanks = u16::try_from(begins).unwrap_or(0);
        (span.column, span.columns) = (span.column + blanks, span.columns - blanks);
        span.text.drain(..begins);
    }
    spans.retain(|span| !span.text.is_empty());
    spans
}

fn class(cell: &Cell) -> String {
    let mut class = Vec::new();
    if cell.bold() {
        class.push("b".to_owned());
    }
    match cell.fgcolor() {
        Color::Idx(number @ (1..=6 | 9..=14)) => class.push(format!("c{}", number % 8)),
        Color::Idx(8) => class.push("d".to_owned()),
        _ if cell.dim() => class.push("d".to_owned()),
        _ => {}
    }
    class.join(" ")
}

/// The text with blanks that no renderer joins.
fn escaped(text: &str) -> String {
    text.replace(' ', "\u{a0}").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
