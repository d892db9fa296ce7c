//! `rondo threads`: every thread of the store, oldest first.

use std::fmt::Write as _;

use super::exit::Exit;
use super::failure::Failure;
use super::lines::{ThreadLine, origin, thread_line};
use super::output::{Output, word};
use super::store_access::{StoreView, view_store};
use super::{JsonArgs, StoreArgs};
use crate::env::{Env as _, SystemEnv};
use crate::store::Status;

/// How many rows are read at a time.
const PAGE: usize = 256;

/// List the threads of the store, oldest first
#[derive(Debug, clap::Args)]
pub struct ThreadsArgs {
    /// Only threads that wait for a person
    #[arg(long)]
    waiting: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

pub fn threads(args: &ThreadsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let now_ms = SystemEnv::default().now_ms();
    let view = view_store(&args.store)?;
    let (mut lines, mut after) = (Vec::new(), None);
    while let Some(StoreView { store, driven }) = &view {
        let page = store.rows(after.as_ref(), PAGE)?;
        for (thread, row) in page.iter().filter(|(_, row)| !args.waiting || row.status == Status::Waiting) {
            let line = thread_line(thread, row, driven);
            if output.is_json() {
                output.line(&line)?;
            } else {
                let begun = origin(row).map_or(now_ms, |origin| origin.started_at_ms);
                lines.push((line, now_ms.saturating_sub(begun)));
            }
        }
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
    }
    if output.is_json() {
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        let none =
            if args.waiting { "no thread waits for a person\n" } else { "no threads yet; `rondo run` starts one\n" };
        output.text(none)?;
        return Ok(Exit::Done);
    }
    output.text(&table(&lines))?;
    Ok(Exit::Done)
}

/// Formats the lines, each with the age of its thread, as a table.
pub(super) fn table(lines: &[(ThreadLine, u64)]) -> String {
    let width = lines.iter().map(|(line, _)| line.name.chars().count()).max().unwrap_or(0).clamp(8, 40);
    let mut text = format!("{:<26}  {:<width$}  {:<9}  {:>6}  {:>8}\n", "THREAD", "WORKFLOW", "STATUS", "STEPS", "AGE");
    for (line, age_ms) in lines {
        let name: String = line.name.chars().take(width).collect();
        let _ = writeln!(
            text,
            "{}  {name:<width$}  {:<9}  {:>6}  {:>8}",
            line.thread,
            word(&line.status),
            line.totals.steps,
            age(*age_ms),
        );
    }
    text
}

/// An age in the largest unit that gives a whole number.
pub(super) fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
