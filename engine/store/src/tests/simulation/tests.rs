//! Tries cases, and tells how often each way in which an operation breaks was met.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Case, Place};

/// How many cases are tried at each change of the code.
const CASES: u64 = 400;

/// The value of an environment variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tries the cases from `seed` on, and tells the first that breaks a law.
fn try_from(place: Place, seed: u64, goes_on: impl Fn(u64) -> bool) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut seed = seed;
    while goes_on(seed) {
        let (case, reference) = Case::new(seed, place);
        match case.verdict(&reference) {
            Ok(outcome) => {
                *counts.entry("cases".to_owned()).or_default() += 1;
                for (operation, fault) in outcome.met {
                    *counts.entry(format!("{operation:?} {fault}")).or_default() += 1;
                }
            }
            Err(_) => case.smaller(&reference).tell(&reference),
        }
        seed += 1;
    }
    counts
}

#[test]
fn whatever_fails_a_run_comes_to_the_same_end() {
    tried(Place::Device, 1 + 9);
}

/// With the ends of the runs over a device, which meet no fault.
#[test]
fn on_a_log_it_comes_to_that_end_too() {
    // A log is not read while a process lives.
    tried(Place::Log, 1 + 8);
}

fn tried(place: Place, ways: usize) {
    let (first, cases) = (number("RONDO_SIMULATION_SEED").unwrap_or(1), number("RONDO_SIMULATION_CASES"));
    let (minutes, begun) = (number("RONDO_SIMULATION_MINUTES").map(Duration::from_mins), Instant::now());
    let counts = try_from(place, first, |seed| match minutes {
        Some(minutes) => begun.elapsed() < minutes,
        None => seed < first + cases.unwrap_or(CASES),
    });
    println!("seeds from {first} on: {counts:?}; no law broken");
    // Each way in which an operation breaks was met.
    assert!(counts.len() == ways || cases.is_some() || minutes.is_some(), "{counts:?}");
}

#[test]
fn a_seed_repeats_its_run() {
    for (seed, place) in (0..20).flat_map(|seed| [(seed, Place::Device), (seed, Place::Log)]) {
        let (case, _) = Case::new(seed, place);
        let [one, other] = [case.play(), case.play()].map(|played| match played {
            Ok(outcome) => outcome.trace,
            Err(broken) => broken.trace,
        });
        assert!(!one.is_empty());
        assert_eq!(one, other, "seed {seed}");
    }
}
