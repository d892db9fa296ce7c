//! Two threads of 100,000 steps that part at their last one, compared as `rondo diff` does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_author::thread_diff::{Side, pairs, parting};
use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use rondo_store::{Read as _, RocksReader};
use rondo_tests::{FnModel, follow, start};

use crate::durable::open;
use crate::support::{answer, engine, print, quantile, runtime, two_roles};

const STEPS: u64 = 100_000;
const ROUNDS: usize = 15;

pub fn threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Log);
    let [a, b] = ["The end.", "Another end."].map(|end| {
        let model = FnModel(move |call: &ModelCall| {
            let is_last = call.site.role.as_str() == "b" && call.site.visit == STEPS / 2;
            Ok(if is_last { format!("---\nstatus: done\n---\n\n{end}") } else { answer() })
        });
        let engine = engine(Arc::clone(&store));
        runtime().block_on(async {
            let mut handle = start(&engine, &two_roles(STEPS, "none"), Value::empty_object(), Arc::new(model)).await;
            handle.events.close();
            let thread = handle.thread.clone();
            follow(handle).await;
            thread
        })
    });
    drop(store);
    let mut times = Vec::new();
    let mut scans = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let (reader, _) = RocksReader::open(folder.path()).expect("the store");
        assert_eq!(parted(&reader, &a, &b), Some(STEPS - 1), "they part at their last step");
        times.push(began.elapsed());
    }
    let (reader, _) = RocksReader::open(folder.path()).expect("the store");
    for thread in [&a, &b] {
        let began = Instant::now();
        reader.steps(thread, 1..=STEPS, &mut |_, _| true).expect("its steps");
        scans.push(began.elapsed());
    }
    times.sort();
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let all: Duration = scans.iter().sum();
    let reference = format!("{} p90; {} to read all steps of both", ms(quantile(&times, 0.9)), ms(all));
    print(&format!("open and compare two threads of {STEPS} steps"), &ms(quantile(&times, 0.5)), &reference);
}

/// The last common step, after every pair that follows it.
fn parted(reader: &RocksReader, a: &ThreadId, b: &ThreadId) -> Option<u64> {
    let [a, b] = [a, b].map(|thread| Side { thread, seq: reader.row(thread).expect("a row").map_or(0, |row| row.seq) });
    let parting = parting(reader, a, b).expect("a parting");
    pairs(reader, a, b, &parting, &mut |_| true).expect("pairs");
    parting.common.map(|(seq, _)| seq)
}
