//! The sums as a table for people.

use std::fmt::Write as _;

use rondo::protocol::object::Usage;
use rondo::tell::{one_line, plural};
use rondo::views::usage::{Groups, Sums, cached_share};

use crate::spending::cost_cell;

/// The longest key that is shown whole, in characters.
const MAX_KEY: usize = 40;

/// What stands for an unknown figure.
const UNKNOWN: &str = "-";

/// A title, and what stands below it for some sums.
type Column = (&'static str, fn(&Sums) -> String);

const COLUMNS: [Column; 8] = [
    ("THREADS", |sums| sums.threads.to_string()),
    ("STEPS", |sums| sums.steps.to_string()),
    ("CALLS", |sums| sums.model_calls.to_string()),
    ("TOOLS", |sums| sums.tool_calls.to_string()),
    ("PROMPT", |sums| tokens(sums.known().usage, |usage| usage.prompt_tokens)),
    ("CACHED", |sums| cached_share(sums.known().usage).map_or_else(unknown, |share| format!("{:.0}%", share * 100.0))),
    ("OUTPUT", |sums| tokens(sums.known().usage, |usage| usage.output_tokens)),
    ("COST", |sums| cost_cell(sums.known().cost)),
];

/// Shown only if a hook answered a call.
const SAVED_COLUMNS: [Column; 3] = [
    ("BY HOOKS", |sums| sums.saved_calls.to_string()),
    ("SAVED TOKENS", |sums| {
        tokens(sums.saved().usage, |usage| usage.prompt_tokens.saturating_add(usage.output_tokens))
    }),
    ("SAVED", |sums| cost_cell(sums.saved().cost)),
];

/// A line for each group, and notes on calls whose tokens or price are unknown; `by` is the title of the keys.
pub(super) fn text(by: Option<&str>, groups: &Groups) -> String {
    let mut columns: Vec<Vec<String>> = by.map(|by| keys(by, groups)).into_iter().collect();
    let has_saved = groups.values().any(|sums| sums.saved_calls > 0);
    let saved = if has_saved { &SAVED_COLUMNS[..] } else { &[] };
    columns.extend(COLUMNS.iter().chain(saved).map(|(title, figure)| {
        let figures = groups.values().map(figure);
        std::iter::once((*title).to_owned()).chain(figures).collect()
    }));
    aligned(&columns, by.is_some()) + &unknown_calls(groups)
}

fn keys(by: &str, groups: &Groups) -> Vec<String> {
    let shown = |key: &Option<String>| {
        let key = key.as_deref().filter(|key| !key.is_empty()).unwrap_or("(none)");
        one_line(key).chars().take(MAX_KEY).collect()
    };
    std::iter::once(by.to_uppercase()).chain(groups.keys().map(shown)).collect()
}

/// Columns side by side: names on the left side of theirs, figures on the right.
fn aligned(columns: &[Vec<String>], has_keys: bool) -> String {
    let widths: Vec<usize> =
        columns.iter().map(|cells| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)).collect();
    let rows = columns.first().map_or(0, Vec::len);
    let mut text = String::new();
    for row in 0..rows {
        let mut line = String::new();
        for (index, (cells, width)) in columns.iter().zip(&widths).enumerate() {
            let cell = cells.get(row).map_or("", String::as_str);
            let gap = if index == 0 { "" } else { "  " };
            let _ = if has_keys && index == 0 {
                write!(line, "{gap}{cell:<width$}")
            } else {
                write!(line, "{gap}{cell:>width$}")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Which part of the calls the sums leave out.
fn unknown_calls(groups: &Groups) -> String {
    let sum = |count: fn(&Sums) -> u64| groups.values().map(count).sum::<u64>();
    let calls = plural(sum(|sums| sums.model_calls), "model call");
    let mut text = String::new();
    for (count, what) in [
        (sum(|sums| sums.uncounted_calls), "have no token counts"),
        (sum(|sums| sums.known().cost.unpriced_calls()), "have no known price"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "{count} of {calls} {what}");
        }
    }
    text
}

fn tokens(usage: Option<Usage>, of: fn(Usage) -> u64) -> String {
    usage.map_or_else(unknown, |usage| of(usage).to_string())
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}
