//! Repairs: every thread that a damaged store still shows is in the repaired one, as it was.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rondo::upkeep;
use rondo_core::conversation::rebuild;
use rondo_core::local::spent;
use rondo_protocol::id::ThreadId;
use rondo_store::{Read, RocksReader};

use crate::binary::{Place, fixture};
use crate::damage::{Counts, Fault, Subject, copy};
use crate::images::offline;
use crate::random::{Random, seed};
use crate::workers::work;

/// The worker's test.
pub const WORKER: &str = "repairs::worker";

/// How many runs the stores hold.
pub const THREADS: [usize; 4] = [1, 3, 9, 50];

/// At how many places bytes are missing.
pub const CUTS: usize = 200;

/// Makes a store of so many runs: threads that ended, with lanes and with children, that wait, were killed, or were
/// forked, and those of a batch.
pub fn make(folder: &Path, runs: usize) {
    let place = Place::new();
    let batch = place.file("batch.jsonl", "{\"topic\": \"one\"}\n{\"topic\": \"two\"}\n");
    for number in 0..runs {
        match number % 7 {
            0 => drop(place.run(offline("relay")).exits(0)),
            1 => drop(place.run(offline("lanes")).exits(0)),
            2 => drop(place.run(offline("children")).exits(0)),
            3 => drop(place.run(offline("people")).exits(75)),
            4 => drop(place.run(["run", &fixture("relay"), "--offline", "--input-file", &batch, "--json"]).exits(0)),
            5 => {
                let mut stopped = place.start(offline("lanes"));
                for _ in 0..3 {
                    stopped.event("step_committed");
                }
                stopped.kill();
            }
            _ => drop(place.run(["fork", "last", "--at", "1", "--json"])),
        }
    }
    copy(&place.store(), folder, None);
}

/// Everything that is shown of a thread, what it has spent too, and its parent.
fn shown(store: &dyn Read, thread: &ThreadId) -> Result<Option<(String, Option<ThreadId>)>, String> {
    let told = |error: &dyn ToString| error.to_string();
    let Some(row) = store.row(thread).map_err(|error| told(&error))? else { return Ok(None) };
    let mut spent = spent(store, thread, &row).map_err(|error| told(&error))?;
    // Steps tell less than a checkpoint of how long a thread was worked on.
    spent.active_ms = 0;
    let (origin, named) = (String::from_utf8_lossy(&row.origin), (&row.label, &row.tags, &row.base));
    let mut text = format!("{:?} {} {:?} {origin} {named:?} {spent:?}", row.status, row.seq, row.head);
    if row.seq > 0 {
        let read = store.steps(thread, 1..=row.seq, &mut |step, note| {
            write!(text, "{step:?} {note:?}").unwrap();
            true
        });
        read.map_err(|error| told(&error))?;
        let requests = rebuild::requests(store, thread, &row, &|_| true, &mut |request| {
            write!(text, "{request:?}").unwrap();
            true
        });
        requests.map_err(|error| told(&error))?;
    }
    Ok(Some((text, row.parent.map(|parent| parent.thread))))
}

/// Where two texts begin to differ.
fn difference(was: &str, is: &str) -> String {
    let at = was.chars().zip(is.chars()).take_while(|(was, is)| was == is).count();
    let from = |text: &str| text.chars().skip(at.saturating_sub(40)).take(160).collect::<String>();
    format!("it was …{} and is …{}", from(was), from(is))
}

type Shown = BTreeMap<ThreadId, (String, Option<ThreadId>)>;

fn answered(whole: &Shown, store: &Path, fault: &Fault) -> Result<&'static str, String> {
    let place = Place::new();
    fault.copied(store, &place.store());
    let mut readable = Shown::new();
    if let Ok((reader, _)) = RocksReader::open(&place.store()) {
        let as_before = |(thread, whole): (&ThreadId, &(String, Option<ThreadId>))| {
            let read = shown(&reader, thread).ok().flatten();
            read.filter(|read| read == whole).map(|read| (thread.clone(), read))
        };
        readable = whole.iter().filter_map(as_before).collect();
    }
    let to = place.path().join("repaired");
    match upkeep::repair(&place.store(), &to, &mut |_| {}, &mut |_| {}) {
        Ok(None) => return Ok("harmless"),
        Err(_) if readable.is_empty() => return Ok("told"),
        Err(failure) => {
            return Err(format!("{} threads are shown, and nothing is repaired: {failure}", readable.len()));
        }
        Ok(Some(_)) => {}
    }
    let (repaired, _) = RocksReader::open(&to).map_err(|error| format!("the repaired store: {error}"))?;
    for (thread, (text, parent)) in &readable {
        let (kept, its_parent) = match shown(&repaired, thread) {
            Ok(Some(kept)) => kept,
            other => return Err(format!("thread {thread}: {other:?}")),
        };
        if kept != *text {
            return Err(format!("thread {thread}: {}", difference(text, &kept)));
        }
        // Without its parent a child is a thread of its own.
        let parent = parent.as_ref().filter(|parent| repaired.row(parent).is_ok_and(|row| row.is_some()));
        if its_parent.as_ref() != parent {
            return Err(format!("thread {thread} has the parent {its_parent:?} and not {parent:?}"));
        }
    }
    Ok("told")
}

#[test]
#[ignore = "a worker of the tests beside it"]
fn worker() {
    let mut known: BTreeMap<PathBuf, Shown> = BTreeMap::new();
    work(|line| {
        let (store, fault): (PathBuf, Fault) = serde_json::from_str(line).unwrap();
        let whole = known.entry(store.clone()).or_insert_with(|| {
            let copied = Place::new();
            copy(&store, &copied.store(), None);
            let (reader, _) = RocksReader::open(&copied.store()).unwrap();
            let rows = reader.rows(None, 1000).unwrap();
            rows.into_iter().map(|(thread, _)| (thread.clone(), shown(&reader, &thread).unwrap().unwrap())).collect()
        });
        answered(whole, &store, &fault).map_or_else(|wrong| wrong, str::to_owned)
    });
}

/// How many bits and how many cuts of a store are tried at each change of the code.
const EACH: usize = 20;

#[test]
fn what_a_damaged_store_shows_is_in_the_repaired_one() {
    let mut all = Counts::default();
    for threads in THREADS {
        let place = Place::new();
        let folder = place.path().join("store");
        make(&folder, threads);
        let subject = Subject::of(&folder);
        let mut random = Random::of(seed(), threads as u64);
        let mut cuts = subject.cuts(CUTS);
        let mut faults: Vec<Fault> = (0..EACH).map(|_| cuts.swap_remove(random.below(cuts.len()))).collect();
        faults.extend((0..EACH as u64).map(|number| subject.drawn(number)));
        let counts: Counts = subject.tried(&faults, WORKER);
        println!("{threads} runs, {} bytes: {}; RONDO_TEST_SEED={}", subject.size_bytes(), counts.shown(), seed());
        assert_eq!(counts.faults(), 0, "{threads} runs: {}", counts.shown());
        all.merge(counts);
    }
    // Which faults a small store shows depends on the seed; of all stores together it is about two thirds.
    assert!(all.told > 40, "{}", all.shown());
}
