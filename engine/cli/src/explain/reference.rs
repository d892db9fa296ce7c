//! The pages of the reference, their headings, and the rows of their tables.

use std::fmt::Write as _;

use super::layout::{filled, plain};

pub struct Page {
    pub name: &'static str,
    pub text: &'static str,
}

pub const PAGES: [Page; 28] = [
    Page { name: "tutorial", text: include_str!("../../../docs/tutorial.md") },
    Page { name: "workflow", text: include_str!("../../../docs/workflow.md") },
    Page { name: "settings", text: include_str!("../../../docs/settings.md") },
    Page { name: "scripts", text: include_str!("../../../docs/scripts.md") },
    Page { name: "scenarios", text: include_str!("../../../docs/scenarios.md") },
    Page { name: "testing", text: include_str!("../../../docs/testing.md") },
    Page { name: "batches", text: include_str!("../../../docs/batches.md") },
    Page { name: "events", text: include_str!("../../../docs/events.md") },
    Page { name: "lines", text: include_str!("../../../docs/lines.md") },
    Page { name: "api", text: include_str!("../../../docs/api.md") },
    Page { name: "exit-codes", text: include_str!("../../../docs/exit-codes.md") },
    Page { name: "roles", text: include_str!("../../../docs/roles.md") },
    Page { name: "lanes", text: include_str!("../../../docs/lanes.md") },
    Page { name: "forks", text: include_str!("../../../docs/forks.md") },
    Page { name: "trust", text: include_str!("../../../docs/trust.md") },
    Page { name: "providers", text: include_str!("../../../docs/providers.md") },
    Page { name: "adding-a-provider", text: include_str!("../../../docs/adding-a-provider.md") },
    Page { name: "tools", text: include_str!("../../../docs/tools.md") },
    Page { name: "hooks", text: include_str!("../../../docs/hooks.md") },
    Page { name: "prefix", text: include_str!("../../../docs/prefix.md") },
    Page { name: "simulate", text: include_str!("../../../docs/simulate.md") },
    Page { name: "graph", text: include_str!("../../../docs/graph.md") },
    Page { name: "export", text: include_str!("../../../docs/export.md") },
    Page { name: "cassettes", text: include_str!("../../../docs/cassettes.md") },
    Page { name: "durability", text: include_str!("../../../docs/durability.md") },
    Page { name: "digests", text: include_str!("../../../docs/digests.md") },
    Page { name: "laws", text: include_str!("../../../docs/laws.md") },
    Page { name: "store-format", text: include_str!("../../../docs/store-format.md") },
];

/// The pages whose rows are fields of JSON lines.
const OF_FIELDS: [&str; 2] = ["events", "lines"];

pub struct Heading {
    level: usize,
    /// Without the marks of code and tables of settings.
    pub title: &'static str,
    start: usize,
}

impl Page {
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    pub fn headings(&self) -> Vec<Heading> {
        let mut headings = Vec::new();
        let (mut start, mut is_code) = (0, false);
        for line in self.text.split_inclusive('\n') {
            is_code ^= line.starts_with("```");
            let level = line.len() - line.trim_start_matches('#').len();
            if level > 1 && !is_code {
                let title = line.trim_start_matches('#').trim().trim_matches(|c| matches!(c, '[' | ']' | '`'));
                headings.push(Heading { level, title, start });
            }
            start += line.len();
        }
        headings
    }
}

/// The parts of the pages under a heading, each with the parts below it.
pub fn sections(title: &str) -> Vec<&'static str> {
    let title = title.trim_matches(|c| matches!(c, '[' | ']' | '`')).to_lowercase();
    let mut sections = Vec::new();
    for page in &PAGES {
        let headings = page.headings();
        let is_meant = |heading: &Heading| {
            heading.title.to_lowercase() == title || heading.title.strip_suffix(".NAME") == Some(&*title)
        };
        for (at, heading) in headings.iter().enumerate().filter(|(_, heading)| is_meant(heading)) {
            let next = headings.iter().skip(at + 1).find(|next| next.level <= heading.level);
            sections.extend(page.text.get(heading.start..next.map_or(page.text.len(), |next| next.start)));
        }
    }
    sections
}

pub struct Row {
    pub page: &'static str,
    heading: &'static str,
    /// What its first cell names.
    pub names: Vec<&'static str>,
    cells: Vec<(&'static str, &'static str)>,
}

impl Row {
    pub fn is_field(&self) -> bool {
        OF_FIELDS.contains(&self.page)
    }

    /// Whether it is about that name; of a field also by the last part of its path.
    pub fn is_named(&self, name: &str) -> bool {
        let is_end = |path: &&str| path.rsplit('.').next() == Some(name);
        self.names.contains(&name) || self.is_field() && self.names.iter().any(is_end)
    }

    pub fn told(&self, width: usize) -> String {
        let mut told = format!("{} ({}, {})\n", self.names.join(", "), self.page, self.heading);
        for (column, cell) in self.cells.iter().filter(|(_, cell)| !cell.is_empty()) {
            told += &filled(&format!("{column}: {}", plain(cell)), width, "  ", "    ");
        }
        told
    }
}

/// The fields of one name, each with the line that it stands in.
pub fn told_fields(rows: &[&Row], width: usize) -> String {
    let mut told = "A field of JSON lines:\n".to_owned();
    for row in rows {
        let mut line = format!("{}, {}:", row.heading, row.names.join(", "));
        for (_, cell) in &row.cells {
            let _ = write!(line, " {};", plain(cell));
        }
        told += &filled(line.trim_end_matches(';'), width, "  ", "    ");
    }
    told
}

/// The rows of all tables whose first cell is code.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for Page { name: page, text } in PAGES {
        let (mut heading, mut columns, mut is_code) = ("", Vec::new(), false);
        for line in text.lines() {
            is_code ^= line.starts_with("```");
            if let Some(title) = line.strip_prefix('#').filter(|_| !is_code) {
                heading = title.trim_start_matches('#').trim();
            }
            let Some(cells) = cells(line) else {
                columns.clear();
                continue;
            };
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

/// The cells of a line of a table; a bar behind a backslash is a part of its cell. `None` if it is no such line.
pub fn cells(line: &str) -> Option<Vec<&str>> {
    let mut rest = line.strip_prefix('|')?.strip_suffix('|')?;
    let mut cells = Vec::new();
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
    Some(cells)
}
