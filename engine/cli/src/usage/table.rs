//! The sums as a table for people.

use rondo::protocol::object::Usage;
use rondo::tell::{one_line, plural};
use rondo::views::usage::{Groups, Sums, cached_share};

use crate::spending::cost_cell;
use crate::table::{Column, Table};

const MAX_KEY: usize = 40;

/// A title, and what stands below it for some sums.
type Figure = (&'static str, fn(&Sums) -> String);

const COLUMNS: [Figure; 8] = [
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
const SAVED_COLUMNS: [Figure; 3] = [
    ("BY HOOKS", |sums| sums.saved_calls.to_string()),
    ("SAVED TOKENS", |sums| {
        tokens(sums.saved().usage, |usage| usage.prompt_tokens.saturating_add(usage.output_tokens))
    }),
    ("SAVED", |sums| cost_cell(sums.saved().cost)),
];

/// A line for each group, and notes on calls whose tokens or price are unknown; `by` is the title of the keys.
pub(super) fn text(by: Option<&str>, groups: &Groups) -> String {
    let has_saved = groups.values().any(|sums| sums.saved_calls > 0);
    let figures = || COLUMNS.iter().chain(SAVED_COLUMNS.iter().filter(|_| has_saved));
    let keys = by.map(|by| Column::new(by.to_uppercase()));
    let table = Table::new(keys.into_iter().chain(figures().map(|(title, _)| Column::new(*title).right())));
    let line = |(key, sums): (&Option<String>, &Sums)| -> Vec<String> {
        by.map(|_| shown(key.as_deref())).into_iter().chain(figures().map(|(_, figure)| figure(sums))).collect()
    };
    table.text(&groups.iter().map(line).collect::<Vec<_>>(), usize::MAX) + &unknown_calls(groups)
}

fn shown(key: Option<&str>) -> String {
    let key = key.filter(|key| !key.is_empty()).unwrap_or("(none)");
    one_line(key).chars().take(MAX_KEY).collect()
}

fn unknown_calls(groups: &Groups) -> String {
    let sum = |count: fn(&Sums) -> u64| groups.values().map(count).sum::<u64>();
    let calls = plural(sum(|sums| sums.model_calls), "model call");
    let unknown = [
        (sum(|sums| sums.uncounted_calls), "have no token counts"),
        (sum(|sums| sums.known().cost.unpriced_calls()), "have no known price"),
    ];
    let line = |(count, what): (u64, &str)| format!("{count} of {calls} {what}\n");
    unknown.into_iter().filter(|(count, _)| *count > 0).map(line).collect()
}

fn tokens(usage: Option<Usage>, of: fn(Usage) -> u64) -> String {
    usage.map_or_else(unknown, |usage| of(usage).to_string())
}

fn unknown() -> String {
    "-".to_owned()
}
