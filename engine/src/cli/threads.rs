//! `rondo threads`: every thread of the store, oldest first.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::exit::Exit;
use super::failure::Failure;
use super::lines::{ThreadLine, origin, thread_line};
use super::output::{Output, word};
use super::since::{Since, since};
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
    /// Only threads with this status, such as stopped or failed
    #[arg(long, value_name = "STATUS", value_parser = status, conflicts_with = "waiting")]
    status: Option<Status>,
    /// Only threads of the workflow with this name
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Only threads that started in this time, such as 90m or 7d, or since a day, such as 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Only the newest of them
    #[arg(short = 'n', value_name = "COUNT")]
    newest: Option<usize>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

fn status(text: &str) -> Result<Status, String> {
    const ALL: [Status; 6] =
        [Status::Running, Status::Waiting, Status::Stopped, Status::Done, Status::Failed, Status::Cancelled];
    ALL.into_iter()
        .find(|status| word(status) == text)
        .ok_or_else(|| format!("one of {}", ALL.map(|of| word(&of)).join(", ")))
}

impl ThreadsArgs {
    fn wants(&self, line: &ThreadLine, begun_ms: u64, now_ms: u64) -> bool {
        let status = self.status.or(self.waiting.then_some(Status::Waiting));
        status.is_none_or(|status| status == line.status)
            && self.workflow.as_ref().is_none_or(|workflow| *workflow == line.name)
            && self.since.is_none_or(|since| begun_ms >= since.start_ms(now_ms))
    }
}

pub fn threads(args: &ThreadsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let now_ms = SystemEnv::default().now_ms();
    let view = view_store(&args.store)?;
    let (mut lines, mut after) = (VecDeque::new(), None);
    let mut any = false;
    while let Some(StoreView { store, driven }) = &view {
        let page = store.rows(after.as_ref(), PAGE)?;
        for (thread, row) in &page {
            any = true;
            let line = thread_line(thread, row, driven);
            let begun = origin(row).map_or(now_ms, |origin| origin.started_at_ms);
            if !args.wants(&line, begun, now_ms) {
                continue;
            }
            if output.is_json() && args.newest.is_none() {
                output.line(&line)?;
                continue;
            }
            lines.push_back((line, now_ms.saturating_sub(begun)));
            if args.newest.is_some_and(|newest| lines.len() > newest) {
                lines.pop_front();
            }
        }
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
    }
    if output.is_json() {
        lines.iter().try_for_each(|(line, _)| output.line(line))?;
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        let none = match any {
            true if args.waiting => "no thread waits for a person\n",
            true => "no thread is like that; `rondo threads` lists them all\n",
            false => "no threads yet; `rondo run` starts one\n",
        };
        output.text(none)?;
        return Ok(Exit::Done);
    }
    output.text(&table(lines.make_contiguous()))?;
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
