//! What is counted, and that it outlives the process.

use super::*;

#[tokio::test]
async fn figures_outlive_the_process_and_are_written_only_when_they_changed() {
    let memory = Arc::new(Memory::default());
    let label = Label::new("editor", "read");
    for round in 1..4 {
        let cache = cache(&memory, WIDE);
        cache.tally(&label).count(Figure::Hits, 5);
        cache.tally(&label).count(Figure::SavedTokens, 100);
        cache.flush().await;
        let puts = memory.puts();
        cache.flush().await;
        assert_eq!(memory.puts(), puts);
        let counts = Catalog::read(&*memory).figures()[&label];
        assert_eq!((counts.get(Figure::Hits), counts.get(Figure::SavedTokens)), (5 * round, 100 * round));
        assert_eq!(cache.figures()[&label], counts);
    }
}

#[tokio::test]
async fn figures_that_could_not_be_written_are_written_later() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    memory.writes.send_replace(Mood::Fails);
    cache.tally(&Label::new("a", "")).count(Figure::Hits, 1);
    cache.flush().await;
    memory.writes.send_replace(Mood::Well);
    cache.flush().await;
    assert_eq!(Catalog::read(&*memory).figures(), cache.figures());
}

#[tokio::test]
async fn earlier_figures_that_could_not_be_read_are_not_written_over() {
    let memory = Arc::new(Memory::default());
    let label = Label::new("a", "");
    let first = cache(&memory, WIDE);
    first.tally(&label).count(Figure::Hits, 7);
    first.flush().await;
    memory.reads.send_replace(Mood::Fails);
    let second = cache(&memory, WIDE);
    second.tally(&label).count(Figure::Hits, 1);
    second.flush().await;
    assert_eq!(second.take_warnings().len(), 2);
    assert_eq!(second.take_warnings(), Vec::<String>::new());
    memory.reads.send_replace(Mood::Well);
    assert_eq!(Catalog::read(&*memory).figures()[&label].get(Figure::Hits), 7);
}

#[tokio::test]
async fn labels_beyond_the_most_are_counted_as_one() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    for n in 0..1100 {
        cache.tally(&Label::new(&format!("role {n}"), "")).count(Figure::Misses, 1);
    }
    let figures = cache.figures();
    assert_eq!(figures.len(), 1001);
    assert_eq!(figures[&Label::other()].get(Figure::Misses), 100);
    let long = Label::new(&"ä".repeat(1000), "");
    assert_eq!(long.role(), "ä".repeat(100));
}

#[tokio::test]
async fn entries_and_bytes_are_those_of_the_cards() {
    let memory = Arc::new(Memory::default());
    let first = cache(&memory, WIDE);
    for n in 0..5 {
        keep(&first, n, "x").await;
    }
    first.forget(&key(0));
    first.flush().await;
    let again = cache(&memory, WIDE);
    assert!(again.ready().await);
    for cache in [first, again] {
        let counts = cache.figures()[&Label::new("editor", "read")];
        let stored: usize = memory.records().iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!((counts.entries, counts.bytes), (4, stored as u64));
        assert_eq!((cache.totals().entries, cache.totals().bytes), (4, stored as u64));
    }
}

#[test]
fn every_figure_stands_at_its_place_under_its_own_name() {
    for (place, figure) in Figure::ALL.into_iter().enumerate() {
        assert_eq!(figure as usize, place);
    }
    let names: std::collections::BTreeSet<_> = Figure::ALL.into_iter().map(Figure::name).collect();
    assert_eq!(names.len(), Figure::ALL.len());
}
