//! What hooks insert: hits by key in memory, from JSON arguments and from RocksDB, a read that is looked at again before it
//! is served, two threads at once, memory, and what a miss costs a model call.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rondo_agent_kit::sandbox::files::{Access, ReadSetValidity, Workspace};
use rondo_agent_kit::tool::{Invocation, Tool, file_tools};
use rondo_core::hook::KeySpace;
use rondo_hooks::cache::{Cache, CacheValue, InsertOptions, Key, Label, Limits, table};
use rondo_hooks::registry;
use rondo_protocol::call::CallKind;
use rondo_protocol::event::Durability;
use rondo_protocol::workflow::{HookUse, OnHookError};
use rondo_protocol::{Digest, Value, canonical};
use rondo_store::MemoryStore;
use rondo_tests::{follow, start};

use crate::durable::open;
use crate::support::{answer, print, quick, runtime, two_roles, us};

/// What a kept result holds.
const RESULT_BYTES: usize = 4096;
const ENTRIES: u64 = 10_000;
const LIMITS: Limits = Limits { entries: 20_000, bytes: 1 << 30, memory_bytes: 1 << 30 };

/// A tool's result.
struct Text(String);

impl CacheValue for Text {
    type Secondary = ();

    fn encode(&self) -> Result<Vec<u8>, String> {
        Ok(self.0.clone().into_bytes())
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        String::from_utf8(bytes.to_vec()).map(Self).map_err(|error| error.to_string())
    }

    fn weight(&self) -> u64 {
        self.0.len() as u64 + 64
    }
}

/// Arguments of a call as a model writes them.
fn arguments(number: u64) -> String {
    format!("{{\"path\": \"src/module_{number}/mod.rs\", \"from_line\": {number}, \"to_line\": 400}}")
}

/// What a call is looked up by: its tool and its arguments in canonical form.
fn key(arguments: &String) -> Key {
    let mut bytes = b"rondo/tool/v1\nread_file\n".to_vec();
    bytes.extend_from_slice(canonical::parse_canonical(arguments.as_bytes()).expect("JSON").to_text().as_bytes());
    Key(*Digest::sha256(&bytes).as_bytes())
}

fn terms() -> InsertOptions {
    InsertOptions { label: Label::new("a", "read_file"), about: Vec::new(), ttl_ms: None, now_ms: 1 }
}

/// Nanoseconds of one of `count` calls, the least of five rounds.
fn least(count: u64, mut call: impl FnMut(u64)) -> f64 {
    let mut round = || {
        let started = Instant::now();
        (0..count).for_each(&mut call);
        started.elapsed().as_secs_f64() * 1e9 / f64::from(u32::try_from(count).unwrap_or(1))
    };
    (0..5).map(|_| round()).fold(f64::MAX, f64::min)
}

fn ns(nanoseconds: f64) -> String {
    if nanoseconds < 2_000.0 { format!("{nanoseconds:.0} ns") } else { format!("{:.1} us", nanoseconds / 1e3) }
}

fn at<T>(items: &[T], index: u64) -> &T {
    items.get(usize::try_from(index).unwrap_or(0) % items.len()).expect("an item")
}

pub fn hits() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Log);
    let table = || table(&KeySpace::new(Arc::clone(&store), "kept"), "bench");
    let cache: Cache<Text> = Cache::new(table(), LIMITS);
    let asked: Vec<String> = (0..ENTRIES).map(arguments).collect();
    let keys: Vec<Key> = asked.iter().map(key).collect();
    let runtime = runtime();
    let before = resident_bytes();
    runtime.block_on(async {
        for (number, key) in (0..).zip(&keys) {
            let text = format!("{number:08}").repeat(RESULT_BYTES / 8);
            cache.insert(*key, Arc::new(Text(text)), terms()).await;
        }
        cache.flush().await;
    });
    let held = resident_bytes().saturating_sub(before);

    let mut plain: HashMap<[u8; 32], Arc<Text>> = HashMap::new();
    for key in keys.iter().take(64) {
        plain.insert(key.0, Arc::new(Text(String::new())));
    }
    let map = least(1_000_000, |n| drop(black_box(plain.get(&at(&keys, n % 64).0).cloned())));
    let hit = least(1_000_000, |n| drop(black_box(cache.get_in_memory(at(&keys, n % 64), 2))));
    print("kept result of 4 KiB, by key in memory", &ns(hit), &format!("{} a HashMap of Arcs (target 60 ns)", ns(map)));

    let hashed = least(200_000, |n| {
        black_box(Digest::sha256(at(&asked, n % 64).as_bytes()));
    });
    let from_json = least(200_000, |n| drop(black_box(cache.get_in_memory(&key(at(&asked, n % 64)), 2))));
    let reference = format!("{} SHA-256 of the arguments alone (target 2 us)", ns(hashed));
    print("the same from JSON arguments", &ns(from_json), &reference);

    let one = hit;
    let started = Instant::now();
    let each = 2_000_000_u64;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (cache, keys) = (&cache, &keys);
            scope.spawn(move || {
                for n in 0..each {
                    black_box(cache.get_in_memory(at(keys, n % 64 + thread * 64), 2));
                }
            });
        }
    });
    let both = started.elapsed().as_secs_f64() * 1e9 / f64::from(u32::try_from(2 * each).unwrap_or(1));
    print("the same, two threads at once, for each hit", &ns(both), &format!("{} with one thread", ns(one)));

    let cold: Cache<Text> = Cache::new(table(), Limits { memory_bytes: 0, ..LIMITS });
    let started = Instant::now();
    runtime.block_on(cold.ready());
    let opened = started.elapsed();
    let space = KeySpace::new(Arc::clone(&store), "kept");
    // As far apart as the keys that the cache is asked for.
    let entries = usize::try_from(ENTRIES).expect("a number");
    let payloads = space.scan(b"", entries).expect("entries").into_iter().map(|(key, _)| key);
    let stored: Vec<Vec<u8>> = payloads.step_by(entries / 64).collect();
    let bare = least(20_000, |n| drop(black_box(space.get(at(&stored, n).as_slice()))));
    let block = vec![7_u8; RESULT_BYTES];
    let sum = least(20_000, |_| {
        black_box(Digest::sha256(&block));
    });
    let fetched = runtime.block_on(async {
        let mut least = f64::MAX;
        for _ in 0..5 {
            let started = Instant::now();
            for n in 0..5_000 {
                let Ok(found) = cold.get(at(&keys, n % 64), 2).await else { continue };
                black_box(found);
            }
            least = least.min(started.elapsed().as_secs_f64() * 1e9 / 5_000.0);
        }
        least
    });
    let reference = format!("{} a bare get, {} SHA-256 of 4 KiB (target 3 us)", ns(bare), ns(sum));
    print("the same from RocksDB, verified", &ns(fetched), &reference);
    print("opening a cache of 10,000 entries", &us(opened), "once a process");
    let payload = ENTRIES * RESULT_BYTES as u64;
    let mib = |bytes: u64| format!("{:.1} MiB", f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1024.0);
    let reference = format!("{} of results; RocksDB's own buffers are in it", mib(payload));
    print("memory of 10,000 entries with their results", &mib(held), &reference);
}

/// Bytes of this process in memory, as far as the system tells.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

pub fn validated() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.rs"), "a line of text\n".repeat(RESULT_BYTES / 15)).expect("a file");
    age(folder.path());
    let here = vec![".".into()];
    let access = Access { read: here.clone(), write: here, ..Access::default() };
    let workspace = Arc::new(Workspace::open(folder.path(), access).expect("a workspace"));
    let tools = file_tools(&workspace);
    let tool: &Arc<dyn Tool> = tools.iter().find(|tool| tool.spec().name == "read_file").expect("a tool");
    let runtime = runtime();
    let asked: Value = [("path", Value::from("a.rs"))].into_iter().collect();
    let read = || {
        let invocation = Invocation::new("k".to_owned());
        let text = runtime.block_on(tool.run(asked.clone(), &invocation)).expect("a result");
        (text, invocation.watch.take())
    };
    let (_, seen) = read();
    let seen = seen.expect("what it saw");
    let again = least(2_000, |_| {
        let validity = workspace.validity(&seen, Instant::now() + Duration::from_secs(1));
        assert_eq!(black_box(validity), ReadSetValidity::Holds);
    });
    let whole = least(2_000, |_| drop(black_box(read())));
    print("a kept read of one file, looked at again", &ns(again), &format!("{} reading it", ns(whole)));
}

/// Makes the files of a folder old enough that their times tell a change.
fn age(folder: &Path) {
    let long_ago = std::time::SystemTime::now() - Duration::from_hours(1);
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let file = std::fs::File::options().write(true).open(entry.path()).expect("a file");
        file.set_modified(long_ago).expect("a time");
    }
    // The time of the last change of the inode is the system's, and has to pass.
    std::thread::sleep(Duration::from_millis(2_100));
}

pub fn miss() {
    let steps = 4_000;
    let time = |hooks: Vec<HookUse>| {
        let mut checked = two_roles(steps, "outputs");
        checked.policy.hooks = hooks;
        let engine = rondo_core::Engine::new(
            Arc::new(MemoryStore::default()),
            Arc::new(rondo_core::SystemEnv::default()),
            registry(),
        );
        let count = Arc::new(AtomicU64::new(0));
        let started = Instant::now();
        runtime().block_on(async {
            let mut handle = start(&engine, &checked, Value::empty_object(), quick(&count)).await;
            handle.events.close();
            follow(handle).await;
        });
        black_box(answer());
        started.elapsed() / u32::try_from(steps).unwrap_or(1)
    };
    let hook = |kind: &str| {
        let (at, on_error) = (CallKind::Model, OnHookError::Bypass);
        HookUse { at, on_error, roles: None, settings: std::collections::BTreeMap::new(), kind: kind.to_owned() }
    };
    let without = (0..3).map(|_| time(Vec::new())).min().unwrap_or_default();
    for kind in ["log", "response_cache"] {
        let with = (0..3).map(|_| time(vec![hook(kind)])).min().unwrap_or_default();
        let reference = format!("{} a step without a hook", us(without));
        print(
            &format!("a model call that passes {kind} and misses, more"),
            &us(with.saturating_sub(without)),
            &reference,
        );
    }
}
