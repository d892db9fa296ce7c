use rondo::views::batches::{BatchLine, batch_line};

use super::named_command::completed;
use super::spending::cost_text;
use super::stored_batch::Batch;
use super::table::{Column, Table};
use super::threads::age;
use super::{Exit, Failure, Output, StoreArgs, Style, json, now_ms};

/// List the batches of the store with the status of their lines: newest first, with --json oldest first
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct BatchesArgs {
    #[command(flatten)]
    store: StoreArgs,
}

pub fn batches(args: &BatchesArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut lines = Vec::new();
    if let Some(view) = args.store.view()? {
        let store = view.store.as_ref();
        for id in store.batches(None, usize::MAX)? {
            // One that was deleted meanwhile is none.
            if let Some(batch) = Batch::read(store, &id)? {
                lines.push(batch_line(store, &view.driven, &id, batch)?);
            }
        }
    }
    let none = "no batches yet; `rondo run NAME --input-file FILE.csv` runs a workflow for each line of a file\n";
    if output.is_json() || lines.is_empty() {
        return output.show_all(&lines, || completed(none).into_owned()).map(|()| Exit::Done);
    }
    let now_ms = now_ms();
    let cells: Vec<_> = lines.iter().rev().map(|line| cells(line, now_ms)).collect();
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
