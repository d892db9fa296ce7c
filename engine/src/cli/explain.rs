//! `rondo explain`: the page of a code, a page of the reference, or what the reference says of one key, filter or test.

use std::fmt::Write as _;

use rondo_protocol::diagnostic::{Code, nearest};

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;

/// Print the page of a diagnostic code, or a part of the reference
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// A code such as RN0101, a page (workflow, settings, scripts, scenarios, testing, batches, events, lines, exit-codes), or a key, filter or test such
    /// as `join`; without one, the pages and every code with its title
    topic: Option<String>,
}

/// The pages of the reference, by name.
const PAGES: [(&str, &str); 9] = [
    ("workflow", include_str!("../../docs/workflow.md")),
    ("settings", include_str!("../../docs/settings.md")),
    ("scripts", include_str!("../../docs/scripts.md")),
    ("scenarios", include_str!("../../docs/scenarios.md")),
    ("testing", include_str!("../../docs/testing.md")),
    ("batches", include_str!("../../docs/batches.md")),
    ("events", include_str!("../../docs/events.md")),
    ("lines", include_str!("../../docs/lines.md")),
    ("exit-codes", include_str!("../../docs/exit-codes.md")),
];

pub fn explain(args: &ExplainArgs, output: &mut Output) -> Result<Exit, Failure> {
    let Some(topic) = &args.topic else {
        for (name, page) in PAGES {
            output.text(&format!("{name}  {}\n", page.lines().next().unwrap_or_default().trim_start_matches("# ")))?;
        }
        for code in Code::ALL {
            output.text(&format!("{code}  {}\n", code.title()))?;
        }
        return Ok(Exit::Done);
    };
    if let Some((_, page)) = PAGES.iter().find(|(name, _)| name == topic) {
        output.text(page)?;
        return Ok(Exit::Done);
    }
    if let Some(code) = Code::find(topic) {
        output.text(code.page())?;
        return Ok(Exit::Done);
    }
    let rows = rows();
    let mut found = false;
    for row in rows.iter().filter(|row| row.names.contains(&topic.as_str())) {
        output.text(&row.told())?;
        found = true;
    }
    if found { Ok(Exit::Done) } else { Err(unknown(topic, &rows)) }
}

fn unknown(topic: &str, rows: &[Row]) -> Failure {
    let shown: String = topic.chars().take(40).collect();
    let failure = Failure::new(Code::UnknownCode, format!("there is no page and no code {shown:?}"));
    let names = rows.iter().flat_map(|row| row.names.iter().copied());
    let known = PAGES.iter().map(|(name, _)| *name).chain(Code::ALL.iter().map(|code| code.as_str())).chain(names);
    match nearest(topic, known) {
        Some(near) => failure.with_hint(format!("did you mean {near}? `rondo explain` lists all pages and codes")),
        None => failure.with_hint("`rondo explain` lists all pages and codes"),
    }
}

/// A row of a table of the reference.
struct Row {
    page: &'static str,
    heading: &'static str,
    /// What its first cell names.
    names: Vec<&'static str>,
    /// Each further cell under its column.
    cells: Vec<(&'static str, &'static str)>,
}

impl Row {
    fn told(&self) -> String {
        let mut told = format!("{} ({}, {})\n", self.names.join(", "), self.page, self.heading);
        for (column, cell) in self.cells.iter().filter(|(_, cell)| !cell.is_empty()) {
            let _ = writeln!(told, "  {column}: {}", cell.replace("\\|", "|"));
        }
        told
    }
}

/// The rows of all tables whose first cell is code.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (page, text) in PAGES {
        let (mut heading, mut columns) = ("", Vec::new());
        for line in text.lines() {
            if let Some(title) = line.strip_prefix('#') {
                heading = title.trim_start_matches('#').trim();
            }
            let Some(line) = line.strip_prefix("| ").and_then(|line| line.strip_suffix('|')) else {
                if !line.starts_with('|') {
                    columns.clear();
                }
                continue;
            };
            let cells: Vec<&'static str> = cells(line);
            let Some((first, others)) = cells.split_first() else { continue };
            if columns.is_empty() {
                columns = others.to_vec();
            } else if first.starts_with('`') {
                let names = first.split('`').skip(1).step_by(2).collect();
                let cells = columns.iter().copied().zip(others.iter().copied()).collect();
                rows.push(Row { page, heading, names, cells });
            }
        }
    }
    rows
}

/// The cells of a row; a bar behind a backslash is a part of its cell.
fn cells(line: &'static str) -> Vec<&'static str> {
    let mut cells = Vec::new();
    let mut rest = line;
    let mut from = 0;
    while let Some(bar) = rest.get(from..).and_then(|tail| tail.find('|')).map(|bar| from + bar) {
        if rest.get(..bar).is_some_and(|before| before.ends_with('\\')) {
            from = bar + 1;
            continue;
        }
        cells.push(rest.get(..bar).unwrap_or_default().trim());
        rest = rest.get(bar + 1..).unwrap_or_default();
        from = 0;
    }
    cells.push(rest.trim());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_a_row() {
        let rows = rows();
        let of_page: Vec<&str> =
            rows.iter().filter(|row| row.page == "exit-codes").flat_map(|row| row.names.iter().copied()).collect();
        let codes: Vec<String> = Exit::ALL.iter().map(|exit| exit.code().to_string()).collect();
        assert_eq!(of_page, codes);
    }
}
