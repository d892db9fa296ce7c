//! Records that are not what was written, and a table that does not do what it should.

use std::time::Instant;

use super::*;

/// Two entries with an end and one without, as they stand in a table.
async fn three() -> Map {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    cache.insert(key(1), Arc::new(Text("one".into())), terms(None, 1000)).await;
    cache.insert(key(2), Arc::new(Text("two".into())), terms(Some(500), 1000)).await;
    cache.insert(key(3), Arc::new(Text("six".into())), terms(Some(500), 1000)).await;
    cache.flush().await;
    memory.map()
}

/// What a new cache in front of `map` gives for the three, each checked to be right or missing.
async fn read(map: Map, what: &str) -> [Result<String, Miss>; 3] {
    let memory = Memory::with(map);
    let cache = cache(&memory, BARE);
    let read = [text(&cache, 1, 1200).await, text(&cache, 2, 1200).await, text(&cache, 3, 1200).await];
    for (text, right) in read.iter().zip(["one", "two", "six"]) {
        assert!(text.as_ref().map_or(true, |text| text == right), "{what}: {text:?}");
    }
    // The cache works on.
    assert_eq!(insert(&cache, 9, "nine").await, InsertOutcome::Inserted);
    assert_eq!(text(&cache, 9, 1000).await, Ok("nine".into()));
    read
}

fn record(prefix: &[u8], n: u8) -> Vec<u8> {
    [prefix, &key(n).0].concat()
}

fn missing(read: &Result<String, Miss>) -> bool {
    read.is_err()
}

#[tokio::test]
async fn whichever_bit_is_flipped_nothing_wrong_is_served() {
    let map = three().await;
    for (place, value) in &map {
        for byte in 0..value.len() {
            for bit in 0..8 {
                let mut map = map.clone();
                map.get_mut(place).unwrap()[byte] ^= 1 << bit;
                let what = format!("{}, byte {byte}, bit {bit}", place.escape_ascii());
                let read = read(map, &what).await;
                let gone = read.iter().filter(|read| missing(read)).count();
                assert_eq!(gone, usize::from(!place.starts_with(b"f|")), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn whichever_bit_of_a_key_is_flipped_nothing_wrong_is_served() {
    let map = three().await;
    for place in map.keys() {
        for byte in 0..place.len() {
            for bit in 0..8 {
                let mut map = map.clone();
                let value = map.remove(place).unwrap();
                let mut other = place.clone();
                other[byte] ^= 1 << bit;
                map.insert(other, value);
                let what = format!("{}, byte {byte}, bit {bit}", place.escape_ascii());
                let gone = read(map, &what).await.iter().filter(|read| missing(read)).count();
                assert_eq!(gone, usize::from(!place.starts_with(b"f|")), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn wherever_a_record_is_cut_the_entry_is_missing() {
    let map = three().await;
    for n in 1..4 {
        for prefix in [b"c|", b"b|"] {
            let place = record(prefix, n);
            for len in 0..map[&place].len() {
                let mut map = map.clone();
                map.get_mut(&place).unwrap().truncate(len);
                assert!(missing(&read(map, "cut").await[usize::from(n) - 1]), "{} at {len}", place.escape_ascii());
            }
            let mut longer = map.clone();
            longer.get_mut(&place).unwrap().push(0);
            assert!(missing(&read(longer, "longer").await[usize::from(n) - 1]));
            let mut without = map.clone();
            without.remove(&place);
            assert!(missing(&read(without, "removed").await[usize::from(n) - 1]));
        }
    }
}

#[tokio::test]
async fn swapped_records_are_missing() {
    let map = three().await;
    for prefixes in [&[b"c|"][..], &[b"b|"], &[b"c|", b"b|"]] {
        let mut swapped = map.clone();
        for prefix in prefixes {
            let (two, three) = (record(*prefix, 2), record(*prefix, 3));
            swapped.insert(two.clone(), map[&three].clone());
            swapped.insert(three, map[&two].clone());
        }
        let read = read(swapped, "swapped").await;
        assert_eq!(read[0], Ok("one".into()));
        assert!(missing(&read[1]) && missing(&read[2]));
    }
    // The earlier payload of the same key, as it is after a crash between two writes.
    let memory = Memory::with(map.clone());
    let cache = cache(&memory, WIDE);
    cache.insert(key(1), Arc::new(Text("new".into())), terms(None, 1000)).await;
    cache.flush().await;
    let mut mixed = memory.map();
    mixed.insert(record(b"b|", 1), map[&record(b"b|", 1)].clone());
    assert!(missing(&read(mixed, "mixed").await[0]));
}

#[tokio::test]
async fn damage_is_told_once_counted_and_forgotten() {
    let mut map = three().await;
    map.get_mut(&record(b"b|", 1)).unwrap()[2] ^= 1;
    map.get_mut(&record(b"c|", 2)).unwrap()[2] ^= 1;
    map.remove(&record(b"b|", 3));
    let memory = Memory::with(map);
    let cache = cache(&memory, WIDE);
    let told = [text(&cache, 1, 1000).await, text(&cache, 2, 1000).await, text(&cache, 3, 1000).await];
    let told: Vec<_> = told.iter().map(|read| read.as_ref().unwrap_err().warning().unwrap_or("-")).collect();
    let told = format!("{}\n{}", told.join("\n"), cache.take_warnings().join("\n"));
    insta::assert_snapshot!(told.replace(&key(1).to_string(), "KEY1").replace(&key(3).to_string(), "KEY3"), @r"
    entry KEY1: its payload is not the one that was kept
    -
    entry KEY3: its payload is missing
    1 records are damaged, or of another version or secret, and are left out
    ");
    assert_eq!(metric(&cache, Metric::Damaged), 2);
    for n in 1..4 {
        assert_eq!(text(&cache, n, 1000).await, Err(Miss::Absent));
    }
    cache.flush().await;
    assert!(memory.map().keys().all(|key| key.starts_with(b"f|")));
    assert_eq!(self::cache(&memory, WIDE).take_warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_decoded_is_damaged() {
    #[derive(Debug)]
    struct Strict;
    impl CacheValue for Strict {
        type Secondary = ();
        fn encode(&self) -> Result<Vec<u8>, String> {
            Ok(Vec::new())
        }
        fn decode(_: &[u8]) -> Result<Self, String> {
            Err("not today".into())
        }
        fn weight(&self) -> u64 {
            0
        }
    }
    let memory = Memory::with(three().await);
    let cache: Cache<Strict> = Cache::new(Arc::clone(&memory) as Arc<dyn Table>, WIDE);
    let Err(Miss::Damaged(words)) = cache.get(&key(1), 1000).await else { panic!("served") };
    assert!(words.ends_with(": not today"), "{words}");
}

#[tokio::test]
async fn what_another_version_wrote_is_missing_and_is_replaced() {
    let mut map = three().await;
    map.get_mut(&record(b"c|", 1)).unwrap()[0] = 3;
    map.get_mut(&record(b"b|", 2)).unwrap()[0] = 1;
    let memory = Memory::with(map);
    let cache = cache(&memory, WIDE);
    assert_eq!(text(&cache, 1, 1000).await, Err(Miss::Absent));
    assert!(matches!(text(&cache, 2, 1000).await, Err(Miss::Damaged(_))));
    assert_eq!(cache.take_warnings(), ["1 records are damaged, or of another version or secret, and are left out"]);
    for n in [1, 2] {
        insert(&cache, n, "ours").await;
    }
    cache.flush().await;
    assert_eq!(read_again(&memory, 2).await, ["ours", "ours"].map(|text| Ok(text.to_owned())));
}

async fn read_again(memory: &Arc<Memory>, most: u8) -> Vec<Result<String, Miss>> {
    let again = cache(memory, WIDE);
    let mut read = Vec::new();
    for n in 1..=most {
        read.push(text(&again, n, 1000).await);
    }
    read
}

#[tokio::test]
async fn what_was_kept_with_another_secret_is_missing() {
    let memory = Memory::with(three().await);
    let foreign = Arc::new(Memory { secret: Secret::new([7; 32]), ..Memory::default() });
    *foreign.map.lock().unwrap() = memory.map();
    let cache = cache(&foreign, WIDE);
    for n in 1..4 {
        assert_eq!(text(&cache, n, 1000).await, Err(Miss::Absent));
    }
    // Nor does a payload pass beneath an entry of one's own.
    insert(&cache, 1, "one").await;
    cache.flush().await;
    foreign.map.lock().unwrap().insert(record(b"b|", 1), memory.map()[&record(b"b|", 1)].clone());
    assert_eq!(read_again(&foreign, 1).await, [Ok("one".to_owned())], "the same bytes are the same payload");
    foreign.map.lock().unwrap().insert(record(b"c|", 1), memory.map()[&record(b"c|", 1)].clone());
    assert_eq!(read_again(&foreign, 1).await, [Err(Miss::Absent)]);
}

#[tokio::test]
async fn with_a_table_that_fails_nothing_is_kept() {
    let memory = Arc::new(Memory::default());
    memory.reads.send_replace(Fault::Fails);
    memory.writes.send_replace(Fault::Fails);
    let cache = cache(&memory, WIDE);
    for n in 0..20 {
        assert_eq!(insert(&cache, n, "x").await, InsertOutcome::Failed);
        assert_eq!(text(&cache, n, 1000).await, Err(Miss::Absent));
    }
    cache.flush().await;
    assert_eq!((cache.totals().entries, metric(&cache, Metric::FailedWrites)), (0, 20));
    memory.reads.send_replace(Fault::Well);
    memory.writes.send_replace(Fault::Well);
    assert_eq!(insert(&cache, 30, "x").await, InsertOutcome::Inserted);
    assert_eq!(text(&self::cache(&memory, WIDE), 30, 1000).await, Ok("x".into()));
}

#[tokio::test]
async fn a_value_too_heavy_for_memory_is_read_from_the_table() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, Limits { memory_bytes: 4, ..WIDE });
    for (n, kept) in [(1, "1111"), (2, "2222"), (3, "too heavy for memory")] {
        assert_eq!(insert(&cache, n, kept).await, InsertOutcome::Inserted);
    }
    for (n, kept) in [(1, "1111"), (2, "2222"), (3, "too heavy for memory")] {
        assert_eq!(text(&cache, n, 1000).await, Ok(kept.to_owned()));
    }
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_now_stays() {
    let memory = Memory::with(three().await);
    let cache = cache(&memory, BARE);
    assert!(cache.ready().await);
    memory.reads.send_replace(Fault::Fails);
    assert!(matches!(text(&cache, 1, 1000).await, Err(Miss::Unreadable(_))));
    memory.reads.send_replace(Fault::Well);
    assert_eq!(text(&cache, 1, 1000).await, Ok("one".into()));
}

#[tokio::test]
async fn what_was_forgotten_while_the_table_failed_is_removed_later() {
    let memory = Memory::with(three().await);
    let cache = cache(&memory, WIDE);
    assert_eq!(text(&cache, 1, 1000).await, Ok("one".into()));
    memory.writes.send_replace(Fault::Fails);
    assert!(cache.remove(&key(1)));
    assert_eq!(insert(&cache, 2, "new").await, InsertOutcome::Failed);
    for n in [1, 2] {
        assert_eq!(text(&cache, n, 1000).await, Err(Miss::Absent));
    }
    memory.writes.send_replace(Fault::Well);
    cache.flush().await;
    assert_eq!(read_again(&memory, 2).await, [Err(Miss::Absent), Err(Miss::Absent)]);
}

#[tokio::test]
async fn what_is_kept_again_after_it_was_forgotten_stays() {
    let memory = Memory::with(three().await);
    let cache = cache(&memory, WIDE);
    assert_eq!(text(&cache, 1, 1000).await, Ok("one".into()));
    assert!(cache.remove(&key(1)));
    assert_eq!(insert(&cache, 1, "again").await, InsertOutcome::Inserted);
    cache.flush().await;
    assert_eq!(read_again(&memory, 1).await, [Ok("again".to_owned())]);
}

#[tokio::test]
async fn a_table_that_hangs_is_waited_for_within_bounds() {
    let memory = Arc::new(Memory::default());
    let cache = cache(&memory, WIDE);
    assert!(cache.ready().await);
    memory.writes.send_replace(Fault::Hangs);
    let began = Instant::now();
    for n in 0..3 {
        assert_eq!(insert(&cache, n, "x").await, InsertOutcome::Failed);
        assert_eq!(text(&cache, n, 1000).await, Err(Miss::Absent));
    }
    cache.flush().await;
    // Four times `WAIT` is a second; far from that on the slowest machine.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(began.elapsed() >= WAIT);
}

#[tokio::test]
async fn an_opening_that_hangs_is_waited_for_once_and_goes_on_behind() {
    let memory = Memory::with(three().await);
    memory.reads.send_replace(Fault::Hangs);
    let cache = cache(&memory, WIDE);
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(text(&cache, 1, 1000).await, Err(Miss::NotReady));
        assert_eq!(insert(&cache, 2, "new").await, InsertOutcome::Failed);
    }
    assert!(cache.remove_found(|()| Vec::new()).await == 0 && !cache.remove(&key(3)));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    memory.reads.send_replace(Fault::Well);
    cache.opening().1.clone().await;
    // What was there could not be asked, so all of it went.
    assert_eq!(text(&cache, 1, 1000).await, Err(Miss::Absent));
    assert_eq!(insert(&cache, 2, "new").await, InsertOutcome::Inserted);
    assert_eq!(text(&cache, 2, 1000).await, Ok("new".into()));
    cache.flush().await;
    assert_eq!(Catalog::read(&*memory).entries, cache.entries());
}

#[tokio::test]
async fn what_was_forgotten_before_the_opening_ended_stays_forgotten() {
    let memory = Memory::with(three().await);
    memory.reads.send_replace(Fault::Hangs);
    let cache = cache(&memory, WIDE);
    cache.remove(&key(1));
    memory.reads.send_replace(Fault::Well);
    cache.opening().1.clone().await;
    assert_eq!(text(&cache, 1, 1000).await, Err(Miss::Absent));
    assert_eq!(text(&cache, 2, 1000).await, Ok("two".into()));
    cache.flush().await;
    assert_eq!(text(&self::cache(&memory, WIDE), 1, 1000).await, Err(Miss::Absent));
}

#[tokio::test]
async fn records_of_others_and_nonsense_are_passed_over() {
    let mut map = three().await;
    map.insert(b"c|short".to_vec(), b"x".to_vec());
    map.insert(b"d|".to_vec(), Vec::new());
    map.insert(b"f|".to_vec(), Vec::new());
    map.insert(Vec::new(), Vec::new());
    let read = read(map, "nonsense").await;
    assert_eq!(read, ["one", "two", "six"].map(|text| Ok(text.to_owned())));
}

#[test]
fn a_listing_that_goes_in_circles_ends() {
    struct Circle;
    impl Table for Circle {
        fn secret(&self) -> &Secret {
            unreachable!("no record is read")
        }
        fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>, String> {
            Ok(None)
        }
        fn scan(&self, _: &[u8], limit: usize) -> Result<Pairs, String> {
            Ok(vec![(b"c|same".to_vec(), Vec::new()); limit])
        }
        fn put(&self, _: Vec<u8>, _: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let warnings = Catalog::read(&Circle).warnings().join("; ");
    assert!(warnings.contains("out of order"), "{warnings}");
}
