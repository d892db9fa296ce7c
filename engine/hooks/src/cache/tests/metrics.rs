//! What is counted, and that it outlives the process.

use strum::VariantArray as _;

use super::*;

#[tokio::test]
async fn figures_outlive_the_process_and_are_written_only_when_they_changed() {
    let memory = Arc::new(Memory::default());
    let label = Label::new("editor", "read");
    for round in 1..4 {
        let cache = cache(&memory, WIDE);
        cache.count(&label, Metric::Hits, 5);
        cache.count(&label, Metric::SavedTokens, 100);
        cache.flush().await;
        let puts = memory.puts();
        cache.flush().await;
        assert_eq!(memory.puts(), puts);
        let counts = Catalog::read(&*memory).metrics()[&label];
        assert_eq!((counts.get(Metric::Hits), counts.get(Metric::SavedTokens)), (5 * round, 100 * round));
        assert_eq!(cache.metrics()[&label], counts);
    }
}

#[tokio::test]
async fn figures_that_could_not_be_written_are_written_later() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    memory.writes.send_replace(Fault::Fails);
    cache.count(&Label::new("a", ""), Metric::Hits, 1);
    cache.flush().await;
    memory.writes.send_replace(Fault::Well);
    cache.flush().await;
    assert_eq!(Catalog::read(&*memory).metrics(), cache.metrics());
}

#[tokio::test]
async fn earlier_figures_that_could_not_be_read_are_not_written_over() {
    let memory = Arc::new(Memory::default());
    let label = Label::new("a", "");
    let first = cache(&memory, WIDE);
    first.count(&label, Metric::Hits, 7);
    first.flush().await;
    memory.reads.send_replace(Fault::Fails);
    let second = cache(&memory, WIDE);
    second.count(&label, Metric::Hits, 1);
    second.flush().await;
    assert_eq!(second.take_warnings().len(), 2);
    assert_eq!(second.take_warnings(), Vec::<String>::new());
    memory.reads.send_replace(Fault::Well);
    assert_eq!(Catalog::read(&*memory).metrics()[&label].get(Metric::Hits), 7);
}

#[tokio::test]
async fn labels_beyond_the_most_are_counted_as_one() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    for n in 0..1100 {
        cache.count(&Label::new(&format!("role {n}"), ""), Metric::Misses, 1);
    }
    let metrics = cache.metrics();
    assert_eq!(metrics.len(), 1001);
    assert_eq!(metrics[&Label::other()].get(Metric::Misses), 100);
    let long = Label::new(&"ä".repeat(1000), "");
    assert_eq!(long.role(), "ä".repeat(100));
}

#[tokio::test]
async fn entries_and_bytes_are_those_of_the_entries() {
    let memory = Arc::new(Memory::default());
    let first = cache(&memory, WIDE);
    for n in 0..5 {
        insert(&first, n, "x").await;
    }
    first.remove(&key(0));
    first.flush().await;
    let again = cache(&memory, WIDE);
    assert!(again.ready().await);
    for cache in [first, again] {
        let counts = cache.metrics()[&Label::new("editor", "read")];
        let stored: usize = memory.records().iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!((counts.entries, counts.bytes), (4, stored as u64));
        assert_eq!((cache.totals().entries, cache.totals().bytes), (4, stored as u64));
    }
}

#[test]
fn every_figure_stands_at_its_place_under_its_own_name() {
    let names = [
        "lookups",
        "hits",
        "misses",
        "would_hits",
        "recorded",
        "expired",
        "evicted",
        "forgotten",
        "damaged",
        "too_large",
        "failed_writes",
        "saved_tokens",
        "saved_microusd",
    ];
    assert_eq!(Metric::VARIANTS.iter().map(<&str>::from).collect::<Vec<_>>(), names);
    for (place, metric) in Metric::VARIANTS.iter().enumerate() {
        assert_eq!(*metric as usize, place);
    }
}
