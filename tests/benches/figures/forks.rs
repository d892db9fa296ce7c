//! Forks of a thread of 100,000 steps, and the list of 10,000 threads that wait for people.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_core::RunConfig;
use rondo_core::local::ForkRequest;
use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::event::Durability;
use rondo_store::{Read as _, RocksReader, Status};
use rondo_tests::{FnModel, checked, follow, start};

use crate::durable::open;
use crate::support::{answer, engine, print, quantile, runtime, two_roles};

const STEPS: u64 = 100_000;
const ROUNDS: usize = 15;
const WAITING: usize = 10_000;
const PAGE: usize = 1_000;

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

pub fn forks() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Log);
    let engine = engine(Arc::clone(&store));
    let thread = runtime().block_on(async {
        let model = FnModel(|_: &ModelCall| Ok(answer()));
        let mut handle = start(&engine, &two_roles(STEPS, "none"), Value::empty_object(), Arc::new(model)).await;
        handle.events.close();
        let thread = handle.thread.clone();
        follow(handle).await;
        thread
    });
    for (name, at) in [("its end", STEPS), ("its middle", STEPS / 2)] {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            let run_config = RunConfig::default();
            let began = Instant::now();
            let fork =
                runtime().block_on(engine.fork(&thread, at, &ForkRequest::default(), &run_config)).expect("a fork");
            times.push(began.elapsed());
            let row = store.row(&fork).expect("a row").expect("the fork");
            bytes = row.checkpoint.len() + row.origin.len() + size_of_val(&row);
        }
        times.sort();
        let reference = format!("{} p90; {bytes} bytes of a row, no step copied", ms(quantile(&times, 0.9)));
        print(&format!("fork a thread of {STEPS} steps at {name}"), &ms(quantile(&times, 0.5)), &reference);
    }
}

pub fn waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Log);
    let engine = engine(Arc::clone(&store));
    let form = checked(
        "rondo: 1\nname: form\nroles:\n  a: { kind: human, output: { fine: {}, bad: {} } }\ngraph:\n  \
         start: { to: a, prompt: Fine? }\n  a: { fine: { to: end }, bad: { to: end } }\n",
    );
    runtime().block_on(async {
        for _ in 0..WAITING {
            let model = FnModel(|_: &ModelCall| Ok(answer()));
            let mut handle = start(&engine, &form, Value::empty_object(), Arc::new(model)).await;
            handle.events.close();
            follow(handle).await;
        }
    });
    drop((engine, store));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let (reader, _) = RocksReader::open(folder.path()).expect("the store");
        let (mut last, mut found) = (None, 0);
        loop {
            let page = reader.rows(last.as_ref(), PAGE).expect("rows");
            found += page.iter().filter(|(_, row)| row.status == Status::Waiting).count();
            match page.last() {
                Some((thread, _)) => last = Some(thread.clone()),
                None => break,
            }
        }
        times.push(began.elapsed());
        assert_eq!(found, WAITING);
    }
    times.sort();
    let reference = format!("{} p90; in pages of {PAGE}", ms(quantile(&times, 0.9)));
    print(&format!("open and list {WAITING} threads that wait"), &ms(quantile(&times, 0.5)), &reference);
}
