//! The figures of `engine/docs/figures.md`, each beside a reference measured in the same run.
//!
//! `make bench` prints the table; an argument keeps only the figures whose name contains it. `RONDO_BENCH_ROUNDS` has each
//! measured so often, and a second table says median and spread; `RONDO_BENCH_JSON` names a file for them. Nothing here
//! fails when a machine is slow: a figure is for reading.

#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to say")]

mod diff;
mod durable;
mod forks;
mod history;
mod instructions;
#[cfg(feature = "caches")]
mod kept;
mod lanes;
mod large;
mod memory;
mod peaks;
mod prefix;
mod requests;
mod resume;
mod size;
mod starts;
mod streams;
mod support;

use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [verb, folder, thread] = arguments.as_slice()
        && verb == resume::CHILD
    {
        return resume::child(folder, thread);
    }
    if let [verb, steps] = arguments.as_slice()
        && verb == instructions::CHILD
    {
        return instructions::child(steps);
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| name.contains(argument.as_str()));
    println!("{:<58} {:>14}   {:<40}", "figure", "measured", "reference of the same run");
    let figures = [
        ("step", memory::step as fn()),
        ("instructions", instructions::step),
        ("reader", memory::reader),
        ("durable", durable::one_thread),
        ("threads", durable::many_threads),
        ("timer", durable::timer),
        ("lanes", lanes::each),
        ("lanes durable", lanes::durable),
        ("history", history::messages),
        ("prefix", prefix::thread),
        ("request", requests::bytes),
        ("size", size::bytes),
        ("diff", diff::threads),
        ("forks", forks::forks),
        ("waiting", forks::waiting),
        #[cfg(feature = "caches")]
        ("kept hits", kept::hits),
        #[cfg(feature = "caches")]
        ("kept reads", kept::validated),
        #[cfg(feature = "caches")]
        ("kept miss", kept::miss),
        ("starts", starts::programs),
        ("resume", resume::first_call),
        ("streams", streams::readers),
        ("reconnects", streams::reconnects),
        ("fsck", large::fsck),
        ("opening", large::opening),
        ("peak reply", peaks::reply),
        ("peak tool", peaks::tool),
        ("peak at once", peaks::at_once),
        ("peak list", peaks::list),
    ];
    let rounds = support::from_environment("RONDO_BENCH_ROUNDS", 1);
    for _ in 0..rounds {
        figures.iter().filter(|(name, _)| wanted(name)).for_each(|(_, figure)| figure());
    }
    let json = std::env::var_os("RONDO_BENCH_JSON");
    if rounds > 1 || json.is_some() {
        support::summarise(json.as_deref().map(Path::new));
    }
}
