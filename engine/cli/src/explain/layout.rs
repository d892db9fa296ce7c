//! Lays a page of the reference out for a terminal: text is filled to its width, a table stands in columns, or as a
//! list where they do not fit, and code stays as it is. It reads the Markdown that the pages use, and no more.

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

use super::reference::cells;

use crate::Style;

const STRONG: &str = "1";

const CODE: &str = "    ";

const GAP: usize = 2;

/// The narrowest last column; with less room a table becomes a list.
const MIN_LAST: usize = 28;

pub fn laid_out(markdown: &str, style: Style) -> String {
    let mut shown = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            for code in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                shown.extend([CODE, code, "\n"].iter().filter(|part| !(code.is_empty() && **part == CODE)).copied());
            }
        } else if line.starts_with('#') {
            shown.extend([&*style.paint(STRONG, &plain(line.trim_start_matches(['#', ' ']))), "\n"]);
        } else if let Some(titles) = cells(line) {
            let mut rows = Vec::new();
            while let Some(row) = lines.peek().and_then(|line| cells(line)) {
                rows.push(row);
                lines.next();
            }
            // The first one separates the titles.
            rows.splice(..1, [titles]);
            shown += &table(&rows, style);
        } else if line.is_empty() {
            shown.push('\n');
        } else {
            let mut text = line.to_owned();
            while let Some(more) = lines.next_if(|line| is_text(line)) {
                text.extend([" ", more.trim()]);
            }
            let (mark, text) = marked(&text);
            shown += &filled(&plain(text), style.width, mark, &" ".repeat(mark.len()));
        }
    }
    shown
}

/// Whether a line continues the text of the line above.
fn is_text(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(['#', '|']) && !line.starts_with("```") && marked(line).0.is_empty()
}

/// The mark of a list entry, with the blank behind it, and the text.
fn marked(line: &str) -> (&str, &str) {
    let end = match line.split_once(' ') {
        Some(("-", _)) => 2,
        Some((number, _)) if number.strip_suffix('.').is_some_and(|digits| digits.parse::<u8>().is_ok()) => {
            number.len() + 1
        }
        _ => 0,
    };
    line.split_at(end)
}

pub fn plain(markdown: &str) -> String {
    let text = markdown.replace("**", "").replace("\\|", "|");
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, label, behind)) = link(rest) {
        plain.extend([before, label]);
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

/// The text before the first link, its label, and what is behind it.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let middle = text.find("](")?;
    let start = text.get(..middle)?.rfind('[')?;
    let end = middle + text.get(middle..)?.find(')')?;
    Some((text.get(..start)?, text.get(start + 1..middle)?, text.get(end + 1..)?))
}

pub fn filled(text: &str, width: usize, first: &str, others: &str) -> String {
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(others)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// A table, whose first row holds the titles.
fn table(rows: &[Vec<&str>], style: Style) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| display_width(cell)).max())
        .map(Option::unwrap_or_default)
        .collect();
    let Some((last, before)) = widths.split_last() else { return String::new() };
    let indent = before.iter().map(|width| width + GAP).sum::<usize>();
    if indent + (*last).min(MIN_LAST) > style.width {
        return list(&rows, style);
    }
    let mut shown = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(before).enumerate() {
            let gap = " ".repeat(width + GAP - display_width(cell));
            line += &style.paint(if at == 0 || column == 0 { STRONG } else { "" }, cell);
            line += &gap;
        }
        let cell = row.get(before.len()).map_or("", String::as_str);
        let room = style.width.saturating_sub(indent);
        for (number, part) in filled(cell, room, "", "").lines().enumerate() {
            let part = style.paint(if at == 0 { STRONG } else { "" }, part);
            let start = if number == 0 { std::mem::take(&mut line) } else { " ".repeat(indent) };
            shown.extend([format!("{start}{part}").trim_end(), "\n"]);
        }
    }
    shown
}

/// A table whose columns do not fit: each row with a line for every cell.
fn list(rows: &[Vec<String>], style: Style) -> String {
    let Some((titles, rows)) = rows.split_first() else { return String::new() };
    let mut shown = String::new();
    for row in rows {
        for (column, (title, cell)) in titles.iter().zip(row).enumerate().filter(|(_, (_, cell))| !cell.is_empty()) {
            if column == 0 {
                shown += &style.paint(STRONG, &filled(cell, style.width, "", ""));
            } else {
                shown += &filled(&format!("{title}: {cell}"), style.width, "  ", "    ");
            }
        }
    }
    shown
}
