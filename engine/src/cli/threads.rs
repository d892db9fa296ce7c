//! `rondo threads`: every thread of the store.

use std::collections::VecDeque;

use rondo_protocol::id::ThreadId;

use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Style};
use super::table::{Column, table};
use super::thread_row::origin;
use super::{JsonArgs, StoreArgs};
use crate::env::{Env as _, SystemEnv};
use crate::store::Status;
use crate::tell::word;
use crate::views::lines::{ThreadLine, thread_line};
use crate::views::since::{Since, since};

/// How many rows are read at a time.
const PAGE: usize = 256;

/// The fewest characters that an id is shortened to.
const MIN_ID_CHARS: usize = 10;

/// List the threads of the store: newest first, with --json oldest first
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
    /// Only the thread, or threads, with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only threads with this tag; given several times, with all of them
    #[arg(long = "tag", value_name = "WORD")]
    tags: Vec<String>,
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

pub(super) fn status(text: &str) -> Result<Status, String> {
    Status::ALL
        .into_iter()
        .find(|status| word(status) == text)
        .ok_or_else(|| format!("one of {}", Status::ALL.map(|of| word(&of)).join(", ")))
}

impl ThreadsArgs {
    fn wants(&self, line: &ThreadLine, begun_ms: u64, now_ms: u64) -> bool {
        let status = self.status.or(self.waiting.then_some(Status::Waiting));
        status.is_none_or(|status| status == line.status)
            && self.workflow.as_ref().is_none_or(|workflow| *workflow == line.name)
            && self.name.as_ref().is_none_or(|name| Some(name) == line.label.as_ref())
            && self.tags.iter().all(|tag| line.tags.contains(tag))
            && self.since.is_none_or(|since| begun_ms >= since.start_ms(now_ms))
    }
}

pub fn threads(args: &ThreadsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let now_ms = SystemEnv::default().now_ms();
    let view = args.store.view()?;
    let (mut lines, mut after) = (VecDeque::new(), None);
    let mut id_chars = MIN_ID_CHARS;
    while let Some(view) = &view {
        let page = view.store.rows(after.as_ref(), PAGE)?;
        for (thread, row) in &page {
            // Ids come in order, so that the most similar ones are neighbours.
            id_chars = after.as_ref().map_or(id_chars, |before| id_chars.max(common_chars(before, thread) + 1));
            after = Some(thread.clone());
            let line = thread_line(view.store.as_ref(), &view.driven, thread, row)?;
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
        if page.is_empty() {
            break;
        }
    }
    if output.is_json() {
        lines.iter().try_for_each(|(line, _)| output.line(line))?;
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        let none = match after.is_some() {
            true if args.waiting => "no thread waits for a person\n",
            true => "no thread is like that; `rondo threads` lists them all\n",
            false => "no threads yet; `rondo run` starts one\n",
        };
        output.text(none)?;
        return Ok(Exit::Done);
    }
    let style = Style::stdout();
    let width = if style.is_terminal { style.width } else { usize::MAX };
    output.text(&listed(&lines.iter().rev(), id_chars, width))?;
    Ok(Exit::Done)
}

/// How many characters two ids begin with.
fn common_chars(one: &ThreadId, other: &ThreadId) -> usize {
    one.as_str().bytes().zip(other.as_str().bytes()).take_while(|(one, other)| one == other).count()
}

/// The lines, each with the age of its thread, in columns that fit `width`. `id_chars` of an id are enough to name its
/// thread.
pub(super) fn listed<'a>(
    lines: &(impl Iterator<Item = &'a (ThreadLine, u64)> + Clone),
    id_chars: usize,
    width: usize,
) -> String {
    let column = |title, of: &dyn Fn(&ThreadLine, u64) -> String| {
        Column::new(title, lines.clone().map(|(line, age_ms)| of(line, *age_ms)).collect())
    };
    // The higher the rank, the earlier a column is left out.
    table(
        vec![
            column("THREAD", &|line, _| line.thread.to_string()).cut_to(id_chars),
            column("NAME", &|line, _| line.label.clone().unwrap_or_default()).rank(2).shrink(),
            column("WORKFLOW", &|line, _| line.name.clone()).rank(3).shrink(),
            column("STATUS", &|line, _| word(&line.status)),
            column("STEPS", &|line, _| line.totals.steps.to_string()).rank(4).right(),
            column("AGE", &|_, age_ms| age(age_ms)).rank(1).right(),
            column("NOT COMMITTED", &|line, _| line.in_flight.map_or_else(String::new, |of| of.cell()))
                .rank(5)
                .shrink(),
            column("TAGS", &|line, _| line.tags.join(" ")).rank(5).shrink(),
        ],
        width,
    )
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
