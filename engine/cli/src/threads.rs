use rondo::protocol::id::ThreadId;
use rondo::store::{Error, Row, Status, rows_after};
use rondo::tell::word;
use rondo::views::lines::{ThreadLine, thread_line};
use rondo::views::since::since;

use super::in_flight::totals_cell;
use super::named_command::completed;
use super::store_access::StoreView;
use super::table::{Column, Table};
use super::{Exit, Failure, Output, PlaceArgs, Style, json, now_ms, thread_row};

const PAGE: usize = 256;

const WRITE_BYTES: usize = 64 << 10;

const MIN_ID_CHARS: usize = 10;

/// List the threads of the store: newest first, with --json oldest first
#[derive(Debug, clap::Args)]
#[command(arg = json())]
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
    since: Option<u64>,
    /// Only this many of the newest
    #[arg(short = 'n', value_name = "COUNT")]
    newest: Option<usize>,
    #[command(flatten)]
    store: PlaceArgs,
}

pub(super) fn status(text: &str) -> Result<Status, String> {
    Status::ALL
        .into_iter()
        .find(|status| word(status) == text)
        .ok_or_else(|| format!("one of {}", Status::ALL.map(|of| word(&of)).join(", ")))
}

pub fn threads(args: &ThreadsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let none = "no threads yet; `rondo run` starts one\n";
    let Some(view) = args.store.copied()?.view()? else { return output.aside(&completed(none)).map(|()| Exit::Done) };
    let listing = Listing { args, view: &view, now_ms: now_ms() };
    if output.is_json() {
        listing.write_json(output)?;
    } else if !listing.write_text(output)? {
        output.text(&completed(match view.store.rows(None, 1)?.is_empty() {
            true => none,
            false if args.waiting => "no thread waits for a person\n",
            false => "no thread is like that; `rondo threads` lists them all\n",
        }))?;
    }
    Ok(Exit::Done)
}

/// The wanted threads of a store. They are read as often as it takes, and never held.
struct Listing<'a> {
    args: &'a ThreadsArgs,
    view: &'a StoreView,
    now_ms: u64,
}

impl Listing<'_> {
    fn wants(&self, thread: &ThreadId, row: &Row) -> bool {
        let ThreadsArgs { waiting, workflow, tags, since, .. } = self.args;
        let status = self.args.status.or(waiting.then_some(Status::Waiting));
        status.is_none_or(|wanted| wanted == thread_row::status(thread, row, &self.view.driven))
            && workflow.as_ref().is_none_or(|workflow| *workflow == thread_row::name(row))
            && self.args.name.as_ref().is_none_or(|name| Some(name) == row.label.as_ref())
            && tags.iter().all(|tag| row.tags.contains(tag))
            && since.is_none_or(|from_ms| begun_ms(row, self.now_ms) >= from_ms)
    }

    fn line(&self, (thread, row): &(ThreadId, Row)) -> Result<ThreadLine, Failure> {
        thread_line(self.view.store.as_ref(), &self.view.driven, thread, row)
    }

    fn is_wanted(&self, row: &Result<(ThreadId, Row), Error>) -> bool {
        row.as_ref().map_or(true, |(thread, row)| self.wants(thread, row))
    }

    fn oldest_first(&self) -> impl Iterator<Item = Result<(ThreadId, Row), Error>> {
        rows_after(self.view.store.as_ref(), None).filter(|row| self.is_wanted(row))
    }

    /// Rows can only be read forwards: `pages` says after which thread each page of them begins.
    fn newest_first(&self, pages: &[Option<ThreadId>]) -> impl Iterator<Item = Result<(ThreadId, Row), Error>> {
        let page = |after: &Option<ThreadId>| match self.view.store.rows(after.as_ref(), PAGE) {
            Ok(rows) => rows.into_iter().rev().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        pages.iter().rev().flat_map(page).filter(|row| self.is_wanted(row))
    }

    fn write_json(&self, output: &mut Output) -> Result<(), Failure> {
        let mut older = 0_usize;
        if let Some(newest) = self.args.newest {
            older = self.oldest_first().try_fold(0, |count, row| row.map(|_| count + 1))?;
            older = older.saturating_sub(newest);
        }
        self.oldest_first().skip(older).try_for_each(|row| output.line(&self.line(&row?)?))
    }

    /// Writes the table. Returns whether it has a line.
    fn write_text(&self, output: &mut Output) -> Result<bool, Failure> {
        let (mut pages, mut id_chars, mut before) = (Vec::new(), MIN_ID_CHARS, None);
        for (number, row) in rows_after(self.view.store.as_ref(), None).enumerate() {
            let (thread, _) = row?;
            // Ids come in order, so that the most similar ones are neighbours.
            id_chars = before.as_ref().map_or(id_chars, |before| id_chars.max(common_chars(before, &thread) + 1));
            if number.is_multiple_of(PAGE) {
                pages.push(before);
            }
            before = Some(thread);
        }
        let newest = self.args.newest.unwrap_or(usize::MAX);
        let lines = || {
            self.newest_first(&pages).take(newest).map(|row| {
                let row = row?;
                Ok(cells(&self.line(&row)?, self.now_ms.saturating_sub(begun_ms(&row.1, self.now_ms))))
            })
        };
        listed(lines, id_chars, &mut |text| output.text(text))
    }
}

/// When a thread began, in Unix milliseconds.
pub(super) fn begun_ms(row: &Row, now_ms: u64) -> u64 {
    thread_row::origin(row).map_or(now_ms, |origin| origin.started_at_ms)
}

fn common_chars(one: &ThreadId, other: &ThreadId) -> usize {
    one.as_str().bytes().zip(other.as_str().bytes()).take_while(|(one, other)| one == other).count()
}

type Cells = [String; 8];

pub(super) fn cells(line: &ThreadLine, age_ms: u64) -> Cells {
    [
        line.thread.to_string(),
        line.label.clone().unwrap_or_default(),
        line.name.clone(),
        if line.imported { format!("{}, imported", word(&line.status)) } else { word(&line.status) },
        line.totals.steps.to_string(),
        age(age_ms),
        line.in_flight.map_or_else(String::new, |of| totals_cell(&of)),
        line.tags.join(" "),
    ]
}

/// Passes the table of these lines to `write`, in columns that fit the terminal, and returns whether there is any. The
/// lines are read twice: to be measured, and to be written. `id_chars` of an id are enough to name its thread.
pub(super) fn listed<L: Iterator<Item = Result<Cells, Failure>>>(
    lines: impl Fn() -> L,
    id_chars: usize,
    write: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    // The higher the rank, the earlier a column is left out.
    let mut table = Table::new([
        Column::new("THREAD").cut_to(id_chars),
        Column::new("NAME").rank(2).shrink(),
        Column::new("WORKFLOW").rank(3).shrink(),
        Column::new("STATUS"),
        Column::new("STEPS").rank(4).right(),
        Column::new("AGE").rank(1).right(),
        Column::new("NOT COMMITTED").rank(5).shrink(),
        Column::new("TAGS").rank(5).shrink(),
    ]);
    let mut has_lines = false;
    for cells in lines() {
        table.measure(&cells?);
        has_lines = true;
    }
    if !has_lines {
        return Ok(false);
    }
    table.fit(Style::stdout().columns());
    let mut text = table.titles();
    for cells in lines() {
        text.push_str(&table.line(&cells?));
        if text.len() >= WRITE_BYTES {
            write(&std::mem::take(&mut text))?;
        }
    }
    write(&text)?;
    Ok(true)
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
