//! Any operations, against a list that does the same in the plainest way.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Operation {
    Keep { n: u8, len: usize, ttl_ms: Option<u64> },
    Get { n: u8 },
    Forget { n: u8 },
    Pass { ms: u64 },
    Restart,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        5 => (0..9_u8, 0..400_usize, proptest::option::of(1..40_u64))
            .prop_map(|(n, len, ttl_ms)| Operation::Keep { n, len, ttl_ms }),
        6 => (0..9_u8).prop_map(|n| Operation::Get { n }),
        1 => (0..9_u8).prop_map(|n| Operation::Forget { n }),
        2 => (1..20_u64).prop_map(|ms| Operation::Pass { ms }),
        1 => Just(Operation::Restart),
    ];
    proptest::collection::vec(operation, 1..60)
}

#[derive(Debug, Clone)]
struct Entry {
    n: u8,
    text: String,
    size_bytes: u64,
    ends_ms: Option<u64>,
    kept: u64,
}

/// Entries, the least recently used first.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    kept: u64,
    evicted: u64,
    expired: u64,
    too_large: u64,
}

impl Model {
    fn insert(&mut self, entry: Entry, limits: Limits) {
        self.entries.retain(|other| other.n != entry.n);
        if entry.size_bytes > limits.bytes {
            self.too_large += 1;
            return;
        }
        self.entries.push(entry);
        while self.entries.len() as u64 > limits.entries || self.bytes() > limits.bytes {
            self.entries.remove(0);
            self.evicted += 1;
        }
    }

    fn get(&mut self, n: u8, now_ms: u64) -> Result<String, Miss> {
        let at = self.entries.iter().position(|entry| entry.n == n).ok_or(Miss::Absent)?;
        let entry = self.entries.remove(at);
        if entry.ends_ms.is_some_and(|end_ms| now_ms >= end_ms) {
            self.expired += 1;
            return Err(Miss::Expired);
        }
        self.entries.push(entry.clone());
        Ok(entry.text)
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size_bytes).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_cache_does_what_its_model_does(
        operations in operations(),
        entries in 1..6_u64,
        bytes in 300..2000_u64,
        memory_bytes in prop_oneof![Just(0), 0..900_u64, Just(1 << 20)],
    ) {
        let limits = Limits { entries, bytes, memory_bytes };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(compare(operations, limits))?;
    }
}

async fn compare(operations: Vec<Operation>, limits: Limits) -> Result<(), TestCaseError> {
    let memory = Arc::new(Memory::default());
    let mut cache = cache(&memory, limits);
    let mut model = Model::default();
    let mut now_ms = 1000;
    for operation in operations {
        match operation {
            Operation::Keep { n, len, ttl_ms } => {
                model.kept += 1;
                let text = format!("{}{}", model.kept, "x".repeat(len));
                // 69 of keys and version, an entry of 88 and what its names and `about` take, and the mark.
                let size_bytes = 69 + 88 + 15 + 1 + text.len() as u64;
                let ends_ms = ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
                model.insert(Entry { n, text: text.clone(), size_bytes, ends_ms, kept: model.kept }, limits);
                cache.insert(key(n), Arc::new(Text(text)), terms(ttl_ms, now_ms)).await;
            }
            Operation::Get { n } => prop_assert_eq!(text(&cache, n, now_ms).await, model.get(n, now_ms)),
            Operation::Forget { n } => {
                let there = model.entries.iter().any(|entry| entry.n == n);
                model.entries.retain(|entry| entry.n != n);
                prop_assert_eq!(cache.remove(&key(n)), there);
            }
            Operation::Pass { ms } => now_ms += ms,
            Operation::Restart => {
                cache.flush().await;
                cache = super::cache(&memory, limits);
                prop_assert!(cache.ready().await);
                // The order of use starts again from that of keeping.
                model.entries.sort_by_key(|entry| entry.kept);
            }
        }
        let totals = cache.totals();
        prop_assert_eq!((totals.entries, totals.bytes), (model.entries.len() as u64, model.bytes()));
        prop_assert!(cache.inner.index.lock().value_bytes <= limits.memory_bytes);
    }
    cache.flush().await;
    for (counted, expected) in [
        (Metric::Recorded, model.kept - model.too_large),
        (Metric::Evicted, model.evicted),
        (Metric::Expired, model.expired),
        (Metric::TooLarge, model.too_large),
        (Metric::Damaged, 0),
        (Metric::FailedWrites, 0),
    ] {
        prop_assert_eq!((counted, metric(&cache, counted)), (counted, expected));
    }
    let catalog = Catalog::read(&*memory);
    prop_assert_eq!(&catalog.entries, &cache.entries());
    prop_assert_eq!(catalog.metrics(), cache.metrics());
    Ok(())
}
