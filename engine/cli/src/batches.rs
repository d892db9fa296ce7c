//! `rondo batches`: every batch of the store, and how far it has come.

use rondo::core::env::{Env as _, SystemEnv};
use rondo::protocol::id::BatchId;
use rondo::views::batches::{BatchLine, batch_line};

use super::spending::cost_text;
use super::store_access::StoreView;
use super::stored_batch::Batch;
use super::table::{Column, Table};
use super::threads::age;
use super::{Exit, Failure, Output, StoreArgs, Style, json};

/// List the batches of the store with the status of their lines: newest first, with --json oldest first
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct BatchesArgs {
    #[command(flatten)]
    store: StoreArgs,
}

pub fn batches(args: &BatchesArgs, output: &mut Output) -> Result<Exit, Failure> {
    let view = args.store.view()?;
    let ids = match &view {
        Some(view) => view.store.batches(None, usize::MAX)?,
        None => Vec::new(),
    };
    let lines = ids.iter().filter_map(|id| view.as_ref().and_then(|view| line(view, id).transpose()));
    if output.is_json() {
        lines.into_iter().try_for_each(|line| output.line(&line?))?;
        return Ok(Exit::Done);
    }
    let now_ms = SystemEnv::default().now_ms();
    let mut cells = lines.map(|line| Ok(cells(&line?, now_ms))).collect::<Result<Vec<_>, Failure>>()?;
    if cells.is_empty() {
        output
            .text("no batches yet; `rondo run NAME --input-file FILE.csv` runs a workflow for each line of a file\n")?;
        return Ok(Exit::Done);
    }
    cells.reverse();
    let table = Table::new([
        Column::new("BATCH"),
        Column::new("WORKFLOW").rank(1).shrink(),
        Column::new("LINES").right(),
        Column::new("STATUS"),
        Column::new("COST").rank(2).right(),
        Column::new("AGE").rank(3).right(),
        Column::new("TAGS").rank(4).shrink(),
    ]);
    output.text(&table.text(&cells, Style::stdout().columns()))?;
    Ok(Exit::Done)
}

/// The line of a batch; `None` if it was deleted meanwhile.
fn line(view: &StoreView, id: &BatchId) -> Result<Option<BatchLine>, Failure> {
    let store = view.store.as_ref();
    Batch::read(store, id)?.map(|batch| batch_line(store, &view.driven, id, batch)).transpose()
}

fn cells(line: &BatchLine, now_ms: u64) -> [String; 7] {
    let ended: Vec<String> = line.statuses.some().map(|(count, word)| format!("{count} {word}")).collect();
    [
        line.batch.to_string(),
        line.name.clone(),
        line.lines.to_string(),
        ended.join(", "),
        cost_text(line.cost).unwrap_or_default(),
        age(now_ms.saturating_sub(line.started_at_ms)),
        line.tags.join(" "),
    ]
}
