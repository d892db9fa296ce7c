//! A table that can fail, hang and be tampered with; and what a cache makes of it.

mod faults;
mod flight;
mod metrics;
mod model;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::*;

/// Far above what any test keeps.
const WIDE: Limits = Limits { entries: 1000, bytes: 1 << 20, memory_bytes: 1 << 20 };
/// No value stays in memory.
const BARE: Limits = Limits { memory_bytes: 0, ..WIDE };

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a table does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fault {
    #[default]
    Well,
    Fails,
    Hangs,
}

#[derive(Default)]
struct Memory {
    map: Mutex<Map>,
    reads: watch::Sender<Fault>,
    writes: watch::Sender<Fault>,
    /// Writes that were started.
    puts: Mutex<u64>,
    /// Bytes that listings gave.
    listed_bytes: Mutex<usize>,
    secret: Secret,
}

impl Memory {
    fn with(map: Map) -> Arc<Self> {
        Arc::new(Self { map: Mutex::new(map), ..Self::default() })
    }

    fn map(&self) -> Map {
        self.map.lock().unwrap().clone()
    }

    /// The records that are no metrics.
    fn records(&self) -> Map {
        self.map().into_iter().filter(|(key, _)| !key.starts_with(b"f|")).collect()
    }

    fn puts(&self) -> u64 {
        *self.puts.lock().unwrap()
    }

    /// A read thread is no place to wait as a task does; it looks again until it may go on.
    fn read<R>(&self, read: impl FnOnce(&Map) -> R) -> Result<R, String> {
        loop {
            let fault = *self.reads.borrow();
            match fault {
                Fault::Well => return Ok(read(&self.map.lock().unwrap())),
                Fault::Fails => return Err("no reading today".into()),
                Fault::Hangs => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Table for Memory {
    fn secret(&self) -> &Secret {
        &self.secret
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.read(|map| map.get(key).cloned())
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Pairs, String> {
        let pairs: Pairs =
            self.read(|map| map.range(from.to_vec()..).take(limit).map(|(k, v)| (k.clone(), v.clone())).collect())?;
        *self.listed_bytes.lock().unwrap() += pairs.iter().map(|(_, value)| value.len()).sum::<usize>();
        Ok(pairs)
    }

    fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            *self.puts.lock().unwrap() += 1;
            let mut fault = self.writes.subscribe();
            let _ = fault.wait_for(|fault| *fault != Fault::Hangs).await;
            if *self.writes.borrow() == Fault::Fails {
                return Err("no writing today".into());
            }
            let mut map = self.map.lock().unwrap();
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
            Ok(())
        })
    }
}

/// A text that begins with a mark, so that not all bytes are one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Text(String);

impl CacheValue for Text {
    type Secondary = ();

    fn encode(&self) -> Result<Vec<u8>, String> {
        if self.0 == "no bytes" {
            return Err("it has no bytes".to_owned());
        }
        Ok([b"=", self.0.as_bytes()].concat())
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let text = bytes.strip_prefix(b"=").ok_or("no mark")?;
        String::from_utf8(text.to_vec()).map(Self).map_err(|fault| fault.to_string())
    }

    fn weight(&self) -> u64 {
        self.0.len() as u64
    }
}

impl<T: CacheValue> Cache<T> {
    /// All that it knows, as another process would read it once it is written.
    fn catalog(&self) -> Catalog {
        let index = self.inner.index.lock();
        let mut catalog = Catalog::default();
        catalog.entries = index.entries.iter().map(|(key, entry)| (*key, Entry::clone(entry))).collect();
        catalog.entries.sort_by_key(|(_, entry)| entry.sequence);
        catalog.metrics.clone_from(&index.metrics.by_label);
        catalog
    }

    fn metrics(&self) -> BTreeMap<Label, Counts> {
        self.catalog().metrics()
    }

    fn entries(&self) -> Vec<(Key, Entry)> {
        self.catalog().entries
    }

    fn keys_in_flight(&self) -> usize {
        self.inner.flights.keys.lock().values().filter(|turns| turns.strong_count() > 0).count()
    }
}

fn cache(table: &Arc<Memory>, limits: Limits) -> Cache<Text> {
    Cache::new(Arc::clone(table) as Arc<dyn Table>, limits)
}

fn key(n: u8) -> Key {
    Key(std::array::from_fn(|i| n.wrapping_mul(31).wrapping_add(u8::try_from(i).unwrap().wrapping_mul(n | 1))))
}

fn terms(ttl_ms: Option<u64>, now_ms: u64) -> InsertOptions {
    InsertOptions { label: Label::new("editor", "read"), about: b"about".to_vec(), ttl_ms, now_ms }
}

async fn insert(cache: &Cache<Text>, n: u8, text: &str) -> InsertOutcome {
    cache.insert(key(n), Arc::new(Text(text.into())), terms(None, 1000)).await
}

/// The text under a key, or why there is none.
async fn text(cache: &Cache<Text>, n: u8, now_ms: u64) -> Result<String, Miss> {
    match cache.get(&key(n), now_ms).await {
        Ok(found) => Ok(found.0.clone()),
        Err(missing) => Err(missing),
    }
}

fn metric(cache: &Cache<Text>, metric: Metric) -> u64 {
    cache.metrics().values().map(|counts| counts.get(metric)).sum()
}

#[tokio::test]
async fn what_is_kept_is_found_from_memory_and_from_the_table() {
    for limits in [WIDE, BARE] {
        let memory = Arc::new(Memory::default());
        let first = cache(&memory, limits);
        assert_eq!(text(&first, 1, 1000).await, Err(Miss::Absent));
        assert_eq!(insert(&first, 1, "one").await, InsertOutcome::Inserted);
        assert_eq!(text(&first, 1, 1000).await, Ok("one".into()));
        assert_eq!(insert(&first, 1, "uno").await, InsertOutcome::Inserted);
        assert_eq!(text(&first, 1, 1000).await, Ok("uno".into()));
        assert_eq!(first.totals().entries, 1);
        first.flush().await;
        assert_eq!(text(&cache(&memory, limits), 1, 1000).await, Ok("uno".into()));
        assert!(first.remove(&key(1)));
        assert!(!first.remove(&key(1)));
        first.flush().await;
        assert_eq!(memory.records(), Map::new());
        assert_eq!(first.totals(), Totals::default());
    }
}

#[tokio::test]
async fn a_value_is_decoded_once_while_it_stays_in_memory() {
    let memory = Arc::new(Memory::default());
    let first = cache(&memory, WIDE);
    insert(&first, 1, "one").await;
    first.flush().await;
    let again = cache(&memory, WIDE);
    let Ok(first) = again.get(&key(1), 1000).await else { panic!("missing") };
    let second = again.get_in_memory(&key(1), 1000).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
}

#[tokio::test]
async fn an_expiry_is_fixed_when_an_entry_is_kept() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    cache.insert(key(1), Arc::new(Text("one".into())), terms(Some(50), 1000)).await;
    for now_ms in 1000..1050 {
        assert_eq!(text(&cache, 1, now_ms).await, Ok("one".into()));
    }
    assert_eq!(text(&cache, 1, 1050).await, Err(Miss::Expired));
    assert_eq!(text(&cache, 1, 1000).await, Err(Miss::Absent));
    assert_eq!(metric(&cache, Metric::Expired), 1);
    cache.flush().await;
    assert_eq!(memory.records(), Map::new());
}

#[tokio::test]
async fn an_entry_from_the_future_is_served_only_if_it_has_no_end() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    cache.insert(key(1), Arc::new(Text("ends".into())), terms(Some(50), 1000)).await;
    cache.insert(key(2), Arc::new(Text("does not".into())), terms(None, 1000)).await;
    assert_eq!(text(&cache, 1, 999).await, Err(Miss::ClockWentBack));
    assert_eq!(text(&cache, 2, 999).await, Ok("does not".into()));
    assert_eq!(text(&cache, 1, 1001).await, Ok("ends".into()));
    cache.insert(key(3), Arc::new(Text("late".into())), terms(Some(u64::MAX), u64::MAX - 1)).await;
    assert_eq!(text(&cache, 3, u64::MAX - 1).await, Ok("late".into()));
}

#[tokio::test]
async fn what_is_too_large_is_not_kept_and_takes_an_older_entry_with_it() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, Limits { bytes: 1000, ..WIDE });
    insert(&cache, 1, "small").await;
    assert_eq!(insert(&cache, 1, &"x".repeat(1000)).await, InsertOutcome::TooLarge);
    assert_eq!(text(&cache, 1, 1000).await, Err(Miss::Absent));
    let wordy = InsertOptions { about: vec![0; 5000], ..terms(None, 1000) };
    assert_eq!(cache.insert(key(2), Arc::new(Text("x".into())), wordy).await, InsertOutcome::TooLarge);
    assert_eq!(metric(&cache, Metric::TooLarge), 2);
    let none = self::cache(&memory, Limits { entries: 0, ..WIDE });
    assert_eq!(insert(&none, 1, "").await, InsertOutcome::TooLarge);
}

#[tokio::test]
async fn a_value_without_bytes_is_not_kept() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    assert_eq!(insert(&cache, 1, "old").await, InsertOutcome::Inserted);
    assert_eq!(insert(&cache, 1, "no bytes").await, InsertOutcome::Failed);
    assert_eq!((metric(&cache, Metric::FailedWrites), cache.totals().entries), (1, 0));
}

#[tokio::test]
async fn a_large_value_is_kept_and_read_on_another_thread() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, BARE);
    let long = "long ".repeat(40_000);
    assert_eq!(insert(&cache, 1, &long).await, InsertOutcome::Inserted);
    assert_eq!(text(&cache, 1, 1000).await, Ok(long));
}

#[tokio::test]
async fn clearing_takes_what_the_filter_names() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    for (n, role, tool, now_ms) in [(1, "a", "read", 10), (2, "a", "grep", 20), (3, "b", "read", 30)] {
        let terms = InsertOptions { label: Label::new(role, tool), ..terms(None, now_ms) };
        cache.insert(key(n), Arc::new(Text(n.to_string())), terms).await;
    }
    assert_eq!(cache.remove_where(|_, entry| entry.label.role() == "a" && entry.kept_at_ms < 15).await, 1);
    assert_eq!(cache.remove_where(|_, entry| entry.label.tool() == "read").await, 1);
    assert_eq!(cache.entries().into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key(2)]);
    cache.flush().await;
    assert_eq!(Catalog::read(&*memory).entries, cache.entries());
    assert_eq!(cache.remove_where(|_, _| true).await, 1);
    cache.flush().await;
    assert_eq!(memory.records(), Map::new());
}

#[tokio::test]
async fn another_process_lists_what_is_kept_without_writing() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    insert(&cache, 2, "two").await;
    insert(&cache, 1, "one").await;
    cache.flush().await;
    let before = (memory.map(), memory.puts());
    let catalog = Catalog::read(&*memory);
    assert_eq!(catalog.entries, cache.entries());
    assert_eq!(catalog.entries.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [key(2), key(1)]);
    assert_eq!(catalog.entries[0].1.about, b"about");
    assert_eq!(catalog.metrics(), cache.metrics());
    assert_eq!(catalog.warnings(), Vec::<String>::new());
    assert_eq!((memory.map(), memory.puts()), before);
}

/// What stands in stores is read by later versions: another format is another version byte.
#[tokio::test]
async fn records_are_written_as_version_2_writes_them() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    cache.insert(Key([7; 32]), Arc::new(Text("one".into())), terms(Some(0x0102), 0x0304)).await;
    cache.flush().await;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let records: Vec<_> = memory.map().iter().map(|(key, value)| format!("{}\n  {}", hex(key), hex(value))).collect();
    insta::assert_snapshot!(records.join("\n"), @"
    627c0707070707070707070707070707070707070707070707070707070707070707
      023d6f6e65
    637c0707070707070707070707070707070707070707070707070707070707070707
      020000000000000001000000000000030401000000000000040600000000000000040006656469746f72000472656164000561626f75747c81327a9731e996cb06b1688bad3a1c31aba368c6ee604662ac1cd0a9749f7455cb562770ed6c1f7edf2c19b19fc0b5
    667c2b80d7441f832bc00135bc641f05ae84c2999a1523fd5b6a699425327136fd80
      020006656469746f720004726561640000000000000000000000000000000000000000000000000000000000000000000000000000000100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000a37abde69ac54433063fc168825fc684
    ");
}

#[tokio::test]
async fn opening_reads_no_payload() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    for n in 0..4 {
        insert(&cache, n, &"x".repeat(10_000)).await;
    }
    cache.flush().await;
    let again = self::cache(&memory, WIDE);
    *memory.listed_bytes.lock().unwrap() = 0;
    assert!(again.ready().await);
    assert_eq!(again.entries(), cache.entries());
    let listed_bytes = *memory.listed_bytes.lock().unwrap();
    assert!((500..5000).contains(&listed_bytes), "{listed_bytes}");
}

#[tokio::test]
async fn after_a_restart_the_oldest_kept_goes_first() {
    let memory = Arc::new(Memory::default());
    let first = cache(&memory, WIDE);
    for n in [3, 1, 2] {
        insert(&first, n, "x").await;
    }
    assert_eq!(text(&first, 3, 1000).await, Ok("x".into()));
    first.flush().await;
    let again = cache(&memory, Limits { entries: 3, ..WIDE });
    assert!(again.ready().await);
    assert_eq!(text(&again, 1, 1000).await, Ok("x".into()));
    for n in [4, 5] {
        insert(&again, n, "x").await;
    }
    // The use of 3 before the restart is not known after it; that of 1 after it is.
    assert_eq!(again.entries().into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key(1), key(4), key(5)]);
    assert_eq!(metric(&again, Metric::Evicted), 2);
}

#[tokio::test]
async fn lower_ceilings_hold_from_the_opening_on() {
    let memory = Arc::new(Memory::default());
    let first = cache(&memory, WIDE);
    for n in 0..9 {
        insert(&first, n, "x").await;
    }
    first.flush().await;
    let again = cache(&memory, Limits { entries: 2, ..WIDE });
    assert!(again.ready().await);
    assert_eq!(again.entries().into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key(7), key(8)]);
    again.flush().await;
    assert_eq!(Catalog::read(&*memory).entries, again.entries());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_threads_share_a_cache() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, Limits { entries: 20, ..WIDE });
    let tasks = (0..2_u8).map(|task| {
        let cache = cache.clone();
        tokio::spawn(async move {
            for round in 0..400_u32 {
                let n = u8::try_from(round % 37).unwrap();
                if round % 11 == u32::from(task) {
                    cache.remove(&key(n));
                } else if round % 3 == 0 {
                    insert(&cache, n, &n.to_string()).await;
                }
                match text(&cache, n, 1000).await {
                    Ok(found) => assert_eq!(found, n.to_string()),
                    Err(missing) => assert_eq!(missing, Miss::Absent),
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    cache.flush().await;
    assert!(cache.totals().entries <= 20);
    assert_eq!(Catalog::read(&*memory).entries, cache.entries());
    assert_eq!(metric(&cache, Metric::FailedWrites), 0);
}
