//! Durable steps beside a raw append and fdatasync, paired in the same loop; and 64 threads beside one.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::event::Durability;
use rondo_store::{Options, RocksStore, StepStore};
use rondo_tests::{FnModel, follow, start};

use crate::support::{answer, engine, print, quantile, quick, run_threads, runtime, two_roles, us};

/// About what the write-ahead log takes for one step of this workflow.
const RAW_BYTES: usize = 2_600;

pub fn open(folder: &Path, durability: Durability) -> Arc<dyn StepStore> {
    Arc::new(RocksStore::open(folder, Options { durability, owner: None }).expect("a store").0)
}

/// Times a raw append and sync within each model call, so that both meet the same device at the same time.
struct Pairing {
    raw: File,
    raw_times: Vec<Duration>,
    step_times: Vec<Duration>,
    left: Option<Instant>,
}

pub fn one_thread() {
    let steps = 2_000;
    let folder = tempfile::tempdir().expect("a folder");
    for durability in [Durability::Sync, Durability::Log] {
        let raw = OpenOptions::new().create(true).append(true).open(folder.path().join("raw")).expect("a file");
        let pairing = Pairing { raw, raw_times: Vec::new(), step_times: Vec::new(), left: None };
        let pairing = Arc::new(Mutex::new(pairing));
        let paired = Arc::clone(&pairing);
        let model = FnModel(move |_: &ModelCall| {
            let mut pairing = paired.lock().expect("a lock");
            if let Some(left) = pairing.left {
                pairing.step_times.push(left.elapsed());
            }
            let started = Instant::now();
            pairing.raw.write_all(&[7; RAW_BYTES]).expect("an append");
            if durability == Durability::Sync {
                pairing.raw.sync_data().expect("a sync");
            }
            pairing.raw_times.push(started.elapsed());
            pairing.left = Some(Instant::now());
            Ok(answer())
        });
        let checked = two_roles(steps, "outputs");
        let store = open(&folder.path().join(format!("{durability:?}")), durability);
        runtime().block_on(async {
            let mut handle = start(&engine(store), &checked, Value::empty_object(), Arc::new(model)).await;
            handle.events.close();
            follow(handle).await;
        });
        let mut pairing = pairing.lock().expect("a lock");
        pairing.step_times.sort();
        pairing.raw_times.sort();
        for share in [0.5, 0.9] {
            let (step, raw) = (quantile(&pairing.step_times, share), quantile(&pairing.raw_times, share));
            let (name, what) = match durability {
                Durability::Sync => ("durable step", "append + fdatasync"),
                _ => ("step with --durability log", "append without sync"),
            };
            let reference = format!("{} {what}: {:.2} x", us(raw), step.as_secs_f64() / raw.as_secs_f64());
            print(&format!("{name}, one thread, p{:.0}", share * 100.0), &us(step), &reference);
        }
    }
}

pub fn many_threads() {
    let (one, _) = rate(1, 2_000);
    let (many, _) = rate(64, 400);
    let reference = format!("{one:.0} steps/s with one thread: {:.1} x", many / one);
    print("durable steps, 64 threads at once", &format!("{many:.0} steps/s"), &reference);
}

/// How late a timer is on a runtime on which one thread commits.
pub fn timer() {
    const EVERY: Duration = Duration::from_millis(1);
    let steps = 2_000;
    let folder = tempfile::tempdir().expect("a folder");
    let count = Arc::new(AtomicU64::new(0));
    let checked = two_roles(steps, "outputs");
    let engine = engine(open(folder.path(), Durability::Sync));
    let (mut late, made) = runtime().block_on(async {
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let timer = tokio::spawn(async move {
            let mut late = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let due = Instant::now() + EVERY;
                tokio::time::sleep_until(due.into()).await;
                late.push(due.elapsed());
            }
            late
        });
        let mut handle = start(&engine, &checked, Value::empty_object(), quick(&count)).await;
        handle.events.close();
        follow(handle).await;
        ends.store(true, Ordering::Relaxed);
        (timer.await.expect("a timer"), count.load(Ordering::Relaxed))
    });
    late.sort();
    let reference = format!("p99 {}, {made} commits; at most 5 ms wanted", us(quantile(&late, 0.99)));
    print("a timer beside one thread that commits, latest", &us(quantile(&late, 1.0)), &reference);
}

fn rate(threads: u64, steps: u64) -> (f64, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let count = Arc::new(AtomicU64::new(0));
    let checked = two_roles(steps, "outputs");
    let store = open(folder.path(), Durability::Sync);
    let engine = engine(store);
    let elapsed = runtime().block_on(async {
        let started = Instant::now();
        run_threads(&engine, &checked, threads, &quick(&count)).await;
        started.elapsed()
    });
    let made = count.load(Ordering::Relaxed);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = made as f64 / elapsed.as_secs_f64();
    (rate, made)
}
