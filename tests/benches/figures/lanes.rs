//! Lanes: what a visit in one of many lanes costs, beside the same visit on the trunk, and what it takes of memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::event::Durability;
use rondo_protocol::workflow::Checked;
use rondo_tests::{FnModel, checked, follow, start};

use crate::durable::open;
use crate::support::{BODY, answer, engine, print, runtime, two_roles, us};

const MANY: usize = 10_000;
const AT_ONCE: usize = 64;

pub fn each() {
    let trunk =
        measure(&two_roles(u64::try_from(MANY).unwrap_or(u64::MAX), "none"), Value::empty_object(), Durability::Log);
    for count in [100, MANY] {
        let lanes = measure(&fan_out(), items(count), Durability::Log);
        let name = format!("a visit in each of {count} lanes, {AT_ONCE} at once, log");
        let share = lanes.a_visit.as_secs_f64() / trunk.a_visit.as_secs_f64();
        let reference = format!("{} on the trunk: {share:.2} x", us(trunk.a_visit));
        print(&name, &us(lanes.a_visit), &reference);
        let (name, reference) = (format!("memory of {count} lanes"), format!("{} on the trunk", trunk.mebibytes()));
        print(&name, &lanes.mebibytes(), &reference);
    }
}

/// Lanes that end at the same time, whose commits share syncs, beside steps on the trunk, each with its own.
pub fn durable() {
    const LANES: u32 = 1_000;
    let trunk = measure(&two_roles(LANES.into(), "none"), Value::empty_object(), Durability::Sync);
    let lanes = measure(&fan_out(), items(LANES as usize), Durability::Sync);
    let reference = format!("{} for as many on the trunk, a sync each", us(trunk.a_visit * LANES));
    print(&format!("{LANES} lanes of one thread, {AT_ONCE} at once, durable"), &us(lanes.a_visit * LANES), &reference);
}

struct Measured {
    /// Between the first visit and the last.
    a_visit: Duration,
    /// How much more memory was resident at the most than before, in bytes; 0 where that cannot be known.
    memory_bytes: u64,
}

/// How many visits were made, and when the first and the last.
#[derive(Default)]
struct Visits {
    count: AtomicU64,
    times: Mutex<Option<(Instant, Instant)>>,
}

impl Measured {
    fn mebibytes(&self) -> String {
        format!("{} MiB", self.memory_bytes >> 20)
    }
}

fn measure(workflow: &Checked, input: Value, durability: Durability) -> Measured {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), durability);
    let visits: Arc<Visits> = Arc::default();
    let made = Arc::clone(&visits);
    let model = FnModel(move |_: &ModelCall| {
        made.count.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut times = made.times.lock().expect("a lock");
        *times = Some((times.map_or(now, |(first, _)| first), now));
        Ok(answer())
    });
    let before = peak_bytes();
    runtime().block_on(async {
        let mut handle = start(&engine(store), workflow, input, Arc::new(model)).await;
        handle.events.close();
        follow(handle).await;
    });
    let memory_bytes = peak_bytes().saturating_sub(before);
    let (first, last) = visits.times.lock().expect("a lock").expect("visits");
    let between = u32::try_from(visits.count.load(Ordering::Relaxed)).unwrap_or(u32::MAX).saturating_sub(1).max(1);
    Measured { a_visit: last.duration_since(first) / between, memory_bytes }
}

/// A role in a lane for each item, [`AT_ONCE`] at once, and one that joins them: what `rondo bench` runs.
fn fan_out() -> Checked {
    checked(include_str!("../../../engine/cli/src/bench/lanes.yaml"))
}

fn items(count: usize) -> Value {
    let items = (0..count).map(|nth| Value::from(format!("{nth}: {BODY}"))).collect();
    Value::Object([("items".to_owned(), Value::List(items))].into())
}

/// The most memory that was resident since this was last asked; 0 where the system does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0);
    // See `proc_pid_clear_refs(5)`: 5 resets the peak to what is resident now.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    kibibytes * 1024
}
