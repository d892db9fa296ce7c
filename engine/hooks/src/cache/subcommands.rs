//! The actions of a verb that shows, explains, clears and fills caches.

use std::fmt::Write as _;
use std::sync::Arc;

use rondo_core::hook::{Action, Argument, Subcommand, SubcommandContext, SubcommandOutput, subcommand};
use rondo_protocol::Value;
use rondo_protocol::workflow::read::duration_ms;
use strum::VariantArray as _;

use super::explain::{Explained, explain};
use super::{CacheSet, groups, table};
use crate::cache::{CacheValue, Catalog, Counts, Label, Metric};

/// The names of what `clear` filters by.
const ROLE: &str = "role";
const TOOL: &str = "tool";
const WORKFLOW: &str = "workflow";
const KIND: &str = "kind";
const OLDER: &str = "older-than";
/// The name of what `warm` learns from.
const THREAD: &str = "thread";

/// What the command line can do with the caches of a kind: show metrics, explain a step by its entries, clear, and learn a
/// thread anew.
pub fn subcommand<A: Explained, T: CacheValue>(caches: &Arc<CacheSet<T>>) -> Subcommand {
    const CLEAR_BY: &[Argument] = &[
        Argument::flag(KIND, "KIND", "Only what hooks of this kind keep"),
        Argument::flag(WORKFLOW, "NAME", "Only of this workflow"),
        Argument::flag(ROLE, "ROLE", "Only of this role"),
        Argument::flag(TOOL, "TOOL", "Only of this tool"),
        Argument::flag(OLDER, "AGE", "Only what was kept longer ago than this, such as 2h"),
    ];
    const LEARN_FROM: &[Argument] =
        &[Argument::positional(THREAD, "THREAD", "A thread's id, a prefix of one, or `last`")];
    let kind = A::KIND;
    let (clearing, warming) = (Arc::clone(caches), Arc::clone(caches));
    let actions = vec![
        Action::reading("stats", "What was looked up, found, kept and saved", &[], move |_, context| {
            stats(kind, context)
        }),
        Action::reading(
            "explain",
            "Why calls of a step were or were not answered: each key, part by part",
            &[subcommand::STEP],
            |asked, context| explain::<A>(&asked, context),
        ),
        Action::writing("clear", "Forget what is kept", CLEAR_BY, move |asked, context| {
            let caches = Arc::clone(&clearing);
            Box::pin(async move { clear(&caches, kind, &asked, context).await })
        }),
        Action::writing(
            "warm",
            "Rebuild the cached answers of a thread from its committed steps",
            LEARN_FROM,
            move |asked, context| {
                let caches = Arc::clone(&warming);
                Box::pin(async move { warm(&caches, kind, &asked, context).await })
            },
        ),
    ];
    Subcommand { name: "cache", about: "Show, explain, fill and clear cached answers", actions }
}

/// What has been counted of a kind, for each workflow, role and tool.
fn stats(kind: &str, context: &dyn SubcommandContext) -> Result<SubcommandOutput, String> {
    let mut output = SubcommandOutput::default();
    let mut rows = Vec::new();
    let mut all = Counts::default();
    for group in groups(context.space())? {
        let catalog = Catalog::read(&*table(context.space(), &group));
        for warning in catalog.warnings() {
            let _ = writeln!(output.text, "{kind}: {warning}");
        }
        for (label, counts) in catalog.metrics() {
            all.add(&counts);
            output.lines.push(line(kind, &group, &label, &counts));
            rows.push(row(&group, &label, &counts));
        }
    }
    if rows.is_empty() {
        let _ = writeln!(output.text, "{kind}: nothing has been kept or looked up yet");
        return Ok(output);
    }
    rows.push(["all".to_owned(), String::new(), String::new()].into_iter().chain(numbers(&all)).collect());
    let titles = ["workflow", "role", "tool", "lookups", "hits", "rate", "entries", "bytes", "evicted", "expired"];
    let titles = titles.into_iter().chain(["would hit", "tokens saved", "saved"]).map(str::to_owned).collect();
    let _ = writeln!(output.text, "{kind}");
    lay_out(&mut output.text, titles, rows);
    Ok(output)
}

fn line(kind: &str, group: &str, label: &Label, counts: &Counts) -> Value {
    let text = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
    let rate = Value::number(share(counts)).unwrap_or_default();
    let named = [
        ("kind", Value::from(kind)),
        ("workflow", text(group)),
        ("role", text(label.role())),
        ("tool", text(label.tool())),
        ("hit_rate", rate),
        ("entries", Value::from(counts.entries)),
        ("bytes", Value::from(counts.bytes)),
    ];
    let counted = Metric::VARIANTS.iter().map(|metric| (<&str>::from(metric), Value::from(counts.get(*metric))));
    named.into_iter().chain(counted).collect()
}

fn row(group: &str, label: &Label, counts: &Counts) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    [shown(group).to_owned(), or_dash(label.role()), or_dash(label.tool())].into_iter().chain(numbers(counts)).collect()
}

/// A group as people see it: entries of scope `store` belong to no workflow.
fn shown(group: &str) -> &str {
    if group.is_empty() { "(store)" } else { group }
}

fn numbers(counts: &Counts) -> Vec<String> {
    let number = |metric| counts.get(metric).to_string();
    let rate = format!("{:.0}%", share(counts) * 100.0);
    let tenth_of_a_millicent = counts.get(Metric::SavedMicrousd) / 100;
    vec![
        number(Metric::Lookups),
        number(Metric::Hits),
        if counts.get(Metric::Lookups) == 0 { "-".to_owned() } else { rate },
        counts.entries.to_string(),
        counts.bytes.to_string(),
        number(Metric::Evicted),
        number(Metric::Expired),
        number(Metric::WouldHits),
        number(Metric::SavedTokens),
        format!("${}.{:04}", tenth_of_a_millicent / 10_000, tenth_of_a_millicent % 10_000),
    ]
}

/// The share of lookups that were answered, from 0 to 1.
fn share(counts: &Counts) -> f64 {
    let float = |number: u64| u32::try_from(number).map_or(f64::from(u32::MAX), f64::from);
    let lookups = counts.get(Metric::Lookups);
    if lookups == 0 { 0.0 } else { float(counts.get(Metric::Hits)) / float(lookups) }
}

/// Rows beneath titles; names to the left, numbers to the right.
fn lay_out(text: &mut String, titles: Vec<String>, rows: Vec<Vec<String>>) {
    const GROUP_NAMES: usize = 3;
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &rows {
        let mut line = String::from(" ");
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            let _ = if at < GROUP_NAMES { write!(line, " {cell}{pad}") } else { write!(line, "  {pad}{cell}") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Forgets what a kind keeps, as far as `asked` names kind, workflow, role, tool and age; says how many entries.
async fn clear<T: CacheValue>(
    caches: &CacheSet<T>,
    kind: &str,
    asked: &subcommand::Arguments,
    context: &dyn SubcommandContext,
) -> Result<SubcommandOutput, String> {
    let wanted = |name: &str| asked.get(name).map(String::as_str);
    if wanted(KIND).is_some_and(|only| only != kind) {
        return Ok(SubcommandOutput::default());
    }
    let before_ms = wanted(OLDER)
        .map(|age| {
            let age_ms = duration_ms(age).filter(|ms| *ms > 0);
            let age_ms =
                age_ms.ok_or_else(|| format!("--{OLDER} {age} is not a duration such as 250ms, 30s, 10m, 2h or 3d"))?;
            Ok::<_, String>(context.env().now_ms().saturating_sub(age_ms))
        })
        .transpose()?;
    let mut forgotten = 0;
    for (group, cache) in caches.all(context.space())? {
        if wanted(WORKFLOW).is_some_and(|workflow| workflow != shown(&group)) {
            continue;
        }
        let is_meant = |label: &Label| {
            wanted(ROLE).is_none_or(|role| role == label.role()) && wanted(TOOL).is_none_or(|tool| tool == label.tool())
        };
        let is_old = |kept_at_ms| before_ms.is_none_or(|before_ms| kept_at_ms < before_ms);
        forgotten += cache.remove_where(|_, entry| is_meant(&entry.label) && is_old(entry.kept_at_ms)).await;
        cache.write().await;
    }
    let entries = if forgotten == 1 { "entry" } else { "entries" };
    let line = Value::from_iter([("kind", Value::from(kind)), ("forgotten", Value::from(forgotten))]);
    Ok(SubcommandOutput { text: format!("{kind}: {forgotten} {entries} forgotten\n"), lines: vec![line] })
}

/// Sends a thread's calls along the nodes of a kind once more, so that they keep what was answered.
async fn warm<T: CacheValue>(
    caches: &CacheSet<T>,
    kind: &str,
    asked: &subcommand::Arguments,
    context: &dyn SubcommandContext,
) -> Result<SubcommandOutput, String> {
    let count = async || -> Result<u64, String> {
        let mut entries = 0;
        for (_, cache) in caches.all(context.space())? {
            cache.ready().await;
            entries += cache.totals().entries;
        }
        Ok(entries)
    };
    let thread = context.thread(asked.get(THREAD).map(String::as_str).unwrap_or_default())?;
    let before = count().await?;
    let calls = context.replay(&thread).await?;
    for cache in caches.used() {
        cache.write().await;
    }
    let kept = count().await?.saturating_sub(before);
    let line =
        Value::from_iter([("kind", Value::from(kind)), ("calls", Value::from(calls)), ("kept", Value::from(kept))]);
    let text = match calls {
        0 => format!("{kind}: no call of thread {thread} passes it\n"),
        calls => format!("{kind}: {calls} calls looked at, {kept} new entries\n"),
    };
    Ok(SubcommandOutput { text, lines: vec![line] })
}
