//! `make soak`: crash images, the damage sweep, repairs, races, ledgers and faults at every call in turn, for as long as
//! it is told to.
//!
//! Its folder keeps the damaged store and how far the sweeps are, so that the next call continues from there.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::damage::{self, Counts, Subject};
use crate::images::{self, WORKLOADS};
use crate::injector::{Fault, Injector};
use crate::{calls, ledger, race, repairs};

/// The length of a turn of the sweep, which takes longest, and of each other part.
const SWEEP_TURN: Duration = Duration::from_secs(40);
const TURN: Duration = Duration::from_secs(20);
/// How many faults and images are tried between two looks at the clock.
const PORTION: usize = 200;
/// How many calls meet a fault between two looks at the clock.
const CALLS: usize = 16;

/// What has been done, by all calls together.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    /// How many faults of the sweep have been tried.
    swept: usize,
    damage: Counts,
    /// The same of repairs, for each of their stores.
    repaired: Vec<usize>,
    repairs: Counts,
    images: u64,
    /// Of each workload, the number of the next image.
    next_image: Vec<u64>,
    rounds: u64,
    ledgers: u64,
    calls: calls::Counts,
    /// The fault, counted through all subjects, and how many calls met it there.
    next_call: (usize, usize),
}

impl Progress {
    fn read(file: &Path) -> Self {
        std::fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn write(&self, file: &Path) {
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec_pretty(self).unwrap()).unwrap();
        std::fs::rename(new, file).unwrap();
    }
}

#[test]
#[ignore = "takes as long as it is told to: make soak"]
fn soak() {
    let minutes: f64 = std::env::var("MINUTES").ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(60.0);
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak");
    let progress_file = folder.join("progress.json");
    std::fs::create_dir_all(&folder).unwrap();
    let mut progress = Progress::read(&progress_file);
    let store = folder.join("store");
    if !store.exists() {
        progress = Progress::default();
        damage::make(&store);
        for threads in repairs::THREADS {
            repairs::make(&folder.join(format!("store-{threads}")), threads);
        }
    }
    let repairs = repairs::THREADS.map(|threads| {
        let subject = Subject::of(&folder.join(format!("store-{threads}")));
        let faults = [subject.cuts(repairs::CUTS), subject.sweep()].concat();
        (subject, faults)
    });
    progress.repaired.resize(repairs.len(), 0);
    let subject = Subject::of(&store);
    let sweep = subject.sweep();
    println!(
        "{minutes} minutes; a store of {} bytes, of whose {} faults {} were tried before",
        subject.size_bytes(),
        sweep.len(),
        progress.swept
    );
    let workloads: Vec<_> = WORKLOADS.into_iter().filter_map(|(name, record)| record(name)).collect();
    // The first images are those of `make test`.
    progress.next_image.resize(workloads.len(), images::IMAGES as u64);
    let mut seen = vec![HashSet::new(); workloads.len()];
    let head = race::head();
    let (injector, subjects) = (Injector::new(), calls::SUBJECTS.map(|(name, make)| make(name)));
    while Instant::now() < end {
        let until = |turn: Instant, length: Duration| Instant::now() < end.min(turn + length);
        let turn = Instant::now();
        while until(turn, SWEEP_TURN) && progress.swept < sweep.len() {
            let portion = &sweep[progress.swept..sweep.len().min(progress.swept + PORTION)];
            progress.damage.merge(subject.tried(portion, damage::WORKER));
            progress.swept += portion.len();
        }
        for ((subject, faults), repaired) in repairs.iter().zip(&mut progress.repaired) {
            let turn = Instant::now();
            while until(turn, TURN) && *repaired < faults.len() {
                let portion = &faults[*repaired..faults.len().min(*repaired + PORTION)];
                progress.repairs.merge(subject.tried(portion, repairs::WORKER));
                *repaired += portion.len();
            }
        }
        let turn = Instant::now();
        while until(turn, TURN) && !workloads.is_empty() {
            std::thread::scope(|scope| {
                for ((workload, next), seen) in workloads.iter().zip(&mut progress.next_image).zip(&mut seen) {
                    scope.spawn(|| *next = workload.check(*next, PORTION, seen));
                }
            });
            progress.images += (PORTION * workloads.len()) as u64;
        }
        let turn = Instant::now();
        while until(turn, TURN) {
            race::round(progress.rounds, &head);
            progress.rounds += 1;
        }
        let turn = Instant::now();
        while until(turn, TURN) {
            ledger::rounds(progress.ledgers, ledger::AT_ONCE);
            progress.ledgers += ledger::AT_ONCE;
        }
        let turn = Instant::now();
        while until(turn, TURN)
            && let Some(injector) = &injector
        {
            let (case, met) = progress.next_call;
            // After the last it begins again.
            let subject = &subjects[case / Fault::ALL.len() % subjects.len()];
            let (counts, is_end) = subject.sweep(injector, Fault::ALL[case % Fault::ALL.len()], (met + 1, 1), CALLS);
            progress.calls.merge(counts);
            progress.next_call = if is_end { (case + 1, 0) } else { (case, met + CALLS) };
        }
        progress.write(&progress_file);
        println!("{}", progress.shown(sweep.len()));
    }
    assert_eq!(progress.damage.faults() + progress.repairs.faults(), 0, "{}", progress.shown(sweep.len()));
    progress.calls.holds();
}

impl Progress {
    fn shown(&self, sweep: usize) -> String {
        format!(
            "sweep {} of {sweep}: {}\nrepairs: {}\n{} crash images: 0 lost, 0 unopenable; {} rounds of 16 processes: 0 ruined\n\
             {} rounds of a ledger: 0 asked twice\n\
             faults at calls, {} of {} sweeps: {}",
            self.swept,
            self.damage.shown(),
            self.repairs.shown(),
            self.images,
            self.rounds,
            self.ledgers,
            self.next_call.0,
            calls::SUBJECTS.len() * Fault::ALL.len(),
            self.calls.shown()
        )
    }
}
