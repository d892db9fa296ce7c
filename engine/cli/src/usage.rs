mod table;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rondo::views::since::since;
use rondo::views::usage::{By, Sums, UsageLine, none, sums};

use super::find_thread::find_thread;
use super::named_command::completed;
use super::{Exit, Failure, Output, PlaceArgs, choice, json};

/// Add up calls, tokens, money, and what hooks saved
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct UsageArgs {
    /// Only these threads with their children: ids, prefixes of ids, names, or `last`
    #[arg(value_name = "THREAD")]
    threads: Vec<String>,
    /// A sum for each of these, instead of one; days are in UTC
    #[arg(long, value_parser = choice(By::ALL.map(|by| (by.name(), by))))]
    by: Option<By>,
    /// Only steps that ended in this time, such as 12h or 7d, or since a day, such as 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<u64>,
    #[command(flatten)]
    store: PlaceArgs,
}

pub fn usage(args: &UsageArgs, output: &mut Output) -> Result<Exit, Failure> {
    let from_ms = args.since.unwrap_or(0);
    let store = args.store.copied()?;
    let groups = match if args.threads.is_empty() { store.view()? } else { Some(store.existing()?) } {
        Some(view) => {
            let store = view.store.as_ref();
            let found = args.threads.iter().map(|word| find_thread(store, word).map(|(thread, _)| thread));
            let found = found.collect::<Result<BTreeSet<_>, _>>()?;
            sums(store, Some(found).filter(|found| !found.is_empty()), args.by, from_ms)?
        }
        None => none(args.by),
    };
    if output.is_json() {
        let line = |(key, sums): (&Option<String>, &Sums)| UsageLine::new(args.by, key.clone(), sums);
        groups.iter().map(line).try_for_each(|line| output.line(&line))?;
    } else if groups.is_empty() {
        output.text(&completed(match args.since {
            Some(_) => "no step ended in this time\n",
            None => "no steps yet; `rondo run` starts a thread\n",
        }))?;
    } else {
        output.text(&table::text(args.by.map(By::name), &groups))?;
    }
    Ok(Exit::Done)
}
