//! Fuzzing on stable Rust: a check is run on every input of a corpus and on mutations of them, from a seed.
//!
//! The checks stand beside what they check, in the modules `fuzz` of `protocol`, `agent-kit` and `engine`. They panic
//! when a law is broken. `libfuzzer/` runs the same checks under cargo-fuzz, guided by coverage.

#![expect(clippy::panic, reason = "a test says what it expects by failing")]

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fastrand::Rng;

/// How many mutations a check is given, unless `RONDO_FUZZ_RUNS` says otherwise.
const RUNS: u64 = 2_000;

/// An input is not made longer than this.
const MAX_BYTES: usize = 1 << 16;

/// How many changes one mutation has at most.
const MAX_CHANGES: usize = 6;

/// How often a failing input is tried to be made smaller.
const MAX_TRIALS: usize = 20_000;

/// How many bytes of a failing input are shown.
const MAX_SHOWN: usize = 4_096;

/// Pieces that readers treat in a way of their own.
const PIECES: [&str; 40] = [
    "\0",
    "\n",
    "\r\n",
    "\u{feff}",
    "\u{2028}",
    "\u{7f}",
    "\u{fffd}",
    "é",
    "😀",
    "\\u0000",
    "\\ud800",
    "\"",
    "'",
    "`",
    "---\n",
    "```\n",
    "{{",
    "}}",
    "{%",
    "%}",
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!!str ",
    "#",
    "<<: ",
    "null",
    "true",
    "1e999",
    "-0",
    "18446744073709551616",
    "data: ",
    "[DONE]",
];

/// Runs `check` on the corpus of `target`, on the files at `also` (files or folders, from the top of the repository), and
/// on mutations of all of them. `RONDO_FUZZ_SEED` chooses other mutations, and `RONDO_FUZZ_RUNS` their number.
///
/// # Panics
/// When `check` panics. The message holds the smallest input that was found; kept as a file below
/// `tests/fuzz/corpus/TARGET/`, it is tried from then on.
pub fn run(target: &str, also: &[&str], check: impl Fn(&[u8])) {
    run_times(target, also, RUNS, check);
}

/// The same for a check that is slow: with `runs` mutations, unless `RONDO_FUZZ_RUNS` says otherwise.
///
/// # Panics
/// As [`run`].
pub fn run_times(target: &str, also: &[&str], runs: u64, check: impl Fn(&[u8])) {
    let corpus = corpus(target, also);
    assert!(!corpus.is_empty(), "{target}: no input to begin with");
    for (place, input) in &corpus {
        try_one(&check, input)
            .unwrap_or_else(|why| panic_with(target, &check, input, &place.display().to_string(), &why));
    }
    let (seed, runs) = (variable("RONDO_FUZZ_SEED").unwrap_or(1), variable("RONDO_FUZZ_RUNS").unwrap_or(runs));
    for number in 0..runs {
        // Each mutation has a seed of its own, so that one can be found without those before it.
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
        let input = mutation(&corpus, &mut rng);
        let named = format!("mutation {number} of seed {seed}");
        try_one(&check, &input).unwrap_or_else(|why| panic_with(target, &check, &input, &named, &why));
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: {text:?} is not a whole number")))
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All inputs, in the order of their paths.
fn corpus(target: &str, also: &[&str]) -> Vec<(PathBuf, Vec<u8>)> {
    let own = format!("tests/fuzz/corpus/{target}");
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = also.iter().chain([&own.as_str()]).map(|place| top().join(place)).collect();
    while let Some(place) = folders.pop() {
        if let Ok(entries) = std::fs::read_dir(&place) {
            folders.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        } else if place.is_file() {
            files.push(place);
        }
    }
    files.sort();
    files.into_iter().filter_map(|file| Some((file.clone(), std::fs::read(file).ok()?))).collect()
}

/// The message of a panic.
fn try_one(check: impl Fn(&[u8]), input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| check(input))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    })
}

fn panic_with(target: &str, check: impl Fn(&[u8]), input: &[u8], named: &str, why: &str) -> ! {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let small = shrunk(input, |input| try_one(&check, input).is_err());
    std::panic::set_hook(hook);
    let mut shown = String::new();
    for byte in small.iter().take(MAX_SHOWN) {
        let _ = write!(shown, "{}", byte.escape_ascii());
    }
    panic!("{target}: {named} fails: {why}\nits smallest form has {} bytes: b\"{shown}\"", small.len());
}

/// A part of a failing input that still fails.
fn shrunk(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut small = input.to_vec();
    let (mut size, mut trials) = (small.len() / 2, 0);
    while size > 0 && trials < MAX_TRIALS {
        let mut at = 0;
        while at < small.len() && trials < MAX_TRIALS {
            let mut without = small.clone();
            without.drain(at..(at + size).min(small.len()));
            trials += 1;
            if fails(&without) {
                small = without;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    small
}

fn mutation(corpus: &[(PathBuf, Vec<u8>)], rng: &mut Rng) -> Vec<u8> {
    let one = |rng: &mut Rng| rng.choice(corpus).map(|(_, input)| input.as_slice()).unwrap_or_default();
    let mut input = one(rng).to_vec();
    for _ in 0..rng.usize(1..=MAX_CHANGES) {
        let at = rng.usize(0..=input.len());
        let size = 1 + rng.usize(0..64);
        let end = (at + rng.usize(1..=size)).min(input.len());
        match rng.u8(0..9) {
            0 => change(&mut input, at, |byte, rng| byte ^ (1 << rng.u8(0..8)), rng),
            1 => change(&mut input, at, |_, rng| rng.u8(..), rng),
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let again = input.get(at..end).unwrap_or_default().repeat(rng.usize(1..20));
                insert(&mut input, at, &again);
            }
            5 => {
                let part = input.get(at..end).unwrap_or_default().to_vec();
                let to = rng.usize(0..=input.len());
                insert(&mut input, to, &part);
            }
            6 => {
                let other = one(rng);
                let from = rng.usize(0..=other.len());
                let to = (from + rng.usize(0..512)).min(other.len());
                insert(&mut input, at, other.get(from..to).unwrap_or_default());
            }
            _ => insert(&mut input, at, rng.choice(PIECES).unwrap_or_default().as_bytes()),
        }
    }
    input.truncate(MAX_BYTES);
    input
}

fn change(input: &mut [u8], at: usize, to: impl Fn(u8, &mut Rng) -> u8, rng: &mut Rng) {
    if let Some(byte) = input.get_mut(at) {
        *byte = to(*byte, rng);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    drop(input.splice(at..at, bytes.iter().copied()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_input_is_found_made_small_and_named() {
        let check = |input: &[u8]| assert!(!input.windows(2).any(|two| two == b"{{"), "two braces");
        let found = catch_unwind(|| run("template", &["tests/fixtures/good"], check)).unwrap_err();
        let message = found.downcast_ref::<String>().unwrap();
        assert!(message.contains("two braces") && message.ends_with("has 2 bytes: b\"{{\""), "{message}");
    }

    #[test]
    fn a_seed_gives_the_same_mutations_and_they_differ_from_each_other() {
        let corpus = [(PathBuf::new(), b"name: a\nroles: {}\n".to_vec())];
        let all =
            |seed: u64| (0..50).map(|number| mutation(&corpus, &mut Rng::with_seed(seed + number))).collect::<Vec<_>>();
        assert_eq!(all(7), all(7));
        let distinct: std::collections::BTreeSet<_> = all(7).into_iter().collect();
        assert!(distinct.len() > 40, "{}", distinct.len());
    }
}
