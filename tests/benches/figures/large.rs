//! Stores of gigabytes, whose contents no compressor makes smaller: how fast one is examined, and how soon one is open.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rondo_agent_kit::model::Model;
use rondo_protocol::call::ModelCall;
use rondo_protocol::event::Durability;
use rondo_store::check::check;
use rondo_tests::FnModel;
use sha2::{Digest as _, Sha256};

use crate::durable::open;
use crate::support::{engine, from_environment, median, print, rondo, run_threads, runtime, two_roles};

/// What `rondo fsck` reads.
const EXAMINED_BYTES: u64 = 1 << 30;
/// A long turn of a conversation.
const ANSWER_BYTES: u64 = 4 << 10;
/// Answers of the store that is only opened.
const LARGE_ANSWER_BYTES: u64 = 64 << 10;
const THREADS: u64 = 16;
const ROUNDS: usize = 3;

/// A model whose answers no compressor makes smaller.
fn noise(answer_bytes: u64) -> Arc<dyn Model> {
    let seed = AtomicU64::new(0);
    Arc::new(FnModel(move |_: &ModelCall| {
        // SplitMix64, six bits a character.
        let mut state = seed.fetch_add(answer_bytes, Ordering::Relaxed);
        let character = |_| {
            state = state.wrapping_add(1);
            let mixed = state.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            char::from(b'0' + u8::try_from(mixed >> 58).unwrap_or_default())
        };
        Ok(format!("---\nstatus: done\n---\n\n{}", (0..answer_bytes).map(character).collect::<String>()))
    }))
}

/// Makes a store of about so many bytes.
fn fill(folder: &Path, size_bytes: u64, answer_bytes: u64) {
    // An answer stands in its step, in the transcript of that, and in the prompt of the next step.
    let steps = size_bytes / answer_bytes / 3 / THREADS;
    let engine = engine(open(folder, Durability::Log));
    runtime().block_on(run_threads(&engine, &two_roles(steps, "none"), THREADS, &noise(answer_bytes)));
}

pub fn fsck() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path(), EXAMINED_BYTES, ANSWER_BYTES);
    let (mut times, mut hash_times, mut read_bytes, mut file_bytes) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let examination = check(folder.path(), &mut |_| {}).expect("a store");
        times.push(began.elapsed());
        assert!(examination.faults.is_empty(), "{:?}", examination.faults);
        read_bytes = examination.bytes;
        let began = Instant::now();
        file_bytes = hash(&folder.path().join("db"));
        hash_times.push(began.elapsed());
    }
    let (time, hash_time) = (median(&times), median(&hash_times));
    let reference = format!(
        "{} of its files; {} reading and SHA-256 of these",
        rate(file_bytes, time),
        rate(file_bytes, hash_time)
    );
    print(&format!("fsck of {} MB, before compression", read_bytes / 1_000_000), &rate(read_bytes, time), &reference);
}

fn rate(bytes: u64, time: Duration) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = bytes as f64 / 1e6 / time.as_secs_f64();
    format!("{rate:.0} MB/s")
}

/// Reads and hashes the files of a folder. Returns how many bytes they have.
fn hash(folder: &Path) -> u64 {
    let (mut hasher, mut buffer, mut bytes) = (Sha256::new(), vec![0; 1 << 20], 0);
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let mut file = File::open(entry.expect("a file").path()).expect("a file");
        loop {
            let read = file.read(&mut buffer).expect("bytes");
            let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
            hasher.update(part);
            bytes += u64::try_from(read).unwrap_or_default();
        }
    }
    std::hint::black_box(hasher.finalize());
    bytes
}

pub fn opening() {
    let gigabytes = from_environment("RONDO_BENCH_GB", 2);
    let [empty, large] = [0, gigabytes].map(|gigabytes| {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("work")).expect("a folder");
        let store = folder.path().join("store");
        // Of an empty store a single short thread is listed.
        fill(&store, (gigabytes * 1_000_000_000).max(LARGE_ANSWER_BYTES * 3 * THREADS), LARGE_ANSWER_BYTES);
        let opened = times(|| drop(open(&store, Durability::Sync)));
        let listed = times(|| {
            let mut command = rondo(folder.path());
            command.args(["threads", "-n", "1", "--json", "--store"]).arg(&store).stdout(Stdio::null());
            assert!(command.status().expect("the program: build the workspace first").success(), "the store is listed");
        });
        (opened, listed)
    });
    let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    for (name, large, empty) in [("open and close", large.0, empty.0), ("`rondo threads -n 1` with", large.1, empty.1)]
    {
        print(&format!("{name} a store of {gigabytes} GB"), &ms(large), &format!("{} one of 3 MB", ms(empty)));
    }
}

/// The middle time that something takes.
fn times(mut act: impl FnMut()) -> Duration {
    let times = [(); ROUNDS].map(|()| {
        let began = Instant::now();
        act();
        began.elapsed()
    });
    median(&times)
}
