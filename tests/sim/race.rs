//! Many processes continue one thread of one store while the files that name locks are deleted under them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::binary::Running;
use crate::images::{killed, offline, resume};
use crate::random::{Random, seed};

const PROCESSES: usize = 16;

/// What deleting may tempt a second writer in.
const LOCKS: [&str; 3] = ["lock", "db/LOCK", "socket"];

/// One round: all processes end, one chain of steps is there, with every step that any of them acknowledged.
///
/// # Panics
/// If not.
pub fn round(number: u64, head: &Value) {
    let place = killed(&offline("relay"), 2);
    let has_ended = AtomicBool::new(false);
    let finished = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::of(seed(), number);
            while !has_ended.load(Ordering::Relaxed) {
                let _ = std::fs::remove_file(place.store().join(LOCKS[random.below(LOCKS.len())]));
                std::thread::sleep(Duration::from_micros(random.below(2000) as u64));
            }
        });
        let running: Vec<_> = (0..PROCESSES).map(|_| place.start(resume())).collect();
        let finished: Vec<_> = running.into_iter().map(Running::finish).collect();
        has_ended.store(true, Ordering::Relaxed);
        finished
    });
    let mut acknowledged: BTreeMap<u64, Value> = BTreeMap::new();
    for process in &finished {
        assert!(matches!(process.code, Some(0 | 7)), "round {number}: {process:?}");
        for event in process.events("step_committed") {
            let step = acknowledged.entry(event["seq"].as_u64().unwrap()).or_insert_with(|| event["step"].clone());
            assert_eq!(*step, event["step"], "round {number}: two chains");
        }
    }
    let last = place.run(resume()).exits(0);
    assert_eq!(last.event("thread_finished")["head"], *head, "round {number}");
    let shown = place.run(["show", "last", "--json"]).exits(0).events("step");
    for (seq, step) in acknowledged {
        let at = usize::try_from(seq).unwrap() - 1;
        assert_eq!(shown.get(at).map(|shown| &shown["step"]), Some(&step), "round {number}: step {seq} is lost");
    }
    place.run(["verify", "last"]).exits(0);
    assert_eq!(place.run(["threads", "--json"]).exits(0).lines.len(), 1, "round {number}");
}

/// The head that every round comes to.
pub fn head() -> Value {
    let place = killed(&offline("relay"), 2);
    place.run(resume()).exits(0).event("thread_finished")["head"].clone()
}

/// How many rounds at each change of the code.
const ROUNDS: u64 = 50;

#[test]
fn processes_that_race_with_deleted_locks_make_one_chain() {
    let head = head();
    (0..ROUNDS).for_each(|number| round(number, &head));
    println!("{ROUNDS} rounds of {PROCESSES} processes; RONDO_TEST_SEED={}", seed());
}
