use rondo::views::diff::Comparison;

use super::find_thread::{find_thread, find_thread_in};
use super::{Exit, Failure, Output, PlaceArgs, Style, json};

mod text;

use text::DiffText;

/// Show where two threads diverge, and how their steps and costs differ after that
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct DiffArgs {
    /// A thread's id, a prefix of one, or `last`
    a: String,
    /// The thread to compare it with
    b: String,
    #[command(flatten)]
    store: PlaceArgs,
}

pub fn diff(args: &DiffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(args.store.copied()?.existing()?, &args.a)?;
    let store = view.store.as_ref();
    let (other, other_row) = find_thread(store, &args.b)?;
    let compared = Comparison::new(store, &view.driven, (&thread, &row), (&other, &other_row))?;
    let head = compared.head();
    let mut report = DiffText::new(Style::stdout());
    let last = compared.last_common()?;
    output.show_styled(&head, || report.head(&head, last.as_ref(), compared.threads()))?;
    compared.pairs(&mut |pair| {
        if output.is_json() {
            pair.line().map_or(Ok(()), |line| output.line(&line))?;
        } else {
            output.write(report.pair(pair.a.as_ref(), pair.b.as_ref(), &pair.changed).as_bytes())?;
        }
        Ok(!output.is_closed())
    })?;
    let totals = compared.totals();
    output.show_styled(&totals, || report.end(&totals)).map(|()| Exit::Done)
}
